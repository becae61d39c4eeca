"""The command processor: order, waiting, nesting, and what it refuses, on both chips.

When this fails, wrong command streams of ours pass on the emulator and hang real cards.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import pm4

NOP = 0xFFFF1000
MEM = {"dst_sel": 5, "wr_confirm": 1}


def store(rig, buffer, value, index=0):
    return pm4.WriteData.encode(
        gfx=rig.gfx, control=MEM, addr=buffer.va + 4 * index, values=[value]
    )


def wait(rig, buffer, reference, function=5, **more):
    return pm4.WaitRegMem.encode(
        gfx=rig.gfx, control={"function": function, "mem_space": 1}, addr=buffer.va,
        reference=reference, **more,
    )  # fmt: skip


def release(rig, buffer, **select):
    event = {
        "type": 0x14,
        "index": 5,
        "gl2_wb": 1,
        "glm_wb": 1,
        "glm_inv": 1,
        "seq": 1,
        "policy": 3,
    }
    return pm4.ReleaseMem.encode(
        gfx=rig.gfx, event=event, select=select, addr=buffer.va, value=0x1_00000007
    )


def test_release_mem_writes_one_or_two_dwords(rig):
    out = rig.buffer(4096)
    assert rig.run(release(rig, out, data=1, intr=3), out) is None
    assert out.words(0, 2) == [7, 0]
    assert rig.run(release(rig, out, data=2), out) is None
    assert out.words(0, 2) == [7, 1]
    assert rig.run(release(rig, out, data=0), out) is None


@pytest.mark.parametrize(
    ("function", "reference", "mask"),
    [
        (0, 99, 0),
        (1, 8, 0xFF),
        (2, 7, 0xFF),
        (3, 7, 0xFF),
        (4, 6, 0xFF),
        (5, 7, 0xFF),
        (6, 6, 0xFF),
    ],
)
def test_wait_reg_mem_that_holds_already(rig, function, reference, mask):
    out = rig.buffer(4096)
    dwords = store(rig, out, 0xAB07) + wait(rig, out, reference, function, mask=mask)
    assert rig.run(dwords + store(rig, out, 1, 1), out) is None
    assert out.words(1) == [1]


def test_wait_reg_mem_waits_for_the_host(rig):
    out = rig.buffer(4096, rights="rwu")
    job = rig.gpu.submit("compute", wait(rig, out, 3) + store(rig, out, 9, 1), bos=[out])
    with pytest.raises(TimeoutError):
        rig.gpu.wait(job, 0.02)
    assert out.words(1) == [0]
    out.write([3])
    rig.gpu.wait(job)
    assert out.words(1) == [9]


def test_wait_reg_mem64(rig):
    out = rig.buffer(4096)
    out.write([0, 2])
    dwords = pm4.WaitRegMem64.encode(
        gfx=rig.gfx, control={"function": 5, "mem_space": 1}, addr=out.va, reference=1 << 33
    )
    assert rig.run(dwords, out) is None


@pytest.mark.parametrize("chip", ["gfx1036", "gfx1100"])
def test_a_wait_for_nothing_ends_with_the_jobs_time(open_rig, chip):
    rig = open_rig(chip, job_limit_s=0.05)
    out = rig.buffer(4096)
    fault = rig.run(wait(rig, out, 1), out)
    assert fault.kind == "timeout"
    assert "WAIT_REG_MEM" in fault.text


def test_cond_exec_and_pred_exec(rig):
    out = rig.buffer(4096, rights="rwu")
    body = store(rig, out, 5, 8)
    count = {"count": len(body)}
    for i, (value, wanted) in enumerate([(0, 0), (1, 5)]):
        out.write([value] + [0] * 16)
        dwords = pm4.CondExec.encode(gfx=rig.gfx, addr=out.va, execute=count) + body
        assert rig.run(dwords + store(rig, out, 6, 9), out) is None
        assert out.words(8, 2) == [wanted, 6]
        out.write([0] * 16)
        predicate = {**count, "device_select": i}
        dwords = pm4.PredExec.encode(gfx=rig.gfx, execute=predicate) + body
        assert rig.run(dwords + store(rig, out, 6, 9), out) is None
        assert out.words(8, 2) == [wanted, 6]


def padded(dwords):
    """Filled up to whole lines of the fetcher."""
    return dwords + [NOP] * (-len(dwords) % 8)


def indirect(rig, ib, ndw, **control):
    return pm4.IndirectBuffer.encode(
        gfx=rig.gfx, addr=ib.va, control={"ndw": ndw, "valid": 1, **control}
    )


def test_a_nested_ib_returns_and_a_chained_one_does_not(rig):
    out, inner = rig.buffer(4096), rig.buffer(4096)
    body = padded(store(rig, out, 1))
    inner.write(body)
    last = store(rig, out, 2, 1)
    assert rig.run(indirect(rig, inner, len(body)) + last, out, inner) is None
    assert out.words(0, 2) == [1, 2]
    out.write([0, 0])
    assert rig.run(indirect(rig, inner, len(body), chain=1) + last, out, inner) is None
    assert out.words(0, 2) == [1, 0]


def test_a_nested_or_chained_ib_is_aligned(open_rig):
    """As the first one: INFO HW_IP_INFO's ib_start_alignment. Its size may be any."""
    for lenient, wanted in [((), "ib"), (("padding",), None)]:
        rig = open_rig("gfx1100", lenient=lenient)
        inner = rig.buffer(4096)
        inner.write([NOP] * 32)
        for chain in (0, 1):
            assert rig.run(indirect(rig, inner, 3, chain=chain), inner) is None
            part = SimpleNamespace(va=inner.va + 16)
            fault = rig.run(indirect(rig, part, 8, chain=chain), inner)
            assert (fault and fault.kind) == wanted, chain
            assert fault is None or "expected an IB at a multiple of 32 bytes" in fault.text


