"""SDMA packets on both chips: what they write, and what they refuse.

When this fails, copies by SDMA write other bytes than hardware does.
"""

from __future__ import annotations

import numpy as np
import pytest

from sparkle_drv.lowlevel import sdma

FILL = {"fillsize": 2}


def copy(rig, dst, src, nbytes):
    return sdma.CopyLinear.encode(gfx=rig.gfx, count={"bytes": nbytes}, src=src, dst=dst)


def fill(rig, dst, value, nbytes, header=None):
    return sdma.ConstFill.encode(
        gfx=rig.gfx, header=header or FILL, addr=dst, value=value, count={"bytes": nbytes}
    )


def fence(rig, buffer, value, mtype=3):
    return sdma.SdmaFence.encode(gfx=rig.gfx, header={"mtype": mtype}, addr=buffer.va, value=value)


def run(rig, dwords, *bos):
    return rig.run(dwords, *bos, ip="dma")


@pytest.mark.parametrize(("src", "dst", "nbytes"), [(0, 0, 4096), (3, 4093, 9001), (1, 2, 1)])
def test_copy(rig, src, dst, nbytes):
    a, b = rig.buffer(16384), rig.buffer(16384)
    rng = np.random.default_rng(seed := 11)
    a.map[:] = rng.integers(1, 256, 16384, np.uint8).tobytes()
    assert run(rig, copy(rig, b.va + dst, a.va + src, nbytes), a, b) is None, f"seed {seed}"
    assert bytes(b.map[dst : dst + nbytes]) == bytes(a.map[src : src + nbytes])
    assert not any(b.map[:dst])
    assert not any(b.map[dst + nbytes :])


def test_fill_write_fence_timestamp(rig):
    out = rig.buffer(16384)
    before = rig.node.info("TIMESTAMP", "uint64_t")
    values = list(range(100, 1400))
    dwords = fill(rig, out.va, 0xDEADBEEF, 4104) + sdma.SdmaNop.encode(gfx=rig.gfx)
    dwords += sdma.SdmaWrite.encode(gfx=rig.gfx, addr=out.va + 8192, values=values)
    dwords += sdma.SdmaTimestamp.encode(gfx=rig.gfx, addr=out.va + 4200)
    dwords += sdma.UserGcr.everything(rig.gfx, gl2_wb=1) + fence(rig, out, 7)
    assert run(rig, dwords, out) is None
    assert out.words(0, 1027) == [7] + [0xDEADBEEF] * 1025 + [0]
    assert out.words(2048, 1301) == [*values, 0]
    stamp = np.frombuffer(out.map[4200:4208], np.uint64)[0]
    assert before <= stamp <= rig.node.info("TIMESTAMP", "uint64_t")


def test_poll_waits_for_the_host(rig):
    out = rig.buffer(4096)
    poll = sdma.PollRegmem.encode(
        gfx=rig.gfx, header={"function": 5, "mem": 1}, addr=out.va, value=3,
        poll={"retry": sdma.WAIT_FOREVER, "interval": 10},
    )  # fmt: skip
    job = rig.gpu.submit("dma", poll + fill(rig, out.va + 8, 9, 4), bos=[out])
    with pytest.raises(TimeoutError):
        rig.gpu.wait(job, 0.02)
    out.write([4])
    rig.gpu.wait(job)
    assert out.words(2) == [9]


def test_a_poll_with_few_retries_gives_up(rig):
    out = rig.buffer(4096)
    poll = sdma.PollRegmem.encode(
        gfx=rig.gfx, header={"function": 3, "mem": 1}, addr=out.va, value=3, poll={"retry": 2}
    )
    fault = run(rig, poll, out)
    assert (fault.kind, "2 retries" in fault.text) == ("timeout", True)


def test_a_copy_of_what_was_just_copied_wants_a_nop(open_rig):
    for lenient, ordered in [((), False), (("order",), True)]:
        rig = open_rig("gfx1100", lenient=lenient)
        a, b, c = (rig.buffer(4096) for _ in range(3))
        first, second = copy(rig, b.va, a.va, 64), copy(rig, c.va, b.va + 32, 64)
        fault = run(rig, first + second, a, b, c)
        assert (fault is None) == ordered
        assert ordered or "NOP" in fault.text
        nop = sdma.SdmaNop.encode(gfx=rig.gfx)
        assert run(rig, first + nop + second, a, b, c) is None
        assert run(rig, first + copy(rig, b.va + 64, a.va, 64), a, b, c) is None


