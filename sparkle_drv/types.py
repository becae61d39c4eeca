"""Plain data that every layer shares: devices, kinds of memory, tile plans.

A leaf: imports nothing of ours. Nothing here acts.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import lru_cache


class Memory(enum.Enum):
    """Where a buffer lives."""

    DEVICE = "device"
    """The device's own memory."""
    HOST = "host"
    """Host memory that the device reads directly (pinned, GTT)."""
    SHARED = "shared"
    """Memory that another process or device can map: `Buffer.export`."""


@dataclass(frozen=True)
class CacheLevel:
    """One level of a memory hierarchy."""

    level: int
    """1 is the closest to a core."""
    nbytes: int
    """Size of one such cache in bytes."""
    shared_by: int
    """How many compute units share one."""


@dataclass(frozen=True)
class DeviceInfo:
    """What is known of a device before anything runs on it."""

    uri: str
    """What `open` takes: "cpu", "egl:0"."""
    backend: str
    """The name under which the manifest lists kernels for it."""
    name: str
    """The model, in the words of its maker."""
    kind: str
    """"cpu", "gpu" or "other"."""
    vendor: str = ""
    """The maker, in the words of the device; "" where it does not tell."""
    driver: str = ""
    """The driver and its version."""
    memory_nbytes: int = 0
    """Bytes of memory that buffers can take at most, all together."""
    unified: bool = False
    """Host pointers are device pointers: numpy arrays need no copy."""
    emulated: bool = False
    """A model of a device that is not there; its times mean nothing."""
    software: bool = False
    """A GPU interface whose work the CPU does."""
    compute_units: int = 1
    """Threads on a cpu, CUs or SMs on a GPU."""
    max_group_size: int = 1
    """Most threads in one workgroup, x * y * z."""
    max_groups: tuple[int, int, int] = (1, 1, 1)
    """Most workgroups of one launch along x, y and z."""
    max_shared_nbytes: int = 0
    """Most bytes that `shared=` of a launch may ask for, per workgroup; 0: none."""
    isa: str = ""
    """The instruction set that kernels use: "ref", "neon", "avx2", "avx512", a GPU's name."""
    language: str = ""
    """What kernels are made in for it at run time: "glsl", "rdna" (AMD's machine code); "": all
    are built beforehand, or its backend makes them."""
    caches: tuple[CacheLevel, ...] = ()
    """Caches for data, level 1 first; empty where unknown."""
    shares: tuple[str, ...] = ()
    """Names of resources that other devices use too: two with "cpu" slow each other down. "cpu" is
    all cores, "cpu:3" is core 3 alone, a part of "cpu": see `in_common`."""
    features: tuple[str, ...] = ()
    """What else the device can do; on cpu the instruction sets that `SPARKLE_CPU_ISA` may name."""
    offset_alignment: int = 1
    """Where in a buffer a pointer argument may start: multiples of so many bytes."""
    slot: str = ""
    """The PCI address as Linux spells it, "0000:03:00.0"; "": none, or not known."""
    peak_gflops: float = field(default=0.0, compare=False)
    """10^9 floating-point operations a second (two for a multiply-add) of the fastest float32
    matrix product that was measured, here or in an earlier process; 0.0: none was, or emulated."""
    mem_bw_gbs: float = field(default=0.0, compare=False)
    """10^9 bytes a second, read and written, of the fastest copy within its memory that was
    measured; 0.0 likewise."""
    p2p: tuple[str, ...] = field(default=(), compare=False)
    """URIs of devices of the same Context whose memory it reads without the host's hands
    (`Device.peer` is "direct"); empty outside a Context."""


@lru_cache(maxsize=4096)
def in_common(mine: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
    """The names in `mine` that stand for a resource of `theirs`; both are `DeviceInfo.shares`.

    A name stands for itself and for its parts: "cpu" and "cpu:3" meet, "cpu:3" and "cpu:4" do not.
    """
    return tuple(
        a
        for a in mine
        if any(a == b or a.startswith(f"{b}:") or b.startswith(f"{a}:") for b in theirs)
    )


@dataclass(frozen=True)
class Found:
    """One node that discovery looked at: usable, or the reason why not and what would help."""

    backend: str
    """The scheme of its URIs: "cpu", "cuda"."""
    uri: str
    """What `open` takes; the scheme alone where no single device was found."""
    info: DeviceInfo | None = None
    """The device if it is usable, else None."""
    reason: str = ""
    """Why it is not usable; "" when it is."""
    advice: str = ""
    """What would help, if anything is known to."""
    tried: tuple[str, ...] = ()
    """What was looked at and what it said, a line each."""

    @property
    def usable(self) -> bool:
        """Can it be opened?"""
        return self.info is not None


@dataclass(frozen=True)
class Resources:
    """What a loaded kernel takes; None where the driver does not tell."""

    max_group_size: int
    """Most threads in one workgroup of this kernel."""
    registers: int | None = None
    """Registers of one thread."""
    shared_nbytes: int | None = None
    """Bytes of shared memory that a workgroup takes whatever `shared=` adds."""
    spill_nbytes: int | None = None
    """Bytes of memory that stand in for registers, per thread."""
    isa: str = ""
    """The instruction set that it was compiled for."""
    max_groups: tuple[int, int, int] | None = None
    """Most workgroups of one launch of this kernel; None: as the device says."""
    note: str = ""
    """Why it is not the kernel that its plan asks for, where it is another."""


@dataclass(frozen=True)
class TilePlan:
    """How an operation is cut for a memory hierarchy; zero or empty: the kernel chooses."""

    algo: str = "auto"
    """One of the operation's algorithms: "naive", "blocked", "direct", "im2col", "winograd"
    (output tiles of 4 x 4), "winograd2" (of 2 x 2), "winograd6" (of 6 x 6), or "auto"."""
    levels: tuple[tuple[int, int, int], ...] = ()
    """(m, n, k) tiles in elements, outermost first: on cpu (mc, nc, kc), then (mr, nr, 1)."""
    vector: int = 0
    """Elements that a vector instruction handles."""
    threads: int = 0
    """Threads to use; 0: all of them."""
    layout_in: str = ""
    """Layout of the input: "NCHW" or "NHWC"; "" for operations that have none."""
    layout_out: str = ""
    """Layout of the output, likewise."""
    pack: bool = False
    """On cpu: are the weights (`b` of gemm, `w` of conv2d) a blob that a pack_* kernel made for
    this plan, not the matrix itself? A kernel refuses a blob that was made for anything else."""
    program: tuple[int, ...] = ()
    """Of map_f32 and map_i32: the words of a program (native/include/sp_map.h). The kernel is then
    made for that program alone. Empty: the kernel reads a program at each launch."""
    source: str = field(default="model", compare=False)
    """Who chose it: "model", or "tuned" for what `bench.py tune` measured to be best."""
