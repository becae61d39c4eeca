"""Units in which RSRC1 and RSRC2 count registers and LDS: the VGPR granule, the LDS granule.

The emulator (native/emu/cp/launch.c) and native/amdgpu/submit/encode.c have numbers of their own.
"""

from __future__ import annotations

LDS_MOST = 65536
"""Bytes of LDS that one workgroup can have, gfx9 to gfx12."""
LDS_GRANULE = 512
"""Bytes that COMPUTE_PGM_RSRC2.LDS_SIZE counts by, gfx9 to gfx12."""


def vgpr_granule(wave: int) -> int:
    """The number of VGPRs in one unit of COMPUTE_PGM_RSRC1.VGPRS, in a wave of 32 or 64 lanes.

    The field holds the units minus one. GRANULATED_WORKITEM_VGPR_COUNT of LLVM's AMDGPU usage
    guide, gfx10 to gfx12.
    """
    return 8 if wave == 32 else 4


def lds_units(nbytes: int) -> int:
    """COMPUTE_PGM_RSRC2.LDS_SIZE of a workgroup that uses `nbytes` bytes of LDS."""
    return -(-nbytes // LDS_GRANULE)
