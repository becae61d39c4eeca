"""A lower bound for the seconds of a call that devices share. All functions are pure.

A limit is the most units that can be done in T seconds. These limits exist:

* One device: a piece has three stages: copy in, launch, copy out. The slowest stage is busy for all
  units of the device. Each other stage adds the time of one piece, before or after.
* Devices that share a resource launch one at a time.

Each limit is computed as if the others did not exist, in whole units. It gives the work to the
devices that suit it best, and may leave out the rest. The bound is the least T in which every limit
allows the work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .limits import Limits
from .site import Pace

EXACT = 1e-3
"""Relative width at which the search for the least time ends. The result is the lower end."""
GUESS = 0.01
"""Relative width at which the search for a planner's starting point ends. The planner corrects that
point."""
TRIES = 8
"""Most times that `allot` tries."""
WITHIN = 4.0
"""The limits of limits.py for each number of pieces are kept for times up to this factor above the
simple limits. The bound stays below it."""
Load = tuple[float, float, float]
"""(most units of a device, its fixed cost of a resource if it takes part, its cost per unit)."""


def least_s(paces: Sequence[Pace], count: int) -> float:
    """Returns the least seconds of any schedule; inf if the devices' memory holds less than `count`
    units.
    """
    if sum(pace.most for pace in paces) < count:
        return math.inf
    limits = [Limits(pace) for pace in paces]
    high = min(its.simple[0][0] + its.simple[0][1] * count for its in limits) / len(limits)
    low = _least(limits, count, 0.0, high, False, GUESS)
    for its in limits:
        its.chains()
        its.narrow(low, WITHIN * low)
    return min(_least(limits, count, low, low * (1 + GUESS), True, EXACT), WITHIN * low)


def _least(
    limits: Sequence[Limits], count: int, low: float, high: float, chains: bool,
    exact: float,
) -> float:  # fmt: skip
    """Returns the least seconds T, from `low` on, in which `count` units can be done. The result is
    approximated from below.

    The search keeps two times: one too short for `count` units, one long enough. A straight line
    interpolates the units that can be done in between. The next T to try is where this line reaches
    `count` (regula falsi), moved a little so that both times come closer. If the line is too flat,
    the search tries the middle of the two times.
    """
    over = _most(limits, high, count, chains)
    under = _most(limits, low, count, chains) if low and over >= count else 0.0
    while over < count:
        low, under, high = high, over, high * (min(2.0, count / over + GUESS) if over else 2.0)
        over = _most(limits, high, count, chains)
    above = below = False
    while high - low > exact * high:
        part = (count - under) / (over - under) if over - under > GUESS * count * exact else 0.5
        t = low + part * (high - low)
        aside = 0.45 * exact * high
        t = min(max(t + (aside if below else -aside), low + aside), high - aside)
        its = _most(limits, t, count, chains)
        # Illinois rule of regula falsi: if one end of [low, high] stays twice in a row, the
        # distance of its units (`under` or `over`) from `count` is halved.
        if its < count:
            over -= (over - count) / 2 if below else 0.0
            low, under, below, above = t, its, True, False
        else:
            under += (count - under) / 2 if above else 0.0
            high, over, below, above = t, its, False, True
    return low


def _most(limits: Sequence[Limits], t: float, count: int, chains: bool) -> float:
    """Returns the most units that can be done in t seconds. `Limits.simple` (limits.py) bounds each
    device. With `chains`, `Limits.pairs` bounds it, too.
    """
    able = []
    for its in limits:
        units = its.units(t, count)
        if chains and units:
            units = its.fewer(t, units)
        if units:
            able.append((float(int(units)), its.pace))
    most = sum(units for units, _ in able)
    if most < count:
        return most
    most, left = 0.0, able
    for name in sorted({name for _, pace in able for name in pace.site.shares}):
        waiting = [(u, p) for u, p in left if name in p.site.shares]
        left = [(u, p) for u, p in left if name not in p.site.shares]
        most += packed([(u, p.launch, p.computes) for u, p in waiting], t)
    return most + sum(u for u, _ in left)


def packed(loads: Sequence[Load], budget: float) -> float:
    """Returns the most units whose use of a resource is within the budget of seconds. The devices
    that use least per unit come first.

    If a device does only a part of its units, only the same part of its fixed cost counts.
    """
    total = 0.0
    for units, once, each in sorted(loads, key=lambda load: load[1] / load[0] + load[2]):
        cost = once + each * units
        if cost > budget:
            return total + units * max(0.0, budget) / cost
        budget -= cost
        total += units
    return total


def allot(paces: Sequence[Pace], count: int, low: float) -> list[float]:
    """Returns a planner's starting point: the units of each device with which the call takes about
    the least time that the limits of all devices allow.

    If several devices use the same resource, those that use least of it for a unit get their units
    first. `low` is a lower bound of the time, in seconds; the search starts just above it.
    """
    limits, t = [Limits(pace) for pace in paces], (1 + GUESS) * low
    for _ in range(TRIES):
        units = _allotted(limits, t, count)
        total = sum(units)
        if total >= count:
            break
        t *= min(2.0, count / total + GUESS) if total else 2.0
    return units


def _allotted(limits: Sequence[Limits], t: float, count: int) -> list[float]:
    paces, units = [its.pace for its in limits], [its.units(t, count) for its in limits]
    for name in sorted({name for pace in paces for name in pace.site.shares}):
        its = [at for at, pace in enumerate(paces) if name in pace.site.shares]
        left = t
        for at in sorted(its, key=lambda at: paces[at].computes):
            pace = paces[at]
            units[at] = max(0.0, min(units[at], (left - pace.launch) / pace.computes))
            left -= pace.launch + pace.computes * units[at] if units[at] else 0.0
    return units
