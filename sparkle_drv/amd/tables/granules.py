"""Units in which RSRC1 and RSRC2 count registers and LDS: the VGPR granule and the LDS granule.

The emulator (native/emu/cp/launch.c) and native/amdgpu/submit/encode.c have their own copies of
these numbers.
"""

from __future__ import annotations

LDS_MOST = 65536
"""Bytes of LDS that one workgroup can have, gfx9 to gfx12."""
LDS_GRANULE = 512
"""Bytes that COMPUTE_PGM_RSRC2.LDS_SIZE counts by, gfx9 to gfx12."""


def vgpr_granule(wave: int) -> int:
    """Returns the number of VGPRs in one unit of COMPUTE_PGM_RSRC1.VGPRS, for a wave of 32 or 64
    lanes.

    The field holds the number of units minus one. It is GRANULATED_WORKITEM_VGPR_COUNT of LLVM's
    AMDGPU usage guide, gfx10 to gfx12.
    """
    return 8 if wave == 32 else 4


def lds_units(nbytes: int) -> int:
    """Returns the value of COMPUTE_PGM_RSRC2.LDS_SIZE for a workgroup that uses `nbytes` bytes of
    LDS.
    """
    return -(-nbytes // LDS_GRANULE)
