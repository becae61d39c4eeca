"""Pictures are rendered to pixels, as crowded as runs get. No text lies on another one or beyond
the edge of its page. Somebody reads these numbers into a report.

When this fails, numbers in a report's picture cannot be read.
"""

from __future__ import annotations

import itertools

import pytest
from _bench.report import drawings, figures
from _bench.rows.results import Measured, Report, Row, Subject

pytest.importorskip("matplotlib")
agg = pytest.importorskip("matplotlib.backends.backend_agg")
Text = pytest.importorskip("matplotlib.text").Text  # an annotation's own has its line too
pytestmark = pytest.mark.unmeasured  # matplotlib alone
LONG = "winograd_convolution_of_a_kernel_with_a_rather_long_name_f32"
ENV = {
    "sparkle_drv": "1",
    "commit": "0123456789ab+",
    "date": "2026-01-01T00:00:00+00:00",
    "command": ["kernel", f"build/somewhere/{LONG}.so:entry", "--arg", "inout:f32[N]"] * 4,
}


class Page:
    """A sheet as it was saved: its texts and where they stand, in pixels of 100 to the inch."""

    def __init__(self, sheet):
        canvas = agg.FigureCanvasAgg(sheet.figure)
        sheet.figure.set_dpi(100)
        renderer = canvas.get_renderer()
        drawn, draw_text = {}, renderer.draw_text

        def noted(gc, x, y, s, prop, angle, ismath=False, mtext=None):
            drawn[id(mtext)] = mtext
            draw_text(gc, x, y, s, prop, angle, ismath, mtext)

        renderer.draw_text = noted
        sheet.figure.draw(renderer)
        self.texts = [text for text in drawn.values() if text is not None]
        self.boxes = [Text.get_window_extent(text, renderer) for text in self.texts]
        self.size = canvas.get_width_height()

    def complaints(self):
        """What a reader would stumble over."""
        said = [f"beyond the edge: {t.get_text()!r}" for t, b in self.each() if not self._in(b)]
        for (one, a), (two, b) in itertools.combinations(self.each(), 2):
            if a.x0 < b.x1 and b.x0 < a.x1 and a.y0 < b.y1 and b.y0 < a.y1:
                said.append(f"{one.get_text()!r} on {two.get_text()!r}")
        return said

    def each(self):
        return list(zip(self.texts, self.boxes, strict=True))

    def _in(self, box):
        width, height = self.size
        return box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height


@pytest.fixture
def pages(tmp_path, monkeypatch):
    """pages(report) -> {file name: Page} of what it draws."""
    made = {}

    def save(sheet, folder, name, footer):
        monkeypatch.setattr(sheet.figure, "savefig", lambda out, **how: out.write(b"<svg/>"))
        saved = honest(sheet, folder, name, footer)
        made[name] = Page(sheet)
        return saved

    honest = figures.Sheet.save
    monkeypatch.setattr(figures.Sheet, "save", save)
    monkeypatch.setattr(drawings, "MOST_ON_A_SHEET", 9)
    few, distributions = 9, drawings._distributions
    monkeypatch.setattr(
        drawings, "_distributions", lambda f, d, rows, e: distributions(f, d, rows[-few:], e)
    )

    def draw(report):
        assert drawings.draw(report, tmp_path)
        assert made
        return made

    return draw


def row(kernel, at, axes, flops=2.0, nbytes=12.0, mode="hot", device="cpu", emulated=False):
    """A row of near 10 GFLOPS, `at` making it differ from its neighbours a little."""
    subject = Subject(kernel, device, "A CPU", emulated, axes, mode)
    samples = [1e5 * (1 + 0.01 * at) + 100 * (i % 7) for i in range(40)]
    made = Row(subject, True, {}, Measured(samples, samples, "device", 1, "precision"))
    label = " ".join(f"{name}={value}" for name, value in axes.items())
    made.extra |= {"flops": flops * 1e6, "nbytes": nbytes * 1e6, "label": label}
    if not emulated:
        made.gflops, made.gbytes_per_s = 10.0 + 0.02 * at, 60.0 + 0.1 * at
    return made


def report(rows, **extra):
    made = Report(ENV, rows, command="kernel")
    roofs = {"gflops": {"f32": 88.0, "f64": 44.1}, "gbytes_per_s": {"copy": 45.0, "read": 46.0}}
    made.extra |= {"roofs": {"cpu": roofs}, **extra}
    return made


