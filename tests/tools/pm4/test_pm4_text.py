"""The text form: what is read from it, that nothing is lost in it, and how it complains.

When this fails, a command stream loses bits on its way through text.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pm4_fuzz import PACKETS
from pm4_ibs import CAPTURES, job

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import Ib, TextError, pm4

GFX = st.sampled_from((9, 10, 11, 12))
IP = st.sampled_from(lowlevel.IPS)
U32 = st.integers(0, 0xFFFFFFFF)
# Headers that have a chance to be packets, between dwords that have none.
HEADERS = st.builds(
    lambda count, opcode, flags: 3 << 30 | count << 16 | opcode << 8 | flags,
    st.integers(0, 9), st.integers(0, 255), st.integers(0, 7),
)  # fmt: skip
BLOCKS = st.sampled_from([packet for _, _, packet in PACKETS])
STREAMS = st.lists(
    st.one_of(BLOCKS, U32.map(lambda d: [d]), HEADERS.map(lambda d: [d])), max_size=9
)


def encoded(text, gfx=11, ip="compute"):
    [ib] = lowlevel.parse(text, gfx, ip)
    return list(ib.dwords)


@given(STREAMS, GFX, IP, st.binary(max_size=3), st.none() | st.integers(0, (1 << 64) - 1))
def test_text_and_back_is_exact(blocks, gfx, ip, extra, va):
    ib = Ib(tuple(d for block in blocks for d in block), gfx, ip, va, extra)
    assert lowlevel.parse(lowlevel.text([ib])) == [ib]


@given(st.lists(U32, max_size=30), GFX, IP, st.binary(max_size=3))
def test_bytes_and_back(dwords, gfx, ip, extra):
    data = struct.pack(f"<{len(dwords)}I", *dwords) + extra
    [ib] = lowlevel.read_ibs(data, gfx, ip, form="bin")
    [again] = lowlevel.parse(lowlevel.text([ib]))
    assert lowlevel.to_bytes(again) == data


@given(st.lists(st.lists(U32, max_size=20), max_size=3), GFX, IP)
def test_hex_and_back(streams, gfx, ip):
    ibs = [Ib(tuple(dwords), gfx, ip, 0x1000 * i) for i, dwords in enumerate(streams)]
    assert lowlevel.read_ibs(lowlevel.to_hex(ibs), form="hex") == ibs


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_capture_as_text(path):
    ibs = lowlevel.read_ibs(path.read_text())
    text = lowlevel.text(ibs)
    assert lowlevel.parse(text) == ibs
    assert "\nRAW" not in text
    assert "DISPATCH_DIRECT header={shader_type=1} dim_x=0x10 dim_y=1 dim_z=1" in text
    assert "  COMPUTE_PGM_RSRC2={USER_SGPR=4 TGID_X_EN=1}\n" in text


def test_no_packet_that_is_declared_is_raw():
    for ip, gfx, packet in PACKETS:
        text = lowlevel.text([Ib(tuple(packet), gfx, ip)])
        assert "\nRAW" not in text
        assert encoded(text) == packet


def test_what_a_person_writes():
    text = """
    # an indented comment is none of the first statement's business
IB gfx=gfx1036 ip=compute va=0x8000
SET_SH_REG COMPUTE_PGM_RSRC1=0x602c0001     # a register on the same line
    COMPUTE_PGM_RSRC2={USER_SGPR=6 TGID_X_EN=1
                       LDS_SIZE=8}
