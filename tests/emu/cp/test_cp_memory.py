"""Packets that move data, on both chips: what they write, and what they refuse.

When this fails, packets that move data write other bytes than hardware does.
"""

from __future__ import annotations

import numpy as np
import pytest

from sparkle_drv.lowlevel import pm4

MEM = {"dst_sel": 5, "wr_confirm": 1}


def test_write_data(rig):
    out = rig.buffer(4096)
    dwords = pm4.WriteData.encode(gfx=rig.gfx, control=MEM, addr=out.va + 4, values=[42, 43])
    assert rig.run(dwords, out) is None
    assert out.words(0, 4) == [0, 42, 43, 0]


def test_write_data_to_one_address(rig):
    out = rig.buffer(4096)
    dwords = pm4.WriteData.encode(
        gfx=rig.gfx, control={**MEM, "addr_incr": 1}, addr=out.va, values=[1, 2, 3]
    )
    assert rig.run(dwords, out) is None
    assert out.words(0, 2) == [3, 0]


def test_the_longest_packet(rig):
    out = rig.buffer(4 * 0x4000)
    values = list(range(0x3FFF - 3))  # the most that a 14-bit count holds and is no one-dword NOP
    dwords = pm4.WriteData.encode(gfx=rig.gfx, control=MEM, addr=out.va, values=values)
    assert rig.run(dwords, out) is None
    assert out.words(0, len(values)) == values


def copy(gfx, src_sel, src, dst, wide=0, dst_sel=5):
    control = {"src_sel": src_sel, "dst_sel": dst_sel, "count_sel": wide, "wr_confirm": 1}
    return pm4.CopyData.encode(gfx=gfx, control=control, src=src, dst=dst)


def test_copy_data(rig):
    out = rig.buffer(4096)
    out.write([0x11, 0x22])
    dwords = copy(rig.gfx, 5, 0x99AABBCC_DDEEFF00, out.va + 8, wide=1)
    dwords += copy(rig.gfx, 1, out.va, out.va + 16, wide=1) + copy(rig.gfx, 2, out.va, out.va + 24)
    assert rig.run(dwords, out) is None
    assert out.words(2, 6) == [0xDDEEFF00, 0x99AABBCC, 0x11, 0x22, 0x11, 0]


def test_copy_data_of_a_register(rig):
    out = rig.buffer(4096)
    address = 0x2C00 + 0x240
    dwords = pm4.set_registers({"COMPUTE_USER_DATA_0": 77}, gfx=rig.gfx)
    dwords += copy(rig.gfx, 0, address, out.va) + copy(rig.gfx, 5, 78, address, dst_sel=0)
    dwords += copy(rig.gfx, 0, address, out.va + 4)
    assert rig.run(dwords, out) is None
    assert out.words(0, 2) == [77, 78]
    fault = rig.run(copy(rig.gfx, 0, 0x1234, out.va), out)
    assert (fault.kind, "register space" in fault.text) == ("register", True)


def test_the_gpu_clock_runs_with_info_timestamp(rig):
    """COPY_DATA at the top, RELEASE_MEM at the end, both between two INFO TIMESTAMP."""
    out = rig.buffer(4096)
    before = rig.node.info("TIMESTAMP", "uint64_t")
    dwords = copy(rig.gfx, 9, 0, out.va, wide=1, dst_sel=2) + pm4.ReleaseMem.encode(
        gfx=rig.gfx, event={"type": 0x28, "index": 5}, select={"data": 3}, addr=out.va + 8
    )
    assert rig.run(dwords, out) is None
    after = rig.node.info("TIMESTAMP", "uint64_t")
    top, end = np.frombuffer(out.map[:16], np.uint64)
    assert before <= top <= end <= after


def dma(gfx, src_sel, src, dst, nbytes, dst_sel=3, **command):
    control = {"src_sel": src_sel, "dst_sel": dst_sel}
    return pm4.DmaData.encode(
        gfx=gfx, control=control, src=src, dst=dst, command={"byte_count": nbytes, **command}
    )


@pytest.mark.parametrize(("src", "dst", "nbytes"), [(0, 0, 4000), (1, 4095, 9001), (4000, 7, 96)])
def test_dma_data_copies(rig, src, dst, nbytes):
    a, b = rig.buffer(16384), rig.buffer(16384)
    rng = np.random.default_rng(seed := 5)
    a.map[:] = rng.integers(0, 256, 16384, np.uint8).tobytes()
    dwords = dma(rig.gfx, 3, a.va + src, b.va + dst, nbytes, raw_wait=1, dis_wc=1)
    assert rig.run(dwords, a, b) is None, f"seed {seed}"
    assert bytes(b.map[dst : dst + nbytes]) == bytes(a.map[src : src + nbytes])
    assert not any(b.map[:dst])
    assert not any(b.map[dst + nbytes :])


