"""A lower bound for the seconds of a call that devices share. All functions are pure.

A limit is the most units that can be done in T seconds. These limits exist:

* One device: a piece has three stages: copy in, launch, copy out. The slowest stage is busy for all
  units of the device. Each other stage adds the time of one piece, before or after.
* Devices that share a resource launch one at a time.
* All bytes pass the host's port.

Each limit is computed as if the others did not exist, in whole units. It gives the work to the
devices that suit it best, and may leave out the rest. The bound is the least T in which every limit
allows the work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sparkle_drv.mesh.links.network import Port

from .limits import Limits
from .site import Pace, Site

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


def bound_s(sites: Sequence[Site], count: int, host: Port) -> float:
    """Returns the least seconds of any schedule; inf if the sites' memory holds less than `count`
    units.
    """
    return least_s([Pace(site, host) for site in sites], count, host)


def least_s(paces: Sequence[Pace], count: int, host: Port) -> float:
    """Returns the least seconds of any schedule; inf if the devices' memory holds less than `count`
    units.
    """
    if sum(pace.most for pace in paces) < count:
        return math.inf
    limits = [Limits(pace) for pace in paces]
    high = min(its.simple[0][0] + its.simple[0][1] * count for its in limits) / len(limits)
    low = _least(limits, count, host, 0.0, high, False, GUESS)
    for its in limits:
        its.chains()
        its.narrow(low, WITHIN * low)
    return min(_least(limits, count, host, low, low * (1 + GUESS), True, EXACT), WITHIN * low)


def _least(
    limits: Sequence[Limits], count: int, host: Port, low: float, high: float, chains: bool,
    exact: float,
) -> float:  # fmt: skip
    """Returns the least seconds T, from `low` on, in which `count` units can be done. The result is
    approximated from below.

    The search keeps two times: one too short for `count` units, one long enough. A straight line
    interpolates the units that can be done in between. The next T to try is where this line reaches
    `count` (regula falsi), moved a little so that both times come closer. If the line is too flat,
    the search tries the middle of the two times.
    """
    over = _most(limits, high, count, host, chains)
    under = _most(limits, low, count, host, chains) if low and over >= count else 0.0
    while over < count:
        low, under, high = high, over, high * (min(2.0, count / over + GUESS) if over else 2.0)
        over = _most(limits, high, count, host, chains)
    above = below = False
    while high - low > exact * high:
        part = (count - under) / (over - under) if over - under > GUESS * count * exact else 0.5
        t = low + part * (high - low)
        aside = 0.45 * exact * high
        t = min(max(t + (aside if below else -aside), low + aside), high - aside)
        its = _most(limits, t, count, host, chains)
        # Illinois rule of regula falsi: if one end of [low, high] stays twice in a row, the
        # distance of its units (`under` or `over`) from `count` is halved.
        if its < count:
            over -= (over - count) / 2 if below else 0.0
            low, under, below, above = t, its, True, False
        else:
            under += (count - under) / 2 if above else 0.0
            high, over, below, above = t, its, False, True
    return low


def _most(limits: Sequence[Limits], t: float, count: int, host: Port, chains: bool) -> float:
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
    most += sum(u for u, _ in left)
    for budget, loads in _ports(able, t, host):
        most = min(most, packed(loads, budget))
    if min(host.send, host.both) < math.inf:
        most = min(most, _in_turn(able, t, min(host.send, host.both)))
    return most


def _in_turn(able: Sequence[tuple[float, Pace]], t: float, rate: float) -> float:
    """Returns the most units in t seconds if devices wait only for the operands that all shards
    read whole. The host's port sends these operands.

    At best the host sends to one device after another, to the fastest device first. The bytes for
    each device count as if they were as few as those for the device that needs the fewest. Source:
    W. Smith, Various optimizers for single-stage production, Naval Research Logistics Quarterly 3,
    1956.
    """
    total = sum(units for units, pace in able if not pace.sent)
    sent = [pace for _, pace in able if pace.sent]
    if not sent:
        return total
    each_s = min(pace.sent for pace in sent) / rate
    left = t - min(p.site.bring.a + p.launch + p.fetch + p.fetches for p in sent)
    for pace in sorted(sent, key=lambda pace: pace.computes):
        left -= each_s
        total += max(0.0, left) / pace.computes
    return total


def _ports(
    able: Sequence[tuple[float, Pace]], t: float, host: Port
) -> Iterator[tuple[float, list[Load]]]:
    """Yields a pair for each limited direction of the host's port: (the bytes that pass in t
    seconds, a list of Loads). A Load has the bytes of one device's operands or results.
    """
    if host.send < math.inf:
        yield host.send * t, [(u, p.sent, p.sent_each) for u, p in able]
    if host.receive < math.inf:
        yield host.receive * t, [(u, 0, p.taken_each) for u, p in able]
    if host.both < math.inf:
        yield host.both * t, [(u, p.sent, p.sent_each + p.taken_each) for u, p in able]


def packed(loads: Sequence[Load], budget: float) -> float:
    """Returns the most units whose use of a resource (seconds or bytes) is within the budget. The
    devices that use least per unit come first.

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


def allot(paces: Sequence[Pace], count: int, host: Port, low: float) -> list[float]:
    """Returns a planner's starting point: the units of each device with which the call takes about
    the least time that the limits of all devices allow.

    If several devices use the same resource or the host's port, those that use least of it for a
    unit get their units first. `low` is a lower bound of the time, in seconds; the search starts
    just above it.
    """
    limits, t = [Limits(pace) for pace in paces], (1 + GUESS) * low
    for _ in range(TRIES):
        units = _allotted(limits, t, count, host)
        total = sum(units)
        if total >= count:
            break
        t *= min(2.0, count / total + GUESS) if total else 2.0
    return units


def _allotted(limits: Sequence[Limits], t: float, count: int, host: Port) -> list[float]:
    paces, units = [its.pace for its in limits], [its.units(t, count) for its in limits]
    for name in sorted({name for pace in paces for name in pace.site.shares}):
        its = [at for at, pace in enumerate(paces) if name in pace.site.shares]
        left = t
        for at in sorted(its, key=lambda at: paces[at].computes):
            pace = paces[at]
            units[at] = max(0.0, min(units[at], (left - pace.launch) / pace.computes))
            left -= pace.launch + pace.computes * units[at] if units[at] else 0.0
    for way in (0, 1, 2):
        able = [(u, p) for u, p in zip(units, paces, strict=True) if u]
        at_of = [at for at, u in enumerate(units) if u]
        for number, (budget, loads) in enumerate(_ports(able, t, host)):
            if number != way:
                continue
            order = sorted(range(len(loads)), key=lambda i: loads[i][1] / loads[i][0] + loads[i][2])
            for i in order:
                u, once, each = loads[i]
                if each:
                    units[at_of[i]] = max(0.0, min(u, (budget - once) / each))
                budget -= once + each * units[at_of[i]] if units[at_of[i]] else 0.0
    return units
