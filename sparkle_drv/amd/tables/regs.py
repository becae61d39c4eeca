"""Registers of the AMD compute path: their addresses, fields, and the levels that have them.

The sources of the byte addresses and fields of COMPUTE_* registers are Mesa (registers/*.json),
Linux (gc_*_offset.h) and PAL (gfx9_plus_merged_offset.h), which all agree. The graphics registers
at the end are those that RADV's preamble of a GFX queue writes. Their names and addresses are from
Mesa (vulkan/si_cmd_buffer.c). They have no fields here: their names make a command stream readable
and serve as an allow-list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .bits import G10UP, G11UP, G12, GFX, U32_MAX, Field, Word, bits, level

# Address ranges of the SET_*_REG packets: byte address of the first register, and of the first byte
# after the last.
SPACES = {"SH": (0xB000, 0xC000), "CONTEXT": (0x28000, 0x29000), "UCONFIG": (0x30000, 0x40000)}
ALL = Word(VALUE=bits(0, 31))


@dataclass(frozen=True)
class Register:
    """A register. `moved` has its byte address on the levels where it differs from `byte`."""

    name: str
    byte: int
    word: Word
    gfx: tuple[int, ...]
    user: bool  # whether a user's command stream may write it
    moved: dict[int, int]

    def address(self, gfx: float = 11) -> int:
        """Returns the byte address on a level. Raises ValueError if the level lacks the
        register.
        """
        if level(gfx) not in self.gfx:
            raise ValueError(f"gfx{gfx} has no {self.name}")
        return self.moved.get(level(gfx), self.byte)

    @property
    def space(self) -> str:
        return next(s for s, (low, end) in SPACES.items() if low <= self.byte < end)

    def offset(self, gfx: float = 11) -> int:
        """Returns the offset in dwords from the start of the register's space, which SET_SH_REG and
        similar packets use.
        """
        return (self.address(gfx) - SPACES[self.space][0]) // 4

    def for_gfx(self, gfx: float) -> dict[str, Field]:
        """Returns the fields on a level, by name."""
        self.address(gfx)
        return self.word.layout(level(gfx))

    def encode(self, *, gfx: float = 11, **fields: int) -> int:
        """Returns the dword with these fields; other bits are 0. Raises ValueError for a value that
        does not fit.
        """
        self.address(gfx)
        return self.word.encode(fields, level(gfx), self.name)[0]

    def decode(self, dword: int, gfx: float = 11) -> dict[str, int]:
        """Returns all fields of a dword. Raises ValueError if a bit is set that the level does not
        declare.
        """
        self.address(gfx)
        return self.word.decode([dword], level(gfx), self.name)

    def text(self, dword: int, gfx: float = 11) -> str:
        """Returns the fields that are not 0 as text, such as "VGPRS=1 MEM_ORDERED=1"."""
        return " ".join(f"{k}={v:#x}" for k, v in self.decode(dword, gfx).items() if v)


REGISTERS: dict[str, Register] = {}
ALIASES: dict[str, str] = {}
_AT: dict[tuple[str, int, int], Register] = {}


def _reg(
    name: str,
    byte: int,
    word: Word = ALL,
    gfx: tuple[int, ...] = GFX,
    *,
    user: bool = True,
    moved: dict[int, int] | None = None,
    alias: str = "",
) -> Register:
    register = Register(name, byte, word, gfx, user, moved or {})
    if name in REGISTERS:
        raise ValueError(f"{name} is declared twice")
    for one in gfx:
        key = (register.space, one, register.offset(one))
        if key in _AT:
            raise ValueError(f"gfx{one}: {name} and {_AT[key].name} are both at {key[2]:#x}")
        _AT[key] = register
    REGISTERS[name] = register
    if alias:
        ALIASES[alias] = name
    return register


def _row(names: str, byte: int, word: Word = ALL, gfx: tuple[int, ...] = GFX) -> list[Register]:
    """Declares registers that are neighbours, one dword after another."""
    return [_reg(name, byte + 4 * i, word, gfx) for i, name in enumerate(names.split())]


def find(name: str) -> Register:
    """Returns a register by its name or its other name. Raises KeyError if no table has it."""
    return REGISTERS[ALIASES.get(name, name)]


def at(space: str, offset: int, gfx: float = 11) -> Register | None:
    """Returns the register at a dword offset of a space on a level, or None if none is declared
    there.
    """
    return _AT.get((space, level(gfx), offset))


def of_level(gfx: float) -> Iterator[Register]:
    """Yields all registers of a level, sorted by space and address."""
    keys = sorted(key for key in _AT if key[1] == level(gfx))
    return (_AT[key] for key in keys)


# --- SH space: compute ----------------------------------------------------------------------------

DISPATCH_INITIATOR = Word(
    COMPUTE_SHADER_EN=bits(0),
    PARTIAL_TG_EN=bits(1),
    FORCE_START_AT_000=bits(2),
    ORDERED_APPEND_ENBL=bits(3),
    USE_THREAD_DIMENSIONS=bits(5),
    ORDER_MODE=bits(6),
    SCALAR_L1_INV_VOL=bits(10),
    VECTOR_L1_INV_VOL=bits(11),
    TUNNEL_ENABLE=bits(13, gfx=G10UP),
    RESTORE=bits(14),
    CS_W32_EN=bits(15, gfx=G10UP),  # fault: w32
    AMP_SHADER_EN=bits(16, gfx=G11UP),
    DISABLE_DISP_PREMPT_EN=bits(17, gfx=G11UP),
)
# Only DISPATCH packets carry this register, because a write to it launches a dispatch.
COMPUTE_DISPATCH_INITIATOR = _reg(
    "COMPUTE_DISPATCH_INITIATOR", 0xB800, DISPATCH_INITIATOR, user=False
)
_row("COMPUTE_DIM_X COMPUTE_DIM_Y COMPUTE_DIM_Z", 0xB804)
_row("COMPUTE_START_X COMPUTE_START_Y COMPUTE_START_Z", 0xB810)
_row(
    "COMPUTE_NUM_THREAD_X COMPUTE_NUM_THREAD_Y",
    0xB81C,
    Word(
        FULL=(bits(0, 15, gfx=(9, 10, 11)), bits(0, 12, gfx=G12)),
        INTERLEAVE_BITS=bits(13, 15, gfx=G12),
        PARTIAL=bits(16, 31),
    ),
)
_reg("COMPUTE_NUM_THREAD_Z", 0xB824, Word(FULL=bits(0, 15), PARTIAL=bits(16, 31)))
# tinygrad writes START, NUM_THREAD, PIPELINESTAT_ENABLE and PERFCOUNT_ENABLE in one packet
# (ops_amd.py exec). RADV 25 also writes PIPELINESTAT_ENABLE in a packet of its own.
COMPUTE_PIPELINESTAT_ENABLE = _reg(
    "COMPUTE_PIPELINESTAT_ENABLE", 0xB828, Word(PIPELINESTAT_ENABLE=bits(0))
)
COMPUTE_PERFCOUNT_ENABLE = _reg("COMPUTE_PERFCOUNT_ENABLE", 0xB82C)
# PGM_LO and PGM_HI hold the address >> 8, so the entry point must be a multiple of 256 bytes.
COMPUTE_PGM_LO = _reg("COMPUTE_PGM_LO", 0xB830, Word(DATA=bits(0, 31)))  # fault: pgm
COMPUTE_PGM_HI = _reg("COMPUTE_PGM_HI", 0xB834, Word(DATA=bits(0, 7)))
_row("COMPUTE_DISPATCH_PKT_ADDR_LO COMPUTE_DISPATCH_PKT_ADDR_HI", 0xB838)
_row("COMPUTE_DISPATCH_SCRATCH_BASE_LO", 0xB840, Word(DATA=bits(0, 31)), G10UP)
# The hardware ignores SIGN. RADV 22.3.6 writes all bits from 40 up of a 64-bit address, so the
# register gets 0xffff80 (radv_emit_compute_scratch).
_row("COMPUTE_DISPATCH_SCRATCH_BASE_HI", 0xB844, Word(DATA=bits(0, 7), SIGN=bits(8, 23)), G10UP)
COMPUTE_PGM_RSRC1 = _reg(
    "COMPUTE_PGM_RSRC1",
    0xB848,
    Word(
        VGPRS=bits(0, 5),
        SGPRS=bits(6, 9),
        PRIORITY=bits(10, 11),
        FLOAT_MODE=bits(12, 19),
        PRIV=bits(20),
        DX10_CLAMP=bits(21, gfx=(9, 10, 11)),
        WG_RR_EN=bits(21, gfx=G12),
        DEBUG=bits(22),
        IEEE=bits(23, gfx=(9, 10, 11)),
        DISABLE_PERF=bits(23, gfx=G12),
        BULKY=bits(24),
        FP16_OVFL=bits(26),
        WGP_MODE=bits(29, gfx=G10UP),
        MEM_ORDERED=bits(30, gfx=G10UP),
        FWD_PROGRESS=bits(31, gfx=G10UP),
    ),
)
COMPUTE_PGM_RSRC2 = _reg(
    "COMPUTE_PGM_RSRC2",
    0xB84C,
    Word(
        SCRATCH_EN=bits(0),
        USER_SGPR=bits(1, 5),  # fault: user
        TRAP_PRESENT=bits(6, gfx=(9, 10, 11)),
        DYNAMIC_VGPR=bits(6, gfx=G12),
        TGID_X_EN=bits(7),
        TGID_Y_EN=bits(8),
        TGID_Z_EN=bits(9),
        TG_SIZE_EN=bits(10),
        TIDIG_COMP_CNT=bits(11, 12),
        EXCP_EN_MSB=bits(13, 14),
        LDS_SIZE=bits(15, 23),
        EXCP_EN=bits(24, 30),
        WGP_TAKEOVER=bits(31, gfx=G12),
    ),
)
COMPUTE_RESOURCE_LIMITS = _reg(
    "COMPUTE_RESOURCE_LIMITS",
    0xB854,
    Word(
        WAVES_PER_SH=bits(0, 9),
        TG_PER_CU=bits(12, 15),
        LOCK_THRESHOLD=bits(16, 21),
        SIMD_DEST_CNTL=bits(22),
        FORCE_SIMD_DIST=bits(23),
        CU_GROUP_COUNT=bits(24, 26),
    ),
)
_CU_MASK = Word(SA0_CU_EN=bits(0, 15), SA1_CU_EN=bits(16, 31))
for _n, _byte in enumerate(
    (0xB858, 0xB85C, 0xB864, 0xB868, 0xB8AC, 0xB8B0, 0xB8B4, 0xB8B8, 0xB88C)
):
    _reg(
        f"COMPUTE_STATIC_THREAD_MGMT_SE{_n}",
        _byte,
        _CU_MASK,
        # SE4 to SE7 exist from gfx11 on. On gfx10.3 the same addresses belong to COMPUTE_RELAUNCH
        # and COMPUTE_WAVE_RESTORE_0 to 2.
        GFX if _n < 4 else G12 if _n == 8 else G11UP,  # fault: engines
        alias=f"COMPUTE_DESTINATION_EN_SE{_n}" if _n < 4 else "",
    )
COMPUTE_TMPRING_SIZE = _reg(
    "COMPUTE_TMPRING_SIZE",
    0xB860,
    Word(
        WAVES=bits(0, 11),
        # in units of 1024 B on gfx9 and gfx10.3, of 256 B from gfx11 on
        WAVESIZE=(
            bits(12, 24, gfx=(9, 10)),
            bits(12, 26, gfx=(11,)),  # fault: wavesize
            bits(12, 29, gfx=G12),
        ),
    ),
)
_row("COMPUTE_RESTART_X COMPUTE_RESTART_Y COMPUTE_RESTART_Z", 0xB86C)
_row("COMPUTE_THREAD_TRACE_ENABLE COMPUTE_MISC_RESERVED", 0xB878)
_reg("COMPUTE_REQ_CTRL", 0xB888, ALL, G10UP)
_row(" ".join(f"COMPUTE_USER_ACCUM_{n}" for n in range(4)), 0xB890, ALL, G10UP)
COMPUTE_PGM_RSRC3 = _reg(
    "COMPUTE_PGM_RSRC3",
    0xB8A0,
    Word(
        SHARED_VGPR_CNT=bits(0, 3, gfx=(10, 11)),
        INST_PREF_SIZE=(bits(4, 9, gfx=(11,)), bits(4, 11, gfx=G12)),
        TRAP_ON_START=bits(10, gfx=(11,)),
        TRAP_ON_END=bits(11, gfx=(11,)),
        GLG_EN=bits(13, gfx=G12),
        IMAGE_OP=bits(31, gfx=G11UP),
    ),
    G10UP,
)
_reg("COMPUTE_SHADER_CHKSUM", 0xB8A8, moved={9: 0xB894})
COMPUTE_DISPATCH_INTERLEAVE = _reg(
    "COMPUTE_DISPATCH_INTERLEAVE", 0xB8BC, Word(INTERLEAVE=bits(0, 9)), G11UP
)
# Only the kernel driver restores saved waves. On gfx10.3 these registers have the addresses that
# COMPUTE_STATIC_THREAD_MGMT_SE4 to SE7 have on gfx11.
_reg("COMPUTE_RELAUNCH", 0xB8C0, user=False, moved={9: 0xB888, 10: 0xB8AC})  # fault: relaunch
for _n in range(3):
    _reg(f"COMPUTE_WAVE_RESTORE_{_n}", 0xB8B0 + 4 * _n, ALL, (10,), user=False)
_row(" ".join(f"COMPUTE_USER_DATA_{n}" for n in range(16)), 0xB900)
COMPUTE_DISPATCH_TUNNEL = _reg("COMPUTE_DISPATCH_TUNNEL", 0xB9F4, ALL, G10UP)

# --- UCONFIG space --------------------------------------------------------------------------------

CP_COHER_START_DELAY = _reg(
    "CP_COHER_START_DELAY",
    0x301EC,  # fault: delay
    Word(START_DELAY_COUNT=bits(0, 5)),
    (9, 10),
)
_row("TA_CS_BC_BASE_ADDR TA_CS_BC_BASE_ADDR_HI", 0x30E00)

# --- graphics state that a GFX queue's preamble writes: names of registers only, no fields --------

_OPAQUE = """
    00B004 SPI_SHADER_PGM_RSRC4_PS        00B01C SPI_SHADER_PGM_RSRC3_PS
    00B0C0 SPI_SHADER_REQ_CTRL_PS         00B0C8 SPI_SHADER_USER_ACCUM_PS_{0..3}
    00B030 SPI_SHADER_USER_DATA_PS_{0..31}
    00B104 SPI_SHADER_PGM_RSRC4_VS <11    00B124 SPI_SHADER_PGM_HI_VS <11
    00B1C0 SPI_SHADER_REQ_CTRL_VS <11     00B1C8 SPI_SHADER_USER_ACCUM_VS_{0..3} <11
    00B220 SPI_SHADER_PGM_LO_GS           00B224 SPI_SHADER_PGM_HI_GS
    00B2C8 SPI_SHADER_USER_ACCUM_ESGS_{0..3}
    00B324 SPI_SHADER_PGM_HI_ES           00B404 SPI_SHADER_PGM_RSRC4_HS
    00B41C SPI_SHADER_PGM_RSRC3_HS        00B420 SPI_SHADER_PGM_LO_HS
    00B424 SPI_SHADER_PGM_HI_HS           00B4C8 SPI_SHADER_USER_ACCUM_LSHS_{0..3}
    00B524 SPI_SHADER_PGM_HI_LS
    02800C DB_RENDER_OVERRIDE             028038 DB_DFSM_CONTROL <11
    02807C DB_RMI_L2_CACHE_CONTROL        028080 TA_BC_BASE_ADDR
    028084 TA_BC_BASE_ADDR_HI             02840C VGT_MULTI_PRIM_IB_RESET_INDX
    028410 CB_RMI_GL2_CACHE_CONTROL       028428 CB_COVERAGE_OUT_CONTROL
    028620 PA_RATE_CNTL >10               0286D4 SPI_INTERP_CONTROL_0
    028750 SX_PS_DOWNCONVERT_CONTROL
    028818 PA_CL_VTE_CNTL                 028828 PA_SU_LINE_STIPPLE_SCALE
    02882C PA_SU_PRIM_FILTER_CNTL         028830 PA_SU_SMALL_PRIM_FILTER_CNTL
    028838 PA_CL_NGG_CNTL                 028848 PA_CL_VRS_CNTL
    028A00 PA_SU_POINT_SIZE               028A04 PA_SU_POINT_MINMAX
    028A18 VGT_HOS_MAX_TESS_LEVEL         028A98 VGT_DRAW_PAYLOAD_CNTL
    028AAC VGT_ESGS_RING_ITEMSIZE         028B50 VGT_TESS_DISTRIBUTION
    028BDC PA_SC_LINE_CNTL                028BE4 PA_SU_VTX_CNTL
    028C48 PA_SC_BINNER_CNTL_1            028C4C PA_SC_CONSERVATIVE_RASTERIZATION_CNTL
    028C50 PA_SC_NGG_MODE_CNTL            028C54 PA_SC_BINNER_CNTL_2 >10
    028C58 VGT_VERTEX_REUSE_BLOCK_CNTL <11
    030924 GE_MIN_VTX_INDX                030928 GE_INDX_OFFSET
    03092C GE_MULTI_PRIM_IB_RESET_EN      030964 GE_MAX_VTX_INDX
    030968 VGT_INSTANCE_BASE_ID           03097C GE_STEREO_CNTL
    030988 GE_USER_VGPR_EN                030A00 PA_SU_LINE_STIPPLE_VALUE
    030A04 PA_SC_LINE_STIPPLE_STATE       031110 SPI_GS_THROTTLE_CNTL1 >10
    031114 SPI_GS_THROTTLE_CNTL2 >10      031118 SPI_ATTRIBUTE_RING_BASE >10
    03111C SPI_ATTRIBUTE_RING_SIZE >10
"""


def _opaque(table: str) -> None:
    """Declares registers without fields from rows `ADDRESS NAME [<11|>10]`. `<11` and `>10` limit a
    register to levels below 11 or above 10. NAME_{0..3} stands for four neighbours.
    """
    tokens = table.split()
    while tokens:
        byte, name = int(tokens.pop(0), 16), tokens.pop(0)
        limit = tokens.pop(0) if tokens and tokens[0][0] in "<>" else ""
        gfx = {"": G10UP, "<11": (10,), ">10": G11UP}[limit]
        stem, _, last = name.partition("{0..")
        names = [f"{stem}{n}" for n in range(int(last[:-1]) + 1)] if last else [name]
        for i, one in enumerate(names):
            _reg(one, byte + 4 * i, ALL, gfx)


_opaque(_OPAQUE)

__all__ = ["ALIASES", "REGISTERS", "SPACES", "U32_MAX", "Register", "at", "find", "of_level"]
