"""Accesses without an order between them: a fault names both, and the corrected twin has none.

When this fails, a data race between jobs passes on the emulator.
"""

from __future__ import annotations

import pytest
from cachekit import CHIPS, UC, code

from sparkle_drv.testing.emulated_dispatch import launch

pytestmark = pytest.mark.parametrize("chip", CHIPS)
GROUPS = 5

EXCHANGE = """
v_lshlrev_b32 v1, 2, v0
v_xor_b32 v2, 0x80, v1
{store}
{wait}
{barrier}
{load}
s_waitcnt vmcnt(0) lgkmcnt(0)
s_endpgm
"""
IN_LDS = {"store": "ds_write_b32 v1, v0", "load": "ds_read_b32 v3, v2"}
IN_MEMORY = {
    "store": "global_store_dword v1, v0, s[0:1]",
    "load": "global_load_dword v3, v2, s[0:1]",
}
WAITS = {"wait": "s_waitcnt lgkmcnt(0)\ns_waitcnt_vscnt null, 0", "barrier": "s_barrier"}
COLUMN = "v_and_b32 v1, 31, v0\nv_lshlrev_b32 v1, 2, v1\n{}\ns_endpgm"
COUNT = """
v_mov_b32 v1, 0
v_mov_b32 v2, 1
{clear}
s_waitcnt lgkmcnt(0)
s_barrier
{count}
s_waitcnt lgkmcnt(0)
{barrier}
ds_read_b32 v3, v1
s_waitcnt lgkmcnt(0)
s_endpgm
"""
CLEAR = """
v_cmp_eq_u32 vcc_lo, 0, v0
s_mov_b32 s8, exec_lo
s_and_b32 exec_lo, exec_lo, vcc_lo
ds_write_b32 v1, v1
s_mov_b32 exec_lo, s8
"""

# Each group stores a partial sum; the last one to count itself adds them up.
LAST = """
s_lshl_b32 s5, s4, 2
v_mov_b32 v1, s5
v_mov_b32 v2, 3
v_mov_b32 v3, 0
v_mov_b32 v4, 1
global_store_dword v1, v2, s[0:1] offset:4
{release}
global_atomic_add v5, v3, v4, s[0:1] glc
s_waitcnt vmcnt(0)
{acquire}
v_cmp_eq_u32 vcc_lo, 4, v5
s_cbranch_vccz ends
v_mov_b32 v6, 0
global_load_dwordx4 v[8:11], v3, s[0:1] offset:4
global_load_dword v12, v3, s[0:1] offset:20
s_waitcnt vmcnt(0)
v_add_nc_u32 v6, v8, v9
v_add_nc_u32 v6, v6, v10
v_add_nc_u32 v6, v6, v11
v_add_nc_u32 v6, v6, v12
global_store_dword v3, v6, s[2:3]
ends:
s_endpgm
"""
# A group takes what the one before it has put, when its flag is set: a chained scan.
CHAIN = """
s_lshl_b32 s5, s4, 3
v_mov_b32 v1, s5
v_mov_b32 v2, 0
v_mov_b32 v4, 1
s_cmp_eq_u32 s4, 0
s_cbranch_scc1 first
polls:
global_load_dword v3, v1, s[0:1] offset:4 {past}
s_waitcnt vmcnt(0)
{acquire}
v_cmp_eq_u32 vcc_lo, 1, v3
s_cbranch_vccz polls
global_load_dword v2, v1, s[0:1]
s_waitcnt vmcnt(0)
first:
v_add_nc_u32 v2, v2, v4
global_store_dword v1, v2, s[0:1] offset:8
{release}
global_store_dword v1, v4, s[0:1] offset:12
s_endpgm
"""
RELEASE = "s_waitcnt_vscnt null, 0"
ACQUIRE = "buffer_gl1_inv\nbuffer_gl0_inv"
ORDERED = {"release": RELEASE, "acquire": ACQUIRE}
# A lock taken by compare and swap, given back by a store, round an addition.
LOCK = """
v_mov_b32 v1, 0
v_mov_b32 v2, 1
v_mov_b32 v3, 0
takes:
global_atomic_cmpswap v4, v1, v[2:3], s[0:1] glc
s_waitcnt vmcnt(0)
v_cmp_eq_u32 vcc_lo, 0, v4
s_cbranch_vccz takes
buffer_gl1_inv
buffer_gl0_inv
global_load_dword v5, v1, s[2:3]
s_waitcnt vmcnt(0)
v_add_nc_u32 v5, v5, v2
global_store_dword v1, v5, s[2:3]
s_waitcnt_vscnt null, 0
{unlock}
s_endpgm
"""
# The same in LDS, by one lane of each wave; the lock is behind the word that it guards.
TAKE = """
takes:
ds_max_rtn_u32 v4, v1, v2 offset:4
s_waitcnt lgkmcnt(0)
v_cmp_eq_u32 vcc_lo, 0, v4
s_cbranch_vccz takes
"""
LDS_LOCK = """
v_mov_b32 v1, 0
v_mov_b32 v2, 1
v_mov_b32 v3, 0
v_mov_b32 v5, 0
v_mov_b32 v6, 0
ds_write_b64 v1, v[5:6]
s_waitcnt lgkmcnt(0)
s_barrier
s_mov_b32 exec_lo, 1
{take}
ds_read_b32 v5, v1
s_waitcnt lgkmcnt(0)
v_add_nc_u32 v5, v5, v2
ds_write_b32 v1, v5
ds_write_b32 v1, v3 offset:4
s_endpgm
"""
# 60 values, each stored by all lanes to one dword.
SAME = """
again:
v_mov_b32 v2, s5
global_store_dword v1, v2, s[0:1]
v_add_nc_u32 v1, 4, v1
s_sub_u32 s5, s5, 1
s_cmp_lg_u32 s5, 0
s_cbranch_scc1 again
"""


