"""A complete dispatch as registers and dwords, for tests that spoil one thing of it."""

from __future__ import annotations

from sparkle_drv.lowlevel import pm4

REGISTERS = {
    **{f"STATIC_THREAD_MGMT_SE{n}": 0xFFFFFFFF for n in range(4)},
    **{f"USER_ACCUM_{n}": 0 for n in range(4)},
    "PGM_LO": 0x12345, "PGM_HI": 0x80, "PGM_RSRC1": 0x60AF0040, "PGM_RSRC2": 0x8C,
    "PGM_RSRC3": 0, "RESOURCE_LIMITS": 0, "NUM_THREAD_X": 64, "NUM_THREAD_Y": 1,
    "NUM_THREAD_Z": 1, "USER_DATA_0": 7,
}  # fmt: skip
GFX11 = {
    **{f"STATIC_THREAD_MGMT_SE{n}": 0xFFFFFFFF for n in range(4, 8)},
    "DISPATCH_INTERLEAVE": 64,
}
INITIATOR = 0x8005
ENDPGM = {10: 0xBF810000, 11: 0xBFB00000}  # s_endpgm, the whole program
CODE = 0xFFFF8000_01234500  # of PGM_LO and PGM_HI


def registers(gfx, **changes):
    """COMPUTE_ registers of a whole dispatch; a change to None leaves one out."""
    named = {**REGISTERS, **(GFX11 if gfx == 11 else {}), **changes}
    return {f"COMPUTE_{name}": value for name, value in named.items() if value is not None}


def stream(gfx, groups=(2, 1, 1), initiator=INITIATOR, header=None, **changes):
    x, y, z = groups
    return pm4.set_registers(registers(gfx, **changes), gfx=gfx) + pm4.DispatchDirect.encode(
        gfx=gfx, dim_x=x, dim_y=y, dim_z=z, initiator=initiator, header=header
    )


def program(rig):
    """A buffer with the program at CODE."""
    buffer = rig.buffer(4096, va=CODE & ~0xFFF)
    buffer.write([ENDPGM[rig.gfx]] * 64, CODE % 4096 // 4)
    return buffer


def traced(rig):
    """What the command processor handed to the waves, one line a dispatch."""
    return [line.strip() for line in rig.machine.trace if line.strip().startswith("groups ")]
