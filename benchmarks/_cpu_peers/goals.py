"""The targets (objects `Line`) that the package must reach, evaluated on one run. Pure functions.

A ratio is a peer's median time divided by this package's: at 1.05 this package is five per cent
faster. A target whose rows are missing has no figure and is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import OURS, figures, streams
from .cases import all_cases
from .figures import Ratio, Row

AT_PEAK, AT_COPY = 0.95, 0.85


@dataclass(frozen=True)
class Line:
    """A target, the figure that was reached, and whether the target holds. `holds` is None if no
    row can decide.
    """

    what: str
    target: str
    figure: str
    holds: bool | None

    def as_json(self) -> dict[str, Any]:
        return {
            "what": self.what, "target": self.target, "figure": self.figure, "holds": self.holds,
        }  # fmt: skip


def is_wide_3x3(row: Row) -> bool:
    """True for a 3x3 convolution of stride 1 with 64 channels or more, except 512
    channels at 7x7.
    """
    of: Any = all_cases()[row["case"]].of
    if row["kind"] != "conv" or not of.winograd or of.c < 64:
        return False
    return (of.c, of.size, of.n) != (512, 7, 1)


def lines(rows: Sequence[Row], roofs: Mapping[str, float]) -> list[Line]:
    """Returns all targets for the rows of one number of threads. `roofs` is what roofs.measure
    returns.
    """
    return [*_conv(rows), *_gemm(rows, roofs), *_maps(rows, roofs), *_errors(rows)]


def _conv(rows: Sequence[Row]) -> list[Line]:
    convs = [row for row in rows if row["kind"] == "conv"]
    wide = [row for row in convs if is_wide_3x3(row)]
    other = [row for row in convs if not is_wide_3x3(row)]
    first = "3x3 stride 1, C >= 64"
    return [
        _mean(f"{first}: best of torch, geometric mean", wide, "torch", 2.5),
        _mean(f"{first}: ncnn, geometric mean", wide, "ncnn", 1.35),
        _each(f"{first}: best peer, each", wide, figures.against_best, 1.05),
        _each("other convolutions: best peer, each", other, figures.against_best, 0.97),
        _mean("all convolutions: torch NCHW, geometric mean", convs, "torch NCHW", 2.2),
    ]


def _gemm(rows: Sequence[Row], roofs: Mapping[str, float]) -> list[Line]:
    cubes = {
        (row["case"].split()[1], all_cases()[row["case"]].of.m): row  # type: ignore[union-attr]
        for row in rows
        if row["kind"] == "gemm" and row["group"] == "cubes"
    }
    found = []
    for size, target in ((8, 1.0), (16, 1.0), (32, 1.3)):
        some = [cubes[key] for key in [("f32", size)] if key in cubes]
        found += [
            _each(f"gemm {size} cubed: np.matmul(out=)", some, _numpy, target),
            *(
                _each(f"gemm {size} cubed with {what}: np.matmul(out=)", some, against, 2.0)
                for what, against in (("plan()", _numpy_plan), ("plan().bind()", _numpy_bind))
            ),
        ]
    for sizes, target in (((64, 128), 1.0), ((256, 512, 1024, 2048), 0.97)):
        some = [row for (kind, size), row in cubes.items() if kind == "f32" and size in sizes]
        what = f"gemm {sizes[0]} to {sizes[-1]} cubed: best peer, each"
        found.append(_each(what, some, figures.against_best, target))
    share = _of_peak(cubes.get(("f32", 1024)), roofs.get("float32"))
    found.append(_share("gemm 1024 cubed: of the FMA peak", share, AT_PEAK))
    double = [row for (kind, _), row in cubes.items() if kind == "f64"]
    found.append(_each("gemm f64 cubes: np.matmul(out=), each", double, _numpy, 0.95))
    return found


def _maps(rows: Sequence[Row], roofs: Mapping[str, float]) -> list[Line]:
    row = next((row for row in rows if row["case"] == streams.CASE), None)
    numexpr: Callable[[Row], Ratio | None] = lambda row: figures.against(row, "numexpr")  # noqa: E731
    return [
        _of_copies(row, roofs.get("copy")),
        _each("map of 4 operations, 10 M floats: numexpr", [row] if row else [], numexpr, 1.0),
    ]


def _errors(rows: Sequence[Row]) -> list[Line]:
    """Returns the target for the errors of this package's results. It is met if every error is
    within the limit of reference.py. The target's figure names the results that are wrong or
    failed. If every result is right, the figure names the largest errors.
    """
    ours = [
        (row["case"], way, entry)
        for row in rows
        for way, entry in row["ways"].items()
        if not figures.is_peer(way)
    ]
    bad = [f"{case} {way}: {e['verdict']}" for case, way, e in ours if e["verdict"] != "right"]
    limits = sorted({e["limit"] for _, _, e in ours if "error" in e})
    worst = [
        f"{max(e['error'] for _, _, e in ours if e.get('limit') == limit):.1e} of {limit:g}"
        for limit in limits
    ]
    figure = "; ".join(bad) or ", ".join(worst)
    return [
        Line("errors against float64 over rms, every case", "within", figure, _known(ours, not bad))
    ]


def _known(what: Sequence[Any], holds: bool) -> bool | None:
    return holds if what else None


def _of_peak(row: Row | None, peak: float | None) -> float | None:
    ns = figures.median(row, f"{OURS} checked") if row else None
    return row["flops"] / ns / peak if row and ns and peak else None


def _of_copies(row: Row | None, roof: float | None) -> Line:
    """Returns the target that compares a map's rate with a copy's rate. Map and copy were timed in
    turns. The text of the figure also compares the map's rate with the rate of a saxpy in place,
    and with `roof`.
    """
    what = "map of 4 operations, 10 M floats: of the copy rate"
    ns = figures.median(row, f"{OURS} checked") if row else None
    rates = {
        name: streams.nbytes(all_cases()[row["case"]].of, name) / took  # type: ignore[arg-type]
        for name in streams.ARRAYS
        if row and (took := figures.median(row, f"{OURS} {name}"))
    }
    if row is None or ns is None or "copy" not in rates:
        return _share(what, None, AT_COPY)
    rate = row["nbytes"] / ns
    line = _share(what, rate / rates["copy"], AT_COPY)
    said = f"{line.figure} of {rates['copy']:.1f} GB/s in turn with it"
    if "saxpy" in rates:
        said += f"; {rate / rates['saxpy']:.1%} of a saxpy in place, {rates['saxpy']:.1f}"
    if roof:
        said += f"; {rate / roof:.1%} of the best sustained before, {roof:.1f}"
    return replace(line, figure=said)


def _numpy(row: Row) -> Ratio | None:
    return figures.against(row, "numpy")


def _numpy_plan(row: Row) -> Ratio | None:
    return figures.ratio(row, "numpy matmul", f"{OURS} plan")


def _numpy_bind(row: Row) -> Ratio | None:
    return figures.ratio(row, "numpy matmul", f"{OURS} bind")


def _share(what: str, share: float | None, target: float) -> Line:
    if share is None:
        return Line(what, f">= {target:.0%}", "-", None)
    return Line(what, f">= {target:.0%}", f"{share:.1%}", share >= target)


def _mean(what: str, rows: Sequence[Row], peer: str, target: float) -> Line:
    mean = figures.geometric(rows, peer)
    figure = f"{text(mean)}, {len(rows)} shapes" if mean else "-"
    return Line(what, f">= {target:g}x", figure, mean.value >= target if mean else None)


def _each(
    what: str, rows: Sequence[Row], ratio: Callable[[Row], Ratio | None], target: float
) -> Line:
    """Returns a target that is met if every row reaches the ratio `target`. Up to six rows that
    miss it are named, the worst first.
    """
    pairs: Iterable[tuple[str, Ratio | None]] = [(row["case"], ratio(row)) for row in rows]
    there = sorted(((name, one) for name, one in pairs if one), key=lambda pair: pair[1].value)
    if not there:
        return Line(what, f">= {target:g}x", "-", None)
    short = [(name, one) for name, one in there if one.value < target]
    shown = short[:6] or there[:1]
    more = f", and {len(short) - 6} more" if len(short) > 6 else ""
    said = "; ".join(f"{name} {text(one)} of {one.of}" for name, one in shown)
    counted = f"{len(there) - len(short)} of {len(there)}"
    return Line(what, f">= {target:g}x", f"{counted}; least {said}{more}", not short)


def text(one: Ratio) -> str:
    """Formats a ratio as "1.23x [1.20 .. 1.25]"."""
    return f"{one.value:.2f}x [{one.low:.2f} .. {one.high:.2f}]"
