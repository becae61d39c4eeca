"""Every lint rule is silent about right streams and captures, and finds one planted mistake.

When this fails, a faulty command stream passes the linter, or a right one does not.
"""

from __future__ import annotations

import pytest
from pm4_ibs import CAPTURES, acquire, call, dispatch, flush, ib, job, registers

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import Ib, Kernel, pm4, sdma

RELEASE = {"type": 0x28, "index": 5}


def ids(ibs, **more):
    return [finding.rule.id for finding in lowlevel.lint(ibs, **more)]


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_what_radv_submits_is_clean(path):
    assert lowlevel.lint(lowlevel.read_ibs(path.read_text())) == []


@pytest.mark.parametrize("gfx", [10, 11])
def test_a_right_job_is_clean(gfx):
    assert lowlevel.lint(job(gfx)) == []


def wait(addr=0x4000):
    return pm4.WaitRegMem.encode(control={"function": 5, "mem_space": 1}, addr=addr, reference=1)


def release(addr=0x4000, **event):
    return pm4.ReleaseMem.encode(event={**RELEASE, **event}, select={"data": 1}, addr=addr, value=1)


def test_release_and_wait_are_idle_too():
    start = acquire() + registers() + dispatch()
    assert ids([ib(pm4.pad(start + release() + wait()))]) == []
    assert ids([ib(pm4.pad(start + release()))]) == ["not-idle"]
    assert ids([ib(pm4.pad(start + release() + wait(0x8000)))]) == ["not-idle"]


def sdma_ib(*packets):
    dwords = [d for packet in packets for d in packet]
    return [ib(dwords + [0] * (-len(dwords) % 8), ip="sdma")]


FOUND = {  # rule -> IBs with that finding and no other of a severity that fails
    "unknown-packet": lambda: job(before=[0xC0007700, 0]),
    "type2": lambda: job(before=[0x80000000]),
    "register-generation": lambda: job(10, before=pm4.SetShReg.encode(
        reg={"offset": 0x22F}, values=[64])),
    "register-kernel": lambda: job(10, before=pm4.SetShReg.encode(
        reg={"offset": 0x22B}, values=[1])),
    "register-bits": lambda: job(PGM_HI=0x180),
    "glm-pair": lambda: job(before=acquire(gcr={"glm_wb": 1})),
    "event-index": lambda: job(before=flush(index=0)),
    "ib-valid": lambda: [*job(before=pm4.IndirectBuffer.encode(addr=0x9000, control={"ndw": 8})),
                         ib([0xFFFF1000] * 8, va=0x9000)],
    "ib-target": lambda: job(before=call(0x9000, 8)),
    "shader-type": lambda: job(ip="gfx"),
    "sdma-kernel": lambda: sdma_ib(sdma.GcrReq.encode(gfx=11, base_hi={"gcr": 0xC3B1})),
    "sdma-fence": lambda: sdma_ib(sdma.SdmaFence.encode(gfx=11, addr=0x1000, value=1)),
    "register-missing": lambda: job(PGM_RSRC3=None),
    "initiator": lambda: job(before=dispatch(initiator=0x8004) + flush() + acquire()),
    "group-size": lambda: job(NUM_THREAD_X=2048),
    "priv": lambda: job(PGM_RSRC1=0x60BF0040),
    "lds-size": lambda: job(PGM_RSRC2=0x8C | 129 << 15),
    "rsrc-limits": lambda: job(PGM_RSRC1=0x60AF0060),
    "scratch": lambda: job(PGM_RSRC2=0x8D, TMPRING_SIZE=0, DISPATCH_SCRATCH_BASE_LO=0,
                           DISPATCH_SCRATCH_BASE_HI=0),
    "no-cu": lambda: job(**{f"STATIC_THREAD_MGMT_SE{n}": 0 for n in range(8)}),
    "interleave": lambda: job(DISPATCH_INTERLEAVE=65),
    "tgid": lambda: job(PGM_RSRC2=0x0C),
    "acquire-missing": lambda: [ib(pm4.pad(registers() + dispatch() + flush()))],
    "acquire-code": lambda: [ib(pm4.pad(acquire(gcr={"glk_inv": 1}) + registers() + dispatch()
                                        + flush()))],
    "overlap": lambda: job(before=dispatch()),
    "not-idle": lambda: [ib(pm4.pad(acquire() + registers() + dispatch()))],
    "padding": lambda: job(pad=False, before=[0xFFFF1000]),
    "empty": lambda: [*job(), Ib((), 11)],
}  # fmt: skip
WITH_KERNEL = ("rsrc-descriptor",)


