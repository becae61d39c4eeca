"""One compute dispatch as an IB for an emulated card, with every register that it needs.

Tests and benchmarks of the emulator use this module for their own programs. It encodes by the
packet and register tables. The backend does not use it: backends/amdgpu/template.py makes the
backend's packets, which also handle caches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..lowlevel import pm4, regs

__all__ = ["dispatch", "launch", "registers"]

# Registers that are the same for every launch: all CUs are allowed, user accumulators are 0, and no
# resource limit is set.
REGISTERS: dict[str, int] = {
    **{f"STATIC_THREAD_MGMT_SE{n}": 0xFFFFFFFF for n in range(4)},
    **{f"USER_ACCUM_{n}": 0 for n in range(4)},
    "PGM_RSRC3": 0, "RESOURCE_LIMITS": 0,
}  # fmt: skip
GFX11: dict[str, int] = {
    **{f"STATIC_THREAD_MGMT_SE{n}": 0xFFFFFFFF for n in range(4, 8)},
    "DISPATCH_INTERLEAVE": 64,
}


def registers(gfx: int, **changes: int | None) -> dict[str, int]:
    """Returns the COMPUTE_ registers of a launch by full name. A None in `changes` omits one."""
    named = {**REGISTERS, **(GFX11 if gfx == 11 else {}), **changes}
    return {f"COMPUTE_{name}": value for name, value in named.items() if value is not None}


def dispatch(
    gfx: int,
    groups: Sequence[int],
    initiator: int,
    header: Mapping[str, int] | None = None,
    **changes: int | None,
) -> list[int]:
    """Returns dwords that set `registers(gfx, **changes)` and launch a 3-dimensional grid of
    groups.
    """
    x, y, z = groups
    return pm4.set_registers(registers(gfx, **changes), gfx=gfx) + pm4.DispatchDirect.encode(
        gfx=gfx, dim_x=x, dim_y=y, dim_z=z, initiator=initiator, header=header
    )


def launch(
    gfx: int,
    *,
    code: int,
    rsrc1: int,
    rsrc2: int,
    rsrc3: int = 0,
    user: Sequence[int] = (),
    groups: Sequence[int] = (1, 1, 1),
    size: Sequence[int] = (32, 1, 1),
    wave: int = 32,
    tmpring: int = 0,
    scratch: int = 0,
    start: Sequence[int] = (0, 0, 0),
    partial: Sequence[int] | None = None,
) -> list[int]:
    """Returns the dwords of a dispatch of the program at `code`.

    `user` has the dwords of USER_DATA. `groups` has the numbers of groups; if `start` is not 0, it
    has the ends of the ranges that begin at `start`. `size` has the threads of a group in each
    dimension, `partial` those of the last group. `wave` is 32 or 64. `scratch` is the
    address of the memory that TMPRING_SIZE describes (gfx11).
    """
    threads = regs.find("COMPUTE_NUM_THREAD_X")
    last = partial or size
    changes = {
        "PGM_LO": code >> 8 & 0xFFFFFFFF, "PGM_HI": code >> 40 & 0xFF,
        "PGM_RSRC1": rsrc1, "PGM_RSRC2": rsrc2, "PGM_RSRC3": rsrc3, "TMPRING_SIZE": tmpring,
        **{f"START_{axis}": start[i] for i, axis in enumerate("XYZ")},
        **{f"NUM_THREAD_{axis}": threads.encode(gfx=gfx, FULL=size[i], PARTIAL=last[i])
           for i, axis in enumerate("XYZ")},
        **{f"USER_DATA_{n}": value & 0xFFFFFFFF for n, value in enumerate(user)},
    }  # fmt: skip
    if gfx == 11:
        changes["DISPATCH_SCRATCH_BASE_LO"] = scratch >> 8 & 0xFFFFFFFF
        changes["DISPATCH_SCRATCH_BASE_HI"] = scratch >> 40 & 0xFF
    initiator = regs.find("COMPUTE_DISPATCH_INITIATOR").encode(
        gfx=gfx, COMPUTE_SHADER_EN=1, PARTIAL_TG_EN=int(bool(partial)), CS_W32_EN=int(wave == 32)
    )
    return dispatch(gfx, groups, initiator, None, **changes)