def fault_of(rig, text, *, groups=1, size=1, wgp_mode=0, seen=None, scratch=False):
    """The fault of a program that has a page in s[0:1], another one in s[2:3], its group in s4."""
    program, page = code(rig, text), rig.buffer(4096)
    out, slots = rig.buffer(4096, rights=UC), rig.buffer(1 << 16)
    user = [word for at in (page.va, out.va) for word in (at & 0xFFFFFFFF, at >> 32)]
    dwords = launch(
        rig.gfx,
        code=program.va,
        rsrc1=2 | 0xF0 << 12 | 1 << 21 | 1 << 23 | wgp_mode << 29,
        rsrc2=int(scratch) | len(user) << 1 | 1 << 7 | 1 << 15,
        user=user,
        groups=(groups, 1, 1),
        size=(size, 1, 1),
        tmpring=scratch and 1 | 4 << 12,
        scratch=slots.va if scratch else 0,
    )
    fault = rig.run(dwords, program, page, out, slots)
    if seen is not None and fault is None:
        assert out.words() == [seen]
    rig.page = page
    return fault


def test_r8_a_spill_hides_no_release(rig):
    """A store to scratch that is under way releases nothing, so nobody waits for it."""
    spill = "scratch_store_dword off, v2, off"
    if rig.gfx == 10:  # its waves find their scratch themselves
        spill = f"s_setreg_b32 hwreg(20), s2\ns_setreg_b32 hwreg(21), s3\n{spill}"
    for before, after in ((RELEASE, spill), ("", spill)):
        text = LAST.format(release=f"{before}\n{after}", acquire=ACQUIRE)
        fault = fault_of(rig, text, groups=GROUPS, scratch=True)
        if before:
            assert fault is None
        else:
            check(fault, "global_load_b", "global_store_b32", "expected release and acquire")


