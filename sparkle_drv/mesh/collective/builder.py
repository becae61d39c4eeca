"""Builds programs in which each step waits for the steps that its memory depends on.

A step that reads waits for the last writer of its memory. A step that writes waits for that writer
and for all readers since. So if a program is right in the order of its steps, it is also right in
any order in which its lanes may run.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from sparkle_drv.mesh.lanes.program import Lane, Program, Reduce, Region, RegionCopy, Step


@dataclass(slots=True)
class _TrackedRange:
    """A range of bytes of one memory. `writer` is the last step that wrote the bytes (-1 for none),
    and `readers` are the steps that read them since.
    """

    writer: int = -1
    readers: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _TrackedMemory:
    """The ranges of bytes of one memory, in the order of their offsets `begins`. Each ends where
    the next one begins; the last one has no end.
    """

    begins: list[int] = field(default_factory=lambda: [0])
    ranges: list[_TrackedRange] = field(default_factory=lambda: [_TrackedRange()])

    def within(self, begin: int, end: int) -> list[_TrackedRange]:
        """Returns the ranges of the bytes from offset `begin` to offset `end`. A range in which
        `begin` or `end` lies is first cut in two.
        """
        first = self._cut(begin)
        return self.ranges[first : self._cut(end)]

    def _cut(self, at: int) -> int:
        """Returns the index of the range that begins at offset `at`. If `at` lies inside a range,
        cuts that one in two first.
        """
        index = bisect_left(self.begins, at)
        if index == len(self.begins) or self.begins[index] != at:
            before = self.ranges[index - 1]
            self.begins.insert(index, at)
            self.ranges.insert(index, _TrackedRange(before.writer, list(before.readers)))
        return index


class ProgramBuilder:
    """Collects the steps of a program."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._memories: dict[tuple[str, str], _TrackedMemory] = {}

    @property
    def program(self) -> Program:
        """The program of all steps so far."""
        return Program(tuple(self._steps))

    def copy(self, src: Region, dst: Region) -> None:
        """Adds a copy. If the regions are on two devices, the lane of the link runs the copy. On
        one device, its queue runs it.
        """
        self._add(
            Lane(src.place, dst.place if dst.place != src.place else ""), RegionCopy(src, dst)
        )

    def push(self, src: Region, dst: Region) -> None:
        """Adds a copy to memory that the devices of both regions can reach. The queue of `src` runs
        the copy.
        """
        self._add(Lane(src.place), RegionCopy(src, dst))

    def reduce(self, src: Region, dst: Region) -> None:
        """Adds the step dst = op(dst, src). The queue of `dst` runs it."""
        self._add(Lane(dst.place), Reduce(src, dst))

    def _add(self, lane: Lane, what: RegionCopy | Reduce) -> None:
        if not what.dst.nbytes:
            return
        number, after = len(self._steps), set[int]()
        for tracked in self._tracked(what.src):
            after.add(tracked.writer)
            tracked.readers.append(number)
        for tracked in self._tracked(what.dst):
            after.add(tracked.writer)
            after.update(tracked.readers)
            tracked.writer, tracked.readers = number, []
        after -= {-1, number}
        self._steps.append(Step(number, lane, what, tuple(sorted(after))))

    def _tracked(self, region: Region) -> list[_TrackedRange]:
        key = region.place, region.memory
        memory = self._memories.get(key)
        if memory is None:
            memory = self._memories[key] = _TrackedMemory()
        return memory.within(region.offset, region.offset + region.nbytes)
