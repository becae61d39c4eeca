"""Draws a mesh as SVG: devices on a circle, an arrow for each link; a faster link is wider."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from sparkle_drv import Topology

RADIUS, EACH, NODE, AROUND = 250.0, 70.0, 46.0, 110.0
"""In pixels: the smallest radius of the circle of devices; the least radius per device; a
device's radius; the margin around the circle."""
WIDTHS = (1.5, 7.0)
"""Widths of the slowest and of the fastest link, in pixels."""
HEAD = 16.0
"""Length of an arrow's head in pixels; the head is wider than the widest link."""
ASIDE, TEXT_ASIDE = 7.0, 17.0
"""Distance in pixels of the two links of a pair, and of their texts, from the line between the
devices."""
TEXT_AT = 0.2
"""Place of the middle of a link's text, as a share of the link's length."""
COLOURS = {"shared": "#009e73", "peer": "#0072b2"}
STAGED = "#d55e00"
"""Colour of Okabe and Ito, Color Universal Design, 2008: distinct for colour-blind readers, too."""

Place = tuple[float, float]


def svg(topology: Topology) -> str:
    """Returns the picture as an SVG document."""
    count = len(topology.places)
    turns = [2 * math.pi * at / count - math.pi / 2 for at in range(count)]
    radius = max(RADIUS, EACH * count)
    middle = radius + AROUND
    at = {
        place: (middle + radius * math.cos(turn), middle + radius * math.sin(turn))
        for place, turn in zip(topology.places, turns, strict=True)
    }
    kinds = {_kind(link.kind) for link in topology.links.values()}
    used = {name: colour for name, colour in _colours().items() if name in kinds}
    marks = (_mark(name, colour) for name, colour in used.items())
    arrows, texts = zip(*_ways(topology, at), strict=True) if topology.links else ((), ())
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * middle:g} {2 * middle:g}" '
            'font-family="sans-serif" font-size="13">',
            f'<rect width="{2 * middle:g}" height="{2 * middle:g}" fill="white"/>',
            f"<defs>{''.join(marks)}</defs>",
            *arrows,
            *(_device(place, where) for place, where in at.items()),
            *texts,
            *_legend(used),
            "</svg>\n",
        ]
    )


def _colours() -> dict[str, str]:
    return {**COLOURS, "staged": STAGED}


def _mark(name: str, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="0.5" refY="4" markerWidth="{HEAD:g}" '
        f'markerHeight="{HEAD:g}" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path d="M0 0 8 4 0 8z" fill="{colour}"/></marker>'
    )


def _kind(transport: str) -> str:
    return transport if transport in COLOURS else "staged"


def _ways(topology: Topology, at: dict[str, Place]) -> Iterator[tuple[str, str]]:
    """Yields an arrow and its text for each link."""
    rates = [math.log(link.bw_gbs) for link in topology.links.values() if 0 < link.bw_gbs < 1e6]
    low, high = min(rates, default=0.0), max(rates, default=0.0)
    for pair in permutations(topology.places, 2):
        link = topology.links.get(pair)
        if link is None:
            continue
        rate = math.log(min(max(link.bw_gbs, 1e-6), 1e6))
        share = min(1.0, max(0.0, (rate - low) / (high - low))) if high > low else 1.0
        speed = f"{link.bw_gbs:.3g} GB/s" if link.bw_gbs < 1e6 else "? GB/s"
        yield _arrow(
            at[pair[0]], at[pair[1]], _kind(link.kind), WIDTHS[0] + share * (WIDTHS[1] - WIDTHS[0]),
            f"{speed}, {link.latency_us:.3g} us",
        )  # fmt: skip


def _arrow(source: Place, to: Place, kind: str, width: float, said: str) -> tuple[str, str]:
    """Returns an arrow and its text. The arrow is parallel to the straight line between the two
    devices. It is shifted aside and does not touch the devices' circles.

    The text runs along the arrow, but not at its middle, because arrows cross there.
    """
    dx, dy = to[0] - source[0], to[1] - source[1]
    length = math.hypot(dx, dy)
    ux, uy = dx / length, dy / length

    def beside(along: float, aside: float) -> Place:
        return source[0] + ux * along - uy * aside, source[1] + uy * along + ux * aside

    (x1, y1), (x2, y2) = beside(NODE, ASIDE), beside(length - NODE - HEAD, ASIDE)
    tx, ty = beside(NODE + TEXT_AT * (length - 2 * NODE), TEXT_ASIDE)
    turn = math.degrees(math.atan2(dy, dx))
    turn -= 180 * round(turn / 180)  # so that no text is upside down
    line = (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{_colours()[kind]}" stroke-width="{width:.1f}" marker-end="url(#{kind})"/>'
    )
    placed = (
        f'x="{tx:.1f}" y="{ty:.1f}" dy="4" text-anchor="middle" font-size="11" '
        f'transform="rotate({turn:.1f} {tx:.1f} {ty:.1f})"'
    )
    halo = f'<text {placed} stroke="white" stroke-width="4" aria-hidden="true">{said}</text>'
    return line, f"{halo}<text {placed}>{said}</text>"


def _device(place: str, where: Place) -> str:
    x, y = where
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{NODE:g}" fill="#f4f4f4" stroke="#333"/>'
        f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{escape(place)}</text>'
    )


def _legend(used: Mapping[str, str]) -> Iterator[str]:
    said = {"shared": "shared memory", "peer": "peer link", "staged": "over the host"}
    for row, (name, colour) in enumerate(used.items()):
        y = 24 + 20 * row
        yield (
            f'<line x1="16" y1="{y}" x2="46" y2="{y}" stroke="{colour}" stroke-width="5"/>'
            f'<text x="54" y="{y + 4}">{said[name]}</text>'
        )