def check(fault, *words):
    assert fault is not None
    assert fault.kind == "race"
    for word in words:
        assert word in fault.text
    assert fault.text.count(" at pc 0x") in (1, 2)


def test_r1_lds_without_a_barrier(rig):
    fault = fault_of(rig, EXCHANGE.format(**IN_LDS, **{**WAITS, "barrier": ""}), size=64)
    check(fault, "ds_store_b32", "wave 1", "writes LDS 0x80", "ds_load_b32", "wave 0", "read")
    check(fault, "expected s_barrier")
    assert (fault.wave, fault.va, fault.text.count(" at pc 0x")) == (1, 0x80, 2)
    assert fault_of(rig, EXCHANGE.format(**IN_LDS, **WAITS), size=64) is None


def test_r2_two_waves_write_to_lds(rig):
    fault = fault_of(rig, COLUMN.format("ds_write_b32 v1, v0"), size=64)
    check(fault, "ds_store_b32", "wave 1", "writes LDS 0x0", "wave 0", "written")
    same = fault_of(rig, COLUMN.format("ds_write_b32 v1, v1"), size=64)
    assert same is None
    between = "ds_write_b32 v1, v0\ns_waitcnt lgkmcnt(0)\ns_barrier\nds_write_b32 v1, v1"
    check(fault_of(rig, COLUMN.format(between), size=64), "written")
    assert fault_of(rig, COLUMN.format(between), size=32) is None


def test_r3_a_barrier_before_the_wait(rig):
    early = {"wait": "", "barrier": "s_barrier"}
    fault = fault_of(rig, EXCHANGE.format(**IN_LDS, **early), size=64)
    check(fault, "reads LDS", "written", "expected s_waitcnt 0 and s_barrier")


STORE = "v_mov_b32 v1, 0\nv_mov_b32 v2, {}\n{}\ns_endpgm"


@pytest.mark.parametrize("threads", [1, 2])
def test_r4_two_groups_in_memory(open_rig, chip, threads):
    rig = open_rig(chip, threads=threads)
    store = "global_store_dword v1, v2, s[0:1]"
    fault = fault_of(rig, STORE.format("s4", store), groups=2)
    check(fault, "global_store_b32", f"writes memory {rig.page.va:#x}", "written")
    check(fault, "group 1,0,0", "group 0,0,0", "expected release and acquire")
    assert fault_of(rig, STORE.format("s4", "global_atomic_add v1, v2, s[0:1]"), groups=2) is None
    assert fault_of(rig, STORE.format("7", store), groups=2) is None  # nobody can tell
    byte = "v_mov_b32 v1, s4\nglobal_store_byte v1, v2, s[0:1]"
    assert fault_of(rig, STORE.format("s4", byte), groups=GROUPS) is None
    buffer = "v_mov_b32 v1, s4\nglobal_store_short v1, v2, s[0:1]"
    check(fault_of(rig, STORE.format("s4", buffer), groups=GROUPS), "global_store_b16")


def test_r4_a_load_beside_an_atomic(rig):
    text = (
        "v_mov_b32 v1, 0\nv_mov_b32 v2, 1\nglobal_atomic_add v1, v2, s[0:1]\n"
        "global_load_dword v3, v1, s[0:1]{}\ns_waitcnt vmcnt(0)\ns_endpgm"
    )
    check(fault_of(rig, text.format(""), groups=2), "global_atomic_add_u32", "global_load_b32")
    assert fault_of(rig, text.format(" glc dlc"), groups=2) is None


@pytest.mark.parametrize("store", ["ds_write_b32 v2, v0", "global_store_dword v2, v0, s[0:1]"])
def test_r5_two_lanes_of_one_store(rig, store):
    lanes = "v_lshrrev_b32 v2, 1, v0\nv_lshlrev_b32 v2, 2, v2\n" + store + "\ns_endpgm"
    fault = fault_of(rig, lanes, size=32)
    check(fault, "for two lanes, with different values")
    assert fault.lane == 1
    assert fault_of(rig, lanes.replace("v2, v0", "v2, v2"), size=32) is None


