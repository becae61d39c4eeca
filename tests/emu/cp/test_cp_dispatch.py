"""DISPATCH packets: what reaches the waves, and every way to describe no launchable dispatch.

When this fails, a wrong dispatch packet passes on the emulator and hangs real cards.
"""

from __future__ import annotations

import dispatches
import pytest
from dispatches import program, stream, traced

from sparkle_drv.lowlevel import pm4

PREAMBLE = 2


def launched(rig, dwords, *bos, **more):
    """The trace of a job that must not fault, one line a dispatch."""
    rig.code = getattr(rig, "code", None) or program(rig)
    list(rig.machine.trace)
    fault = rig.run(dwords, rig.code, *bos, **more)
    assert fault is None, fault
    return traced(rig)


def test_a_dispatch(rig):
    [line] = launched(rig, stream(rig.gfx, (2, 3, 4)))
    assert line == (
        "groups 0..2 0..3 0..4 of 64x1x1 (last 64x1x1) code ffff800001234500 "
        "rsrc 60af0040 8c 0 initiator 8005"
    )


def test_nothing_to_run(rig):
    assert launched(rig, stream(rig.gfx, (2, 0, 4))) == []


def test_start_and_end(rig):
    start = {f"START_{axis}": value for axis, value in zip("XYZ", (1, 0, 2), strict=True)}
    [line] = launched(rig, stream(rig.gfx, (2, 3, 4), initiator=0x8001, **start))
    assert line.startswith("groups 1..2 0..3 2..4 ")
    fault = rig.run(stream(rig.gfx, (0, 3, 4), initiator=0x8001, **start))
    assert (fault.kind, "START_X 1" in fault.text) == ("dispatch", True)


@pytest.mark.parametrize("threads", [1, 3])
def test_groups_that_end_at_once_end_with_the_jobs_time(open_rig, threads):
    rig = open_rig("gfx1100", job_limit_s=0.2, threads=threads)
    code = program(rig)
    fault = rig.run(stream(rig.gfx, (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF)), code)
    assert (fault.kind, fault.text) == ("timeout", "the job ran longer than its time limit")


def test_a_partial_group(rig):
    partial = {"NUM_THREAD_X": 64 | 5 << 16, "NUM_THREAD_Y": 1 | 1 << 16}
    partial["NUM_THREAD_Z"] = 1 | 1 << 16
    [line] = launched(rig, stream(rig.gfx, initiator=0x8007, **partial))
    assert "of 64x1x1 (last 5x1x1)" in line
    fault = rig.run(stream(rig.gfx, initiator=0x8007))
    assert "NUM_THREAD_X PARTIAL is 0 of 64" in fault.text


def test_dimensions_in_threads(rig):
    [line] = launched(rig, stream(rig.gfx, (130, 1, 1), initiator=0x8025))
    assert line.startswith("groups 0..3 0..1 0..1 of 64x1x1 (last 2x1x1)")


def test_dispatch_indirect(rig):
    counts = rig.buffer(4096)
    counts.write([5, 6, 7], 2)
    named = pm4.set_registers(dispatches.registers(rig.gfx), gfx=rig.gfx)
    dwords = pm4.DispatchIndirect.encode(gfx=rig.gfx, addr=counts.va + 8, initiator=0x8005)
    [line] = launched(rig, named + dwords, counts)
    assert line.startswith("groups 0..5 0..6 0..7 ")
    dwords = pm4.SetBase.encode(gfx=rig.gfx, base={"index": 1}, addr=counts.va)
    dwords += pm4.DispatchIndirectGfx.encode(
        gfx=rig.gfx, offset=8, initiator=0x8005, header={"shader_type": 1}
    )
    [line] = launched(rig, named + dwords, counts, ip="gfx")
    assert line.startswith("groups 0..5 0..6 0..7 ")


