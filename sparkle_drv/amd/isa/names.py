"""Names of immediates in assembly: hardware registers, messages, buffer formats, DPP, SDWA.

Names that differ between the generations are listed by generation. Sources: the RDNA 2 and RDNA3
ISA reference guides (tables of S_GETREG, S_SENDMSG, S_DELAY_ALU, "Buffer Image Format"). The
spelling is that of llvm-mc 19.
"""

from __future__ import annotations

# Number types of buffer formats, in the order in which every family of formats counts them.
_ALL = "UNORM SNORM USCALED SSCALED UINT SINT"
_FAMILIES = {
    10: (
        f"8:{_ALL}/16:{_ALL} FLOAT/8_8:{_ALL}/32:UINT SINT FLOAT/16_16:{_ALL} FLOAT/"
        f"10_11_11:{_ALL} FLOAT/11_11_10:{_ALL} FLOAT/10_10_10_2:{_ALL}/2_10_10_10:{_ALL}/"
        f"8_8_8_8:{_ALL}/32_32:UINT SINT FLOAT/16_16_16_16:{_ALL} FLOAT/"
        "32_32_32:UINT SINT FLOAT/32_32_32_32:UINT SINT FLOAT"
    ),
    11: (
        f"8:{_ALL}/16:{_ALL} FLOAT/8_8:{_ALL}/32:UINT SINT FLOAT/16_16:{_ALL} FLOAT/"
        f"10_11_11:FLOAT/11_11_10:FLOAT/10_10_10_2:UNORM SNORM UINT SINT/2_10_10_10:{_ALL}/"
        f"8_8_8_8:{_ALL}/32_32:UINT SINT FLOAT/16_16_16_16:{_ALL} FLOAT/"
        "32_32_32:UINT SINT FLOAT/32_32_32_32:UINT SINT FLOAT"
    ),
}


def _buffer_formats(families: str) -> tuple[str, ...]:
    names = ["BUF_FMT_INVALID"]
    for family in families.split("/"):
        size, _, kinds = family.partition(":")
        names += [f"BUF_FMT_{size}_{kind}" for kind in kinds.split()]
    return tuple(names)


BUF_FORMATS = {gen: _buffer_formats(families) for gen, families in _FAMILIES.items()}
# The format of an MTBUF instruction whose text names none. llvm-mc does not print this format.
BUF_FORMAT_DEFAULT = 1

_HWREG = {
    **{1: "MODE", 2: "STATUS", 3: "TRAPSTS", 5: "GPR_ALLOC", 6: "LDS_ALLOC", 7: "IB_STS"},
    **{15: "SH_MEM_BASES", 20: "FLAT_SCR_LO", 21: "FLAT_SCR_HI", 23: "HW_ID1", 24: "HW_ID2"},
    29: "SHADER_CYCLES",
}
_HWREG10 = {16: "TBA_LO", 17: "TBA_HI", 18: "TMA_LO", 19: "TMA_HI", 25: "POPS_PACKER"}
_HWREG11 = {18: "PERF_SNAPSHOT_PC_LO", 19: "PERF_SNAPSHOT_PC_HI", 27: "PERF_SNAPSHOT_DATA"}
HWREGS = {
    gen: {number: f"HW_REG_{name}" for number, name in {**_HWREG, **own}.items()}
    for gen, own in ((10, _HWREG10), (11, _HWREG11))
}

_MESSAGES10 = (
    "INTERRUPT GS GS_DONE SAVEWAVE STALL_WAVE_GEN HALT_WAVES ORDERED_PS_DONE EARLY_PRIM_DEALLOC "
    "GS_ALLOC_REQ GET_DOORBELL GET_DDID"
)
_MESSAGES11 = {1: "INTERRUPT", 2: "HS_TESSFACTOR", 3: "DEALLOC_VGPRS", 5: "STALL_WAVE_GEN"}
_MESSAGES11 |= {6: "HALT_WAVES", 9: "GS_ALLOC_REQ"}
_RETURNING = "DOORBELL DDID TMA REALTIME"
_MESSAGES11 |= {128 + i: f"RTN_GET_{name}" for i, name in enumerate(_RETURNING.split())}
_MESSAGES11 |= {132: "RTN_SAVE_WAVE", 133: "RTN_GET_TBA", 134: "RTN_GET_TBA_TO_PC"}
MESSAGES = {
    10: {i: f"MSG_{name}" for i, name in enumerate(_MESSAGES10.split(), 1)} | {15: "MSG_SYSMSG"},
    11: {i: f"MSG_{name}" for i, name in _MESSAGES11.items()},
}
_GS = {1: "GS_OP_CUT", 2: "GS_OP_EMIT", 3: "GS_OP_EMIT_CUT"}
# gfx10: the operations of S_SENDMSG's messages 2, 3 and 15. Those of 2 and 3 also name a stream.
MESSAGE_OPS = {
    2: _GS,
    3: {0: "GS_OP_NOP", **_GS},
    15: {
        **{1: "SYSMSG_OP_ECC_ERR_INTERRUPT", 2: "SYSMSG_OP_REG_RD"},
        **{3: "SYSMSG_OP_HOST_TRAP_ACK", 4: "SYSMSG_OP_TTRACE_PC"},
    },
}

DELAY_IDS = [
    "NO_DEP",
    *(f"VALU_DEP_{i}" for i in (1, 2, 3, 4)),
    *(f"TRANS32_DEP_{i}" for i in (1, 2, 3)),
    "FMA_ACCUM_CYCLE_1",
    *(f"SALU_CYCLE_{i}" for i in (1, 2, 3)),
]
DELAY_SKIPS = ["SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"]

# S_WAITCNT: counter name, and bit ranges (low bit, width) with the lower range first.
WAITCNT = {
    10: (
        ("vmcnt", ((0, 4), (14, 2))),
        ("expcnt", ((4, 3),)),
        ("lgkmcnt", ((8, 6),)),
    ),
    11: (
        ("vmcnt", ((10, 6),)),
        ("expcnt", ((0, 3),)),
        ("lgkmcnt", ((4, 6),)),
    ),
}
# S_WAITCNT_DEPCTR: counter name, low bit, width, in the order in which counters are printed.
DEPCTR = (
    ("depctr_hold_cnt", 7, 1),
    ("depctr_sa_sdst", 0, 1),
    ("depctr_va_vdst", 12, 4),
    ("depctr_va_sdst", 9, 3),
    ("depctr_va_ssrc", 8, 1),
    ("depctr_va_vcc", 1, 1),
    ("depctr_vm_vsrc", 2, 3),
)
SDWA_SELECTS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
SDWA_UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")
# Values of DPP_CTRL that carry a number: name, code of the first number, first number, last number.
DPP_ROWS = (
    ("row_shl", 0x101, 1, 15),
    ("row_shr", 0x111, 1, 15),
    ("row_ror", 0x121, 1, 15),
    ("row_share", 0x150, 0, 15),
    ("row_xmask", 0x160, 0, 15),
)
DPP_NAMES = {0x140: "row_mirror", 0x141: "row_half_mirror"}
