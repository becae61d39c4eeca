"""Draws the roofline of a device: its measured roofs, and each row as a point at its arithmetic
intensity. Called by drawings.py.

Rows without flops or without bytes have no point. Rows of kernels that hardly touch memory, such as
those that measure the flops roof, have no point, either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _bench.rows.results import Row

from . import figures, ticks
from .row_table import label_of

HIGHEST_INTENSITY = 1e4
AROUND = 4.0  # the axes extend beyond the points and ridges by this factor
MOST_ON_A_SHEET = 40
DASHES = ("-", "--", ":", "-.")


def draw(
    folder: Path, device: str, rows: Sequence[Row], roofs: Mapping[str, Any], footer: str
) -> list[bool]:
    """Draws roofline-DEVICE.svg. Many rows are spread over several files, whose names end in -2, -3
    and so on. Draws nothing if the device lacks a roof of flops or of memory, or if no row has a
    point.
    """
    points = [(x, float(row.gflops or 0), row) for row in rows if (x := intensity(row))]
    if not (roofs["gflops"] and roofs["gbytes_per_s"]):
        return []
    made = []
    for at in range(0, len(points), MOST_ON_A_SHEET):
        number = str(at // MOST_ON_A_SHEET + 1) if at else ""
        name = figures.slug("roofline", device, number)
        made.append(_sheet(folder, name, device, points[at : at + MOST_ON_A_SHEET], roofs, footer))
    return made


def kernels(rows: Sequence[Row]) -> str:
    """Returns the kernels of the rows as text for a title: their names, or only their number if
    there are more than three.
    """
    names = list(dict.fromkeys(row.subject.kernel for row in rows))
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} kernels"


def _sheet(
    folder: Path,
    name: str,
    device: str,
    points: Sequence[tuple[float, float, Row]],
    roofs: Mapping[str, Any],
    footer: str,
) -> bool:
    title = f"Roofline of {kernels([row for *_, row in points])}: {device}"
    sheet = figures.Sheet(title, size=(figures.WIDTH + 2, figures.HEIGHT))
    (axes,) = sheet.axes
    flops, streams = roofs["gflops"], roofs["gbytes_per_s"]
    ridges = [top / rate for top in flops.values() for rate in streams.values()]
    xs = [*(point[0] for point in points), *ridges]
    low, high = min(xs) / AROUND, max(xs) * AROUND
    for at, (x, y, row) in enumerate(points):
        share = f" ({row.roof_percent:.0f} % of {row.roof})" if row.roof_percent else ""
        label = f"{at + 1}  {row.subject.kernel} {label_of(row)} {row.subject.mode}{share}"
        axes.plot([x], [y], ls="", ms=5, label=label, **figures.series(at))
    _roofs(axes, flops, streams, low, high)
    axes.set_xlim(low, high)
    for which in "xy":
        ticks.plain(axes, which, log=True)
    axes.set_xlabel("arithmetic intensity (flops per byte of the operands)")
    axes.set_ylabel("GFLOPS")
    sheet.legend_outside(axes)
    colours = [figures.series(at)["color"] for at in range(len(points))]
    ticks.place(sheet, axes, [(x, y) for x, y, _ in points], colours)
    return sheet.save(folder, name, footer)


def intensity(row: Row) -> float | None:
    """Returns the flops per byte. None if the row lacks either number, or if the device
    is emulated.
    """
    flops, nbytes = row.extra.get("flops"), row.extra.get("nbytes")
    if not flops or not nbytes or not row.gflops or row.subject.emulated:
        return None
    x = float(flops) / float(nbytes)
    return x if x <= HIGHEST_INTENSITY else None


def _roofs(
    axes: Any, flops: Mapping[str, float], streams: Mapping[str, float], low: float, high: float
) -> None:
    """Draws the roofs. A roof of flops is a flat line to the right of its ridge. A roof of memory
    is a slanted line up to the highest roof of flops.
    """
    top, fastest = max(flops.values()), max(streams.values())
    for at, (kind, value) in enumerate(sorted(flops.items(), key=lambda item: -item[1])):
        label = f"{kind} {value:.4g} GFLOPS"
        ends = [value / fastest, high], [value, value]
        axes.plot(*ends, color="#000000", lw=1.4, ls=DASHES[at % 4], label=label)
    for at, (kind, rate) in enumerate(sorted(streams.items(), key=lambda item: -item[1])):
        label = f"{kind} {rate:.4g} GB/s"
        ends = [low, top / rate], [low * rate, top]
        axes.plot(*ends, color="#777777", lw=1.4, ls=DASHES[at % 4], label=label)