def test_what_was_just_read_is_overwritten_after_a_nop_only(rig):
    """A fill or a copy onto the source of the copy before it; reading it twice is no conflict."""
    a, b, c = (rig.buffer(4096) for _ in range(3))
    first, nop = copy(rig, b.va, a.va, 64), sdma.SdmaNop.encode(gfx=rig.gfx)
    for second in (fill(rig, a.va + 60, 1, 8), copy(rig, a.va + 32, c.va, 64)):
        fault = run(rig, first + second, a, b, c)
        assert (fault.kind, "was read by" in fault.text) == ("packet", True), fault
        assert run(rig, first + nop + second, a, b, c) is None
    assert run(rig, first + copy(rig, c.va, a.va, 64), a, b, c) is None


def test_order_is_checked_far_back(rig):
    """100 copies between the two that conflict; the pieces of a long copy count as one."""
    a, b = rig.buffer(1 << 20), rig.buffer(1 << 20)
    gaps = [n for i in range(102) for n in copy(rig, b.va + 512 * i, a.va + 512 * i, 64)]
    fault = run(rig, gaps + fill(rig, a.va, 1, 4), a, b)
    assert "was read by" in fault.text
    pieces = [n for i in range(2000) for n in copy(rig, b.va + 512 * i, a.va + 512 * i, 512)]
    assert run(rig, pieces, a, b) is None
    fault = run(rig, pieces + fill(rig, b.va, 1, 4), a, b)
    assert "was written by" in fault.text


def test_too_many_places_at_once(open_rig):
    for lenient, wanted in [((), "packet"), (("order",), None)]:
        rig = open_rig("gfx1100", lenient=lenient)
        out = rig.buffer(1 << 20)
        fault = run(rig, [n for i in range(1025) for n in fill(rig, out.va + 8 * i, 1, 4)], out)
        assert (fault and fault.kind) == wanted
        assert fault is None or "1024 ranges" in fault.text


REFUSED = {  # dwords, kind of fault, part of its text
    "unknown op": ("0000003F", "packet", "0x3f"),
    "unknown sub_op": ("00000301 0 0 0 0 0 0", "packet", "0x301"),
    "INDIRECT": ("4 0 0 8 0 0", "packet", "only the kernel driver may"),
    "TRAP": ("6 0", "packet", "only the kernel driver may"),
    "GCR_REQ": ("11 0 C3B10000 0 0", "packet", "only the kernel driver may"),
    "a reserved bit": ("1 C0000FFF 0 0 0 0 0", "reserved", "0xc0000000"),
    "software bits": ("1 FFF 1 0 0 0 0", "reserved", "COPY_LINEAR"),
    "an unaligned fence": ("30005 2 0 7", "alignment", "0x2"),
    "a cached fence": ("5 0 0 7", "packet", "mtype 0"),
    "a fill of bytes": ("B 0 0 0 3", "packet", "fillsize 0"),
    "a fill of no dwords": ("8000000B 0 0 0 2", "alignment", "3 bytes"),
    "an address that is none": ("30005 0 12340000 7", "reserved", "48-bit"),
    "a poll of a register": (
        "30000008 0 0 0 0 FFF0000",
        "packet",
        "of a register: only the kernel driver may",
    ),
    "SRBM_WRITE": ("F000000E 0 0", "packet", "SRBM_WRITE: only the kernel driver may"),
    "PTEPDE": ("C 0 0 0 0 0 0 0 0 0", "packet", "PTEPDE: only the kernel driver may"),
    "GPUVM_INV": ("10 0 0 0", "packet", "GPUVM_INV: only the kernel driver may"),
    "nowhere": ("30005 0 0 7", "unmapped", "FENCE"),
    "a write beyond the IB": ("2 0 0 FF 0", "ib", "256 dwords"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_refuses(rig, name):
    text, kind, part = REFUSED[name]
    fault = run(rig, [int(word, 16) for word in text.split()])
    assert fault is not None
    assert fault.kind == kind, fault.text
    assert part in fault.text


def test_the_fill_limit_of_each_version(open_rig):
    """22 bits of bytes on SDMA 5.2, 30 on 6.0: here by the reserved bits above the field."""
    dwords = [0x8000000B, 0, 0, 0, 0x3FFFFF | 1 << 22]
    assert run(open_rig("gfx1036"), dwords).kind == "reserved"
    assert run(open_rig("gfx1100"), dwords).kind == "unmapped"
