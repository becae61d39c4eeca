"""Emulated machines with AMD cards, at the level of the kernel's ioctls.

    with Machine(["gfx1100", "gfx1036"]) as machine, machine.open(0) as node:
        info = node.info("DEV_INFO", "struct drm_amdgpu_info_device")
        gpu = EmulatedGpu(node)
        out = gpu.buffer(4096)
        seq = gpu.submit("compute", [0xC0033700, 0x00100500, out.lo, out.hi, 42], bos=[out])
        gpu.wait(seq)

`Machine` owns the emulated kernel. `EmulatedNode` is one open render node; its ioctl call raises
OSError. `EmulatedGpu` (emulated_gpu.py, on amd/kmd/gpu.py) is the least that a test of packets or
shaders needs. This module is not a driver: the `amdgpu` backend reaches the same machine through
`Machine.ops`. native/emu/README.md says what the emulator models.
"""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sparkle_drv.fork_lock import fork_lock

from .._emu import ffi, lib
from ..amd.kmd import raw
from ..amd.kmd.gpu import one_of
from .emulated_gpu import IP, NOP, BufferObject, EmulatedGpu, Job
from .emulated_options import FAULT_KINDS, FLAWS, RECOVERY, card_texts, options

__all__ = [
    "IP", "NOP", "Buffer", "BufferObject", "EmulatedGpu", "EmulatedNode", "Fault", "Gpu", "Job",
    "JobFault", "Machine", "Node", "Seam", "seam",
]  # fmt: skip

VERSION = 9  # version of the C interface, as sp_emu_version returns it


def check(rc: int, call: str) -> int:
    """Returns `rc` if it is not negative. Raises OSError otherwise."""
    if rc < 0:
        raise OSError(-rc, f"{call}: {errno.errorcode.get(-rc, '?')}")
    return rc


class JobFault(NamedTuple):
    """Why a job was stopped. `kind` is one of FAULT_KINDS. `access` is 1 for a read, 2 for a write,
    4 for execution.
    """

    kind: str
    text: str
    va: int
    access: int
    pc: int
    group: tuple[int, int, int]
    wave: int
    lane: int


class Seam(NamedTuple):
    """Totals at the seam: all ioctls, those that submit, and ns that they took in the emulator."""

    ioctls: int
    submissions: int
    ns: int

    def since(self, before: Seam) -> Seam:
        """Returns what was added to each total since the earlier totals `before`."""
        return Seam(*(now - then for now, then in zip(self, before, strict=True)))


def seam() -> Seam:
    """Returns the totals at the seam, over all machines and threads of this process.

    The time of a driver's call, minus the `ns` that the call adds to these totals, is the time that
    the driver itself takes.
    """
    out = ffi.new("struct sp_emu_seam *")
    lib.sp_emu_seam(out)
    return Seam(out.ioctls, out.submissions, out.ns)


