"""The cost of moving bytes on a device: one transfer at a time, with a wait, by the host's clock.

There are six kinds of transfer. Four use a queue: write (from the host), read (to the host), copy
and fill (within the device). In two the CPU moves the bytes through mapped memory: map_write and
map_read, with the time of mapping. The bytes come from memory, not from a cache: transfers use
slots in turn that together are larger than twice the caches.

Every row is checked before and after timing. Random bytes are moved over a target that held their
complement. All bytes are compared, and the bytes around the target must not change. Called by
commands/transfer.py.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from _bench.jobs import cache_reach
from _bench.jobs.axes import Axis, Point, label
from _bench.jobs.fills import Array
from _bench.rows.results import Measured, Row, Subject

from . import engine, timing, verify
from .bound import BAND_NBYTES, device_ns, timing_queue
from .engine import Settings
from .verify import Verdict

if TYPE_CHECKING:
    import sparkle_drv as sp

WAYS = ("write", "read", "copy", "fill", "map_write", "map_read")
MEMORIES = ("device", "host")
AXES = (
    Axis("way", WAYS, words=WAYS),
    Axis("memory", MEMORIES, words=MEMORIES),
    Axis("nbytes", tuple(4096 << at for at in range(0, 15, 2))),
)
MODE = "latency"
EXACT = {"max_rel_rms": 0.0, "tolerance": 0.0}
ALIGNED = 256  # alignment of slots, in bytes
# Largest number of slots, the places of a buffer to which one transfer after the other goes. A
# buffer would hold more slots of small transfers, but recording a command for each would take long.
MOST_SLOTS = 2048


class Transfer:
    """Transfers of one kind (write, read, copy, fill, map_write or map_read) and one size on a
    device.

    A slot is the part of memory that one transfer fills. The slots are adjacent in one buffer and
    in one array of the host. Both are larger than all caches together. A guard band lies on both
    sides of the slots. `once` makes the transfer in one slot and waits, `check` verifies it, and
    `sample` times it in slot after slot.
    """

    batch = 1
    primary = "host"

    def __init__(
        self, device: sp.Device, point: Point, settings: Settings, stack: ExitStack
    ) -> None:
        import sparkle_drv as sp

        self.way, self.nbytes = str(point["way"]), int(point["nbytes"])
        self.settings, self.emulated = settings, device.info.emulated
        self.queue = stack.enter_context(timing_queue(device))
        memory, stride = sp.Memory(point["memory"]), -(-self.nbytes // ALIGNED) * ALIGNED
        self.nslots, self.next = slots(self.nbytes, device.info), 0
        at = [BAND_NBYTES + stride * slot for slot in range(self.nslots)]
        total = 2 * BAND_NBYTES + stride * self.nslots

        def made() -> tuple[sp.Buffer, list[sp.Buffer]]:
            whole = stack.enter_context(device.buffer(total, memory))
            whole.write(contents)
            return whole, [whole.view(offset, self.nbytes) for offset in at]

        tile = self.rng(0).integers(0, 256, 1 << 16, dtype=np.uint8)
        contents = np.resize(tile, total)
        self.whole, self.views = made()
        self.hosts = [contents[offset : offset + self.nbytes] for offset in at]
        self.sources = made()[1] if self.way == "copy" else []
        self.lists: list[sp.Commands] = []
        if self.way == "copy":
            pairs = zip(self.views, self.sources, strict=True)
            self.lists = [sp.Commands().copy(view, source) for view, source in pairs]
        elif self.way == "fill":
            self.lists = [sp.Commands().fill(view, 0xA5, 1) for view in self.views]
        self.once: Callable[[int], sp.Fence | None] = getattr(self, f"_{self.way}")

    def rng(self, stream: int) -> np.random.Generator:
        row = zlib.crc32(f"{self.way} {self.nbytes}".encode())
        return np.random.default_rng([self.settings.seed, row, stream])

    # Each of these methods makes one kind of transfer, in slot `at`, and waits for its end.

    def _write(self, at: int) -> None:
        fence = self.queue.write(self.views[at], self.hosts[at])
        fence.wait(self.settings.launch_timeout_s)

    def _read(self, at: int) -> None:
        fence = self.queue.read(self.views[at], self.hosts[at])
        fence.wait(self.settings.launch_timeout_s)

    def _submitted(self, at: int) -> sp.Fence:
        fence = self.queue.submit(self.lists[at])
        fence.wait(self.settings.launch_timeout_s)
        return fence

    _copy = _fill = _submitted

    def _map_write(self, at: int) -> None:
        with self.views[at].map() as mapped:
            mapped[:] = self.hosts[at].data

    def _map_read(self, at: int) -> None:
        with self.views[at].map() as mapped:
            self.hosts[at].data[:] = mapped

    def sample(self) -> timing.Sample:
        self.next = (self.next + 1) % self.nslots
        start = time.perf_counter_ns()
        fence = self.once(self.next)
        host = time.perf_counter_ns() - start
        return device_ns(fence, host) if fence else float("nan"), float(host)

    def close(self) -> None:
        """Does nothing, because every transfer was waited for."""

    def measure(self) -> Measured:
        """Takes the samples. For copy and fill they have the device's times, too, if the device has
        a clock and is not emulated.
        """
        measured = timing.take(self, self.settings.rule)
        real = self.lists and not self.emulated
        return measured if real else replace(measured, device_ns=[])

    def check(self, phase: int) -> Verdict:
        """Moves new bytes in a random slot, once. Compares every byte in and around the target."""
        at = int(self.rng(10 + phase).integers(self.nslots))
        data = self._fresh(phase, at)
        complement = ~data
        view, host = self.views[at], self.hosts[at]
        reads = self.way in ("read", "map_read")
        view.write(data if reads else complement)
        host[:] = complement if reads else data
        if self.sources:
            self.sources[at].write(data)
        before = self._around(at)
        self.once(at)
        got = host if reads else self._there(view)
        verdicts = [verify.against("target", got, data, 0.0, "wrong bytes")]
        for side, was, now in zip(("before", "behind"), before, self._around(at), strict=True):
            verdicts.append(verify.band_intact("target", side, was, now))
        kept = [*([view] if reads else []), *([self.sources[at]] if self.sources else [])]
        verdicts += [verify.unchanged("source", data, self._there(source)) for source in kept]
        return verify.worst_of(verdicts)

    def _fresh(self, phase: int, at: int) -> Array:
        """Returns new random bytes for one transfer. For a fill these bytes repeat a short random
        pattern, and the command lists are recorded anew to fill with this pattern.
        """
        import sparkle_drv as sp

        rng = self.rng(1 + phase)
        if self.way != "fill":
            return rng.integers(0, 256, self.nbytes, dtype=np.uint8)
        width = 4 if self.nbytes % 4 == 0 else 1
        cell = rng.integers(0, 256, width, dtype=np.uint8)
        pattern = int.from_bytes(cell.tobytes(), "little")
        self.lists = [sp.Commands().fill(view, pattern, width) for view in self.views]
        return np.resize(cell, self.nbytes)

    def _around(self, at: int) -> list[Array]:
        start = self.views[at].offset
        ends = (start - BAND_NBYTES, start + self.nbytes)
        return [self.whole.read(np.uint8, (BAND_NBYTES,), offset) for offset in ends]

    def _there(self, view: sp.Buffer) -> Array:
        found: Array = view.read(np.uint8, (self.nbytes,))
        return found


def slots(nbytes: int, info: sp.DeviceInfo) -> int:
    """Returns how many slots of `nbytes` bytes the transfers use in turn. Together the slots exceed
    the caches (cache_reach.py), unless MOST_SLOTS limits their number.
    """
    return min(MOST_SLOTS, -(-cache_reach.beyond_nbytes(info) // nbytes) + 1)


def room_nbytes(point: Point, info: sp.DeviceInfo) -> tuple[int, int]:
    """Returns (bytes of the device, bytes of the host) that a row needs at once."""
    n = int(point["nbytes"])
    total = n * slots(n, info)
    return (2 if point["way"] == "copy" else 1) * total, total + 3 * n


def subject_of(point: Point, info: sp.DeviceInfo) -> Subject:
    axes = {name: value for name, value in point.items() if name != "way"}
    name = f"transfer: {point['way']}"
    return Subject(name, info.uri, info.name, info.emulated, axes, MODE)


def run(device: sp.Device, point: Point, settings: Settings) -> Row:
    """Returns the row of one transfer, which is checked before and after timing. Raises Stuck if
    the transfer does not end in time.
    """
    info, subject = device.info, subject_of(point, device.info)
    extra = {"seed": settings.seed, "label": label(subject.axes), "way": point["way"]}
    row = engine.attempt(subject, extra, settings, partial(_run, device, point, settings, subject))
    row.extra |= extra
    if row.time and row.time.median > 0 and not info.emulated:
        row.gbytes_per_s = int(point["nbytes"]) / row.time.median
    return row


def _run(device: sp.Device, point: Point, settings: Settings, subject: Subject) -> Row:
    with ExitStack() as stack:
        transfer = Transfer(device, point, settings, stack)
        before = transfer.check(0)
        if not before.ok:
            return Row.failed(subject, before.error, f"before timing: {before.sentence}")
        measured = transfer.measure()
        after = transfer.check(1)
        if not after.ok:
            return Row.failed(subject, after.error, f"after timing: {after.sentence}")
        return Row(subject, True, EXACT, measured, extra={"slots": transfer.nslots})


def impossible(device: sp.Device, point: Mapping[str, Any]) -> str | None:
    """Returns None if the device can make the transfer of `point`. Otherwise returns the reason:
    the device lacks this kind of memory, or cannot map it.
    """
    import sparkle_drv as sp

    try:
        with device.buffer(4096, sp.Memory(point["memory"])) as buffer, ExitStack() as stack:
            if str(point["way"]).startswith("map"):
                stack.enter_context(buffer.map())
    except (ValueError, sp.SparkleError) as error:
        return str(error)
    return None
