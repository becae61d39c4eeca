"""Which addresses reach memory: the halves of the address space, and offsets of buffers.

When this fails, a kernel that reads a wrong address passes on the emulator.
"""

from __future__ import annotations

import numpy as np
import pytest
from wavekit import INTS, run_lanes

U32 = np.uint32
L = np.arange(32)


ANY_ADDRESS = """
s_and_b32 s11, s1, 0xffff
s_mov_b32 s10, s0
s_load_dword s12, s[10:11], 0x4
global_load_dword v10, v20, s[10:11]
v_mov_b32 v8, s11
v_add_co_u32 v7, vcc_lo, s10, v20
v_add_co_ci_u32 v8, vcc_lo, 0, v8, vcc_lo
flat_load_dword v11, v[7:8]
s_and_b32 s13, s3, 0xffff
s_waitcnt vmcnt(0) lgkmcnt(0)
v_mov_b32 v12, s12
s_mov_b32 s3, s13
"""


HIGH = (0xFFFF_8000_1000_0000, 0xFFFF_8000_2000_0000)


def test_addresses_whose_upper_bits_are_zero(warm):
    """The upper half of the address space can be reached with bits 63:48 clear: bit 47 is extended.

    Source: Mesa's si_compute.c. It passes the arguments of Clover's programs so: the upper dword
    has the 16 bits that a descriptor has. The EPILOGUE stores through such an address.
    """
    chip, gpu = warm
    a = INTS[0][:32]
    loaded, flat, scalar, _ = run_lanes(gpu, chip, ANY_ADDRESS, [a], at=HIGH)
    np.testing.assert_array_equal(loaded, a)
    np.testing.assert_array_equal(flat, a)
    assert set(scalar) == {a[1]}


@pytest.mark.parametrize("change", ["s_or_b32 s11, s11, 0x10000", "s_xor_b32 s11, s1, 0x10000"])
def test_other_upper_bits_are_no_address(card, change):
    """One bit of 63:48 that differs from the others: a pointer that somebody spoilt."""
    chip, gpu = card
    body = f"s_and_b32 s11, s1, 0xffff\n{change}\ns_mov_b32 s10, s0"
    with pytest.raises(OSError, match="unmapped"):
        run_lanes(
            gpu, chip, f"{body}\nglobal_load_dword v10, v20, s[10:11]", [L.astype(U32)], at=HIGH
        )


def test_offsets_of_buffers_wrap_at_32_bits(warm):
    """Source: addr_calc_buffer.h of ROCm's rocjitsu: VADDR and OFFSET are added in 32 bits."""
    chip, gpu = warm
    word3 = 0x31016FAC if chip == "gfx1100" else 0x31014FAC
    body = f"""
    s_mov_b32 s12, s0
    s_and_b32 s13, s1, 0xffff
    s_movk_i32 s14, 128
    s_mov_b32 s15, {word3:#x}
    v_sub_nc_u32 v7, v20, 64
    buffer_load_dword v10, v7, s[12:15], 0 offen offset:64
    s_waitcnt vmcnt(0)
    """
    a = INTS[0][60:92]
    raw, *_ = run_lanes(gpu, chip, body, [a])
    np.testing.assert_array_equal(raw, a)
