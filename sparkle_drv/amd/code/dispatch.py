"""Encodes the beginning of an IB of the compute queue, and one dispatch with every register that
the dispatch depends on. No other module defines these packets. The amdgpu backend's template.py
uses them for the IBs of a device.

The registers of a hardware queue keep the values of other processes. So every register is written.
AMDGPU_FACTS 4.4 gives the order of the writes; tests/golden compares them dword by dword. The
caller has uploaded the code and the arguments, as codeobject.py describes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkle_drv.amd.tables import pm4, regs
from sparkle_drv.amd.tables.bits import U32_MAX, level

from .codeobject import CodeObject

ALL_CACHES = 0xC3F1  # GCR_CNTL: invalidates all caches, instruction caches too, and writes L2 back
CS_PARTIAL_FLUSH = 0x407
# Registers that our dispatches do not use, and that another process may have left set.
QUIET = (
    "COMPUTE_PERFCOUNT_ENABLE", "COMPUTE_THREAD_TRACE_ENABLE",
    "COMPUTE_RESTART_X", "COMPUTE_RESTART_Y", "COMPUTE_RESTART_Z",
)  # fmt: skip
EVERY_CU = 0xFFFFFFFF
INTERLEAVE = 64  # the value that RADV writes
COHER_START_DELAY = 0x20  # the value for gfx10.x, as in Mesa and PAL


@dataclass(frozen=True)
class Scratch:
    """Scratch memory of a queue: its address, and the number of waves that it holds. On gfx11 the
    number is per shader engine.
    """

    va: int = 0
    waves: int = 0


def _halves(va: int, shift: int = 0) -> tuple[int, int]:
    """Returns the low and the high dword of a 48-bit address, shifted right by `shift` bits."""
    va = (va & (1 << 48) - 1) >> shift
    return va & U32_MAX, va >> 32


def common(gfx: float, engines: int) -> dict[str, int]:
    """Returns the registers that have the same value in every dispatch of a device with this number
    of shader engines.
    """
    g = level(gfx)
    masks = [EVERY_CU if n < engines else 0 for n in range(8)]
    out = {} if g != 10 else {"CP_COHER_START_DELAY": COHER_START_DELAY}
    # COMPUTE_STATIC_THREAD_MGMT_SE1 and SE2 are not neighbours: TMPRING_SIZE lies between them.
    for n in range(8 if g == 11 else 4):
        out[f"COMPUTE_STATIC_THREAD_MGMT_SE{n}"] = masks[n]
    if g == 11:
        out["COMPUTE_DISPATCH_INTERLEAVE"] = INTERLEAVE
    out |= {f"COMPUTE_USER_ACCUM_{n}": 0 for n in range(4)}
    out["COMPUTE_DISPATCH_TUNNEL"] = 0
    return out


def begin(gfx: float, engines: int) -> list[int]:
    """Returns the dwords at the start of every IB: cache invalidation, then writes of the registers
    that have the same value in every dispatch.
    """
    packets = pm4.AcquireMem.encode(gfx=gfx, gcr=ALL_CACHES)
    alone: dict[str, int] = {}
    for name, value in common(gfx, engines).items():
        # COMPUTE_DISPATCH_INTERLEAVE follows COMPUTE_STATIC_THREAD_MGMT_SE7 directly, so one packet
        # could write both. It has a packet of its own, as in the listing of AMDGPU_FACTS 4.4.
        if name == "COMPUTE_DISPATCH_INTERLEAVE":
            packets += pm4.set_registers(alone, gfx=gfx)
            alone = {}
        alone[name] = value
    quiet = {name: 0 for name in QUIET}
    return packets + pm4.set_registers(alone, gfx=gfx) + pm4.set_registers(quiet, gfx=gfx)


def flush(gfx: float) -> list[int]:
    """Returns the packets that wait for all waves of the queue."""
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
    """Returns the COMPUTE_* registers and values of one dispatch, in the order in which they are
    written. Leaves out registers that have the same value in every dispatch. `code_va` is the GPU
    address of the image.
    """
    g = level(gfx)
    memory = scratch or Scratch()
    if code.scratch_nbytes and not memory.waves:
        raise ValueError(
            f"scratch: {code.entry_name} needs {code.scratch_wave_nbytes} bytes per wave, got none"
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
    """Returns a whole IB: the packets that `begin` returns, writes of registers, the dispatch, a
    wait until all waves have ended, and padding to 8 dwords. `engines` is the number of shader
    engines of the chip.
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
