"""PM4 and SDMA tables: any packet there and back, as dwords and as text; streams of rubbish.

When this fails, tools/pm4.py misreads a command stream, or crashes on one, during bring-up.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import bits, pm4, regs, sdma, type3

LEVELS = st.sampled_from(bits.GFX)
DWORD = st.integers(0, 0xFFFFFFFF)


def values_of(draw, element, gfx):
    if isinstance(element, bits.Word):
        return {
            name: draw(st.integers(field.bias, (1 << field.width) - 1 + field.bias))
            for name, field in element.layout(gfx).items()
        }
    if isinstance(element, bits.Tail):
        most = min(element.most, element.least + 3 * element.step)
        count = draw(st.integers(0, (most - element.least) // element.step))
        count = element.least + count * element.step
        return draw(st.lists(DWORD, min_size=count, max_size=count))
    if isinstance(element, bits.Addr):
        va = draw(st.integers(0, (1 << 48) - 1)) // element.align * element.align
        return draw(st.sampled_from([va, bits.canonical(va)]))
    return draw(st.integers(0, (1 << 32 * element.ndw) - 1))


@st.composite
def packets(draw):
    """(class, level, fields) of any PM4 packet."""
    gfx = draw(LEVELS)
    cls = draw(st.sampled_from([cls for cls in type3.classes() if gfx in cls.LEVELS]))
    fields = {
        name: values_of(draw, element, gfx)
        for name, element in cls.ELEMENTS.items()
        if name != "header"
    }
    if "triples" in fields:
        fields["count"] = len(fields["triples"]) // 3 * 2
    flags = [flag for flag in type3.FLAGS if flag in type3.HEADER.layout(gfx)]
    header = {flag: 1 for flag in draw(st.sets(st.sampled_from(flags)))}
    return cls, gfx, {**fields, "header": header} if header else fields


def from_text(dwords, gfx, ip):
    [ib] = lowlevel.parse(lowlevel.text([lowlevel.Ib(tuple(dwords), gfx, ip)]))
    return list(ib.dwords)


@given(packets())
@settings(max_examples=50)
def test_any_packet_round_trips(case):
    cls, gfx, fields = case
    dwords = cls.encode(gfx=gfx, **fields)
    queue = cls.ON[0]
    found = pm4.Type3Packet.decode(dwords, gfx, queue)
    assert (found[0], found[2]) == (cls, len(dwords))
    assert cls.encode(gfx=gfx, **found[1]) == dwords
    assert from_text(dwords, gfx, queue) == dwords


@given(LEVELS, st.sampled_from(type3.QUEUES), st.lists(DWORD, max_size=40))
@settings(max_examples=50)
def test_any_dwords_come_back_from_their_text(gfx, queue, dwords):
    stream = list(pm4.stream(dwords, gfx, queue))
    assert [dword for packet in stream for dword in packet.dwords] == dwords
    assert from_text(dwords, gfx, queue) == dwords
    assert from_text(dwords, gfx, "sdma") == dwords


@given(st.data(), LEVELS)
@settings(max_examples=50)
def test_any_sdma_packet_round_trips(data, gfx):
    known = {cls for (_, _, one), cls in sdma.PACKETS.items() if one == gfx}
    cls = data.draw(st.sampled_from(sorted(known, key=lambda cls: cls.NAME)))
    fields = {
        name: values_of(data.draw, element, gfx)
        for name, element in cls.ELEMENTS.items()
        if name != "header" and not (cls is sdma.SdmaWrite and name == "count")
    }
    dwords = cls.encode(gfx=gfx, **fields)
    found = sdma.SdmaPacket.decode(dwords, gfx)
    assert (found[0], found[2]) == (cls, len(dwords))
    assert cls.encode(gfx=gfx, **found[1]) == dwords
    assert from_text(dwords, gfx, "sdma") == dwords


def test_lengths_are_checked():
    with pytest.raises(ValueError, match=r"EVENT_WRITE\.address: got 1 dwords"):
        pm4.Type3Packet.decode([0xC0014600, 0x407, 0])
    with pytest.raises(ValueError, match="7 dwords, but only 2 are left"):
        pm4.Type3Packet.decode([0xC0053C00, 0x15])
    with pytest.raises(ValueError, match=r"count=3, but 2 registers"):
        pm4.SetShRegPairsPacked.encode(count=3, triples=[1, 2, 3])
    with pytest.raises(ValueError, match="its count says"):
        sdma.SdmaWrite.encode(addr=0, count={"ndw": 3}, values=[1])


def test_context_control_has_ce_ram_in_bit_28():
    """Mesa's sid.h has LOAD_CE_RAM and SHADOW_CE_RAM there, in the first and second dword."""
    dwords = pm4.ContextControl.encode(gfx=10, load={"ce_ram": 1}, shadow={"ce_ram": 1})
    assert dwords == [0xC0012800, 1 << 28, 1 << 28]