@pytest.mark.parametrize("wgp_mode", [0, 1])
def test_r6_waves_of_a_group_in_memory(rig, wgp_mode):
    """In CU mode the waves of a group have one L0, which keeps their order past a barrier."""

    def run(**without):
        text = EXCHANGE.format(**IN_MEMORY, **{**WAITS, **without})
        return fault_of(rig, text, size=64, wgp_mode=wgp_mode)

    check(run(barrier=""), "memory", "expected s_barrier")
    early = run(wait="")
    if wgp_mode:
        check(early, "reads memory", "expected s_waitcnt 0 and s_barrier")
    else:
        assert early is None
    assert run() is None


def test_r7_counters_in_lds(rig):
    count = {"clear": CLEAR, "count": "ds_add_u32 v1, v2"}
    check(fault_of(rig, COUNT.format(**count, barrier=""), size=64), "ds_add_u32", "LDS 0x0")
    assert fault_of(rig, COUNT.format(**count, barrier="s_barrier"), size=64) is None


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("without", ["release", "acquire", ""])
def test_r8_the_last_group_adds_up(open_rig, chip, threads, without):
    rig = open_rig(chip, threads=threads)
    fault = fault_of(rig, LAST.format(**{**ORDERED, without: ""}), groups=GROUPS, seen=3 * GROUPS)
    if without:
        check(fault, "global_load_b", "global_store_b32", "expected release and acquire")
    else:
        assert fault is None


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("without", ["release", "acquire", ""])
def test_r9_a_chain_of_groups(open_rig, chip, threads, without):
    rig = open_rig(chip, threads=threads)
    text = CHAIN.format(past="glc dlc", **{**ORDERED, without: ""})
    fault = fault_of(rig, text, groups=GROUPS)
    if without:
        check(fault, "global_load_b32", "global_store_b32", "expected release and acquire")
    else:
        assert fault is None
        assert rig.page.words(0, 2 * GROUPS + 2)[2::2] == list(range(1, GROUPS + 1))


@pytest.mark.parametrize("threads", [1, 4])
def test_r10_a_lock(open_rig, chip, threads):
    rig = open_rig(chip, threads=threads)
    unlock = "global_store_dword v1, v3, s[0:1]"
    assert fault_of(rig, LOCK.format(unlock=unlock), groups=40, seen=40) is None


def test_r10_a_release_does_not_cover_what_comes_after_it(rig):
    """Taking the lock releases, too; the addition comes after that."""
    text = LOCK.format(unlock="global_atomic_swap v1, v3, s[0:1]")
    assert fault_of(rig, text, groups=40, seen=40) is None
    hasty = text.replace("s_waitcnt_vscnt null, 0\n", "")
    fault = fault_of(rig, hasty, groups=40)
    check(fault, "global_load_b32", "global_store_b32", "expected release and acquire")


def test_r11_a_lock_in_lds(rig):
    """A store gives it back; one of a wave that has not taken it is a race."""
    assert fault_of(rig, LDS_LOCK.format(take=TAKE), size=128) is None
    check(fault_of(rig, LDS_LOCK.format(take=""), size=128), "LDS 0x0", "wave 1", "wave 0")


@pytest.mark.parametrize("threads", [1, 4])
def test_one_value_from_all_groups_is_no_race(open_rig, chip, threads):
    """Also while one group has told of its store and has not made it yet."""
    rig = open_rig(chip, threads=threads)
    text = "v_mov_b32 v1, 0\ns_movk_i32 s5, 60\n" + SAME + "s_endpgm"
    assert fault_of(rig, text, groups=20, size=256) is None


def test_races_are_let_pass_by_name(open_rig, chip):
    rig = open_rig(chip, lenient=["races"])
    assert fault_of(rig, COLUMN.format("ds_write_b32 v1, v0"), size=64) is None
