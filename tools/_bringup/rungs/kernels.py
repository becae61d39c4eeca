"""Programs of the shader rungs, assembled here, and the IB that launches a program.

Sixteen scalar registers are loaded for each wave: USER_DATA 0 to 12 in s0-s12, the workgroup's ids
in s13-s15. gfx11.0 requires 16 user and system SGPRs together (AMDGPU_FACTS 5.2). Thread ids are in
v0-v2 on gfx10 and packed into v0 on gfx11; `IDS` unpacks them. Instructions have gfx10's names,
which the assembler accepts for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkle_drv.lowlevel import dispatch, granules, isa, pm4, regs

IDS = {
    10: "",
    11: "v_bfe_u32 v1, v0, 10, 10\nv_bfe_u32 v2, v0, 20, 10\nv_and_b32 v0, 0x3ff, v0\n",
}
# Computes v3, the thread's index in a one-dimensional grid of groups of 64 threads.
LINE = "v_lshl_add_u32 v3, s13, 6, v0\n"
END = "s_endpgm\n"
# FLOAT_MODE 0xF0, DX10_CLAMP, IEEE, WGP_MODE and MEM_ORDERED, as clang sets them (AMDGPU_FACTS
# 5.2).
RSRC1 = 0x60AF0000
USER = 13
VGPRS = 24
CS_PARTIAL_FLUSH = 0x407
ALL_CACHES = 0xC3F1  # GCR_CNTL that invalidates all caches and writes L2 back
# Registers that another process may have left set; they are cleared.
QUIET = ("COMPUTE_PERFCOUNT_ENABLE", "COMPUTE_THREAD_TRACE_ENABLE")

STORE = (
    LINE
    + """
v_xor_b32 v1, 0xcafebabe, v3
v_lshlrev_b32 v4, 2, v3
global_store_dword v4, v1, s[0:1]
"""
)
# For a grid of 3x2x4 groups of 4x3x2 threads. Each thread packs its three group ids and its three
# thread ids into one dword, and writes the dword to an address of its own.
IDS3 = """
s_lshl_b32 s2, s15, 1
s_add_u32 s2, s2, s14
s_mul_i32 s2, s2, 3
s_add_u32 s2, s2, s13
s_mul_i32 s2, s2, 24
s_lshl_b32 s3, s13, 12
s_lshl_b32 s4, s14, 16
s_lshl_b32 s5, s15, 20
s_or_b32 s3, s3, s4
s_or_b32 s3, s3, s5
v_mul_u32_u24 v3, 3, v2
v_add_nc_u32 v3, v3, v1
v_lshl_add_u32 v3, v3, 2, v0
v_add_nc_u32 v3, s2, v3
v_lshlrev_b32 v3, 2, v3
v_lshl_or_b32 v4, v1, 4, v0
v_lshl_or_b32 v4, v2, 8, v4
v_or_b32 v4, s3, v4
global_store_dword v3, v4, s[0:1]
"""
# A group of 256 threads: thread i writes a word to LDS and reads the word of thread 255 - i.
LDS = """
v_lshlrev_b32 v1, 2, v0
v_mul_u32_u24 v2, 0x101, v0
ds_write_b32 v1, v2
s_waitcnt lgkmcnt(0)
s_barrier
v_sub_nc_u32 v3, 0xff, v0
v_lshlrev_b32 v3, 2, v3
ds_read_b32 v4, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v4, s[0:1]
"""
# Stores and loads a word in scratch, by the gfx level. gfx10 uses the buffer descriptor in s[4:7]
# and the wave's offset in s16; gfx11 uses scratch instructions.
_KEEP = {
    10: "buffer_store_dword v{}, off, s[4:7], s16 offset:{}\n",
    11: "scratch_store_b32 off, v{}, off offset:{}\n",
}
_TAKE = {
    10: "buffer_load_dword v{}, off, s[4:7], s16 offset:{}\n",
    11: "scratch_load_b32 v{}, off, off offset:{}\n",
}
# Each lane counts the lanes before it and all lanes of its wave.
WAVE = (
    LINE
    + """
v_mbcnt_lo_u32_b32 v1, -1, 0
v_mbcnt_hi_u32_b32 v1, -1, v1
s_bcnt1_i32_b64 s2, exec
v_lshlrev_b32 v1, 8, v1
v_or_b32 v1, s2, v1
v_lshlrev_b32 v4, 2, v3
global_store_dword v4, v1, s[0:1]
"""
)
ATOMIC = """
v_mov_b32 v1, 1
v_mov_b32 v2, 0
global_atomic_add v2, v1, s[0:1]
"""
# Replaces each word w in memory by 2 * w + 1.
TWICE = (
    LINE
    + """
v_lshlrev_b32 v4, 2, v3
global_load_dword v5, v4, s[0:1]
s_waitcnt vmcnt(0)
v_lshl_add_u32 v5, v5, 1, 1
global_store_dword v4, v5, s[0:1]
"""
)
# 32 groups of 64 threads. Loads words at address s[2:3] by vector and by scalar loads, adds s4 to
# each word, and stores the sums at address s[0:1].
ECHO = (
    LINE
    + """
