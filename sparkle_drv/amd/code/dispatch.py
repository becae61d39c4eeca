"""The beginning of an IB of the compute queue, and one dispatch with every register it depends on.
Only this module says so; template.py assembles the device's own IBs.

Registers of a hardware queue keep other processes' values, so every one is written. The order is
that of AMDGPU_FACTS 4.4; tests/golden compares it dword by dword. The caller has uploaded the code
and the arguments; codeobject.py says how.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkle_drv.amd.tables import pm4, regs
from sparkle_drv.amd.tables.bits import U32_MAX, level

from .codeobject import CodeObject

ALL_CACHES = 0xC3F1  # GCR_CNTL: everything invalidated, instructions too, L2 written back
CS_PARTIAL_FLUSH = 0x407
# Registers that another process may have left set and that our dispatches do not use.
QUIET = (
    "COMPUTE_PERFCOUNT_ENABLE", "COMPUTE_THREAD_TRACE_ENABLE",
    "COMPUTE_RESTART_X", "COMPUTE_RESTART_Y", "COMPUTE_RESTART_Z",
)  # fmt: skip
EVERY_CU = 0xFFFFFFFF
INTERLEAVE = 64  # RADV's value
COHER_START_DELAY = 0x20  # gfx10.x, Mesa and PAL


@dataclass(frozen=True)
class Scratch:
    """Scratch memory of a queue: its address, and the number of waves that it holds (on gfx11 per
    shader engine)."""

    va: int = 0
    waves: int = 0


def _halves(va: int, shift: int = 0) -> tuple[int, int]:
    """(low, high) dwords of a 48-bit address, shifted right."""
    va = (va & (1 << 48) - 1) >> shift
    return va & U32_MAX, va >> 32


def common(gfx: float, engines: int) -> dict[str, int]:
    """The registers that are equal in every dispatch of a device with so many shader engines."""
    g = level(gfx)
    masks = [EVERY_CU if n < engines else 0 for n in range(8)]
    out = {} if g != 10 else {"CP_COHER_START_DELAY": COHER_START_DELAY}
    # TMPRING_SIZE stands between SE1 and SE2, so they are not neighbours.
    for n in range(8 if g == 11 else 4):
        out[f"COMPUTE_STATIC_THREAD_MGMT_SE{n}"] = masks[n]
    if g == 11:
        out["COMPUTE_DISPATCH_INTERLEAVE"] = INTERLEAVE
    out |= {f"COMPUTE_USER_ACCUM_{n}": 0 for n in range(4)}
    out["COMPUTE_DISPATCH_TUNNEL"] = 0
    return out


def begin(gfx: float, engines: int) -> list[int]:
    """The start of every IB: caches, then registers that are equal in every dispatch."""
    packets = pm4.AcquireMem.encode(gfx=gfx, gcr=ALL_CACHES)
    alone: dict[str, int] = {}
    for name, value in common(gfx, engines).items():
        if name == "COMPUTE_DISPATCH_INTERLEAVE":  # a neighbour of SE7, yet it needs its own packet
            packets += pm4.set_registers(alone, gfx=gfx)
            alone = {}
        alone[name] = value
    quiet = {name: 0 for name in QUIET}
    return packets + pm4.set_registers(alone, gfx=gfx) + pm4.set_registers(quiet, gfx=gfx)


def flush(gfx: float) -> list[int]:
    """Waits for all waves of the queue."""
    return pm4.EventWrite.encode(gfx=gfx, event=CS_PARTIAL_FLUSH)


def registers(
    code: CodeObject,
    *,
    gfx: float,
    code_va: int,
    kernarg_va: int,
    group_size: Sequence[int],
    shared: int = 0,
    scratch: Scratch | None = None,
) -> dict[str, int]:
    """COMPUTE_* registers and values of one dispatch beside `common`, in the order of their
    writing. `code_va` is the address of the image.
    """
    g = level(gfx)
    memory = scratch or Scratch()
    if code.scratch_nbytes and not memory.waves:
        raise ValueError(
            f"scratch: {code.entry_name} needs {code.scratch_wave_nbytes} bytes per wave"
        )
    out = dict(
        zip(("COMPUTE_PGM_LO", "COMPUTE_PGM_HI"), _halves(code_va + code.entry, 8), strict=True)
    )
    out["COMPUTE_PGM_RSRC1"] = code.rsrc1
    out["COMPUTE_PGM_RSRC2"] = code.rsrc2_for(shared)
    out["COMPUTE_PGM_RSRC3"] = code.rsrc3
    out["COMPUTE_RESOURCE_LIMITS"] = 0
    out["COMPUTE_TMPRING_SIZE"] = regs.COMPUTE_TMPRING_SIZE.encode(
        gfx=g,
        WAVES=memory.waves if code.scratch_nbytes else 0,
        WAVESIZE=code.scratch_wavesize,
    )
    if g == 11 and code.scratch_nbytes:
        low, high = _halves(memory.va, 8)
        out["COMPUTE_DISPATCH_SCRATCH_BASE_LO"] = low
        out["COMPUTE_DISPATCH_SCRATCH_BASE_HI"] = high
    out |= {f"COMPUTE_START_{axis}": 0 for axis in "XYZ"}
    out |= {f"COMPUTE_NUM_THREAD_{a}": n for a, n in zip("XYZ", group_size, strict=True)}
    user = code.user_sgprs.values(
        kernarg=kernarg_va,
        scratch=memory.va,
        scratch_lane_nbytes=code.scratch_nbytes,
        wave=code.wave,
        gfx=g,
    )
    return out | {f"COMPUTE_USER_DATA_{i}": value for i, value in enumerate(user)}


def encode(
    code: CodeObject,
    *,
    gfx: float,
    code_va: int,
    kernarg_va: int,
    groups: Sequence[int],
    group_size: Sequence[int],
    shared: int = 0,
    scratch: Scratch | None = None,
    engines: int = 1,
) -> list[int]:
    """The IB: `begin`, registers, dispatch, wait until idle; padded to 8 dwords. `engines` is the
    number of shader engines of the chip.
    """
    x, y, z = groups
    named = registers(
        code, gfx=gfx, code_va=code_va, kernarg_va=kernarg_va, group_size=group_size, shared=shared,
        scratch=scratch,
    )  # fmt: skip
    dispatch = pm4.DispatchDirect.encode(
        gfx=gfx, dim_x=x, dim_y=y, dim_z=z, initiator=code.initiator
    )
    body = begin(gfx, engines) + pm4.set_registers(named, gfx=gfx) + dispatch + flush(gfx)
    return pm4.pad(body, gfx=gfx)
