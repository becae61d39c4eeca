"""diff: nothing for what means the same, and for what does not, which register and field.

When this fails, two command streams that differ look the same.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pm4_ibs import CAPTURES, REGISTERS, acquire, call, dispatch, flush, ib, job, registers

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import pm4


def capture(name):
    path = next(path for path in CAPTURES if path.stem.endswith(name))
    return lowlevel.read_ibs(path.read_text())


def kinds(a, b, ignore=()):
    return [one.kind for one in lowlevel.diff(a, b, ignore)]


def test_padding_packing_and_calls_mean_nothing():
    plain = job()
    packed = acquire() + pm4.set_registers(
        {w.name: w.value for s in lowlevel.run(plain) for w in lowlevel.written(s)}
    )
    [inner] = [ib(packed[8:], va=0x9000)]
    outer = ib(acquire(), call(0x9000, len(inner.dwords)), dispatch(), [0xFFFF1000] * 5, flush())
    assert len(packed) < len(plain[0].dwords)
    assert lowlevel.diff(plain, [ib(packed, dispatch(), flush())]) == []
    assert lowlevel.diff(plain, [outer, inner]) == []


@pytest.mark.unmeasured
@given(st.integers(0, 2**32))
def test_the_order_of_register_writes_means_nothing(seed):
    names = list(REGISTERS.items())
    random.Random(seed).shuffle(names)
    shuffled = [d for k, v in names for d in pm4.set_registers({f"COMPUTE_{k}": v})]
    more = pm4.set_registers(
        {f"COMPUTE_STATIC_THREAD_MGMT_SE{n}": 0xFFFFFFFF for n in (7, 6, 5, 4)}
    )
    more += pm4.set_registers({"COMPUTE_DISPATCH_INTERLEAVE": 64})
    assert lowlevel.diff(job(), [ib(acquire(), more, shuffled, dispatch(), flush())]) == []


def test_a_register_and_its_field():
    at, end = lowlevel.diff(job(), job(PGM_RSRC2=0x8E))
    assert (at.kind, at.what, end.kind) == ("dispatch", "registers at DISPATCH_DIRECT", "end")
    [change] = at.changes
    assert change.name == "COMPUTE_PGM_RSRC2"
    assert change.old == "0x8c {USER_SGPR=6 TGID_X_EN=1}"
    assert change.parts == (("USER_SGPR", "6", "7"),)
    assert str(change).endswith("{USER_SGPR=7 TGID_X_EN=1}  (USER_SGPR 6 -> 7)")
    assert (at.a.name, at.b.at) == ("DISPATCH_DIRECT", at.a.at)


def test_a_register_that_only_the_dispatch_saw():
    """Overwritten afterwards: the end is the same."""
    after = pm4.set_registers({"COMPUTE_PGM_LO": 1})
    assert kinds(job(after=after), job(PGM_LO=7, after=after)) == ["dispatch"]
    assert kinds(job(after=after), job()) == ["end"]


def test_a_register_that_is_missing():
    change = lowlevel.diff(job(), job(PGM_RSRC3=None))[0].changes[0]
    assert (change.old, change.new) == ("0x0", "not written")


def test_the_index_of_a_write_counts():
    def by(cls, index):
        return cls.encode(reg={"offset": 0x216, "index": index}, values=[0xFFFFFFFF])

    plain, masked = job(before=by(pm4.SetShReg, 0)), job(before=by(pm4.SetShRegIndex, 3))
    assert "(index 3)" in lowlevel.diff(plain, masked)[0].changes[0].new


def test_packets_and_their_fields():
    other = [ib(acquire(gcr=0xC3B1), registers(), dispatch(groups=(3, 1, 1)), flush())]
    first, second = lowlevel.diff(job(), other)
    assert [str(c) for c in first.changes] == ["gcr.glk_wb: 1 -> 0"]
    assert [str(c) for c in second.changes] == ["dim_x: 2 -> 3"]


def test_packets_that_only_one_has():
    [one] = lowlevel.diff(job(after=acquire()), job())
    assert (one.kind, one.a is not None, one.b) == ("only in A", True, None)
    assert one.what.startswith("ACQUIRE_MEM ")
    [one] = lowlevel.diff(job(), job(before=[0x80000000]))
    assert (one.kind, one.what) == ("only in B", "RAW [0]=0x80000000")


def test_a_matching_packet_is_found_past_one_that_is_not():
    extra = pm4.WriteData.encode(control={"dst_sel": 5}, addr=0x1000, values=[1])
    assert kinds(job(before=extra + flush()), job(before=flush())) == ["only in A"]


def test_ignored():
    a, b = job(), job(PGM_LO=7, PGM_RSRC2=0x8E)
    assert kinds(a, b, ["COMPUTE_PGM_*"]) == []
    assert kinds(a, b, ["COMPUTE_PGM_LO", "COMPUTE_PGM_RSRC2.USER_SGPR"]) == []
    wide = [ib(acquire(), registers(), dispatch(groups=(3, 1, 1)), flush())]
    assert kinds(a, wide, ["DISPATCH_DIRECT.dim_x"]) == []


def test_the_shader_type_means_something_on_gfx_queues_only():
    typed = [ib(acquire(), registers(), dispatch(header={"shader_type": 1}), flush())]
    assert kinds(job(), typed) == []
    on_gfx = [ib(i.dwords, ip="gfx") for i in (*job(), *typed)]
    assert kinds(on_gfx[:1], on_gfx[1:]) == ["packet"]


@pytest.mark.unmeasured
def test_many_packets_that_all_differ():
    def many(start):
        return [
            ib(
                *(
                    pm4.EventWrite.encode(event={"type": n % 64, "index": start})
                    for n in range(3000)
                )
            )
        ]

    assert len(lowlevel.diff(many(0), many(1))) == 3000


def test_captures():
    assert lowlevel.diff(capture("1036_compute"), capture("1036_compute")) == []
    found = lowlevel.diff(capture("1036_compute"), capture("1100_compute"))
    names = {change.name for one in found for change in one.changes if one.kind == "dispatch"}
    assert {"CP_COHER_START_DELAY", "COMPUTE_DISPATCH_INTERLEAVE"} <= names
    assert "COMPUTE_STATIC_THREAD_MGMT_SE0" not in names
    packets = {one.what for one in found if one.kind == "packet"}
    assert packets == {"DMA_DATA"}  # addresses and the program's size
