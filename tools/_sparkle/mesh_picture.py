"""Draws a mesh as SVG: devices on a circle, an arrow for each way, as wide as it is fast."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from sparkle_drv import Topology

SIZE, RADIUS, NODE = 720.0, 250.0, 46.0
"""Pixels: the side of the picture, the circle of devices, a device."""
WIDTHS = (1.5, 9.0)
"""Pixels of the slowest and the fastest way."""
ASIDE = 9.0
"""Pixels between the middle line and each of the two ways of a pair."""
COLOURS = {"shared": "#009e73", "peer": "#0072b2"}
STAGED = "#d55e00"
"""Okabe and Ito, Color Universal Design, 2008: told apart by colour-blind readers, too."""

Place = tuple[float, float]


def svg(topology: Topology) -> str:
    """The picture as a document."""
    count = len(topology.places)
    turns = [2 * math.pi * at / count - math.pi / 2 for at in range(count)]
    middle = SIZE / 2
    at = {
        place: (middle + RADIUS * math.cos(turn), middle + RADIUS * math.sin(turn))
        for place, turn in zip(topology.places, turns, strict=True)
    }
    marks = (_mark(name, colour) for name, colour in _colours().items())
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE:g} {SIZE:g}" '
            'font-family="sans-serif" font-size="13">',
            f'<rect width="{SIZE:g}" height="{SIZE:g}" fill="white"/>',
            f"<defs>{''.join(marks)}</defs>",
            *_ways(topology, at),
            *(_device(place, where) for place, where in at.items()),
            *_legend(),
            "</svg>\n",
        ]
    )


def _colours() -> dict[str, str]:
    return {**COLOURS, "staged": STAGED}


def _mark(name: str, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="12" '
        f'markerHeight="12" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path d="M0 0 8 4 0 8z" fill="{colour}"/></marker>'
    )


def _ways(topology: Topology, at: dict[str, Place]) -> Iterator[str]:
    rates = [math.log(link.bw_gbs) for link in topology.links.values() if 0 < link.bw_gbs < 1e6]
    low, high = min(rates, default=0.0), max(rates, default=0.0)
    for pair in permutations(topology.places, 2):
        link = topology.links.get(pair)
        if link is None:
            continue
        kind = link.kind if link.kind in COLOURS else "staged"
        rate = math.log(min(max(link.bw_gbs, 1e-6), 1e6))
        share = min(1.0, max(0.0, (rate - low) / (high - low))) if high > low else 1.0
        yield _arrow(at[pair[0]], at[pair[1]], kind, WIDTHS[0] + share * (WIDTHS[1] - WIDTHS[0]),
                     f"{link.bw_gbs:.3g} GB/s, {link.latency_us:.3g} us")  # fmt: skip


def _arrow(source: Place, to: Place, kind: str, width: float, said: str) -> str:
    """A line beside the middle of both, which leaves the devices free; text a third on its way."""
    dx, dy = to[0] - source[0], to[1] - source[1]
    length = math.hypot(dx, dy)
    ux, uy = dx / length, dy / length
    ox, oy = -uy * ASIDE, ux * ASIDE
    x1, y1 = source[0] + ux * NODE + ox, source[1] + uy * NODE + oy
    x2, y2 = to[0] - ux * NODE + ox, to[1] - uy * NODE + oy
    tx, ty = x1 + (x2 - x1) / 3 + 2 * ox, y1 + (y2 - y1) / 3 + 2 * oy
    colour = _colours()[kind]
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width:.1f}" marker-end="url(#{kind})"/>'
        f'<text x="{tx:.1f}" y="{ty:.1f}" text-anchor="middle" font-size="11">{said}</text>'
    )


def _device(place: str, where: Place) -> str:
    x, y = where
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{NODE:g}" fill="#f4f4f4" stroke="#333"/>'
        f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{escape(place)}</text>'
    )


def _legend() -> Iterator[str]:
    said = {"shared": "shared memory", "peer": "peer link", "staged": "over the host"}
    for row, (name, colour) in enumerate(_colours().items()):
        y = 24 + 20 * row
        yield (
            f'<line x1="16" y1="{y}" x2="46" y2="{y}" stroke="{colour}" stroke-width="5"/>'
            f'<text x="54" y="{y + 4}">{said[name]}</text>'
        )
