"""INDIRECT_BUFFER followed: what runs in which order, and what is not followed and why.

When this fails, packets of a nested buffer are shown in the wrong order.
"""

from __future__ import annotations

import pytest
from pm4_ibs import CAPTURES, call, flush, ib

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import Ib, pm4, sdma

NOP = [0xFFFF1000]


def order(*ibs):
    return [(s.number, s.at, s.depth, s.name) for s in lowlevel.run(ibs)]


def problems(*ibs):
    return [step.problem for step in lowlevel.run(ibs) if step.problem]


def test_a_call_comes_back():
    outer = ib(NOP, call(0x2000, 2), NOP, va=0x1000)
    inner = ib(flush(), va=0x2000)
    wanted = [
        (1, 0, 0, "NOP"), (1, 1, 0, "INDIRECT_BUFFER"), (0, 0, 1, "EVENT_WRITE"), (1, 5, 0, "NOP"),
    ]  # fmt: skip
    assert order(inner, outer) == wanted


def test_a_chain_does_not():
    outer = ib(NOP, call(0x2000, 2, chain=1), NOP, va=0x1000)
    assert [row[:2] for row in order(outer, ib(flush(), va=0x2000))] == [(0, 0), (0, 1), (1, 0)]


def test_a_call_into_the_middle_of_a_dump():
    outer = ib(call(0x1010, 1), flush(), va=0x1000)
    assert [row[1:] for row in order(outer)] == [
        (0, 0, "INDIRECT_BUFFER"), (4, 1, "RAW"), (4, 0, "EVENT_WRITE"),
    ]  # fmt: skip


def test_high_addresses_are_the_same_with_and_without_their_sign():
    outer = ib(call(0xFFFF800000001000, 1), va=0x1000)
    assert len(order(outer, ib(NOP, va=0x800000001000))) == 2


def test_what_is_not_followed():
    assert problems(ib(call(0x9000, 2), va=0x1000)) == ["its target is not in the input"]
    assert problems(ib(call(0x1000, 4), va=0x1000)) == ["it calls one of its callers"]
    loop = ib(NOP, call(0x1000, 5, chain=1), va=0x1000)
    assert problems(loop) == ["it calls one of its callers"]
    a, b = ib(call(0x2000, 4), va=0x1000), ib(call(0x1000, 4), va=0x2000)
    assert problems(a, b) == ["it calls one of its callers"] * 2
    deep = [ib(call(0x1000 * (n + 2), 4), va=0x1000 * (n + 1)) for n in range(12)]
    assert problems(*deep) == ["more than 8 deep"]


@pytest.mark.unmeasured
def test_calls_of_calls_do_not_take_for_ever():
    ibs = [ib(*[call(0x10000 * (n + 2), 4 * 60)] * 60, va=0x10000 * (n + 1)) for n in range(6)]
    with pytest.raises(lowlevel.TooLong, match="call each other"):
        list(lowlevel.run(ibs))


def test_sdma_calls_too():
    outer = sdma.Indirect.encode(gfx=11, base=0x2000, size={"ndw": 1}, csa=0)
    found = order(ib(outer, ip="sdma", va=0x1000), ib([0], ip="sdma", va=0x2000))
    assert [row[3] for row in found] == ["INDIRECT", "NOP"]


def test_an_ib_without_an_address_calls_nothing_by_accident():
    assert order(Ib((), 11), ib(NOP)) == [(1, 0, 0, "NOP")]


def test_a_capture_gives_its_caller_back_what_it_did_afterwards():
    """The called IB has 168 dwords in the INDIRECT_BUFFER; the listing goes on behind them."""
    path = next(path for path in CAPTURES if path.stem.endswith("gfx1100_gfx"))
    caller, called, _ = lowlevel.read_ibs(path.read_text())
    size = next(caller.packets()).fields["control"]["ndw"]
    assert (size, called.va) == (0xA8, next(caller.packets()).fields["addr"])
    assert len(called.dwords) <= size
    assert len(list(caller.packets())) > 1
    steps = list(lowlevel.run(lowlevel.read_ibs(path.read_text())))
    assert [s.depth for s in steps if s.name == "CONTEXT_CONTROL"] == [1]
    assert "ACQUIRE_MEM" in [s.name for s in steps if s.number == 0]


def test_decode_stream_is_there_for_dwords():
    [one] = lowlevel.decode_stream(pm4.EventWrite.encode(event=7), 11)
    assert one.cls is pm4.EventWrite
