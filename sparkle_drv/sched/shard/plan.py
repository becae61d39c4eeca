"""Splits one call over several unequal devices. All functions are pure: the same
arguments give the same plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from sparkle_drv.sched.decide.choose import Impossible

from .arguments import check, fits, memory
from .balance import Balance, balanced, best, played
from .bound import least_s
from .pieces import LOSS, Cutter, largest
from .shares import Piece, Shares
from .simulation import contended, ends
from .site import Pace, Site
from .tail import dealt

TAIL = 1 / 4
"""The part of the work that is left for the tail (shrinking chunks for any free device). With rates
of 100, 40, 20 and 5 and errors of up to 20 %, it reaches 0.99 of the ideal. It is halved up to
twice where it costs more than LOSS, then dropped."""


def plan_shares(
    sites: Sequence[Site],
    count: int,
    *,
    each: bool = False,
    given: Mapping[str, float] | None = None,
    tail: float = TAIL,
) -> Shares:
    """Returns the shares with the least predicted time.

    A device that would not make the call end sooner is left out. With `each`, every device gets at
    least one unit instead. `given` are fixed proportions by URI; the plan then has no tail. `tail`
    is the largest fraction of the work that may be left for the tail. Raises ValueError for bad
    arguments, Impossible if the memory cannot hold the work.
    """
    check(sites, count, each, given, tail)
    paces = [Pace(site) for site in sites]
    fits(paces, count, each)
    bound = least_s(paces, count)
    if given is not None:
        found, tail = proportioned(paces, count, given), 0.0
    elif each:
        found = balanced(paces, count, bound, range(len(paces)), 1)
    else:
        able = [at for at, pace in enumerate(paces) if pace.most >= 1]
        found = best([paces[at] for at in able], count, bound).spread(able, len(paces))
    return shares(paces, count, found, bound, tail, given)


def proportioned(paces: Sequence[Pace], count: int, given: Mapping[str, float]) -> Balance:
    """Returns parts in these proportions. Raises Impossible if a part does not fit its device's
    memory.
    """
    total, passed, units = sum(given.values()), 0.0, []
    for pace in paces:
        begin = round(passed * count / total)
        passed += given.get(pace.site.uri, 0.0)
        units.append(round(passed * count / total) - begin)
        if units[-1] > pace.most:
            raise Impossible(
                "shards: expected a share that fits the device's memory, "
                f"got {units[-1]} units for {memory(pace)}"
            )
    seconds = max(pace.each * its for pace, its in zip(paces, units, strict=True))
    return played([Cutter(pace, seconds) for pace in paces], units)


def shares(
    paces: Sequence[Pace],
    count: int,
    found: Balance,
    bound: float,
    tail: float,
    given: Mapping[str, float] | None,
) -> Shares:
    """Returns the plan of the parts in `found`, with their last pieces moved to the tail. If the
    call would end more than the fraction LOSS later with this tail, the tail is smaller or empty.
    """
    parts, rest, by, end_s = found.pieces, [], [], found.end_s
    most = [largest(pace, bound) for pace in paces]
    for part in (tail, tail / 2, tail / 4):
        kept = [front(pieces, part) for pieces in found.pieces]
        its = [pace for pace, pieces in zip(paces, kept, strict=True) if pieces]
        fast = min(its, key=lambda pace: pace.each)
        least = math.ceil(part * fast.launch / (LOSS * fast.each)) or 1
        left, took, ends_s = dealt(paces, kept, count - sum(map(sum, kept)), least, most)
        if not took:
            continue
        if contended(its):
            whole = [list(pieces) for pieces in kept]
            for units, at in zip(left, took, strict=True):
                whole[at].append(units)
            ends_s = max(ends(paces, whole, [len(its) for its in kept]))
        if ends_s <= (1 + LOSS) * found.end_s:
            parts, rest, by, end_s = kept, left, took, ends_s
            break
    begin, made = 0, dict[str, tuple[Piece, ...]]()
    for pace, pieces in zip(paces, parts, strict=True):
        if pieces:
            made[pace.site.uri] = placed(pieces, begin)
            begin += sum(pieces)
    return Shares(
        count, made, placed(rest, begin), tuple(paces[at].site.uri for at in by), end_s, bound,
        {p.site.uri: why_not(p, paces, made, end_s, given) for p in paces
         if p.site.uri not in made},
    )  # fmt: skip


def front(pieces: Sequence[int], tail: float) -> list[int]:
    """Returns these pieces after the fraction `tail` of their units was cut off at the end. At
    least one unit stays.
    """
    kept, left = list(pieces), int(sum(pieces) * tail)
    while left:
        less = min(left, kept[-1])
        kept[-1] -= less
        left -= less
        if not kept[-1]:
            kept.pop()
    return kept


def placed(pieces: Sequence[int], begin: int) -> tuple[Piece, ...]:
    """Returns the pieces, placed one after another from `begin`."""
    in_order = []
    for units in pieces:
        in_order.append(Piece(begin, begin + units))
        begin += units
    return tuple(in_order)


def why_not(
    pace: Pace,
    paces: Sequence[Pace],
    made: Mapping[str, tuple[Piece, ...]],
    end_s: float,
    given: Mapping[str, float] | None,
) -> str:
    """Returns why a device does not take part."""
    if given is not None:
        return "its share is 0"
    if pace.most < 1:
        return f"too little memory: {memory(pace).partition(': ')[2]}"
    late = pace.end_s((1,)) - end_s
    if late > 0:
        return f"it would end {late * 1e6:.0f} us later"
    for other in paces:
        both = set(pace.site.shares) & set(other.site.shares)
        if both and other.site.uri in made:
            name = ", ".join(sorted(both))
            return f"it shares {name} with {other.site.uri}: one of them is enough"
    return "with it the call would end no sooner"
