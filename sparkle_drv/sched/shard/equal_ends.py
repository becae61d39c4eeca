"""Corrects how many units each device gets, so that all devices end together. All functions are
pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from .site import Pace

HALVINGS = 12
"""Steps of bisection for the time at which all devices end together."""


def waits(pace: Pace, paces: Sequence[Pace]) -> bool:
    """Returns whether the device shares a resource with another one of these."""
    mine = pace.site.shares
    return bool(mine) and any(
        p is not pace and not set(mine).isdisjoint(p.site.shares) for p in paces
    )


def evened(
    paces: Sequence[Pace], units: Sequence[int], ends: Sequence[float], count: int
) -> list[float]:
    """Returns the units of each device with which all devices are predicted to end at the same
    time.

    `units` and `ends` are those of the last simulation. Each further unit is predicted to take its
    device's seconds per unit, or twice that if the device shares a resource with another one.
    """
    lines = []
    busy = [pace for pace, its in zip(paces, units, strict=True) if its]
    for pace, its, end in zip(paces, units, ends, strict=True):
        begins = end if its else pace.end_s((1,)) - pace.each
        # One more unit also delays the devices that wait for the same resource. Its seconds
        # therefore count twice here, which halves each change of the devices' units. With
        # full changes, the units would not converge.
        each = pace.each * (2 if waits(pace, busy) else 1)
        lines.append((its, begins, each, min(pace.most, count)))

    def at(t: float) -> list[float]:
        return [min(most, max(0.0, u + (t - end) / each)) for u, end, each, most in lines]

    low, high = min(line[1] for line in lines), max(ends)
    while sum(at(high)) < count:
        high *= 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(at(middle)) < count else (low, middle)
    return at(high)


def whole(shares: Sequence[float], paces: Sequence[Pace], count: int, least: int = 0) -> list[int]:
    """Returns whole units near these shares, with sum `count`, that fit into the devices' memory.

    Units left by rounding go to the fastest devices that have a share, else to devices with room.
    """
    units = [max(least, int(share)) for share in shares]
    order = sorted(range(len(units)), key=lambda at: (shares[at] <= 0, paces[at].each))
    left = count - sum(units)
    while left > 0:
        before, part = left, max(1, left // len(units))
        for at in order:
            if shares[at] > 0 or left == before:
                more = int(min(part, left, paces[at].most - units[at]))
                units[at] += more
                left -= more
    while left < 0:
        most = max(range(len(units)), key=units.__getitem__)
        units[most] -= 1
        left += 1
    return units