EVENT_WRITE event={type=CS_PARTIAL_FLUSH index=4}
NOP*3
NOP payload=1,2 payload=0x3
RAW 0x80000000
"""
    [ib] = lowlevel.parse(text)
    assert (ib.gfx, ib.ip, ib.va) == (10, "compute", 0x8000)
    assert list(ib.dwords) == [
        0xC0027600, 0x212, 0x602C0001, 0x4008C, 0xC0004600, 0x407, *[0xFFFF1000] * 3,
        0xC0021000, 1, 2, 3, 0x80000000,
    ]  # fmt: skip


def test_defaults_may_be_left_out():
    text = "ACQUIRE_MEM pws=0 base_lo=0 base_hi=0 gcr={gli_inv=1 glk_inv=1}"
    assert encoded(text) == pm4.AcquireMem.encode(gcr={"gli_inv": 1, "glk_inv": 1})


def test_registers_have_all_their_names():
    old, new = (f"SET_SH_REG COMPUTE_{n}_SE0=1" for n in ("DESTINATION_EN", "STATIC_THREAD_MGMT"))
    assert encoded(old) == encoded(new) == encoded("SET_SH_REG SH+0x216=1")


def test_several_ibs():
    text = "IB gfx=11 va=0x1000\nNOP\nIB ip=gfx\nPFP_SYNC_ME dummy=0\nIB\n"
    ibs = lowlevel.parse(text, gfx=10)
    assert [(i.gfx, i.ip, i.va, len(i.dwords)) for i in ibs] == [
        (11, "compute", 0x1000, 1), (10, "gfx", None, 2), (10, "compute", None, 0),
    ]  # fmt: skip


WRONG = {  # text -> line, column, part of the reason
    "DISPATCH_DIRECT dim_x=1 dim_y=1 dim_z=1": (1, 1, "lacks initiator: {COMPUTE_SHADER_EN=0..0x1"),
    "DISPATCH_DIRECT dim_x=1 dim_y=1 initiator=5": (1, 1, "lacks dim_z: 0..0xffffffff"),
    "NOP\nPFP_SYNC_ME dummy=0": (2, 1, "gfx queues have it"),
    "DISPATCH_DIRECTLY": (1, 1, "did you mean DISPATCH_DIRECT"),
    "EVENT_WRITE event={type=64}": (1, 25, "type=64 does not fit bits [5:0]: 0..0x3f"),
    "EVENT_WRITE event={kind=1}": (1, 20, "no field kind; it has type, index"),
    "EVENT_WRITE event={indx=1}": (1, 20, "did you mean index?"),
    "EVENT_WRITE event={type=1 type=2}": (1, 27, "given twice"),
    "EVENT_WRITE event=0x80000000": (1, 19, "gfx11 declares no bits 0x80000000"),
    "EVENT_WRITE\n  event={type=FLUSH_ALL}": (2, 15, "'FLUSH_ALL' is not a number"),
    "EVENT_WRITE event={type=1": (1, 19, "not closed"),
    "EVENT_WRITE event=1 event=1": (1, 21, "given twice"),
    "EVENT_WRITE evnt=1": (1, 13, "did you mean event?"),
    "EVENT_WRITE event=1 address=1": (1, 1, "EVENT_WRITE.address: got 1 dwords"),
    "EVENT_WRITE event": (1, 13, "lacks '='"),
    "EVENT_WRITE event=": (1, 19, "expected a value of event here"),
    "EVENT_WRITE event==1": (1, 19, "expected a value of event, got '='"),
    "EVENT_WRITE event=1,2": (1, 21, "one value, got 2"),
    "  NOP": (1, 3, "an indented line"),
    "NOP !": (1, 5, "number, '=', ',' or bracket, got '!'"),
    "NOP*0x100000": (1, 5, "0..0xfffff"),
    "EVENT_WRITE*2 event=1": (1, 1, "only NOP without fields"),
    "NOP payload={a=1}": (1, 5, "payload: expected numbers, got fields"),
    "NOP header=1": (1, 5, "expected fields in brackets: predicate"),
    "NOP header={opcode=1}": (1, 13, "no field opcode"),
    "PRED_EXEC execute={count=99999}": (1, 26, "0..0x3fff"),
    "INDIRECT_BUFFER addr=0x1002 control=0": (1, 22, "not a multiple of 4"),
    "INDIRECT_BUFFER addr=0x1000000000000 control=0": (1, 22, "not canonical"),
    "DISPATCH_DIRECT dim_x=-1 dim_y=1 dim_z=1 initiator=5": (1, 23, "0..0xffffffff"),
    "SET_SH_REG": (1, 1, "expected at least one register"),
    "SET_SH_REG COMPUTE_PGM_RSCR1=1": (1, 12, "did you mean COMPUTE_PGM_RSRC"),
    "SET_SH_REG COMPUTE_PGM_LO=0x100000000": (1, 27, "0..0xffffffff"),
    "SET_SH_REG COMPUTE_PGM_LO=1 COMPUTE_PGM_LO=1": (1, 29, "expected the next register"),
    "SET_SH_REG COMPUTE_PGM_RSRC2={LDS_SIZE=512}": (1, 40, "bits [23:15]: 0..0x1ff"),
    "SET_SH_REG CP_COHER_START_DELAY=1": (1, 12, "gfx11 has no CP_COHER_START_DELAY"),
    "SET_SH_REG TA_CS_BC_BASE_ADDR=1": (1, 12, "expected a register of SH, got one of UCONFIG"),
    "SET_SH_REG SH+0x10000=1": (1, 12, "offsets 0..0xffff"),
    "SET_SH_REG reg=1 COMPUTE_PGM_LO=1": (1, 1, "expected fields in brackets"),
    "SET_SH_REG values=1": (1, 12, "name those instead"),
    "SET_SH_REG_PAIRS_PACKED COMPUTE_PGM_LO=1": (1, 1, "even number of registers, got 1"),
    "IB gfx=13\nNOP": (1, 8, "13"),
    "IB ip=dma": (1, 7, "expected one of gfx, compute, sdma"),
    "IB base=1": (1, 4, "expected gfx, ip, va or padding, got base"),
    "BYTES 1 2 3 4": (1, 1, "four bytes are a dword"),
    "BYTES 1 256": (1, 9, "0..0xff"),
    "BYTES 1\nNOP": (2, 1, "nothing can follow"),
    "RAW 0x1g": (1, 5, "not a number"),
    "RAW 0x1_0": (1, 5, "not a number"),
}


@pytest.mark.parametrize("text", WRONG)
def test_a_complaint_names_the_place(text):
    line, column, part = WRONG[text]
    with pytest.raises(TextError) as caught:
        lowlevel.parse(text, gfx=11)
    assert part in caught.value.reason
    assert (caught.value.line, caught.value.column) == (line, column), caught.value
    assert str(caught.value).startswith(f"line {line}, column {column}: ")


def test_a_short_text_of_far_too_much():
    for text, part in ((f"{'NOP*999999' + chr(10)}" * 2, "dwords in an IB"),
                       ("IB\nNOP*999999\n" * 6, "dwords in a text")):  # fmt: skip
        with pytest.raises(TextError, match=part):
            lowlevel.parse(text, gfx=11)


def test_a_text_must_say_its_gfx():
    with pytest.raises(TextError, match="no gfx is given"):
        lowlevel.parse("NOP")


@pytest.mark.parametrize(
    ("text", "place", "part"),
    [
        ("c0001000 0x123456789", (1, 10), "expected a dword"),
        ("# comment\nIB va=z", (2, 7), "not a number"),
        ("c0001000\n\n  xyz", (3, 3), "got 'xyz'"),
    ],
)
def test_wrong_hex(text, place, part):
    with pytest.raises(TextError, match=part) as caught:
        lowlevel.read_ibs(text, 11, form="hex")
    assert (caught.value.line, caught.value.column) == place


HEAD = "# gfx1036\nIB ip=1 depth=0 va=1000 ndw=8\n"


@pytest.mark.parametrize(
    ("text", "place", "part"),
    [
        ("# gfx1036\n  NOP hdr=0", (2, 1), "before the first packet"),
        ("IB ip=1 depth=0 va=1000 ndw=8\n", (1, 1), "this capture names no gfx"),
        (HEAD + "  SET_SH_REG  COMPUTE_X = 0x1", (3, 15), "no register COMPUTE_X"),
        (HEAD + "  SET_OTHER  COMPUTE_X = 0x1", (3, 3), "writes no registers"),
        (HEAD + "  SET_SH_REG  COMPUTE_DISPATCH_INTERLEAVE = 0x1", (3, 15), "gfx10 has no"),
        (HEAD + "  NOP  hdr=123456789", (3, 12), "expected a dword"),
        (HEAD + "  what is this", (3, 3), "expected NAME hdr=DWORDS or SET_"),
        (HEAD + "IB ip=1 depth=0", (3, 1), "expected IB ip=N"),
        ("IB ip=7 depth=0 va=1000 ndw=8\n", (1, 1), "got '7'"),
    ],
)
def test_a_wrong_capture(text, place, part):
    gfx = 10 if text.startswith("IB ip=7") else None
    with pytest.raises(TextError, match=part) as caught:
        lowlevel.read_ibs(text, gfx, form="capture")
    assert (caught.value.line, caught.value.column) == place


def test_a_capture_with_more_registers_than_a_packet_holds():
    lines = [f"  SET_UCONFIG_REG  UCONFIG+{n:#x} = 0x1" for n in range(0x5000)]
    [ib] = lowlevel.read_ibs(HEAD + "\n".join(lines), form="capture")
    assert [len(p.dwords) for p in ib.packets()] == [0x3FFF, 0x5000 - 0x3FFD + 2]


def test_what_a_trace_says_besides_is_left_out():
    text = HEAD + "  EVENT_WRITE  hdr=c0004600 00000407\n    a remark\njob done\nOPCODES {}\n"
    [ib] = lowlevel.read_ibs(text)
    assert (ib.gfx, ib.dwords) == (10, (0xC0004600, 0x407))


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (b"\x00\x10\xff\xff", "bin"),
        (b"\xff\xfe\xfd\xfc", "bin"),
        (b"# dwords\nC0001000, 0", "hex"),
        (b"0xc0001000", "hex"),
        (b"IB gfx=11\nffff1000\n", "hex"),
        (b"IB gfx=11\nNOP\n", "text"),
        (b"", "text"),
        (HEAD.encode(), "capture"),
    ],
)
def test_forms_are_told_apart(data, form):
    from sparkle_drv.amd.ib.read import form_of

    assert form_of(data) == form


def test_bytes_must_be_told_their_gfx():
    with pytest.raises(ValueError, match="gfx: expected a value"):
        lowlevel.read_ibs(b"\x00\x10\xff\xff")
    with pytest.raises(ValueError, match="expected one of auto"):
        lowlevel.read_ibs(b"", 11, form="elf")
    with pytest.raises(TextError, match="expected UTF-8") as caught:
        lowlevel.read_ibs(b"ok\n\xff", 11, form="text")
    assert (caught.value.line, caught.value.column) == (2, 1)


def test_names_of_chips():
    names = {"10.3": 10, "gfx1036": 10, "gfx1100": 11, "11": 11, "gfx90a": 9, "gfx1201": 12, "9": 9}
    assert {name: lowlevel.read_gfx(name) for name in names} == names
    for wrong in ("8", "gfx", "gfx803", "13", "", "gfx10x", "1e1"):
        with pytest.raises(ValueError, match="gfx"):
            lowlevel.read_gfx(wrong)


def test_undeclared_bits_are_said():
    [ib] = job(PGM_HI=0x180)
    assert "  COMPUTE_PGM_HI=0x180  # gfx11 declares no bits 0x100 of it\n" in lowlevel.text([ib])
