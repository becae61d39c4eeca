"""The facts of a render node, as a DeviceInfo and as the set-up of native code.

Supported chips are those of gfx10.3 and gfx11.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.amd.tables import chips, targets
from sparkle_drv.backends.amdgpu import template
from sparkle_drv.errors import DeviceNotFound
from sparkle_drv.types import CacheLevel, DeviceInfo

LDS_NBYTES = 65536
MAX_GROUP_SIZE = 1024
# The most threads in one job of a kernel that was not measured yet. Some versions of the kernel
# driver end jobs after 2 s. On the smallest chip (2 CUs, 128 waves, 2 GHz), a job of this many
# threads takes 0.7 s if each wave takes ten million cycles. Jobs of a measured kernel have as many
# threads as run in JOB_NS.
JOB_THREADS = 1 << 19
JOB_NS = 200_000_000
# Two timestamps in the IB measure each job of at least this many threads. Timestamps cost a few
# microseconds. That would be a large part of a smaller job's time, and falsify the measurement.
MEASURED_THREADS = 1 << 16
KIB = 1024
_LEAST_MINOR = 32  # the least minor version of KMS 3, which has timeline syncobjs
# The least minor version of KMS 3 that has a working EMIT_MEM_SYNC. This IB flag came with KMS
# 3.38, but rings of SDMA 5.2 heed it only from Linux 5.13 on (patch of April 2021). On an older
# Linux, L2 may hold old data when a copy begins. No Linux before 5.13 reports KMS 3.42.
_MEM_SYNC_MINOR = 42


@dataclass(frozen=True)
class Chip:
    """A supported chip. `isa` is the compiler's name, such as "gfx1036". `gfx` names the tables
    that apply to the chip.
    """

    isa: str
    gfx: int


def ask(ops: Any, fd: int, what: str) -> Any:
    """Returns a `struct sp_amdgpu_facts` of an open render node. Raises DeviceNotFound with the
    reason. `what` is the node's name in that message.
    """
    facts, call = ffi.new("struct sp_amdgpu_facts *"), ffi.new("char[]", 64)
    rc = lib.sp_amdgpu_facts(ops, fd, facts, call, len(call))
    driver = ffi.string(facts.driver).decode(errors="replace")
    if rc == -errno.EXDEV:
        raise DeviceNotFound(f"{what}: expected the driver amdgpu, got {driver!r}")
    if rc < 0:
        name = errno.errorcode.get(-rc, str(-rc))
        raise DeviceNotFound(f"{what}: {ffi.string(call).decode()} failed with {name}")
    return facts


def chip(facts: Any, what: str) -> Chip:
    """Returns the render node's chip if it is supported. Raises DeviceNotFound otherwise."""
    isa = chips.target(facts.gfx, facts.device)
    if not isa:
        raise DeviceNotFound(
            f"{what}: expected a chip of gfx10.3 or gfx11, got "
            f"{chips.words(facts.gfx, facts.device)}"
        )
    if facts.major != 3 or facts.minor < _LEAST_MINOR or not facts.timeline:
        raise DeviceNotFound(
            f"{what}: expected amdgpu 3.{_LEAST_MINOR} or newer, which has timeline syncobjs "
            f"(Linux 5.3), got {facts.major}.{facts.minor}"
        )
    if not facts.accel_working or not facts.compute.available_rings:
        raise DeviceNotFound(
            f"{what}: Linux says that acceleration does not work; see why in the kernel log"
        )
    return Chip(isa, targets.gfx_level(isa))


def device_info(
    facts: Any, known: Chip, uri: str, name: str, emulated: bool, slot: str
) -> DeviceInfo:
    """Returns the DeviceInfo of a supported chip."""
    d, memory = facts.device, facts.memory
    apu = bool(d.ids_flags & lib.AMDGPU_IDS_FLAGS_FUSION)
    total = memory.vram.total_heap_size + (memory.gtt.total_heap_size if apu else 0)
    return DeviceInfo(
        uri=uri,
        backend="amdgpu",
        name=name or f"AMD {known.isa} ({d.device_id:#06x})",
        kind="gpu",
        vendor="AMD",
        driver=f"amdgpu {facts.major}.{facts.minor}.{facts.patch}",
        memory_nbytes=total,
        emulated=emulated,
        compute_units=d.cu_active_number,
        max_group_size=MAX_GROUP_SIZE,
        max_groups=(2**31 - 1, 2**31 - 1, 2**31 - 1),
        max_shared_nbytes=LDS_NBYTES,
        isa=known.isa,
        language="rdna",
        caches=_caches(d),
        shares=("cpu",) if emulated else ("ram",) if apu else (),
        features=tuple(n for n, is_so in (("apu", apu), ("f64", True), ("i64", True)) if is_so),
        slot=slot,
    )


def _caches(d: Any) -> tuple[CacheLevel, ...]:
    """Returns the caches: vector L0, L1 of a shader array, L2, and the last-level cache; empty
    before KMS 3.52.
    """
    arrays = max(1, d.num_shader_engines * d.num_shader_arrays_per_engine)
    cus = d.cu_active_number
    sizes = (
        (d.tcp_cache_size * KIB, 1),
        (d.gl1c_cache_size * KIB, -(-cus // arrays)),
        (d.gl2c_cache_size * KIB, cus),
        (d.mall_size, cus),
    )
    return tuple(
        CacheLevel(level, nbytes, sharers)
        for level, (nbytes, sharers) in enumerate(sizes, 1)
        if nbytes
    )


def setup(facts: Any, known: Chip) -> Any:
    """Returns a `struct sp_amdgpu_setup` of a device."""
    d = facts.device
    out = ffi.new("struct sp_amdgpu_setup *")
    out.gfx, out.engines, out.cus = known.gfx, d.num_shader_engines, d.cu_active_number
    out.va_begin, out.va_end = d.virtual_address_offset, d.virtual_address_max
    out.va_align = max(d.virtual_address_alignment, 4096)
    out.counter_khz = d.gpu_counter_freq
    out.on_board = not d.ids_flags & lib.AMDGPU_IDS_FLAGS_FUSION
    out.job_threads, out.job_ns, out.measured_threads = JOB_THREADS, JOB_NS, MEASURED_THREADS
    out.dma = bool(facts.dma.available_rings) and facts.minor >= _MEM_SYNC_MINOR
    out.vram_nbytes = facts.memory.vram.total_heap_size
    out.visible_nbytes = facts.memory.cpu_accessible_vram.total_heap_size
    out.gtt_nbytes = facts.memory.gtt.total_heap_size
    template.fill_setup(out, known.gfx, d.num_shader_engines, facts.me_feature)
    return out
