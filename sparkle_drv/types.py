"""Plain data that every layer shares: devices, kinds of memory, tile plans.

This file imports nothing of the package.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import lru_cache


class Memory(enum.Enum):
    """The kind of memory of a buffer.

    >>> with dev.buffer(64, memory=sp.Memory.HOST) as buffer:
    ...     buffer.memory
    <Memory.HOST: 'host'>
    """

    DEVICE = "device"
    """The device's own memory."""
    HOST = "host"
    """Host memory that the device reads directly (pinned, GTT)."""
    SHARED = "shared"
    """Memory that another process or device can map: `Buffer.export`."""


@dataclass(frozen=True)
class CacheLevel:
    """One level of a memory hierarchy.

    >>> sp.CacheLevel(level=2, nbytes=1 << 20, shared_by=2)
    CacheLevel(level=2, nbytes=1048576, shared_by=2)
    """

    level: int
    """1 is the closest to a core."""
    nbytes: int
    """Size of one such cache in bytes."""
    shared_by: int
    """The number of compute units that share one such cache."""


@dataclass(frozen=True)
class DeviceInfo:
    """The facts about a device that are known before anything runs on it.

    >>> dev.info.uri, dev.info.kind, dev.info.emulated, dev.info.compute_units > 0
    ('cpu', 'cpu', False, True)
    """

    uri: str
    """The URI for `open`: "cpu", "egl:0"."""
    backend: str
    """The backend's name, under which the manifest lists its kernels."""
    name: str
    """The model, as the maker calls it."""
    kind: str
    """"cpu", "gpu" or "other"."""
    vendor: str = ""
    """The maker, as the device reports it; "" if it does not."""
    driver: str = ""
    """The driver and its version."""
    memory_nbytes: int = 0
    """The most bytes of memory that all buffers together can have."""
    unified: bool = False
    """The device uses host memory by the same pointers, so numpy arrays need no copy."""
    emulated: bool = False
    """The device is emulated; its times mean nothing."""
    software: bool = False
    """The device has a GPU's interface, but the CPU computes."""
    compute_units: int = 1
    """The number of threads of a cpu, or of CUs or SMs of a GPU."""
    max_group_size: int = 1
    """The most threads of a workgroup, x * y * z."""
    max_groups: tuple[int, int, int] = (1, 1, 1)
    """The most workgroups of a launch along x, y and z."""
    max_shared_nbytes: int = 0
    """The most bytes per workgroup for `shared=` of a launch; 0: none."""
    isa: str = ""
    """The instruction set that kernels use: "ref", "neon", "avx2", "avx512", a GPU's name."""
    language: str = ""
    """The language of kernels generated at run time: "glsl" or "rdna" (AMD's machine code). "" if
    all kernels are built beforehand, or the backend makes them."""
    caches: tuple[CacheLevel, ...] = ()
    """Data caches, level 1 first; empty if unknown."""
    shares: tuple[str, ...] = ()
    """Names of resources that other devices also use. Two devices with "cpu" slow each other down.
    "cpu" is all cores; "cpu:3" is core 3 alone, a part of "cpu": see `in_common`."""
    features: tuple[str, ...] = ()
    """Other abilities; on cpu the instruction sets that `SPARKLE_CPU_ISA` may name."""
    offset_alignment: int = 1
    """A pointer argument may start at multiples of this many bytes in a buffer."""
    max_pointer_nbytes: int = 0
    """The most bytes that one pointer argument can reach; 0: no limit."""
    slot: str = ""
    """The PCI address as Linux writes it, "0000:03:00.0"; "": none, or unknown."""
    peak_gflops: float = field(default=0.0, compare=False)
    """The rate of the fastest float32 matrix product measured in this process or an earlier one.
    The unit is 10^9 floating-point operations per second; a multiply-add counts as two. 0.0: none
    was measured, or the device is emulated."""
    mem_bw_gbs: float = field(default=0.0, compare=False)
    """The rate of the fastest measured copy within the device's memory, in 10^9 bytes per second,
    read and written. 0.0: none was measured, or the device is emulated."""
    p2p: tuple[str, ...] = field(default=(), compare=False)
    """URIs of devices of the same Context whose memory this device reads without the host
    (`Device.peer` is "direct"); empty outside a Context."""


