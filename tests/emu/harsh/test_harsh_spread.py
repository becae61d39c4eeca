"""Poison in the ALU: it spreads to the bits that depend on it, and is found where it decides.

When this fails, an uninitialised register decides a result, and no test notices.
"""

from __future__ import annotations

import re

import pytest
from cachekit import CHIPS, UC, code, run

pytestmark = pytest.mark.parametrize("chip", CHIPS)

# v2: nobody has written it. v3: its low half is 5, the high one is what v2 has. s10: a mask of
# which lane 0 is defined.
HEAD = """
v_mov_b32 v1, 0
global_load_dword v2, v1, s[0:1]
s_waitcnt vmcnt(0)
v_mov_b32 v4, 5
v_and_b32 v3, 0xffff0000, v2
v_or_b32 v3, v3, v4
s_and_not1_b32 s10, s25, exec_lo
"""
TAIL = "\nglobal_store_dword v1, v2, s[2:3] offset:4\nglobal_store_dword v1, v5, s[2:3]\ns_endpgm\n"
LOADED = r"which global_load_\w+ at pc 0x\w+ loaded from memory 0x\w+ that was never written"
COMPARE = "\nv_cmp_eq_u32 vcc_lo, v5, v4"

DECISIONS = {
    "a sum": (f"v_add_nc_u32 v5, v2, v4{COMPARE}", f"reads v5, {LOADED}"),
    "a sum of what nobody has written": (
        f"v_add_nc_u32 v5, v9, v4{COMPARE}",
        r"reads v5, which v_add_nc_u32 at pc 0x\w+ computed from v9 that was never written",
    ),
    "the half that is poison": (f"v_lshrrev_b32 v5, 16, v3{COMPARE}", f"reads v5, {LOADED}"),
    "a carry out of the poisoned half": (f"v_add_nc_u32 v5, 0x10000, v3{COMPARE}", f"v5, {LOADED}"),
    "a float": ("v_mul_f32 v5, v2, v4\nv_cmp_lt_f32 vcc_lo, v5, v4", f"reads v5, {LOADED}"),
    "a packed sum, by its high half": (
        f"v_pk_add_u16 v5, v3, v4\nv_lshrrev_b32 v5, 16, v5{COMPARE}",
        f"reads v5, {LOADED}",
    ),
    "the high half of a shifted pair": (
        "v_mov_b32 v8, 1\nv_mov_b32 v9, v2\nv_lshlrev_b64 v[6:7], 2, v[8:9]\nv_mov_b32 v5, v7"
        + COMPARE,
        f"reads v5, {LOADED}",
    ),
    "a carry": (
        "v_add_co_u32 v5, vcc_lo, v2, v4\nv_add_co_ci_u32 v5, vcc_lo, v4, v4, vcc_lo" + COMPARE,
        f"reads v5, {LOADED}",
    ),
    "a mask that a carry makes": (
        "v_add_co_u32 v5, vcc_lo, v2, v4\nv_cndmask_b32 v5, v4, v4, vcc_lo",
        f"v_cndmask_b32 reads vcc_lo, {LOADED}",
    ),
    "a scalar sum": (
        "v_readfirstlane_b32 s11, v2\ns_lshl_b32 s11, s11, 1\ns_cmp_eq_u32 s11, 2",
        f"reads s11, {LOADED}",
    ),
    "through LDS's crossbar": (
        f"ds_swizzle_b32 v5, v2 offset:0x1f\ns_waitcnt lgkmcnt(0){COMPARE}",
        f"reads v5, {LOADED}",
    ),
    "an address": ("v_lshlrev_b32 v5, 2, v2\nglobal_load_dword v5, v5, s[0:1]", f"v5, {LOADED}"),
    "lanes of a mask in EXEC": ("s_or_b32 exec_lo, exec_lo, s10", "reads s10, which s_and_not1"),
    "a branch on a mask": ("s_mov_b32 vcc_lo, s10\ns_cbranch_vccnz 0", "reads vcc_lo, which s_and"),
    "a bit that is poison": ("s_bitcmp1_b32 s10, 3", "reads s10, which s_and_not1_b32"),
    "the lane that is read": ("v_readlane_b32 s11, v4, s10", "v_readlane_b32 reads s10, which"),
    "M0, as an index": ("s_mov_b32 m0, s10\nv_movrels_b32 v5, v4", "v_movrels_b32 reads m0, which"),
}  # fmt: skip

