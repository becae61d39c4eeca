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


RAW = {"gfx1036": 0x31014FAC, "gfx1100": 0x31016FAC}  # OOB_SELECT 3, INDEX_STRIDE 8 lanes


def descriptor(chip, records, high="s_and_b32 s13, s1, 0xffff"):
    return f"""
    s_mov_b32 s12, s0
    {high}
    s_mov_b32 s14, {records}
    s_mov_b32 s15, {RAW[chip]:#x}
    """


def test_a_descriptor_without_index_is_linear(warm):
    """RADV takes the upper half of a program counter, 0xffff8000, as word 1 of the descriptor of
    shader constants (visit_load_constant of ACO): STRIDE and SWIZZLE_ENABLE are set there.
    """
    chip, gpu = warm
    body = (
        descriptor(chip, 128, "s_or_b32 s13, s1, 0xffff0000")
        + """
    buffer_load_dword v10, v20, s[12:15], 0 offen
    buffer_load_dwordx2 v[11:12], off, s[12:15], 0 offset:120
    s_waitcnt vmcnt(0)
    """
    )
    a = INTS[0][:32]
    each, low, high, _ = run_lanes(gpu, chip, body, [a], at=HIGH)
    np.testing.assert_array_equal(each, a)
    assert (set(low), set(high)) == ({a[30]}, {a[31]})


@pytest.mark.parametrize("size", [4, 16])
def test_swizzled_buffers(warm, size):
    """Source: "Swizzled Buffer Addressing" of the ISA documents. gfx10 has elements of 4 bytes."""
    chip, gpu = warm
    if chip != "gfx1100" and size == 16:
        pytest.skip("gfx10 has elements of 4 bytes only")
    stride, index, offset = 32, L % 16, 20
    field = {"gfx1036": 1 << 31, "gfx1100": (1 if size == 4 else 3) << 30}[chip]
    body = (
        descriptor(chip, 1 << 20, f"s_or_b32 s13, s1, {field | stride << 16:#x}")
        + f"""
    v_and_b32 v7, 15, v0
    buffer_load_dword v10, v7, s[12:15], 0 idxen offset:{offset}
    buffer_load_dwordx2 v[11:12], v7, s[12:15], 0 idxen offset:{offset}
    s_waitcnt vmcnt(0)
    """
    )
    inputs = [INTS[0][32 * k : 32 * k + 64] for k in range(8)]
    memory = np.zeros(2048 // 4, U32)
    for k, values in enumerate(inputs):
        memory[64 * k : 64 * k + 32] = values[:32]
    got = run_lanes(gpu, chip, body, [values[:32] for values in inputs], at=(None, None))

    def place(at):
        return ((index // 8 * stride + at // size * size) * 8 + index % 8 * size + at % size) // 4

    np.testing.assert_array_equal(got[0], memory[place(offset)])
    np.testing.assert_array_equal(got[1], memory[place(offset)])
    np.testing.assert_array_equal(got[2], memory[place(offset + 4)])


def test_each_dword_of_a_load_has_its_own_range_check(warm):
    """Source: RDNA ISA documents, range checking of load/store-dword-x{2,3,4}."""
    chip, gpu = warm
    body = (
        descriptor(chip, 100)
        + """
    buffer_load_dwordx4 v[10:13], v20, s[12:15], 0 offen
    s_waitcnt vmcnt(0)
    """
    )
    a = INTS[0][:32]
    for k, got in enumerate(run_lanes(gpu, chip, body, [a])):
        inside = 4 * (L + k) + 4 <= 100
        np.testing.assert_array_equal(got, np.where(inside, np.roll(a, -k), 0))


def test_each_dword_of_a_store_has_its_own_range_check(warm):
    chip, gpu = warm
    vscnt = "s_waitcnt_vscnt null, 0x0"
    body = f"""
    s_add_u32 s12, s2, 1024
    s_and_b32 s13, s3, 0xffff
    s_movk_i32 s14, 12
    s_mov_b32 s15, {RAW[chip]:#x}
    v_mov_b32 v7, 0
    v_mov_b32 v8, 7
    v_mov_b32 v9, 7
    v_mov_b32 v16, 0
    v_mov_b32 v17, 0
    v_mov_b32 v18, 0
    v_mov_b32 v19, 0
    global_store_dwordx4 v7, v[16:19], s[2:3] offset:1024
    {vscnt}
    s_mov_b32 exec_lo, 1
    v_mov_b32 v10, 5
    v_mov_b32 v11, 6
    v_mov_b32 v12, 7
    v_mov_b32 v13, 8
    buffer_store_dwordx4 v[10:13], off, s[12:15], 0
    {vscnt}
    global_load_dwordx4 v[10:13], v7, s[2:3] offset:1024
    s_waitcnt vmcnt(0)
    """
    got = run_lanes(gpu, chip, body, [L.astype(U32)], sink_rights="rw")
    assert [int(values[0]) for values in got] == [5, 6, 7, 0]