class Machine:
    """A machine with emulated cards. Each card is named by a text: "gfx1100", or with its own
    options "gfx1103:kms-3.42:bar-256M" (native/emu/README.md).

    These options apply to all cards; each has a default:

    * lenient: words of LENIENT (emulated_options.py), or their bits;
    * threads: threads per dispatch (1, at most 64);
    * recovery: what happens after a job that hangs or faults: "ring", "soft", "full", "vram_lost";
    * job_limit_s: seconds of CPU time that the emulator may work on a job (10);
    * delay_s: jobs start and complete late by up to this many seconds, at random from `seed`;
    * kms_minor (54), vram_nbytes, visible_nbytes, gtt_nbytes: for cards whose text has no value;
    * trace: 1 logs ioctls and jobs, 2 also logs packets and instructions;
    * name_stale: reading old bytes from a cache is a fault that names the missing invalidation;
    * keep_caches: caches above GL2 keep their lines at the beginning of an IB (true). According to
      radeonsi, cards invalidate them there; this package's driver does not rely on it;
    * sys_nice: allows contexts above normal priority.

    A machine without references closes itself. Its nodes keep references to it.
    """

    def __init__(
        self,
        chips: Sequence[str] = ("gfx1100",),
        *,
        lenient: int | Iterable[str] = 0,
        threads: int = 0,
        kms_minor: int = 0,
        recovery: str = "ring",
        job_limit_s: float = 0.0,
        delay_s: float = 0.0,
        seed: int = 0,
        vram_nbytes: int = 0,
        visible_nbytes: int = 0,
        gtt_nbytes: int = 0,
        trace: int = 0,
        name_stale: bool = False,
        keep_caches: bool = True,
        sys_nice: bool = False,
    ) -> None:
        self._machine: Any = None
        if lib.sp_emu_version() != VERSION:
            raise RuntimeError(
                f"_emu: expected version {VERSION}, got {lib.sp_emu_version()}: rebuild"
            )
        struct = options(
            lenient=lenient,
            recovery=recovery,
            job_limit_s=job_limit_s,
            delay_s=delay_s,
            name_stale=name_stale,
            keep_caches=keep_caches,
            sys_nice=sys_nice,
            threads=threads,
            kms_minor=kms_minor,
            seed=seed,
            vram_nbytes=vram_nbytes,
            visible_nbytes=visible_nbytes,
            gtt_nbytes=gtt_nbytes,
            trace=trace,
        )
        texts = card_texts(chips)
        strings = [ffi.new("char[]", text.encode()) for text in texts]
        out = ffi.new("struct sp_emu_machine **")
        array = ffi.new("const char *[]", strings)
        rc = lib.sp_emu_machine_open(array, len(strings), struct, out)
        if rc == -errno.EINVAL:
            raise ValueError(f"chips: expected 1 to 32 cards, got {len(texts)}")
        check(rc, "sp_emu_machine_open")
        self._machine = out[0]
        self._ops = lib.sp_emu_machine_ops(out[0])
        # Held by calls during which another thread must not close the machine.
        self._naming = fork_lock()
        self._finalizer = weakref.finalize(self, lib.sp_emu_machine_close, out[0])
        self.chips = tuple(texts)

    def add(self, chip: str) -> int:
        """Adds a card and returns its index."""
        (text,) = card_texts([chip])
        index = check(lib.sp_emu_add_card(self.handle, text.encode()), "sp_emu_add_card")
        self.chips = (*self.chips, text)
        return index

    @property
    def handle(self) -> Any:
        """The `struct sp_emu_machine *`."""
        if self._machine is None:
            raise ValueError("expected an open machine, got a closed one")
        return self._machine

    @property
    def ops(self) -> Any:
        """The `const struct sp_kmd_ops *`: the seam. Raises ValueError if the machine is closed. If
        the pointer was read before the machine was closed, its functions then return -ENODEV.
        """
        if self._machine is None:
            raise ValueError("expected an open machine, got a closed one")
        return self._ops

    def close(self) -> None:
        """Stops all jobs and closes all nodes. Descriptors and mappings of memory remain."""
        with self._naming:
            self._machine = None
            self._finalizer()

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, card: int = 0) -> EmulatedNode:
        """Opens the render node of a card."""
        with self._naming:
            return EmulatedNode(self, check(lib.sp_emu_open(self.handle, card), "open"))

    def live_counts(self) -> dict[str, int]:
        """Returns how many objects of each kind the emulated kernel driver holds. All counts are 0
        once everything is closed.
        """
        live = ffi.new("struct sp_emu_live *")
        with self._naming:
            lib.sp_emu_live_counts(self.handle, live)
        return {name: getattr(live, name) for name, _ in ffi.typeof("struct sp_emu_live").fields}

    def fault(self, card: int = 0) -> JobFault | None:
        """Returns the last fault of a card, or None."""
        r = self._report(card)
        if r.count == 0:
            return None
        text = ffi.string(r.text).decode()
        group = (r.group[0], r.group[1], r.group[2])
        return JobFault(FAULT_KINDS[r.kind], text, r.va, r.access, r.pc, group, r.wave, r.lane)

    def fault_of(self, fd: int) -> JobFault | None:
        """Returns the last fault of the card of the node `fd`. Returns None if there was no fault,
        or if the node or the machine is closed.
        """
        with self._naming:
            card = -1 if self._machine is None else lib.sp_emu_fd_card(self._machine, fd)
            return self.fault(card) if card >= 0 else None

    def fault_count(self, card: int = 0) -> int:
        """Returns the number of faults of a card since the machine was made."""
        return int(self._report(card).count)

    def lane_ops(self, card: int = 0) -> int:
        """Returns how many instructions the card has executed, counted once per active lane."""
        return int(self._report(card).lane_ops)

    def evict(self, times: int = 1, card: int = 0) -> None:
        """Makes the kernel driver report `times` more evictions of the card's memory for want of
        room.
        """
        check(lib.sp_emu_evict(self.handle, card, times), "sp_emu_evict")

    def userptr_pages(self, card: int = 0) -> int:
        """Returns how many pages of userptrs the kernel driver has walked for submissions to the
        card.
        """
        pages = ffi.new("uint64_t *")
        check(lib.sp_emu_userptr_pages(self.handle, card, pages), "sp_emu_userptr_pages")
        return int(pages[0])

    def caches(self, card: int = 0) -> dict[str, int]:
        """Returns counts of the card's caches so far: invalidations by kind, flushes and
        write-backs of GL2, bytes written back and fetched. For a card with its own memory, also
        bytes over the bus.
        """
        out = ffi.new("struct sp_emu_caches *")
        check(lib.sp_emu_cache_counts(self.handle, card, out), "sp_emu_cache_counts")
        kinds = zip(("gli", "glk", "glv", "gl1", "gl2"), out.invalidations, strict=True)
        names = ("flushes", "write_backs", "written_back", "fetched", "fetched_remote")
        bus = ("bus_code", "bus_scalar", "bus_packets", "bus_data", "bus_written")
        return {
            **dict(kinds),
            **{name: int(getattr(out, name)) for name in names},
            **dict(zip(bus, map(int, out.bus), strict=True)),
        }

    def dispatches(self, card: int = 0) -> tuple[int, int]:
        """Returns (dispatches with code in VRAM, dispatches with code elsewhere)."""
        report = self._report(card)
        return int(report.vram_dispatches), int(report.other_dispatches)

    def _report(self, card: int) -> Any:
        report = ffi.new("struct sp_emu_fault_report *")
        with self._naming:
            check(lib.sp_emu_last_fault(self.handle, card, report), "sp_emu_last_fault")
        return report

    def fail_ioctl(self, nr: int, error: int, count: int = 1) -> None:
        """Makes the next `count` ioctls of this number (bits 0-7 of the request) fail
        with `error`.
        """
        check(lib.sp_emu_fail_ioctl(self.handle, nr & 0xFF, count, error), "sp_emu_fail_ioctl")

    def hang_next_job(self, card: int = 0, recovery: str = "ring") -> None:
        """Makes the next job hang. At the job's time limit, `recovery` happens."""
        rc = lib.sp_emu_hang_next_job(
            self.handle, card, RECOVERY[one_of("recovery", recovery, RECOVERY)]
        )
        check(rc, "sp_emu_hang_next_job")

    def fault_next_job(self, card: int = 0, va: int = 0) -> None:
        """Makes the next job first read unmapped memory."""
        check(lib.sp_emu_fault_next_job(self.handle, card, va), "sp_emu_fault_next_job")

    def reset(self, card: int = 0, *, vram_lost: bool = False) -> None:
        """Resets the card although no job failed."""
        check(lib.sp_emu_reset_card(self.handle, card, vram_lost), "sp_emu_reset_card")

    def unplug(self, card: int = 0) -> None:
        """Removes the card: every call returns -ENODEV from now on."""
        check(lib.sp_emu_unplug_card(self.handle, card), "sp_emu_unplug_card")

    def hold_jobs(self, card: int = 0, hold: bool = True) -> None:
        """Keeps jobs from starting until `hold_jobs` is called with `hold=False`."""
        check(lib.sp_emu_hold_jobs(self.handle, card, hold), "sp_emu_hold_jobs")

    def plant(self, flaw: str, a: int = 0, b: int = 0, *, card: int = 0) -> None:
        """Breaks the card in one way, permanently. `flaw` is a word of FLAWS; sp_emu.h explains `a`
        and `b`. Call it before the card is opened; only a clock drift may change later.
        """
        number = FLAWS[one_of("flaw", flaw, FLAWS)]
        a, b = a % 2**64, b % 2**64
        check(lib.sp_emu_plant(self.handle, card, number, a, b), "sp_emu_plant")

    @property
    def trace(self) -> Iterator[str]:
        """Yields the lines that were logged since the last call, oldest first."""
        line = ffi.new("char[]", 256)
        while lib.sp_emu_trace_read(self.handle, line, len(line)) >= 0:
            yield ffi.string(line).decode()