def versus(made, at):
    ratio = 0.5 + 0.05 * at
    verdict = ("FAST", "SAME", "AMBIGUOUS", "SLOW")[at % 4]
    made.extra["versus"] = {
        **{"against": LONG, "ratio": ratio, "ci_low": ratio - 0.03, "ci_high": ratio + 0.04},
        **{"p": 0.01, "threshold": 0.05, "verdict": verdict},
    }
    return made


TILES = [(2**a, 2**b) for a in range(6) for b in range(5)]
CROWDED = {
    "thirty rows of one intensity": [
        row("saxpy_f32", at, {"BM": a, "BN": b}) for at, (a, b) in enumerate(TILES)
    ],
    "fifty rows of long names": [
        row(f"{LONG}_{at}", at, {"n": 4096 << at % 12, "layout": "NCHWc8"}) for at in range(50)
    ],
    "one row": [row("saxpy_f32", 0, {"n": 1})],
    "words at an axis": [
        row("gemm_f32", at, {"group_size": f"{at + 1}x16x1", "N": 1 << 20}) for at in range(60)
    ],
    "rivals": [
        versus(row(f"kernels.so:{LONG}", at, {"N": 1 << at, "BLOCK": 128}), at) for at in range(35)
    ],
    "a sweep of sizes": [
        row("saxpy_f32", at, {"N": n})
        for at, n in enumerate((1000, 1023, 1024, 65536, 10**6, 2**30))
    ],
    "times of an emulated device": [
        row("saxpy_f32", 30 * at, {"N": 10**at}, emulated=True) for at in range(7)
    ],
}


@pytest.mark.parametrize("case", CROWDED)
def test_no_text_covers_another(pages, case):
    made = pages(report(CROWDED[case]))
    found = {name: said for name, page in made.items() if (said := page.complaints())}
    assert not found


def test_transfers(pages):
    rows, fits = [], []
    for way, memory in itertools.product(("write", "copy", "map_read"), ("device", "host")):
        for at in range(6):
            made = row(f"transfer: {way}", 40 * at, {"memory": memory, "nbytes": 16 << 4 * at})
            made.extra |= {"way": way}
            rows.append(made)
        fits.append({"device": "cpu", "way": way, "memory": memory, "alpha_ns": 9e4})
        fits[-1] |= {"beta_ns_per_byte": 0.01}
    made = pages(report(rows, fits=fits))
    assert set(made) == {"roofline-cpu", "transfer-cpu", "distributions-cpu"}
    assert not any(page.complaints() for page in made.values())


def said(page):
    return [text.get_text() for text in page.texts]


def test_numbers_are_plain_and_rates_begin_at_zero(pages):
    made = pages(report(CROWDED["a sweep of sizes"]))
    sweep = made["sweep-cpu-hot-n-saxpy-f32"]
    assert "0" in said(sweep)
    assert "saxpy_f32 over N: cpu, hot" in said(sweep)
    assert {"4096", "32K", "1G"} <= set(said(sweep))
    roof = said(made["roofline-cpu"])
    assert "Roofline of saxpy_f32: cpu" in roof
    assert {"0.1", "1", "10", "100"} <= set(roof)
    assert not any(
        "mathdefault" in text or "e+" in text for page in made.values() for text in said(page)
    )


def test_an_emulated_device_has_no_rate_and_says_so(pages):
    made = pages(report(CROWDED["times of an emulated device"]))
    assert set(made) == {"distributions-cpu", "sweep-cpu-hot-n-saxpy-f32"}
    for page in made.values():
        words = " ".join(said(page))
        assert "cpu (emulated)" in words
        assert "GFLOPS" not in words
        assert "GB/s" not in words


def test_the_next_run_removes_its_own_old_pages_only(tmp_path):
    drawings.draw(report(CROWDED["one row"]), tmp_path)
    own = {path.name for path in tmp_path.iterdir()}
    assert "roofline-cpu.svg" in own
    others = ("mine.svg", "broken.svg", "notes.txt", "link.svg", "folder.svg")
    (tmp_path / others[0]).write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / others[1]).write_bytes(b"\xff\xfe<svg")
    (tmp_path / others[2]).write_text(figures.OURS)
    (tmp_path / others[3]).symlink_to(tmp_path / others[2])
    (tmp_path / others[4]).mkdir()
    drawings.draw(Report(ENV), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(others)
