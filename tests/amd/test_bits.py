"""Declarations of registers and packets: which mistakes are found when, and where fields lie.

When this fails, a wrong register or packet declaration is built silently, and bring-up reads false
bits.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkle_drv.amd.tables.bits import Addr, Tail, ValuePlace, Word, bits
from sparkle_drv.lowlevel import bits as kit
from sparkle_drv.lowlevel import pm4, type3


def test_overlapping_fields_fail_when_declared():
    with pytest.raises(ValueError, match=r"gfx9: b bits \[7:4\] overlaps a bits \[4:0\]"):
        Word(a=bits(0, 4), b=bits(4, 7))
    Word(a=bits(0, 4, gfx=(9,)), b=bits(4, 7, gfx=(10, 11)))


@pytest.mark.parametrize(("lo", "hi"), [(-1, 3), (5, 4), (0, 32)])
def test_bits_outside_a_dword(lo, hi):
    with pytest.raises(ValueError, match="not inside a dword"):
        bits(lo, hi)


def test_a_packet_twice_fails_when_declared():
    with pytest.raises(ValueError, match="0x10 on gfx9"):

        class Again(type3.Type3Packet, opcode=0x10):
            pass


def test_a_tail_must_be_last():
    with pytest.raises(ValueError, match="the last element only"):

        class Wrong(type3.Type3Packet, opcode=0xFE):
            values = Tail()
            more = kit.U32()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"event": {"type": 64}},
            r"EVENT_WRITE.event.type=0x40 does not fit bits \[5:0\]: 0..0x3f",
        ),
        ({"event": {"typ": 1}}, "no field EVENT_WRITE.event.typ, only type, index"),
        ({"event": 0x10000}, "bits 0x10000 are not declared on gfx11"),
        ({"events": 1}, "EVENT_WRITE has no events: it has header, event"),
        ({"address": [1]}, "expected 0..2, a multiple of 2"),
    ],
)
def test_values_that_do_not_fit(fields, message):
    with pytest.raises(ValueError, match=message):
        pm4.EventWrite.encode(**fields)


@pytest.mark.parametrize(("element", "most"), [(kit.U32(), 1 << 32), (kit.U64(), 1 << 64)])
def test_a_number_just_past_the_top(element, most):
    """A dword that wrapped to 0 would reach the card as another number."""
    assert element.encode(most - 1, 11, "n") == [0xFFFFFFFF] * element.ndw
    for wrong in (most, -1):
        with pytest.raises(ValueError, match=f"does not fit {32 * element.ndw} bits"):
            element.encode(wrong, 11, "n")


def test_levels():
    assert kit.level(10.3) == 10
    with pytest.raises(ValueError, match="gfx=8"):
        pm4.Nop.encode(gfx=8)
    with pytest.raises(ValueError, match="gfx10 has no packet SET_SH_REG_PAIRS"):
        pm4.SetShRegPairs.encode(gfx=10, pairs=[1, 2])


@pytest.mark.parametrize("va", [0x1002, 1 << 48, 0x7FFF_0000_0000_0000, 1 << 64])
def test_addresses_that_are_none(va):
    with pytest.raises(ValueError, match=r"RELEASE_MEM\.addr"):
        pm4.ReleaseMem.encode(addr=va)


def test_addresses_keep_the_form_they_have():
    """Truncated or sign-extended: both are one address, and both come back as they were."""
    for va in (0xFFFF_8000_0000_1000, 0x8000_0000_1000, 0x1000):
        assert Addr().decode(Addr().encode(va, 11, ""), 11, "") == va
    assert kit.canonical(0x8000_0000_1000) == 0xFFFF_8000_0000_1000


@given(st.integers(0, (1 << 32) - 1), st.integers(0, 7), st.data())
def test_patching_a_place_changes_that_field_only(start, lo, data):
    width = data.draw(st.integers(1, 32 - lo))
    value = data.draw(st.integers(0, (1 << width) - 1))
    dwords = [7, start, 9]
    place = ValuePlace(1, lo, width)
    place.patch(dwords, value)
    assert place.get(dwords) == value
    mask = ((1 << width) - 1) << lo
    assert (dwords[0], dwords[1] & ~mask, dwords[2]) == (7, start & ~mask, 9)


def test_where_names_what_there_is():
    place = pm4.ReleaseMem.where("addr")
    dwords = pm4.ReleaseMem.encode()
    place.patch(dwords, 0xFFFF800000001000)
    assert pm4.Type3Packet.decode(dwords)[1]["addr"] == 0xFFFF800000001000
    with pytest.raises(KeyError, match=r"no adr; it has header, .*event\.type"):
        pm4.ReleaseMem.where("adr")
