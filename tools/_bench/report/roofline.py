"""The roofline of a device: its measured roofs, and each row as a point at its arithmetic
intensity. Called by drawings.py.

Rows without flops or without bytes have no place in it; nor have kernels that hardly touch memory,
such as those that measure the flops roof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _bench.rows.results import Row

from . import figures

HIGHEST_INTENSITY = 1e4
AROUND = 4.0  # how far the axes go on beyond the points and ridges


def draw(
    folder: Path, device: str, rows: Sequence[Row], roofs: Mapping[str, Any], footer: str
) -> list[bool]:
    """roofline-DEVICE.svg; nothing when there is no roof of either kind, or no point."""
    points = [(x, float(row.gflops or 0), row) for row in rows if (x := intensity(row))]
    flops, streams = roofs["gflops"], roofs["gbytes_per_s"]
    if not points or not flops or not streams:
        return []
    height = max(figures.HEIGHT, 1.0 + 0.17 * len(points))
    sheet = figures.Sheet(f"Roofline: {device}", size=(figures.WIDTH + 2, height))
    (axes,) = sheet.axes
    ridges = [top / rate for top in flops.values() for rate in streams.values()]
    xs = [*(point[0] for point in points), *ridges]
    low, high = min(xs) / AROUND, max(xs) * AROUND
    _roofs(axes, flops, streams, low, high)
    for at, (x, y, row) in enumerate(points):
        share = f" ({row.roof_percent:.0f} % of {row.roof})" if row.roof_percent else ""
        label = f"{at + 1}  {row.subject.kernel} {row.extra.get('label', '')} {row.subject.mode}"
        style = figures.series(at)
        axes.plot([x], [y], ls="", ms=5, label=label + share, **style)
        axes.annotate(
            str(at + 1), (x, y), xytext=(4, 3), textcoords="offset points", fontsize=7,
            color=style["color"],
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=(low, high))
    axes.set_xlabel("arithmetic intensity (flops per byte of the operands)")
    axes.set_ylabel("GFLOPS")
    sheet.legend_outside(axes)
    return [sheet.save(folder, figures.slug("roofline", device), footer)]


def intensity(row: Row) -> float | None:
    """Flops per byte, where a row has both."""
    flops, nbytes = row.extra.get("flops"), row.extra.get("nbytes")
    if not flops or not nbytes or not row.gflops:
        return None
    x = float(flops) / float(nbytes)
    return x if x <= HIGHEST_INTENSITY else None


def _roofs(
    axes: Any, flops: Mapping[str, float], streams: Mapping[str, float], low: float, high: float
) -> None:
    """Flat from the highest memory roof on; slanted up to the highest flops roof."""
    top, fastest = max(flops.values()), max(streams.values())
    for kind, value in flops.items():
        axes.plot([value / fastest, high], [value, value], color="#444444", lw=1.2)
        axes.text(high, value, f"{kind} {value:.4g} GFLOPS ", ha="right", va="bottom", fontsize=7)
    for at, (kind, rate) in enumerate(sorted(streams.items(), key=lambda item: item[1])):
        axes.plot(
            [low, top / rate], [low * rate, top], color="#444444", lw=1.2, ls=("-", "--")[at % 2]
        )
        place = {"va": "top" if at == 0 else "bottom", "rotation_mode": "anchor"}
        axes.text(
            low * 1.3, low * 1.3 * rate * (0.85 if at == 0 else 1.15), f"{kind} {rate:.4g} GB/s",
            fontsize=7, rotation=45, transform_rotates_text=True, **place,
        )  # fmt: skip