USES = {
    "a half": f"v_and_b32 v5, 0xffff, v3{COMPARE}",
    "a packed sum, by its low half": f"v_pk_add_u16 v5, v3, v1\nv_and_b32 v5, 0xffff, v5{COMPARE}",
    "a sum, by its low half": f"v_add_nc_u32 v5, v3, v1\nv_and_b32 v5, 0xffff, v5{COMPARE}",
    "a half as a float": (
        "v_pk_max_u16 v5, v3, v1\nv_and_b32 v5, 0xffff, v5\nv_cmp_lt_f16 vcc_lo, v3, v4" + COMPARE
    ),
    "what a mask does not choose": (
        "s_mov_b32 vcc_lo, 0\nv_cndmask_b32 v5, v4, v2, vcc_lo" + COMPARE
    ),
    "the low half of a shifted pair": (
        "v_mov_b32 v8, 5\nv_mov_b32 v9, v2\nv_lshlrev_b64 v[6:7], 0, v[8:9]\nv_mov_b32 v5, v6"
        + COMPARE
    ),
    "nothing times poison": f"v_mul_lo_u32 v5, v1, v2\nv_or_b32 v5, v5, v4{COMPARE}",
    "poison from itself": f"v_xor_b32 v5, v2, v2\nv_or_b32 v5, v5, v4{COMPARE}",
    "poison that is stored": "v_add_nc_u32 v2, v2, v4\nv_mov_b32 v5, 5",
    "lanes of a mask": (
        "s_and_b32 s11, s10, exec_lo\ns_or_b32 s11, s11, 5\ns_cmp_eq_u32 s11, 5\n"
        "s_cselect_b32 s11, 5, 6\nv_mov_b32 v5, s11"
    ),
    "a mask, for lanes that it has": f"v_cndmask_b32 v5, v4, v2, s10{COMPARE}",
    "a bit": "s_bitcmp1_b32 s10, 0\ns_cselect_b32 s11, 6, 5\nv_mov_b32 v5, s11",
}


def do(rig, body):
    """(the fault, the first dword that is stored) of a program that loads a page of new VRAM."""
    new, out = rig.gpu.create(4096, "vram"), rig.buffer(4096, rights=UC)
    new.va = rig.gpu.take_va(4096)
    rig.gpu.va("MAP", new, new.va, new.nbytes)
    program = code(rig, HEAD + body + TAIL)
    fault = rig.run(run(rig, program, new.va, out.va), program, new, out)
    return fault, out.words()[0]


@pytest.mark.parametrize("what", DECISIONS)
def test_it_may_not_decide(rig, what):
    body, said = DECISIONS[what]
    fault, _ = do(rig, body)
    assert fault is not None
    assert fault.kind == "uninitialised", fault
    assert re.search(said, fault.text), fault.text


@pytest.mark.parametrize("what", USES)
def test_what_does_not_depend_on_it_is_defined(rig, what):
    assert do(rig, USES[what]) == (None, 5)


# A and B are ones, but row 3 of A and column 3 of B are what nobody has written. Row m of the
# product is in register m / 2, lanes 16 * (m % 2) and following; column n in lane n of those.
PRODUCT = (
    "v_readfirstlane_b32 s11, v2\ns_mov_b32 exec_lo, -1\n"
    + "".join(f"v_mov_b32 v{n}, 0x3c003c00\n" for n in range(8))
    + """
s_mov_b32 exec_lo, 0x80008
v_mov_b32 v0, s11
s_mov_b32 exec_lo, -1
v_wmma_f32_16x16x16_f16 v[8:15], v[0:7], v[0:7], 0
s_mov_b32 exec_lo, {lanes:#x}
v_cmp_eq_f32 vcc_lo, 0x41800000, v{register}
s_cmp_eq_u32 vcc_lo, exec_lo
s_cselect_b32 s11, 5, 6
s_mov_b32 exec_lo, 1
v_mov_b32 v1, 0
v_mov_b32 v2, 0
v_mov_b32 v5, s11
"""
)


@pytest.mark.parametrize(
    ("register", "lanes", "defined"),
    [(8, 0xFFF7FFF7, True), (9, 0xFFF7, True), (15, 0xFFF7FFF7, True),
     (8, 0x8, False), (9, 0x10000, False), (15, 0x80000, False)],
)  # fmt: skip
def test_rows_of_a_matrix(rig, chip, register, lanes, defined):
    """FlashAttention multiplies tiles whose last rows it never fills, and does not use what that
    gives (ggml's Vulkan shaders)."""
    if chip != "gfx1100":
        pytest.skip("gfx10 has no matrix instructions")
    fault, word = do(rig, PRODUCT.format(register=register, lanes=lanes))
    if defined:
        assert (fault, word) == (None, 5)
    else:
        assert fault.kind == "uninitialised"
        assert f"v_cmp_eq_f32 reads v{register}, which" in fault.text
