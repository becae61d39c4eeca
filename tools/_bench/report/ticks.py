"""Axes with plain numbers (1, 10, 100; sizes: 4K, 64K, 1M), and labels that do not overlap.

Called by figures.py and the modules that draw.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

from _bench.jobs.axes import short

FEW_DECADES = 2  # a logarithmic axis with fewer decades also has ticks at 2 and 5
# distances to try between a label and its data point, in units of 1/72 inch
RADII = (5, 9, 14, 20, 28, 38, 50, 65, 85, 110, 140, 180)
ANGLES = 16
# distance, in 1/72 inch, beyond which a line joins a label to its data point
LEADER_FROM = 9
MARKER = 3.0  # half of the side of a data point's marker, in 1/72 inch


def number(value: float) -> str:
    """Returns a number as text without an exponent: "0.001", "2.5", "100000"."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def plain(axes: Any, which: str, log: bool, binary: bool = False) -> None:
    """Makes an axis ("x" or "y") logarithmic or linear, with plain numbers. With `binary`, ticks
    are powers of two.
    """
    ticker = importlib.import_module("matplotlib.ticker")
    text = short if binary else number

    def label(value: float, _: int) -> str:
        return text(round(value)) if binary and value == round(value) else number(value)

    axis = getattr(axes, f"{which}axis")
    if log:
        getattr(axes, f"set_{which}scale")("log", base=2 if binary else 10)
        low, high = sorted(axis.get_view_interval())
        few = not binary and low > 0 and math.log10(high / low) < FEW_DECADES
        subs = (1.0, 2.0, 5.0) if few else (1.0,)
        axis.set_major_locator(ticker.LogLocator(base=2 if binary else 10, subs=subs))
        axis.set_minor_formatter(ticker.NullFormatter())
    axis.set_major_formatter(ticker.FuncFormatter(label))


def place(
    sheet: Any, axes: Any, points: Sequence[tuple[float, float]], colours: Sequence[str]
) -> None:
    """Numbers the points: writes 1, 2, 3 ... beside them, where a number covers no other number and
    no point if possible. A far number gets a line to its point. Call this after everything else has
    been drawn.
    """
    sheet.figure.draw_without_rendering()
    scale = sheet.figure.dpi / 72
    centres = [axes.transData.transform(point) / scale for point in points]
    taken = [(x - MARKER, y - MARKER, x + MARKER, y + MARKER) for x, y in centres]
    edges = axes.get_window_extent()
    inside = (edges.x0 / scale, edges.y0 / scale, edges.x1 / scale, edges.y1 / scale)
    for at, ((x, y), colour) in enumerate(zip(centres, colours, strict=True)):
        text = str(at + 1)
        width, height = 4.6 * len(text) + 2, 8.0
        for dx, dy in _offsets():
            left, low = x + dx - width / 2, y + dy - height / 2
            box = (left, low, left + width, low + height)
            if _within(box, inside) and not any(_meet(box, other) for other in taken):
                break
        taken.append(box)
        far = math.hypot(dx, dy) > LEADER_FROM
        written = axes.annotate(
            text, points[at], xytext=(dx, dy), textcoords="offset points", fontsize=7,
            ha="center", va="center", color=colour,
            arrowprops={"arrowstyle": "-", "lw": 0.5, "color": colour, "shrinkA": 0, "shrinkB": 2}
            if far else None,
        )  # fmt: skip
        written.set_in_layout(False)


def _offsets() -> Iterator[tuple[float, float]]:
    """Yields offsets for a label, the nearest first."""
    for radius in RADII:
        for turn in range(ANGLES):
            angle = math.pi / 4 + 2 * math.pi * turn / ANGLES
            yield radius * math.cos(angle), radius * math.sin(angle)


Box = tuple[float, float, float, float]


def _within(box: Box, outer: Box) -> bool:
    return box[0] >= outer[0] and box[1] >= outer[1] and box[2] <= outer[2] and box[3] <= outer[3]


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