def test_set_registers_merges_neighbours_only():
    dwords = pm4.set_registers({"COMPUTE_START_X": 1, "COMPUTE_START_Y": 2, "COMPUTE_DIM_X": 3})
    assert dwords == [0xC0027600, 0x204, 1, 2, 0xC0017600, 0x201, 3]
    with pytest.raises(ValueError, match="users may write, got COMPUTE_DISPATCH_INITIATOR"):
        pm4.set_registers({"COMPUTE_DISPATCH_INITIATOR": 1})
    with pytest.raises(ValueError, match="gfx10 has no COMPUTE_STATIC_THREAD_MGMT_SE4"):
        pm4.set_registers({"COMPUTE_STATIC_THREAD_MGMT_SE4": 1}, gfx=10)
    with pytest.raises(ValueError, match="COMPUTE_PGM_HI=0x00000100: bits 0x100"):
        pm4.set_registers({"COMPUTE_PGM_HI": 0x100})


@given(st.data(), LEVELS)
@settings(max_examples=50)
def test_any_register_round_trips(data, gfx):
    reg = data.draw(st.sampled_from(list(regs.of_level(gfx))))
    fields = values_of(data.draw, reg.word, gfx)
    value = reg.encode(gfx=gfx, **fields)
    assert reg.decode(value, gfx) == fields
    assert regs.at(reg.space, reg.offset(gfx), gfx) is reg
    assert regs.find(reg.name) is reg


def test_registers_by_other_names():
    assert regs.find("COMPUTE_DESTINATION_EN_SE2").name == "COMPUTE_STATIC_THREAD_MGMT_SE2"
    assert regs.at("SH", 0x3FF) is None
    assert regs.COMPUTE_PGM_RSRC2.text(0x8C, 10) == "USER_SGPR=0x6 TGID_X_EN=0x1"
    with pytest.raises(KeyError):
        regs.find("NOSUCH")
    with pytest.raises(ValueError, match="gfx11 has no CP_COHER_START_DELAY"):
        regs.CP_COHER_START_DELAY.offset(11)


def test_a_template_is_patched_at_its_registers_and_packets():
    head = pm4.AcquireMem.encode()
    ib = head + pm4.set_registers({"COMPUTE_START_X": 0, "COMPUTE_START_Y": 0, "COMPUTE_PGM_LO": 0})
    release = len(ib)
    ib += pm4.ReleaseMem.encode()
    places = pm4.register_places(ib)
    assert list(places) == ["COMPUTE_START_X", "COMPUTE_START_Y", "COMPUTE_PGM_LO"]
    places["COMPUTE_START_Y"].patch(ib, 7)
    pm4.ReleaseMem.where("value").after(release).patch(ib, 1 << 40)
    made = head + pm4.set_registers(
        {"COMPUTE_START_X": 0, "COMPUTE_START_Y": 7, "COMPUTE_PGM_LO": 0}
    )
    assert ib == made + pm4.ReleaseMem.encode(value=1 << 40)
