"""The microcode formats of RDNA2 (gfx10.3) and RDNA3 (gfx11): the bits of each field.

The assembler and disassembler here use these tables. So does the emulator's decoder, through
tools/_gen/isa.py. The meaning of opcodes is in native/emu/isa/rdna*.isa. Sources: "RDNA 2" and
"RDNA3 Instruction Set Architecture" reference guides, chapter "Microcode Formats". tests/golden
checks the tables against llvm-mc 19.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# The syntax of a line: NAME dwords HI:LO=constant field@HI:LO ... An instruction has this format if
# its bits HI to LO are the constant. Bit 32 is bit 0 of the second dword. An indented line
# continues the previous line. If two formats have the same constant (VOP3, VOP3B), the opcode's row
# in the table of instructions names the format.
_COMMON = """
SOP1    1  31:23=0x17d  op@15:8  sdst@22:16 ssrc0@7:0
SOPC    1  31:23=0x17e  op@22:16 ssrc1@15:8 ssrc0@7:0
SOPP    1  31:23=0x17f  op@22:16 simm16@15:0
SOPK    1  31:28=0xb    op@27:23 sdst@22:16 simm16@15:0
SOP2    1  31:30=0x2    op@29:23 sdst@22:16 ssrc1@15:8 ssrc0@7:0
VOP1    1  31:25=0x3f   op@16:9  vdst@24:17 src0@8:0
VOPC    1  31:25=0x3e   op@24:17 vsrc1@16:9 src0@8:0
VOP2    1  31:31=0x0    op@30:25 vdst@24:17 vsrc1@16:9 src0@8:0
VOP3    2  31:26=0x35   op@25:16 vdst@7:0 abs@10:8 op_sel@14:11 clamp@15 src0@40:32 src1@49:41
          src2@58:50 omod@60:59 neg@63:61
VOP3B   2  31:26=0x35   op@25:16 vdst@7:0 sdst@14:8 clamp@15 src0@40:32 src1@49:41 src2@58:50
          omod@60:59 neg@63:61
VOP3P   2  31:23=0x198  op@22:16 vdst@7:0 neg_hi@10:8 op_sel@13:11 clamp@15 src0@40:32
          src1@49:41 src2@58:50 op_sel_hi@14,60:59 neg@63:61
DS      2  31:26=0x36   op@25:18 offset@15:0 gds@17 addr@39:32 data0@47:40 data1@55:48
          vdst@63:56
DPP8    1  31:32=0x0    src0@7:0 dpp8@31:8
DPP16   1  31:32=0x0    src0@7:0 dpp_ctrl@16:8 fi@18 bound_ctrl@19 neg0@20 abs0@21 neg1@22
          abs1@23 bank_mask@27:24 row_mask@31:28
"""
_GFX10 = """
SMEM    2  31:26=0x3d   op@25:18 sdata@12:6 sbase@5:0 dlc@14 glc@16 offset@52:32 soffset@63:57
FLAT    2  31:26=0x37   op@24:18 offset@11:0 dlc@12 lds@13 seg@15:14 glc@16 slc@17 addr@39:32
          data@47:40 saddr@54:48 vdst@63:56
MUBUF   2  31:26=0x38   op@25:18 offset@11:0 offen@12 idxen@13 glc@14 dlc@15 lds@16
          vaddr@39:32 vdata@47:40 srsrc@52:48 slc@54 tfe@55 soffset@63:56
MTBUF   2  31:26=0x3a   op@53,18:16 offset@11:0 offen@12 idxen@13 glc@14 dlc@15 format@25:19
          vaddr@39:32 vdata@47:40 srsrc@52:48 slc@54 tfe@55 soffset@63:56
MIMG    2  31:26=0x3c   op@0,24:18 nsa@2:1 dim@5:3 dlc@7 dmask@11:8 unrm@12 glc@13 r128@15 tfe@16
          lwe@17 slc@25 vaddr@39:32 vdata@47:40 srsrc@52:48 ssamp@57:53 a16@62 d16@63
EXP     2  31:26=0x3e
VINTRP  1  31:26=0x32   op@17:16 vsrc@7:0 chan@9:8 attr@15:10 vdst@25:18
SDWA    1  31:32=0x0    src0@7:0 dst_sel@10:8 dst_unused@12:11 clamp@13 omod@15:14
          src0_sel@18:16 sext0@19 neg0@20 abs0@21 s0@23 src1_sel@26:24 sext1@27 neg1@28
          abs1@29 s1@31
SDWAB   1  31:32=0x0    src0@7:0 sdst@14:8 sd@15 src0_sel@18:16 sext0@19 neg0@20 abs0@21 s0@23
          src1_sel@26:24 sext1@27 neg1@28 abs1@29 s1@31