SPOILT = {  # changed registers, part of the fault's text
    "no threads": ({"NUM_THREAD_Y": 0}, "NUM_THREAD 64 x 0"),
    "too many threads": ({"NUM_THREAD_X": 1024, "NUM_THREAD_Y": 2}, "1..1024"),
    "too much LDS": ({"PGM_RSRC2": 0x8C | 129 << 15}, "LDS_SIZE"),
    "too many VGPRs": ({"PGM_RSRC1": 0x60AF0060}, "VGPRS 32"),
    "too many user SGPRs": ({"PGM_RSRC2": 17 << 1}, "USER_SGPR 17"),
    "four dimensions": ({"PGM_RSRC2": 3 << 11}, "TIDIG_COMP_CNT"),
    "no scratch": ({"PGM_RSRC2": 0x8D}, "TMPRING_SIZE"),
    "no scratch size": (
        {"PGM_RSRC2": 0x8D, "TMPRING_SIZE": 0, "DISPATCH_SCRATCH_BASE_LO": 0,
         "DISPATCH_SCRATCH_BASE_HI": 0}, "TMPRING_SIZE is 0"),
    "no room for a group's scratch": (
        {"PGM_RSRC2": 0x8D, "TMPRING_SIZE": 0x1001, "NUM_THREAD_X": 256,
         "DISPATCH_SCRATCH_BASE_LO": 0, "DISPATCH_SCRATCH_BASE_HI": 0}, "the group never starts"),
    "no CU": ({f"STATIC_THREAD_MGMT_SE{n}": 0 for n in range(4)}, "enables no CU"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILT)
def test_what_would_hang(rig, name):
    changes, part = SPOILT[name]
    if name == "no CU" and rig.gfx == 11:
        changes = {f"STATIC_THREAD_MGMT_SE{n}": 0 for n in range(8)}
    fault = rig.run(stream(rig.gfx, **changes))
    assert fault is not None
    assert fault.kind == "dispatch", fault.text
    assert part in fault.text


@pytest.mark.parametrize(
    ("initiator", "part"), [(0x8004, "COMPUTE_SHADER_EN"), (0x800D, "0x8"), (0xC005, "0x4000")]
)
def test_initiators(rig, initiator, part):
    fault = rig.run(stream(rig.gfx, initiator=initiator))
    assert (fault.kind, part in fault.text) == ("dispatch", True), fault.text


def test_interleave_of_gfx11(open_rig):
    fault = open_rig("gfx1100").run(stream(11, DISPATCH_INTERLEAVE=65))
    assert "none of 0, 64" in fault.text


def test_a_gfx_queue_wants_the_shader_type(rig):
    fault = rig.run(stream(rig.gfx), ip="gfx")
    assert "shader type" in fault.text
    assert len(launched(rig, stream(rig.gfx, header={"shader_type": 1}), ip="gfx")) == 1


NEEDED = [
    "PGM_LO", "PGM_HI", "PGM_RSRC1", "PGM_RSRC2", "PGM_RSRC3", "RESOURCE_LIMITS",
    "STATIC_THREAD_MGMT_SE0", "NUM_THREAD_X", "NUM_THREAD_Y", "NUM_THREAD_Z", "USER_ACCUM_0",
]  # fmt: skip


@pytest.mark.parametrize("name", NEEDED)
def test_a_register_left_to_a_stranger(rig, name):
    fault = rig.run(stream(rig.gfx, **{name: None}))
    assert fault is not None
    assert fault.kind == "dispatch"
    assert f"COMPUTE_{name} was not programmed" in fault.text


def test_registers_of_an_earlier_job_do_not_count(rig):
    assert len(launched(rig, stream(rig.gfx))) == 1
    fault = rig.run(stream(rig.gfx, PGM_LO=None))
    assert "COMPUTE_PGM_LO was not programmed" in fault.text


def test_a_preamble_holds_until_another_context_comes(rig):
    """The kernel skips a preamble IB while the context on the ring stays the same."""
    split = {"PGM_HI": 0x80, "RESOURCE_LIMITS": 0}
    preamble = pm4.set_registers({f"COMPUTE_{k}": v for k, v in split.items()}, gfx=rig.gfx)
    rest = stream(rig.gfx, **dict.fromkeys(split))
    assert launched(rig, preamble, flags=PREAMBLE) == []
    assert len(launched(rig, rest)) == 1
    assert len(launched(rig, rest)) == 1
    with type(rig.gpu)(rig.node) as other:
        other.wait(other.submit("compute", [0xFFFF1000]))
    fault = rig.run(rest)
    assert "was not programmed" in fault.text


def test_unprogrammed_registers_may_be_let_pass(open_rig):
    rig = open_rig("gfx1036", lenient=["unprogrammed"], trace=2)
    assert len(launched(rig, stream(10, RESOURCE_LIMITS=None))) == 1


SCRATCH = {"PGM_RSRC2": 0x8D, "DISPATCH_SCRATCH_BASE_LO": 0, "DISPATCH_SCRATCH_BASE_HI": 0}


@pytest.mark.parametrize(
    ("chip", "waves", "says"),
    [
        ("gfx1036", 8, ""),
        ("gfx1100", 7, "each of 6 shader engines 7 slots"),
        ("gfx1100", 8, ""),
        ("gfx1030", 8, "each of 4 shader engines 2 slots"),
        ("gfx1030", 30, "WAVES 30 is no multiple of the 4 shader engines"),
        ("gfx1030", 32, ""),
    ],
)
def test_a_group_needs_its_scratch_slots_in_one_engine(open_rig, chip, waves, says):
    """A group of 8 waves. WAVES is each engine's on gfx11, all engines' on gfx10."""
    rig = open_rig(chip)
    code = program(rig)
    more = {"TMPRING_SIZE": 0x1000 | waves, "NUM_THREAD_X": 256}
    if rig.gfx == 10:
        more |= dict.fromkeys(list(SCRATCH)[1:])
    fault = rig.run(stream(rig.gfx, **{**SCRATCH, **more}), code)
    assert says in fault.text if says else fault is None, fault


def test_a_privileged_wave(rig):
    """gfx10 keeps PRIV for the kernel driver; radeonsi sets it for all compute shaders of gfx11."""
    dwords = stream(rig.gfx, PGM_RSRC1=0x60BF0040)
    if rig.gfx == 10:
        fault = rig.run(dwords)
        assert fault.kind == "dispatch"
        assert "PRIV" in fault.text
    else:
        assert len(launched(rig, dwords)) == 1