def _close_node(machine: Machine, descriptor: list[int]) -> None:
    fd, descriptor[0] = descriptor[0], -1
    if fd < 0:
        return
    if machine._machine is None:  # the machine is gone, but the descriptor is still open
        os.close(fd)
    else:
        check(machine.ops.close(machine.ops.self, fd), "close")


class EmulatedNode(raw.DrmNode):
    """One open render node: a file descriptor with its own GPU address space. A node without
    references closes itself.
    """

    def __init__(self, machine: Machine, fd: int) -> None:
        self.machine = machine
        self._descriptor = [fd]
        self.last = ""
        weakref.finalize(self, _close_node, machine, self._descriptor)
        self.next_va = 0x1_0000_0000  # the next GPU address that take_va returns
        self._lock = fork_lock()

    @property
    def ops(self) -> Any:
        """`Machine.ops` of the node's machine. Raises ValueError if the machine is closed."""
        return self.machine.ops

    @property
    def fd(self) -> int:
        """The file descriptor; -1 if the node is closed. Code that closes the descriptor must set
        -1.
        """
        return self._descriptor[0]

    @fd.setter
    def fd(self, fd: int) -> None:
        self._descriptor[0] = fd

    def close(self) -> None:
        """Closes the file descriptor. As in reality, a remaining mapping keeps the node open."""
        _close_node(self.machine, self._descriptor)

    def __enter__(self) -> EmulatedNode:
        return self

    def take_va(self, nbytes: int) -> int:
        """Returns an address range that was not taken before."""
        with self._lock:
            va = self.next_va
            self.next_va += nbytes
        return va

    def raw(self, request: int, arg: Any) -> int:
        """Calls ops->ioctl once. Returns its result: 0 or more, or -errno."""
        ops = self.machine.ops
        return int(ops.ioctl(ops.self, self.fd, request, arg))


# The names that users of this module know; each class has a name of its own in the package.
Buffer, Fault, Gpu, Node = BufferObject, JobFault, EmulatedGpu, EmulatedNode