def test_every_rule_is_tried():
    assert FOUND.keys() | set(WITH_KERNEL) == lowlevel.RULES.keys()


@pytest.mark.parametrize("name", FOUND)
def test_a_rule_finds_its_mistake(name):
    ibs = FOUND[name]()
    found = lowlevel.lint(ibs)
    assert {finding.rule.id for finding in found} == {name}, found
    one = found[0]
    assert one.rule.explanation
    assert one.rule.source.startswith("AMDGPU_FACTS ")
    assert one.rule.severity in lowlevel.SEVERITIES
    assert f"[{name}]" in str(one)
    assert ids(ibs, disable=[name]) == []


def test_a_finding_names_its_place_and_what_to_know():
    [one] = lowlevel.lint(FOUND["register-kernel"]())
    assert one.packet == "SET_SH_REG"
    assert str(one) == (
        f"IB 0 (0x1000) dword {one.dword}: error: "
        "users may not write COMPUTE_RELAUNCH on gfx10 [register-kernel]"
    )
    [one] = lowlevel.lint(FOUND["register-generation"]())
    assert "SH+0x22f: it is COMPUTE_DISPATCH_INTERLEAVE of gfx11" in one.message
    [one] = lowlevel.lint(job(before=[0xC0004200, 0]))
    assert "PFP_SYNC_ME of gfx queues" in one.message
    [one] = lowlevel.lint(FOUND["padding"]())
    assert one.dword == len(FOUND["padding"]()[0].dwords)


def test_more_ways_to_be_wrong():
    partial = dispatch(initiator=0x8007)
    assert ids([ib(pm4.pad(acquire() + registers() + partial + flush()))]) == ["group-size"] * 3
    assert ids(job(PGM_RSRC2=0x8C | 3 << 11)) == ["rsrc-limits"]
    assert ids(job(PGM_RSRC2=0x80 | 17 << 1)) == ["rsrc-limits"]
    assert ids(job(before=release(type=0x14, index=0))) == ["event-index"]
    assert ids(job(before=release(glm_wb=1))) == ["glm-pair"]
    assert ids([Ib((0xFFFF1000,) * 8, 11, extra=b"x")]) == ["padding"]
    assert ids(job(before=dispatch() + flush())) == ["overlap"]  # idle, but nothing acquired
    assert ids(job(before=dispatch() + flush() + acquire())) == []


def test_registers_of_a_called_ib_count():
    inner = ib(registers(), va=0x9000)
    called = acquire() + call(0x9000, len(inner.dwords)) + dispatch() + flush()
    assert ids([ib(pm4.pad(called), va=0x1000), inner]) == []


def test_a_preamble_counts_for_what_follows():
    assert ids([ib(pm4.pad(acquire() + registers())), ib(pm4.pad(dispatch() + flush()))]) == []


@pytest.mark.parametrize(("size", "needs"), [(0, 0), (1, 1), (512, 1), (4000, 8), (65536, 128)])
def test_lds_must_be_what_the_kernel_has(size, needs):
    right, wrong = (job(PGM_RSRC2=0x8C | n << 15) for n in (needs, needs - 1 if needs else 1))
    assert lowlevel.lint(right, kernel=Kernel(lds_bytes=size)) == []
    [one] = lowlevel.lint(wrong, kernel=Kernel(lds_bytes=size))
    assert (one.rule.id, f"expected {needs}" in one.message) == ("lds-size", True)


def test_rsrc_must_be_the_descriptors():
    told = Kernel(rsrc1=0x60AF0040, rsrc2=0x8C, rsrc3=0)
    assert lowlevel.lint(job(PGM_RSRC2=0x8C | 5 << 15), kernel=told) == []  # LDS_SIZE is put in
    [one] = lowlevel.lint(job(PGM_RSRC2=0x8E, PGM_RSRC3=0), kernel=told)
    assert one.rule.id == "rsrc-descriptor"
    assert "COMPUTE_PGM_RSRC2 is 0x8e, the descriptor has 0x8c: USER_SGPR" in one.message


def test_a_rule_that_there_is_not():
    with pytest.raises(ValueError, match="got nonsense"):
        lowlevel.lint(job(), disable=["nonsense"])
