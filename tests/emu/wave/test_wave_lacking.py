"""The instructions that the emulated waves do not execute are listed here, and compute uses none of
them.

When this fails, the emulator skips an instruction that compute kernels use.
"""

from __future__ import annotations

import re

import pytest

from sparkle_drv.testing.emulated_isa import lacking

# Pattern of FORMAT and name: why an instruction may be without a function.
REASONS = {
    r"EXP exp": "export: a pixel or vertex shader's result",
    r"(VINTRP|VOP3) v_interp_.*": "RDNA2's interpolation reads parameters of a pixel shader in LDS",
    r"LDSDIR lds_param_load": "parameters of a pixel shader",
    r"SOPP s_endpgm_ordered_ps_done": "order of pixel shaders",
    r"DS ds_bvh_stack_rtn_b32": "ray tracing: the stack of IMAGE_BVH_INTERSECT_RAY",
    r"MIMG image_(sample|gather4|get_lod|bvh|msaa_load).*": "filters, several samples, ray tracing",
}


@pytest.mark.parametrize("gfx", ["gfx1036", "gfx1100", "gfx1150"])
def test_what_is_lacking_has_a_reason(gfx):
    found = lacking(gfx)
    assert "exp" in found["EXP"]
    for form, names in found.items():
        for name in names:
            assert any(re.fullmatch(one, f"{form} {name}") for one in REASONS), f"{form} {name}"


def test_the_newer_chip_lacks_no_more():
    assert lacking("gfx1150") == lacking("gfx1100")


def test_an_unknown_chip():
    with pytest.raises(ValueError, match="expected gfx1030"):
        lacking("gfx900")
