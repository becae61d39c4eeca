"""The virtual time of an open simulated device. The device's rates (simulated.py) give the duration
of a submission. Its begin and end are times of the machine's clock.

The cpu backend does the real work at the same time; the real duration does not matter here.
"""

from __future__ import annotations

import math
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkle_drv import assets
from sparkle_drv._native import ffi, lib
from sparkle_drv.core.abi import records
from sparkle_drv.core.abi.signature import SCALARS

from .sim_clock import SimEvent
from .simulated import SimMachine

KEPT = 4096
"""Submissions of a queue whose times are kept."""
POINTER = struct.Struct("=Q")


@dataclass(frozen=True)
class WrittenRange:
    """Memory that a command record may change."""

    address: int
    nbytes: int


@dataclass(frozen=True)
class Costed:
    """What the virtual time of a loaded kernel depends on."""

    name: str
    args: tuple[tuple[str, str], ...]
    """(name, type), in order."""
    written: frozenset[str]
    native: Any
    """struct sp_signature."""

    @classmethod
    def of_spec(cls, spec: Any) -> Costed:
        """Returns what the virtual time of the kernel of a KernelSpec depends on. The arguments of
        a user's kernel, which the manifest does not have, are named a0, a1, ... Every pointer among
        them counts as written.
        """
        entry = assets.entry(spec.entry) if spec.manifest is not None else None
        if entry is None:
            unnamed = tuple((f"a{i}", kind) for i, kind in enumerate(spec.args))
            all_of = frozenset(name for name, kind in unnamed if kind.endswith("*"))
            return cls(spec.name, unnamed, all_of, spec.native)
        named = tuple((arg["name"], arg["type"]) for arg in entry["args"])
        written = frozenset(a["name"] for a in entry["args"] if "w" in a.get("access", "rw"))
        return cls(spec.entry, named, written, spec.native)

    def size(self, args: bytes) -> float:
        """Returns the size of a dispatch: the operations of a product, or else the bytes behind all
        pointers.
        """
        scalars = self._scalars(args)
        if self.name.startswith("gemm"):
            return float(2 * scalars["m"] * scalars["n"] * scalars["k"])
        if self.name.startswith("conv2d"):
            names = ("n", "oc", "oh", "ow", "kh", "kw")
            each = scalars["c"] // max(1, scalars["groups"])
            return float(2 * each * math.prod(int(scalars[name]) for name in names))
        if self.name == "busy_u32":
            return float(scalars["iters"])
        return float(sum(region.nbytes for _, region in self.pointers(args)))

    def pointers(self, args: bytes) -> Iterator[tuple[str, WrittenRange]]:
        """Yields the name and memory of each pointer whose extent is known."""
        packed, need = ffi.from_buffer(args), ffi.new("uint64_t *")
        for i in range(self.native.npointers):
            pointer = self.native.pointers[i]
            (address,) = POINTER.unpack_from(args, pointer.offset)
            if address == 0 or pointer.nsteps == 0:
                continue
            if lib.sp_signature_need(self.native, i, packed, need) == 0:
                yield self.args[pointer.arg][0], WrittenRange(address, need[0])

    def _scalars(self, args: bytes) -> dict[str, Any]:
        return {
            name: struct.unpack_from(f"={SCALARS[kind]}", args, self.native.args[i].offset)[0]
            for i, (name, kind) in enumerate(self.args)
            if not kind.endswith("*")
        }


@dataclass
class SubmissionTimes:
    """When a submission begins and ends."""

    end: SimEvent
    begin_s: float = 0.0


@dataclass
class VirtualTimeline:
    """Begin and end of the submissions of one queue, in seconds of the machine's clock. The caller
    holds the clock's lock.
    """

    busy: SimEvent = field(default_factory=lambda: SimEvent(0.0))
    """End of the last one."""
    spans: OrderedDict[int, SubmissionTimes] = field(default_factory=OrderedDict)

    def end(self, value: int) -> SimEvent:
        """Returns the event at which the submission of `value` ends.

        The time of the event is 0 if the timeline no longer has this submission, or never had it.
        """
        span = self.spans.get(value)
        return SimEvent(0.0) if span is None else span.end

    def times(self, value: int) -> tuple[float, float] | None:
        """Returns (begin, end) of a submission, or None if they are unknown."""
        span = self.spans.get(value)
        if span is None or span.end.at_s is None:
            return None
        return span.begin_s, span.end.at_s

    def took(
        self, value: int, start_s: float, seconds: float, after: Sequence[SimEvent] = ()
    ) -> SimEvent:
        """Adds a submission of `seconds`. It begins at `start_s` at the earliest, after all earlier
        submissions and the events `after`. Returns the event of its end.
        """
        return self.runs(value, start_s, lambda begin_s: SimEvent(begin_s + seconds), after)

    def runs(
        self,
        value: int,
        start_s: float,
        run: Callable[[float], SimEvent],
        after: Sequence[SimEvent] = (),
    ) -> SimEvent:
        """Adds a submission. It begins at `start_s` at the earliest, after all earlier submissions
        and the events `after`. Then `run(begin_s)` is called, and returns the event at which the
        submission ends. Returns an event of the same end.
        """
        span = SubmissionTimes(SimEvent(), start_s)
        waits = [self.busy, *after]

        def end_wait(at_s: float) -> None:
            span.begin_s = max(span.begin_s, at_s)
            waits.pop()
            if not waits:
                run(span.begin_s).then(span.end.known)

        for event in tuple(waits):
            event.then(end_wait)
        self.busy = span.end
        if value:
            self.spans[value] = span
            if len(self.spans) > KEPT:
                self.spans.popitem(last=False)
        return span.end


@dataclass
class Meter:
    """Computes the time of a submission's command records on one device of a machine."""

    machine: SimMachine
    uri: str
    kernels: dict[int, Costed] = field(default_factory=dict)
    """By the number in dispatch records."""
    slow: float = 1.0
    """A factor on the present jobs, from a plan of faults."""

    def dispatch_s(self, record: bytes) -> float:
        """Returns the seconds of a dispatch."""
        costed, args = self.dispatched(record)
        if costed is None:
            return 0.0
        return self.slow * self.machine.draw(self.uri, costed.name, costed.size(args))

    def dispatched(self, record: bytes) -> tuple[Costed | None, bytes]:
        """Returns the kernel of a dispatch record, and its packed arguments followed by the
        extents.
        """
        head = records.DISPATCH_HEAD.unpack_from(record)
        begin = records.DISPATCH_HEAD.size
        return self.kernels.get(head[2]), record[begin:]

    def transfer_s(self, nbytes: int) -> float:
        """Returns the seconds of a transfer from or to the host."""
        return self.slow * self.machine.draw_transfer(self.uri, nbytes)

    def copy_s(self, nbytes: int) -> float:
        """Returns the seconds of a copy or fill within the device."""
        return self.slow * self.machine.draw(self.uri, "copy", 2.0 * nbytes)

    def written(self, parts: list[tuple[int, bytes]]) -> Iterator[WrittenRange]:
        """Yields the memory that command records may change. `parts` has each record as (kind,
        bytes of the record).
        """
        for kind, record in parts:
            if kind == records.DISPATCH:
                costed, args = self.dispatched(record)
                if costed is not None:
                    for name, region in costed.pointers(args):
                        if name in costed.written:
                            yield region
            elif kind in (records.COPY, records.FILL):
                dst = POINTER.unpack_from(record, 8)[0]
                at = 24 if kind == records.COPY else 16
                yield WrittenRange(dst, POINTER.unpack_from(record, at)[0])