v_lshlrev_b32 v4, 2, v0
s_load_dword s5, s[2:3], 0x0
global_load_dword v5, v4, s[2:3]
s_waitcnt vmcnt(0) lgkmcnt(0)
s_add_u32 s5, s4, s5
v_add_nc_u32 v5, s4, v5
v_mov_b32 v6, s5
v_lshlrev_b32 v3, 2, v3
v_add_nc_u32 v7, 0x2000, v3
global_store_dword v3, v5, s[0:1]
global_store_dword v7, v6, s[0:1]
"""
)
ENDLESS = "again:\ns_sleep 1\ns_branch again\n"
# An instruction word that is invalid: SOPP opcode 0x7f exists neither on gfx10.3 nor on gfx11.
# s_sendmsg 0 is no substitute, because message 0 has no meaning of its own on gfx11.
BAD_WORD = 0xBFFF0000


def scratch(gfx: int) -> str:
    """Returns a program in which each thread stores four words in scratch and reads them back in
    reverse order. The thread then writes one word to memory: the exclusive or of the words
    that were read, word i (from 0) shifted left by 8 * i bits.
    """
    text = LINE + "".join(f"v_add_nc_u32 v{4 + i}, {i + 1}, v3\n" for i in range(4))
    text += "".join(_KEEP[gfx].format(4 + i, 4 * i) for i in range(4))
    text += "s_waitcnt_vscnt null, 0x0\n"
    text += "".join(_TAKE[gfx].format(8 + i, 4 * (3 - i)) for i in range(4))
    text += "s_waitcnt vmcnt(0)\n"
    text += "v_lshlrev_b32 v12, 2, v3\nv_mov_b32 v13, v8\n"
    text += "".join(
        f"v_lshlrev_b32 v14, {8 * i}, v{8 + i}\nv_xor_b32 v13, v13, v14\n" for i in range(1, 4)
    )
    return text + "global_store_dword v12, v13, s[0:1]\n"


@dataclass(frozen=True)
class Scratch:
    """The scratch memory of a dispatch: its address, the bytes per wave, and the number of waves
    (on gfx11 per engine).
    """

    va: int
    wave_nbytes: int
    waves: int


def assemble(text: str, gfx: int) -> list[int]:
    """Returns the program's dwords, with s_endpgm at the end."""
    return [*isa.assemble(IDS[gfx] + text + END, gfx)]


def launch(
    gfx: int, engines: int, code_va: int, user: Sequence[int], groups: Sequence[int],
    size: Sequence[int], *, wave: int = 32, lds_nbytes: int = 0, scratch: Scratch | None = None,
) -> list[int]:  # fmt: skip
    """Returns the dwords of one dispatch: every register that it depends on, and the
    wait for its end.
    """
    rsrc2 = (
        USER << 1
        | 7 << 7
        | 2 << 11
        | granules.lds_units(lds_nbytes) << 15
        | int(scratch is not None)
    )
    named = dispatch.common(gfx, engines) | dict.fromkeys(QUIET, 0)
    named |= {"COMPUTE_PGM_LO": code_va >> 8 & 0xFFFFFFFF, "COMPUTE_PGM_HI": code_va >> 40 & 0xFF}
    named |= {
        "COMPUTE_PGM_RSRC1": RSRC1 | VGPRS // granules.vgpr_granule(wave) - 1,
        "COMPUTE_PGM_RSRC2": rsrc2,
    }
    named |= {"COMPUTE_PGM_RSRC3": 0, "COMPUTE_RESOURCE_LIMITS": 0, "COMPUTE_TMPRING_SIZE": 0}
    if scratch is not None:
        unit = 256 if gfx == 11 else 1024
        named["COMPUTE_TMPRING_SIZE"] = regs.COMPUTE_TMPRING_SIZE.encode(
            gfx=gfx, WAVES=scratch.waves, WAVESIZE=scratch.wave_nbytes // unit
        )
        if gfx == 11:
            named["COMPUTE_DISPATCH_SCRATCH_BASE_LO"] = scratch.va >> 8 & 0xFFFFFFFF
            named["COMPUTE_DISPATCH_SCRATCH_BASE_HI"] = scratch.va >> 40
    named |= {f"COMPUTE_START_{axis}": 0 for axis in "XYZ"}
    named |= {f"COMPUTE_NUM_THREAD_{a}": n for a, n in zip("XYZ", size, strict=True)}
    values = [*user, *[0] * (USER - len(user))]
    named |= {f"COMPUTE_USER_DATA_{i}": v & 0xFFFFFFFF for i, v in enumerate(values)}
    x, y, z = groups
    # Sets COMPUTE_SHADER_EN, FORCE_START_AT_000 and, for wave32, CS_W32_EN (AMDGPU_FACTS 4.2).
    initiator = 0x5 | (0x8000 if wave == 32 else 0)
    return (
        pm4.AcquireMem.encode(gfx=gfx, gcr=ALL_CACHES)
        + pm4.set_registers(named, gfx=gfx)
        + pm4.DispatchDirect.encode(gfx=gfx, dim_x=x, dim_y=y, dim_z=z, initiator=initiator)
        + pm4.EventWrite.encode(gfx=gfx, event=CS_PARTIAL_FLUSH)
    )