def test_nesting_has_an_end(rig):
    inner = rig.buffer(4096)
    body = padded(indirect(rig, inner, 8))
    inner.write(body)
    fault = rig.run(indirect(rig, inner, len(body)), inner)
    assert (fault.kind, fault.va, "deeper" in fault.text) == ("ib", inner.va, True)


def test_ibs_chained_in_a_circle_end_with_the_jobs_time(open_rig):
    rig = open_rig("gfx1100", job_limit_s=0.05)
    inner = rig.buffer(4096)
    inner.write(padded(indirect(rig, inner, 8, chain=1)))
    assert rig.run(indirect(rig, inner, 8, chain=1), inner).kind == "timeout"


def words(text):
    return [int(word, 16) for word in text.split()]


REFUSED = {  # dwords on a compute queue, kind of fault, part of its text
    "type 2": ("80000000", "packet", "type 3"),
    "unknown opcode": ("C0007700 0", "packet", "opcode 0x77"),
    "a graphics packet": ("C0004200 0", "packet", "opcode 0x42"),
    "privileged": ("C0009800 0", "packet", "INVALIDATE_TLBS"),
    "too long": ("C0014600 407 0", "packet", "EVENT_WRITE"),
    "too short": ("C0023C00 15 0 0", "packet", "7"),
    "beyond the IB": ("C0041000 0 0 0 0 0 C0053C00", "ib", "ends after"),
    "a predicate": ("C0001001 0", "packet", "predication"),
    "a reserved header bit": ("C0004680 407", "reserved", "0x80"),
    "a reserved bit": ("C0004600 10407", "reserved", "0x10000"),
    "an address that is none": ("C0021600 0 12340000 5", "reserved", "48-bit"),
    "an address unaligned": ("C0021600 2 0 5", "alignment", "0x2"),
    "an event of graphics": ("C0004600 2C", "packet", "0x2c"),
    "an unknown event": ("C0004600 1", "packet", "event type 0x1"),
    "an event's index": ("C0004600 7", "packet", "expected index 4"),
    "GLM_WB alone": ("C0065800 0 FFFFFFFF FFFFFF 0 0 A 10", "packet", "GLM_INV"),
    "a release that is no end": ("C0064900 507 0 0 0 0 0 0", "packet", "end of pipe"),
    "a GDS destination": ("C0033700 100300 0 0 0", "packet", "dst_sel 3"),
    "a wait for a register": ("C0053C00 5 0 0 0 0 4", "packet", "mem_space 0"),
    "an IB without VALID": ("C0023F00 0 0 8", "packet", "VALID"),
    "an IB of another VMID": ("C0023F00 0 0 1800008", "packet", "vmid"),
    "SH of no register": ("C0017600 3FF 0", "register", "0xbffc"),
    "a launch by register": ("C0017600 200 1", "register", "DISPATCH_INITIATOR"),
    "a register's reserved bit": ("C0017600 20D 100", "reserved", "COMPUTE_PGM_HI"),
    "beyond the space": ("C0027600 3FF 0 0", "register", "SH+0x3ff"),
    "an index": ("C0017600 30000240 0", "reserved", "index"),
    "GRBM in UCONFIG": ("C0017900 200 0", "register", "0x30800"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_refuses(rig, name):
    text, kind, part = REFUSED[name]
    fault = rig.run([0xFFFF1000, *words(text)])
    assert fault is not None
    assert fault.kind == kind, fault.text
    assert part in fault.text


@pytest.mark.parametrize("offset", [0x22B, 0x22C, 0x22D, 0x22E])
def test_what_gfx11_has_and_gfx10_must_not_write(open_rig, offset):
    dwords = [0xC0017600, offset, 0xFFFFFFFF]
    assert open_rig("gfx1100").run(dwords) is None
    fault = open_rig("gfx1036").run(dwords)
    assert (fault.kind, "may not be written by a user" in fault.text) == ("register", True)
    assert open_rig("gfx1036", lenient=["register"]).run(dwords).kind == "register"


def test_leniencies(open_rig):
    for name, dwords in [("register", "C0017900 200 0"), ("reserved", "C0017600 20D 100")]:
        assert open_rig("gfx1100").run(words(dwords)) is not None
        assert open_rig("gfx1100", lenient=[name]).run(words(dwords)) is None


@pytest.mark.parametrize("ip", ["gfx", "compute"])
def test_an_ib_may_have_any_number_of_dwords(rig, ip):
    """Source: Linux gfx_v10_0_ring_test_ib and gfx_v11_0_ring_test_ib: a WRITE_DATA of 5 dwords."""
    out = rig.buffer(4096)
    body = store(rig, out, 0xDEADBEEF)
    assert len(body) == 5
    assert rig.run(body, out, ip=ip, pad=False) is None
    assert out.words(0, 1) == [0xDEADBEEF]


def test_alignment_of_an_ib(open_rig):
    for lenient, wanted in [((), "ib"), (("padding",), None)]:
        rig = open_rig("gfx1036", lenient=lenient)
        ib = rig.buffer(4096)
        ib.write([0xFFFF1000] * 16)
        ib.va += 16
        before = rig.machine.fault_count(0)
        try:
            rig.gpu.wait(rig.gpu.submit_ib("compute", ib, 8))
        except OSError:
            assert wanted is not None
        assert rig.machine.fault_count(0) - before == (wanted is not None)


def test_a_fault_names_the_packets_address(rig):
    fault = rig.run([0xFFFF1000] * 3 + [0xC0007700, 0])
    assert fault.va % 4096 == 12
    assert f"{fault.va:#x}" in fault.text


def test_gfx_packets(rig):
    """Those that a GFX queue's preamble uses, and the shadowing that is not modelled."""
    dwords = words("C0012800 80000000 80000000 C0001200 0 C0004200 0 C0004600 2E")
    dwords += words("C0016900 286 42800000 C0016900 3FE 1")  # context state: any of it
    dwords += pm4.SetShRegIndex.encode(gfx=rig.gfx, reg={"offset": 1, "index": 3}, values=[0xFFFF])
    assert rig.run(dwords, ip="gfx") is None
    fault = rig.run(words("C0012800 80000001 80000000"), ip="gfx")
    assert "shadowed" in fault.text


@pytest.mark.parametrize("ip", ["gfx", "compute"])
def test_what_other_drivers_write_is_taken(rig, ip):
    """Bits that cards ignore, from Mesa 22.3.6: radeonsi's ACQUIRE_MEM for OpenCL (bit 31 of dword
    1), RADV's COMPUTE_DISPATCH_SCRATCH_BASE (a sign-extended address >> 40).
    """
    dwords = words("C0065800 80000000 FFFFFFFF FFFFFF 0 0 A 0 C0027600 210 12345678 FFFF80")
    assert rig.run(dwords, ip=ip) is None
    fault = rig.run(words("C0017600 211 1000080"), ip=ip)
    assert (fault.kind, "0x1000000" in fault.text) == ("reserved", True)


def test_packed_register_writes_of_gfx11(open_rig):
    rig = open_rig("gfx1100", trace=2)
    text = "SET_SH_REG_PAIRS_PACKED COMPUTE_PGM_LO=1 COMPUTE_PGM_HI=2\n"
    [ib] = lowlevel.parse(f"{text}SET_SH_REG_PAIRS COMPUTE_USER_DATA_3=5", gfx=11)
    assert rig.run(ib.dwords) is None
    lines = [line for line in rig.machine.trace if "COMPUTE_" in line]
    assert [line.split()[1::2] for line in lines] == [
        ["COMPUTE_PGM_LO", "0x00000001"], ["COMPUTE_PGM_HI", "0x00000002"],
        ["COMPUTE_USER_DATA_3", "0x00000005"],
    ]  # fmt: skip
    assert rig.run(words("C003BB00 4 02410240 1 2")).kind == "packet"
    assert open_rig("gfx1036").run(ib.dwords).kind == "packet"


def test_the_drawing_engine_waits_for_the_constant_engine(open_rig):
    """libdrm's amdgpu_command_submission_gfx: the counters of gfx10; gfx11 has none."""
    counted = [*pm4.SetCeDeCounters.encode(gfx=10), *pm4.IncrementCeCounter.encode(gfx=10)]
    wait = pm4.WaitOnCeCounter.encode(gfx=10)
    rig = open_rig("gfx1036", job_limit_s=0.05)
    assert rig.run(counted + wait, ip="gfx") is None
    fault = rig.run(counted + pm4.IncrementDeCounter.encode(gfx=10) + wait, ip="gfx")
    assert fault.kind == "timeout"
    assert "opcode 0x89" in open_rig("gfx1100").run(counted, ip="gfx").text
