"""A complete dispatch as registers and dwords, for tests that spoil one thing of it."""

from __future__ import annotations

from sparkle_drv.testing import emulated_dispatch

REGISTERS = {
    "PGM_LO": 0x12345, "PGM_HI": 0x80, "PGM_RSRC1": 0x60AF0040, "PGM_RSRC2": 0x8C,
    "NUM_THREAD_X": 64, "NUM_THREAD_Y": 1, "NUM_THREAD_Z": 1, "USER_DATA_0": 7,
}  # fmt: skip
INITIATOR = 0x8005
ENDPGM = {10: 0xBF810000, 11: 0xBFB00000}  # s_endpgm, the whole program
CODE = 0xFFFF8000_01234500  # of PGM_LO and PGM_HI


def registers(gfx, **changes):
    """COMPUTE_ registers of a whole dispatch; a change to None leaves one out."""
    return emulated_dispatch.registers(gfx, **{**REGISTERS, **changes})


def stream(gfx, groups=(2, 1, 1), initiator=INITIATOR, header=None, **changes):
    return emulated_dispatch.dispatch(gfx, groups, initiator, header, **{**REGISTERS, **changes})


def program(rig):
    """A buffer with the program at CODE."""
    buffer = rig.buffer(4096, va=CODE & ~0xFFF)
    buffer.write([ENDPGM[rig.gfx]] * 64, CODE % 4096 // 4)
    return buffer


def traced(rig):
    """What the command processor handed to the waves, one line a dispatch."""
    return [line.strip() for line in rig.machine.trace if line.strip().startswith("groups ")]
