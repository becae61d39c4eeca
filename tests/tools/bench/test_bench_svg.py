"""--svg DIR: which files, what stands in them, and that the same rows give the same bytes.

When this fails, a report's picture shows other rows.
"""

from __future__ import annotations

import dataclasses
import sys
from xml.etree import ElementTree

import pytest
from _bench.jobs import cache_reach
from _bench.report import drawings, figures
from _bench.rows import affine
from _bench.rows.results import Measured, Report, Row, Subject
from _console.problems import UsageError

pytestmark = [pytest.mark.unmeasured, pytest.mark.usefixtures("small_roofs")]
TINY = ("--quick", "--timeout", "0.02")


@pytest.fixture
def small_roofs(monkeypatch):
    """Roofs of memory are measured in a megabyte, as if there were no larger cache."""
    monkeypatch.setattr(cache_reach, "caches_nbytes", lambda info: 1 << 18)
    monkeypatch.setattr(cache_reach, "LEAST_LENGTH", 1)


def texts(path):
    """Every text of an SVG file; it must be well-formed, or this raises."""
    root = ElementTree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return ["".join(t.itertext()) for t in root.iter("{http://www.w3.org/2000/svg}text")]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_run(bench, tmp_path):
    folder = tmp_path / "svg"
    sizes = ("-a", "n=64,1K,64K", "-a", "size=8,16")
    words = ("run", "saxpy", "copy_i32", *sizes[:2], *TINY, "--svg", folder)
    assert bench(*words) == 0
    assert names(folder) == [
        "distributions-cpu.svg", "roofline-cpu.svg", "sweep-cpu-hot-n-saxpy-f32.svg",
    ]  # fmt: skip
    roof = " ".join(texts(folder / "roofline-cpu.svg"))
    assert "saxpy_f32 n=64K hot" in roof
    assert "copy_i32" not in roof  # it has no flops
    assert "GFLOPS" in roof
    sheet = " ".join(texts(folder / "distributions-cpu.svg"))
    assert sheet.count("copy_i32 n=") == sheet.count("saxpy_f32 n=") == 3
    for name in names(folder):
        footer = " ".join(texts(folder / name))
        assert "sparkle_drv" in footer
        assert "bench.py" in footer


@pytest.mark.usefixtures("no_roofs")
def test_squares_are_one_axis(bench, tmp_path):
    assert bench("run", "gemm_f32", "-a", "size=8,16", *TINY, "--svg", tmp_path / "svg") == 0
    assert "sweep-cpu-hot-m-n-k-gemm-f32.svg" in names(tmp_path / "svg")


@pytest.mark.usefixtures("in_this_process")
def test_kernel_transfer_and_launch(bench, library, tmp_path, monkeypatch):
    monkeypatch.setattr(affine, "ROUNDS", 10)
    (tmp_path / "ref.py").write_text("def f(y, x, a, n):\n    return a * x + y\n")
    args = ("--arg", "inout:f32[N]", "--arg", "in:f32[N]", "--arg", "f32=2", "--arg", "u32=N")
    sizes = ("-D", "N=512", "--groups", "N/GX", "--group-size", "64:128", "--flops", "2*N")
    wrong = ("--vs", f"{library}:zeros", "--ref", f"{tmp_path / 'ref.py'}:f")
    svg = ("--svg", tmp_path / "k")
    assert bench("kernel", f"{library}:good", *args, *sizes, *wrong, *TINY, *svg) == 1
    assert names(tmp_path / "k") == [
        "distributions-cpu.svg", "roofline-cpu.svg", "sweep-cpu-hot-group-size-kernels-so-good.svg",
    ]  # fmt: skip
    for name in names(tmp_path / "k"):
        drawn = " ".join(text for text in texts(tmp_path / "k" / name) if "bench.py" not in text)
        assert "good" in drawn or "sweep" in name  # a curve alone is named by its file and title
        assert "zeros" not in drawn.split("--arg")[0]  # failed rows are not drawn
    words = ("-a", "nbytes=64,256", "-a", "way=write,copy", *TINY, "--svg", tmp_path / "t")
    assert bench("transfer", *words) == 0
    assert names(tmp_path / "t") == ["distributions-cpu.svg", "transfer-cpu.svg"]
    drawn = texts(tmp_path / "t" / "transfer-cpu.svg")
    assert {"write", "copy", "device memory", "host memory"} <= set(drawn)


def rows(**more):
    """Four rows of one kernel over n, the last not verified."""
    found = []
    for at in range(4):
        subject = Subject("k_f32", "egl:0", "<a> & b", False, {"n": 10**at}, "hot", **more)
        samples = [100.0 * (at + 1) + i % 7 for i in range(30)]
        measured = Measured(samples, samples, "device", 1, "precision")
        row = Row(subject, at < 3, {}, measured, gflops=1.0 + at, gbytes_per_s=2.0 + at)
        row.extra |= {"flops": 100.0, "nbytes": 50.0, "label": f"n={10**at}"}
        found.append(row)
    return found


def report(found):
    made = Report({"sparkle_drv": "1", "date": "today", "command": ["run", "k"]}, found)
    made.extra["roofs"] = {"egl:0": {"gflops": {"f32": 10.0}, "gbytes_per_s": {"copy": 5.0}}}
    return made


def test_the_same_rows_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        assert drawings.draw(report(rows()), tmp_path / name)
        assert names(tmp_path / name) == [
            *("distributions-egl-0.svg", "roofline-egl-0.svg", "sweep-egl-0-hot-n-k-f32.svg"),
        ]
    for name in names(tmp_path / "a"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        said = " ".join(texts(tmp_path / "a" / name))
        assert "n=1000" not in said  # unverified
        assert "<a> & b (egl:0); sparkle_drv 1; today; bench.py run k" in said


def test_many_rows_go_on_further_sheets(tmp_path):
    many = [dataclasses.replace(rows()[0]) for _ in range(drawings.MOST_ON_A_SHEET + 1)]
    assert drawings.draw(Report({}, many), tmp_path)
    assert names(tmp_path) == ["distributions-egl-0-2.svg", "distributions-egl-0.svg"]


def test_nothing_verified_draws_nothing(tmp_path):
    assert drawings.draw(report(rows()[3:]), tmp_path)
    assert names(tmp_path) == []


def test_curves_for_other_commands(tmp_path):
    found = {
        "search": [(0.0, 2.0, 1.0, 3.0), (1.0, 4.0, 4.0, 4.0)],
        "model": [(1.0, 3.0, 3.0, 3.0)],
    }
    words = {"title": "tune", "x": "tile", "y": "GFLOPS", "footer": "cpu", "words": ["8x8", "8x16"]}
    assert figures.curves(tmp_path, "tune-cpu", found, **words)
    made = tmp_path / "tune-cpu.svg"
    assert {"search", "model", "8x8", "8x16", "tune", "tile", "GFLOPS"} <= set(texts(made))


@pytest.mark.parametrize("folder", ["/proc/sparkle", "file", "no/such"])
def test_folders_that_cannot_be(bench, tmp_path, capsys, folder):
    (tmp_path / "file").write_text("")
    assert bench("run", "noop", "--svg", tmp_path / folder) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith(f"bench.py: --svg {tmp_path / folder}: ")


def test_without_matplotlib(bench, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="needs matplotlib"):
        figures.matplotlib()
    assert bench("run", "noop", "--svg", tmp_path / "svg") == 2
    assert "--svg needs matplotlib" in capsys.readouterr().err
    assert not (tmp_path / "svg").exists()
    assert bench("run", "noop", *TINY) == 0  # it is needed for drawing only
