"""Cuts one device's part into pieces that are short and whose stages overlap. All functions are
pure.

If a device stops, its piece is lost, and others notice it after twice the time of a piece.
Therefore no piece is long. The first pieces are small, so that the slowest stage begins early. Each
next one is as large as it can be without making that stage wait. The last pieces shrink in the same
way.
"""

from __future__ import annotations

import math

from .site import Pace

LONGEST = 1 / 32
"""No piece takes longer on its device than this part of the call, whose time is at least the bound.
If a device stops, others go on after at most twice this. Longer launches would also leave devices
that wait for one another unused."""
LOSS = 0.02
"""Launches and latencies may cost this part of a device's time. Pieces need not be longer."""
FILL = 2.5
"""Where latencies are long, a piece is FILL times the length at which latencies equal the other
stages' wait for the first piece. On benchmarks/_inside/shards 1.5 and 3 leave larger gaps."""
RAMP = 16
"""The first and the last piece are at least 1 / RAMP of the largest one."""


def largest(pace: Pace, seconds: float) -> int:
    """Returns the units of the longest piece in a call of `seconds`, at least one.

    The piece takes the fraction LONGEST of the call. It takes longer if launches and latencies
    would otherwise cost more than the fraction LOSS.
    """
    stages = pace.stages()
    long = min([(LONGEST * seconds - a) / b for a, b in stages if b])
    short = max([a / ((1 + LOSS) * pace.each - b) for a, b in stages])
    others = sum([b for _, b in stages]) - pace.each
    if short > long and others:
        late = max(a for a, b in stages if b == pace.each)
        short = min(short, FILL * math.sqrt(late * seconds / pace.each / others))
    return max(1, int(long), math.ceil(short))


class Cutter:
    """Cuts the part of a call that one device does into pieces. `seconds` is the predicted time of
    the whole call, which limits the length of a piece.
    """

    __slots__ = ("back", "front", "largest", "pace", "ramps")

    def __init__(self, pace: Pace, seconds: float) -> None:
        self.pace, self.largest = pace, largest(pace, seconds)
        self.front = _ramp(pace, self.largest, True)
        self.back = _ramp(pace, self.largest, False)
        self.ramps = sum(self.front) + sum(self.back)

    def cut(self, units: int) -> list[int]:
        """Returns the units of each piece, in order."""
        front, back, left = self.front, self.back, units - self.ramps
        if left < 0:
            front, back = _inwards(front, back, units)
            left = units - sum(front) - sum(back)
        number = -(-left // self.largest)
        less, more = divmod(left, number) if number else (0, 0)
        return front + [less + 1] * more + [less] * (number - more) + back[::-1]


def _inwards(front: list[int], back: list[int], units: int) -> tuple[list[int], list[int]]:
    """Returns the pieces of both ramps that fit into `units` units together, the smallest first. A
    ramp is the growing pieces at one end (_ramp).
    """
    ahead, behind = 0, 0
    while True:
        size = min(front[ahead : ahead + 1] + back[behind : behind + 1])
        if size > units:
            return front[:ahead], back[:behind]
        units -= size
        if front[ahead : ahead + 1] == [size]:
            ahead += 1
        else:
            behind += 1


def _ramp(pace: Pace, most: int, front: bool) -> list[int]:
    """Returns growing pieces, smaller than `most`, for one end of a device's part.

    A ramp grows by a factor f from a first piece of x units. It has log(most / x) / log f pieces,
    each with its latency, and the slowest stage waits for x units. The best x is latency / (w log
    f), where w is the seconds of a unit in the stages before the slowest.
    """
    p, c, o = pace.brings, pace.computes, pace.fetches
    a, b, e = pace.bring, pace.launch, pace.fetch
    if not front:
        p, o, a, e = o, p, e, a
    if (p >= c and p >= o) or not (p or o > c):
        return []
    # Each entry of `ways` is (factor, more): a piece of n units is followed by one of factor * n +
    # more units. That is the largest piece for which no later stage of the pipeline has to wait.
    if c >= o:
        ways, waits, late = [(c / p, (b - a) / p)], p, b
    else:
        ways, waits, late = [(o / c, (e - b) / c)], p + c, e
        if p:
            ways.append(((c + o) / (p + c), (e - a) / (p + c)))
    # A piece of `even` units would be followed by one of the same size: n = factor * n + more. So
    # pieces grow only if the first one is larger than `even`.
    even = max([-more / (factor - 1) for factor, more in ways])
    slow = min([factor for factor, _ in ways])
    size = max(1.0, max(0.0, even) + max(most / RAMP, late / (waits * math.log(slow))))
    ramp = list[int]()
    while size < most:
        ramp.append(round(size))
        size = max(1.1 * size, min([factor * size + more for factor, more in ways]))
    return ramp