def test_dma_data_fills_and_waits(rig):
    out = rig.buffer(8192)
    dwords = dma(rig.gfx, 2, 0xDEADBEEF, out.va + 4, 5000) + dma(rig.gfx, 0, 0, 0, 0, dst_sel=2)
    assert rig.run(dwords, out) is None
    assert out.words(0, 1251) == [0] + [0xDEADBEEF] * 1250
    assert out.words(1251, 1) == [0]


def test_one_packet_moves_more_than_32_kib(rig):
    """Mesa keeps below 32 KiB from gfx11 on, but PAL has 2^25 bytes, and libdrm's tests 1 MiB."""
    a, b = rig.buffer(1 << 17), rig.buffer(1 << 17)
    a.write(list(range(1 << 15)))
    assert rig.run(dma(rig.gfx, 3, a.va, b.va, 1 << 17), a, b) is None
    assert b.words(0, 1 << 15) == list(range(1 << 15))
    assert rig.run(dma(rig.gfx, 2, 7, b.va, 1 << 17), b) is None
    assert b.words(0, 1 << 15) == [7] * (1 << 15)


def test_dma_data_prefetches_only_what_is_there(rig):
    out = rig.buffer(4096)
    assert rig.run(dma(rig.gfx, 3, out.va, out.va, 4096, dst_sel=2), out) is None
    fault = rig.run(dma(rig.gfx, 3, out.va, out.va, 4097, dst_sel=2), out)
    assert (fault.kind, fault.va) == ("unmapped", out.va + 4096)
    assert "DMA_DATA" in fault.text


ATOMICS = [  # TC_OP, old, source, new, as 32 bits
    (7, 5, 9, 9), (15, 5, 9, 14), (15, 0xFFFFFFFF, 2, 1), (16, 5, 9, 0xFFFFFFFC),
    (17, 0xFFFFFFFF, 1, 0xFFFFFFFF), (18, 0xFFFFFFFF, 1, 1), (19, 0xFFFFFFFF, 1, 1),
    (20, 0xFFFFFFFF, 1, 0xFFFFFFFF), (21, 6, 3, 2), (22, 6, 3, 7), (23, 6, 3, 5),
    (24, 5, 9, 6), (24, 9, 9, 0), (25, 5, 9, 4), (25, 0, 9, 9), (25, 12, 9, 9),
    (8, 0, 9, 9), (8, 1, 9, 1),
]  # fmt: skip


def test_atomic_mem(rig):
    """Each operation once, 32 bits, with and without return; compare is 0."""
    out = rig.buffer(4096)
    dwords = []
    for i, (op, old, source, _) in enumerate(ATOMICS):
        out.write([old, 0xAAAA], 2 * i)
        dwords += pm4.AtomicMem.encode(
            gfx=rig.gfx, control={"op": op | (0x40 if i % 2 else 0)}, addr=out.va + 8 * i,
            source=source,
        )  # fmt: skip
    assert rig.run(dwords, out) is None
    for i, (op, old, source, new) in enumerate(ATOMICS):
        assert out.words(2 * i, 2) == [new, 0xAAAA], (op, old, source)


def test_atomic_mem_of_64_bits(rig):
    out = rig.buffer(4096)
    out.write([0xFFFFFFFF, 0])
    dwords = pm4.AtomicMem.encode(gfx=rig.gfx, control={"op": 0x2F}, addr=out.va, source=1)
    assert rig.run(dwords, out) is None
    assert out.words(0, 2) == [0, 1]
    fault = rig.run(pm4.AtomicMem.encode(gfx=rig.gfx, control={"op": 3}, addr=out.va), out)
    assert (fault.kind, "atomic 3" in fault.text) == ("packet", True)


def test_a_page_without_the_right_is_named(rig):
    out = rig.buffer(4096, rights="r")
    dwords = pm4.WriteData.encode(gfx=rig.gfx, control=MEM, addr=out.va, values=[1])
    fault = rig.run(dwords, out)
    assert (fault.kind, fault.va, fault.access) == ("rights", out.va, 2)
    assert "WRITE_DATA" in fault.text


def test_a_buffer_that_the_job_does_not_list(rig):
    out = rig.buffer(4096)
    dwords = pm4.WriteData.encode(gfx=rig.gfx, control=MEM, addr=out.va, values=[1])
    assert rig.run(dwords).kind == "unlisted"