@lru_cache(maxsize=4096)
def in_common(mine: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names in `mine` that share a resource with `theirs`.

    Both arguments are DeviceInfo.shares. A name includes its parts. So "cpu" and "cpu:3" share a
    core, "cpu:3" and "cpu:4" do not.
    """
    return tuple(
        a
        for a in mine
        if any(a == b or a.startswith(f"{b}:") or b.startswith(f"{a}:") for b in theirs)
    )


@dataclass(frozen=True)
class Found:
    """One device that `discover` examined. If it is not usable, `reason` says why and `advice` what
    to do.

    >>> next(f for f in sp.discover() if f.uri == "cpu").info.kind
    'cpu'
    >>> sp.Found("cuda", "cuda:0", reason="no libcuda.so.1").usable
    False
    """

    backend: str
    """The scheme of the device's URIs: "cpu", "cuda"."""
    uri: str
    """The URI for `open`; only the scheme if no single device was found."""
    info: DeviceInfo | None = None
    """The device if it is usable, else None."""
    reason: str = ""
    """Why the device is not usable; "" if it is usable."""
    advice: str = ""
    """A remedy, if one is known; else ""."""
    tried: tuple[str, ...] = ()
    """The steps that were tried and their results, one line each."""

    @property
    def usable(self) -> bool:
        """True if the device can be opened."""
        return self.info is not None


@dataclass(frozen=True)
class Resources:
    """The resources that a loaded kernel needs. A field is None if the driver does not report it.

    >>> k = dev.kernel("saxpy_f32")
    >>> k.resources.spill_nbytes, k.resources.max_group_size > 0
    (None, True)
    """

    max_group_size: int
    """The most threads in one workgroup of this kernel."""
    registers: int | None = None
    """The registers of one thread."""
    shared_nbytes: int | None = None
    """The bytes of shared memory of a workgroup, without the bytes given by `shared=`."""
    spill_nbytes: int | None = None
    """The bytes of spilled registers per thread."""
    isa: str = ""
    """The instruction set for which the kernel was compiled."""
    max_groups: tuple[int, int, int] | None = None
    """The most workgroups of a launch of this kernel; None: the device's limit."""
    note: str = ""
    """Why the kernel is not the one that its plan asks for; "" if it is."""


@dataclass(frozen=True)
class TilePlan:
    """How an operation is cut into tiles. The kernel chooses values for fields that are 0 or empty.

    >>> sp.ops.tiles.gemm(dev.info, 512, 512, 512).algo
    'blocked'
    >>> sp.TilePlan(algo="naive").source
    'model'
    """

    algo: str = "auto"
    """One of the operation's algorithms: "naive", "blocked", "direct", "im2col", "winograd"
    (output tiles of 4 x 4), "winograd2" (of 2 x 2), "winograd6" (of 6 x 6), or "auto"."""
    levels: tuple[tuple[int, int, int], ...] = ()
    """(m, n, k) tiles in elements, outermost first: on cpu (mc, nc, kc), then (mr, nr, 1)."""
    vector: int = 0
    """The elements of a vector instruction."""
    threads: int = 0
    """The number of threads to use; 0: all."""
    layout_in: str = ""
    """The layout of the input: "NCHW" or "NHWC"; "" for operations without layouts."""
    layout_out: str = ""
    """The layout of the output: "NCHW" or "NHWC"; "" for operations without layouts."""
    pack: bool = False
    """On cpu: True if the weights (`b` of gemm, `w` of conv2d) are a blob that a pack_* kernel made
    for this plan, instead of the matrix. A kernel refuses a blob made for another plan."""
    program: tuple[int, ...] = ()
    """For map_f32 and map_i32: the words of a program (native/include/sp_map.h). The kernel is then
    made only for this program. Empty: the kernel reads a program at each launch."""
    source: str = field(default="model", compare=False)
    """Who chose the plan: "model", or "tuned" if `bench.py tune` found it."""