"""
_GFX11 = """
SMEM    2  31:26=0x3d   op@25:18 sdata@12:6 sbase@5:0 dlc@13 glc@14 offset@52:32 soffset@63:57
FLAT    2  31:26=0x37   op@24:18 offset@12:0 dlc@13 glc@14 slc@15 seg@17:16 addr@39:32
          data@47:40 saddr@54:48 sve@55 vdst@63:56
MUBUF   2  31:26=0x38   op@25:18 offset@11:0 slc@12 dlc@13 glc@14 vaddr@39:32 vdata@47:40
          srsrc@52:48 tfe@53 offen@54 idxen@55 soffset@63:56
MTBUF   2  31:26=0x3a   op@18:15 offset@11:0 slc@12 dlc@13 glc@14 format@25:19 vaddr@39:32
          vdata@47:40 srsrc@52:48 tfe@53 offen@54 idxen@55 soffset@63:56
MIMG    2  31:26=0x3c   op@25:18 nsa@0 dim@4:2 unrm@7 dmask@11:8 slc@12 dlc@13 glc@14 r128@15
          a16@16 d16@17 vaddr@39:32 vdata@47:40 srsrc@52:48 tfe@53 lwe@54 ssamp@62:58
EXP     2  31:26=0x3e
LDSDIR  1  31:24=0xce   op@21:20 vdst@7:0 chan@9:8 attr@15:10 waitvdst@19:16
VINTERP 2  31:24=0xcd   op@22:16 vdst@7:0 waitexp@10:8 op_sel@14:11 clamp@15 src0@40:32
          src1@49:41 src2@58:50 neg@63:61
VOPD    2  31:26=0x32   op@25:22 opy@21:17 src0@8:0 vsrc1@16:9 src0y@40:32 vsrc1y@48:41
          vdsty@55:49 vdst@63:56
"""


class FormatField(NamedTuple):
    """A field of a format. `parts` has (low bit, width) of its bit ranges, the most significant
    first.
    """

    name: str
    parts: tuple[tuple[int, int], ...]

    @property
    def nbits(self) -> int:
        return sum(width for _, width in self.parts)

    def get(self, bits: int) -> int:
        value = 0
        for low, width in self.parts:
            value = value << width | bits >> low & (1 << width) - 1
        return value

    def put(self, value: int) -> int:
        """Returns the bits of `value` at the places of the field. Raises ValueError if `value` does
        not fit.
        """
        if value < 0 or value >> self.nbits:
            raise ValueError(f"{self.name} = {value} does not fit {self.nbits} bits")
        bits = 0
        for low, width in reversed(self.parts):
            bits |= (value & (1 << width) - 1) << low
            value >>= width
        return bits


class Format(NamedTuple):
    name: str
    ndw: int
    mask: int
    value: int
    fields: dict[str, FormatField]

    @property
    def declared(self) -> int:
        """The mask of all bits that belong to a field of the format. The other bits are
        reserved.
        """
        bits = self.mask
        for field in self.fields.values():
            bits |= field.put((1 << field.nbits) - 1)
        return bits


def _range(text: str) -> tuple[int, int]:
    high, _, low = text.partition(":")
    return int(low or high), int(high) - int(low or high) + 1


def parse_format(line: str) -> Format:
    """Reads one line of this file's tables of microcode formats. Raises ValueError if two fields of
    the format overlap.
    """
    name, ndw, marker, *words = line.split()
    place, _, constant = marker.partition("=")
    low, width = _range(place)
    taken = mask = ((1 << width) - 1) << low
    fields = {}
    for word in words:
        field_name, _, places = word.partition("@")
        field = FormatField(field_name, tuple(_range(part) for part in places.split(",")))
        bits = field.put((1 << field.nbits) - 1)
        if bits & taken or bits >> 32 * int(ndw):
            raise ValueError(f"{name}.{field_name} overlaps or lies outside the format")
        taken |= bits
        fields[field_name] = field
    return Format(name, int(ndw), mask, int(constant, 0) << low, fields)


def _formats(text: str) -> dict[str, Format]:
    made = [parse_format(line) for line in re.sub(r"\n +", " ", text.strip()).splitlines()]
    return {one.name: one for one in made}


# By generation (the major of the gfx version), in the order in which a decoder must test the
# formats. If the constant of one format begins with the constant of another, the longer constant
# comes first: SOP1 before SOP2.
FORMATS: dict[int, dict[str, Format]] = {
    10: _formats(_COMMON + _GFX10.lstrip("\n")),
    11: _formats(_COMMON + _GFX11.lstrip("\n")),
}
# Values of SRC0 that ask for a second dword of a VOP1, VOP2 or VOPC.
SRC0_SDWA, SRC0_DPP16, SRC0_DPP8, SRC0_DPP8_FI, SRC0_LITERAL = 249, 250, 233, 234, 255
# The opcode of the 64-bit form (VOP3) of a VOPC, VOP2 or VOP1 is its own opcode plus this number.
VOP3_BASE = {"VOPC": 0x000, "VOP2": 0x100, "VOP1": 0x180}
