"""Decides how many units each device does, so that all end at the same time. All functions are
pure.

A first guess comes from the limits of bound.py. simulation.py then simulates the parts. Devices
that end early get units of those that end late. The number of units to move is computed from the
seconds that one more unit takes on each device. A device that is left with no unit takes no part.

Devices that share a resource wait for one another. Fewer devices may then end sooner, so sets
without one of the devices are tried, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from .bound import allot, least_s
from .equal_ends import evened, waits, whole
from .pieces import Cutter
from .simulation import contended, ends
from .site import Pace

ROUNDS = 3
"""Corrections of the first guess."""
FEWER = 1
"""Corrections of the first guess where devices wait for one another, so that each needs a
simulation."""
COARSE = 2
"""The simulations that compare sets of devices use pieces this many times as long as the call's."""
NEAR = 1.01
"""The search for sets of devices stops within this factor of the lower bound."""
EVEN = 2e-3
"""Relative difference of ends below which corrections stop."""


@dataclass(frozen=True)
class Balance:
    """The part of each device, in the order of the given devices: its units, its pieces, and when
    the device ends.
    """

    units: Sequence[int]
    pieces: Sequence[list[int]]
    ends: Sequence[float]

    @property
    def end_s(self) -> float:
        """Seconds until the last result is at the host."""
        return max(self.ends, default=0.0)

    def spread(self, members: Sequence[int], devices: int) -> Balance:
        """Returns a Balance for `devices` devices with the same parts. Device number `i` here is
        device number `members[i]` there. All other devices there have no part.
        """
        units, pieces, ends_s = [0] * devices, [list[int]()] * devices, [0.0] * devices
        for number, at in enumerate(members):
            units[at], pieces[at] = self.units[number], self.pieces[number]
            ends_s[at] = self.ends[number]
        return Balance(units, pieces, ends_s)


def played(cutters: Sequence[Cutter], units: Sequence[int]) -> Balance:
    """Cuts parts of these sizes into pieces. Returns the parts with their predicted ends."""
    pieces = [cutter.cut(its) if its else [] for cutter, its in zip(cutters, units, strict=True)]
    return Balance(units, pieces, ends([cutter.pace for cutter in cutters], pieces))


def best(paces: Sequence[Pace], count: int, low: float) -> Balance:
    """Returns the parts of all devices with which the call is predicted to end first. Some parts
    may be empty. `low` is a lower bound of the seconds of the call.
    """
    every = range(len(paces))
    near = [at for at in every if waits(paces[at], paces)]
    alone = _alone(paces, near, count)
    if not contended([paces[at] for at in alone]):
        balance = balanced(paces, count, low, alone)
        if not near or balance.end_s <= NEAR * low:
            return balance
    # To compare sets of devices quickly, the simulations use longer pieces than the call will
    # have. The best set is then planned with the call's own pieces.
    long = COARSE * low
    balance = balanced(paces, count, low, alone, long=long)
    if balance.end_s > NEAR * low:
        both = balanced(paces, count, low, every, long=long)
        balance = _sooner(balance, _fewer(paces, count, low, both))
    busy = [pace for pace, units in zip(paces, balance.units, strict=True) if units]
    if balance.end_s > NEAR * low and contended(busy):
        balance = _fewer(paces, count, low, balance)
    members = [at for at, units in enumerate(balance.units) if units]
    return balanced(paces, count, low, members, begin=balance.units)


def _sooner(one: Balance, other: Balance) -> Balance:
    return other if other.end_s < one.end_s else one


def _alone(paces: Sequence[Pace], near: Sequence[int], count: int) -> Sequence[int]:
    """Returns a set of devices in which none waits for another: the set with the least lower bound
    of the seconds of the call. If there is no such set, returns all devices.
    """
    groups: dict[str, list[int]] = {}
    for at in near:
        for name in paces[at].site.shares:
            groups.setdefault(name, []).append(at)
    apart = [at for at in range(len(paces)) if at not in near]
    least, alone = math.inf, sorted({*apart, *near})
    for chosen in product(*groups.values()) if groups else ():
        names = [name for at in set(chosen) for name in paces[at].site.shares]
        if len(names) > len(set(names)):
            continue
        tried = sorted({*apart, *chosen})
        seconds = least_s([paces[at] for at in tried], count)
        if seconds < least:
            least, alone = seconds, tried
    return alone


def _fewer(paces: Sequence[Pace], count: int, low: float, found: Balance) -> Balance:
    """Tries the devices of `found` without the one that has the fewest units. Returns their parts
    if they end sooner, else `found`.
    """
    least = min([units for units in found.units if units])
    rest = [at for at, units in enumerate(found.units) if units and units != least]
    rest += [at for at, units in enumerate(found.units) if units == least][1:]
    if found.end_s <= NEAR * low or sum([paces[at].most for at in rest]) < count or not rest:
        return found
    rest.sort()
    return _sooner(found, balanced(paces, count, low, rest, 0, COARSE * low))


def balanced(
    paces: Sequence[Pace],
    count: int,
    low: float,
    members: Sequence[int],
    least: int = 0,
    long: float = 0.0,
    begin: Sequence[int] = (),
) -> Balance:
    """Returns parts for the devices `members`, whose memory can hold the work. Each gets at least
    `least` units.

    `low` is a lower bound of the seconds of this call. Parts are cut into the pieces that suit a
    call of `long` seconds, or of `low` seconds if `long` is 0. `begin` may have a first
    guess of the units of each device.
    """
    its = [paces[at] for at in members]
    if begin:
        units = [begin[at] for at in members]
    else:
        guess = allot(its, count, low)
        total = sum(guess) or 1.0
        units = whole([u * count / total for u in guess], its, count, least)
    cutters = [Cutter(pace, long or low) for pace in its]
    balance = played(cutters, units)
    now, crowded = balance, contended(its)
    for _ in range(FEWER if crowded and long else ROUNDS):
        busy = [end for end, u in zip(now.ends, now.units, strict=True) if u]
        if max(busy) - min(busy) <= EVEN * max(busy) or balance.end_s <= (1 + EVEN) * low:
            break
        units = whole(evened(its, now.units, now.ends, count), its, count, least)
        now = played(cutters, units)
        if now.end_s >= balance.end_s and not crowded:
            break
        balance = _sooner(balance, now)
    return balance.spread(members, len(paces))
