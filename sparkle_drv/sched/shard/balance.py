"""How many units each device does, so that all end at the same time. Pure.

A first guess comes from the limits of bound.py. Then the parts run in play.py: who ends early gets
units of who ends late, by the seconds that one more unit takes. A device whose part comes to
nothing is left out. Where devices wait for one another, for a resource or for the host's port,
fewer of them may end sooner: sets without one of them are tried too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from sparkle_drv.mesh.links.network import Port

from .bound import allot, least_s
from .pieces import cut
from .play import contended, ends
from .site import Pace

ROUNDS = 5
"""Corrections of the first guess; further ones gain less than 0.1 % on testing/shards."""
FINE = 32
"""Least pieces of devices that wait for one another's launches."""
EVEN = 1e-3
"""Relative difference of ends at which no more is corrected."""


@dataclass(frozen=True)
class Balance:
    """Parts that were found, by the order of the devices that were given."""

    units: Sequence[int]
    pieces: Sequence[list[int]]
    ends: Sequence[float]
    order: Sequence[int] = ()
    """Devices whose fixed operands leave the host one after another; (): all at once."""

    @property
    def end_s(self) -> float:
        """Seconds until the last result is at the host."""
        return max(self.ends, default=0.0)

    def spread(self, members: Sequence[int], devices: int) -> Balance:
        """The same among more devices, of which `members` are these."""
        units, pieces, ends_s = [0] * devices, [list[int]()] * devices, [0.0] * devices
        for number, at in enumerate(members):
            units[at], pieces[at] = self.units[number], self.pieces[number]
            ends_s[at] = self.ends[number]
        return Balance(units, pieces, ends_s, [members[at] for at in self.order])


def played(
    paces: Sequence[Pace], units: Sequence[int], host: Port, queued: bool = False
) -> Balance:
    """These parts, cut and predicted."""
    busy = [pace for pace, its in zip(paces, units, strict=True) if its]
    longest = max(pace.computes * its for pace, its in zip(paces, units, strict=True)) / FINE
    pieces = [
        cut(pace, its, max(1.0, longest / pace.computes) if _waits(pace, busy) else math.inf)
        for pace, its in zip(paces, units, strict=True)
    ]
    order = [at for at, pace in enumerate(paces) if units[at] and pace.sent] if queued else []
    order.sort(key=lambda at: paces[at].sent * paces[at].each)
    return Balance(units, pieces, ends(paces, pieces, host, order), tuple(order))


def best(paces: Sequence[Pace], count: int, host: Port) -> Balance:
    """The parts that are predicted to end first; some may have none."""
    every = range(len(paces))
    near = [at for at in every if _waits(paces[at], paces)]
    found = balanced(paces, count, host, _alone(paces, near, count, host))
    if near:
        found = _sooner(found, _fewer(paces, count, host, balanced(paces, count, host, every)))
    busy = [pace for pace, units in zip(paces, found.units, strict=True) if units]
    if contended(busy, host):
        found = _fewer(paces, count, host, found)
        queued = balanced(paces, count, host, every, queued=True)
        found = _sooner(found, _fewer(paces, count, host, queued, queued=True))
    return found


def _sooner(one: Balance, other: Balance) -> Balance:
    return other if other.end_s < one.end_s else one


def _waits(pace: Pace, paces: Sequence[Pace]) -> bool:
    mine = pace.site.shares
    return any(p is not pace and not set(mine).isdisjoint(p.site.shares) for p in paces)


def _alone(paces: Sequence[Pace], near: Sequence[int], count: int, host: Port) -> Sequence[int]:
    """Without devices that wait for one another: the set of the least bound."""
    groups: dict[str, list[int]] = {}
    for at in near:
        for name in paces[at].site.shares:
            groups.setdefault(name, []).append(at)
    apart = [at for at in range(len(paces)) if at not in near]
    least, found = math.inf, sorted({*apart, *near})
    for chosen in product(*groups.values()) if groups else ():
        names = [name for at in set(chosen) for name in paces[at].site.shares]
        if len(names) > len(set(names)):
            continue
        tried = sorted({*apart, *chosen})
        seconds = least_s([paces[at] for at in tried], count, host)
        if seconds < least:
            least, found = seconds, tried
    return found


def _fewer(
    paces: Sequence[Pace], count: int, host: Port, found: Balance, queued: bool = False
) -> Balance:
    """Leave devices out, one after the other, while that ends sooner."""
    order = sorted(range(len(paces)), key=lambda at: found.units[at])
    for at in order:
        rest = [other for other, units in enumerate(found.units) if units and other != at]
        if found.units[at] and sum(paces[other].most for other in rest) >= count:
            found = _sooner(found, balanced(paces, count, host, rest, 0, queued))
    return found


def balanced(
    paces: Sequence[Pace],
    count: int,
    host: Port,
    members: Sequence[int],
    least: int = 0,
    queued: bool = False,
) -> Balance:
    """Parts for these members, which can hold the work; each gets `least` units or more."""
    its = [paces[at] for at in members]
    guess = allot(its, count, host)
    total = sum(guess) or 1.0
    units = whole([u * count / total for u in guess], its, count, least)
    found = played(its, units, host, queued)
    now = found
    for _ in range(ROUNDS):
        busy = [end for end, u in zip(now.ends, now.units, strict=True) if u]
        if max(busy) - min(busy) <= EVEN * max(busy):
            break
        now = played(its, whole(_evened(its, now, count), its, count, least), host, queued)
        found = _sooner(found, now)
    return found.spread(members, len(paces))


def _evened(paces: Sequence[Pace], now: Balance, count: int) -> list[float]:
    """Units with which all would end together, if each unit more or less took the same time."""
    lines = []
    busy = [pace for pace, its in zip(paces, now.units, strict=True) if its]
    for pace, units, end in zip(paces, now.units, now.ends, strict=True):
        begins = end if units else pace.end_s((1,)) - pace.each
        each = pace.each * (2 if _waits(pace, busy) else 1)
        lines.append((units, begins, each, min(pace.most, count)))

    def at(t: float) -> list[float]:
        return [min(most, max(0.0, u + (t - end) / each)) for u, end, each, most in lines]

    return at(solved(lambda t: sum(at(t)), count, now.end_s))


def solved(of: Callable[[float], float], wanted: float, guess: float) -> float:
    """The t at which a function that only grows reaches `wanted`, from above."""
    low, high = 0.0, guess
    while of(high) < wanted:
        low, high = high, 2 * high
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if of(middle) < wanted else (low, middle)
    return high


def whole(shares: Sequence[float], paces: Sequence[Pace], count: int, least: int = 0) -> list[int]:
    """Whole units whose sum is `count`, near these shares, that fit into the devices' memory. What
    rounding leaves goes to the fastest devices that have a share, else to those with room.
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
