"""What kernel, umr and Mesa print of IBs comes back as its dwords; a spoilt dump is one line.

When this fails, a dump of a hung GPU is read as other packets.
"""

from __future__ import annotations

import random
import re
import time

import pm4_dumps
import pm4_fuzz
import pytest
from pm4_ibs import CAPTURES, call, ib, job

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import Ib, TextError, pm4, sdma

VA = 0xFFFF800100041000
FILLER = 0xFFFF1000


def at(va, ib):
    return Ib(ib.dwords, ib.gfx, ib.ip, va)


def captured(stem):
    path = next(path for path in CAPTURES if path.stem.endswith(stem))
    return [Ib(one.dwords, one.gfx, one.ip, one.va) for one in lowlevel.read_ibs(path.read_text())]


@pytest.fixture
def dispatch():
    return at(VA, job(11)[0])


# --- devcoredumps ---------------------------------------------------------------------------------


def test_a_devcoredump(dispatch):
    filled = [*call(VA, len(dispatch.dwords)), *[FILLER] * 60]
    rings = pm4_dumps.ring("gfx_0.0.0", filled) + pm4_dumps.ring("vcn_dec_0", [1] * 16)
    rings += pm4_dumps.ring("sdma0", [0] * 16) + pm4_dumps.ring("mes_3.1.0", [2] * 8)
    text = pm4_dumps.devcoredump([dispatch], rings)
    gfx, copies, found = lowlevel.read_ibs(text)
    assert found == dispatch
    assert (gfx.ip, gfx.va, copies.ip) == ("gfx", None, "sdma")
    assert list(gfx.dwords) == filled
    steps = [step.name for step in lowlevel.run([gfx, found])]
    assert steps[0] == "INDIRECT_BUFFER"
    assert "DISPATCH_DIRECT" in steps


@pytest.mark.parametrize(("kind", "ip"), [(0, "gfx"), (1, "compute"), (2, "sdma")])
@pytest.mark.parametrize(("version", "gfx"), [("10.3.6", 10), ("11.5.0", 11), ("12.0.1", 12)])
def test_queue_and_generation_are_told(kind, ip, version, gfx):
    one = at(VA, ib([0] * 8))
    [found] = lowlevel.read_ibs(pm4_dumps.devcoredump([one], version=version, kind=kind))
    assert (found.gfx, found.ip, found.va) == (gfx, ip, VA)


def test_a_ring_begins_at_its_write_pointer():
    dwords = list(range(0xC0001000, 0xC0001010))
    text = pm4_dumps.devcoredump([], pm4_dumps.ring("comp_1.0.0", dwords, wptr=0x10_0004))
    [found] = lowlevel.read_ibs(text)
    assert list(found.dwords) == dwords[4:] + dwords[:4]
    assert (found.ip, found.complete) == ("compute", True)
    [cut] = lowlevel.read_ibs(text[: text.index("0x20 \t")])
    assert (list(cut.dwords), cut.complete) == (dwords[4:8] + dwords[:4], True)


def test_what_the_kernel_could_not_read(dispatch):
    text = pm4_dumps.devcoredump([], "") + pm4_dumps.kernel_ib(0, dispatch, told=False)
    [found] = lowlevel.read_ibs(text)
    assert (found.dwords, found.va, found.complete) == ((), VA, False)
    text = pm4_dumps.devcoredump([dispatch])
    [cut] = lowlevel.read_ibs(text[: text.rindex("0xffff1000")])
    assert (cut.dwords, cut.complete) == (dispatch.dwords[:-1], False)


def test_a_kernel_that_does_not_tell_the_generation(dispatch):
    text = pm4_dumps.devcoredump([dispatch], version=None)
    with pytest.raises(ValueError, match="this devcoredump names no gfx"):
        lowlevel.read_ibs(text)
    assert lowlevel.read_ibs(text, gfx=11) == [dispatch]
    with pytest.raises(TextError, match="neither rings nor IBs"):
        lowlevel.read_ibs(pm4_dumps.devcoredump())


def test_an_excerpt_of_a_devcoredump(dispatch):
    text = "Some words before.\n" + pm4_dumps.kernel_ib(3, dispatch) + "\nAnd behind.\n"
    assert lowlevel.read_ibs(text, gfx=11) == [dispatch]


# --- Mesa's dumps ---------------------------------------------------------------------------------


@pytest.mark.parametrize("colours", [False, True])
def test_a_trace_log(dispatch, colours):
    text = "Trace ID: 1f\n" + pm4_dumps.mesa(dispatch, colours=colours)
    [found] = lowlevel.read_ibs(text, gfx=11)
    assert (found.dwords, found.ip, found.va) == (dispatch.dwords, "compute", None)
    with pytest.raises(ValueError, match="gfx: expected a value"):
        lowlevel.read_ibs(text)


def test_nested_and_chained(dispatch):
    caller = ib(call(VA, len(dispatch.dwords)), [FILLER] * 4, ip="gfx")
    text = pm4_dumps.mesa(caller, ip=" - GFX", nested=dispatch)
    outer, inner = lowlevel.read_ibs(text, gfx=11)
    assert (outer.dwords, outer.ip) == (caller.dwords, "gfx")
    assert (inner.dwords, inner.va, inner.ip) == (dispatch.dwords, VA, "gfx")
    jump = pm4.IndirectBuffer.encode(
        gfx=11, addr=VA, control={"ndw": len(dispatch.dwords), "valid": 1, "chain": 1}
    )
    both = ib(jump, dispatch.dwords)
    first, second = lowlevel.read_ibs(pm4_dumps.mesa(both), gfx=11)
    assert first.dwords == tuple(jump)
    assert (second.dwords, second.va) == (dispatch.dwords, VA)
    names = [step.name for step in lowlevel.run([first, second])]
    assert names.count("DISPATCH_DIRECT") == 1


@pytest.mark.parametrize(("name", "ip"), [("main IB", ""), ("COMPUTE", " (dw = 0)")])
def test_other_headings_of_mesa(dispatch, name, ip):
    [found] = lowlevel.read_ibs(pm4_dumps.mesa(dispatch, name, ip), gfx=11)
    assert (found.dwords, found.ip, found.complete) == (dispatch.dwords, "compute", True)


def test_a_cut_trace_log(dispatch):
    text = pm4_dumps.mesa(dispatch, colours=False)
    [found] = lowlevel.read_ibs(text[: text.index("c0031500")] + "c0031500", gfx=11)
    assert not found.complete
    assert found.dwords == dispatch.dwords[: len(found.dwords)]


# --- umr's text -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stem", "chip"), [("1036_compute", "gfx1036"), ("1100_compute", "gfx1100")]
)
def test_umr_of_captures(stem, chip):
    """umr leaves the offsets of SET packets out; the registers' names bring them back."""
    ibs = captured(stem)
    text = "".join(pm4_dumps.umr(one, chip, "mm" if chip == "gfx1036" else "reg") for one in ibs)
    found = lowlevel.read_ibs(text, ip="compute")
    assert [one.dwords for one in found] == [one.dwords for one in ibs]
    assert [one.va for one in found] == [one.va for one in ibs]
    assert lowlevel.diff(found, ibs) == []


def test_umr_of_sdma():
    dwords = [*sdma.CopyLinear.encode(gfx=11, src=0x1000, dst=0x2000, count={"bytes": 64}), 0]
    one = Ib(tuple(dwords), 11, "sdma", VA)
    assert lowlevel.read_ibs(pm4_dumps.umr_sdma(one), gfx=11) == [one]


def test_rings_of_older_umr(dispatch):
    text = pm4_dumps.umr_ring("comp_1.0.0", dispatch.dwords)
    text += pm4_dumps.umr_ring("vcn_dec", [1, 2])
    [found] = lowlevel.read_ibs(text, gfx=11)
    assert (found.dwords, found.ip) == (dispatch.dwords, "compute")


def test_what_umr_leaves_out():
    text = pm4_dumps.umr(ib(pm4.DispatchDirect.encode(gfx=11, dim_x=1, dim_y=1, dim_z=1)))
    text = text.replace(text.splitlines()[-4] + "\n", "")  # the initiator
    text += "|---> gfx1100.regX=0\n"
    [found] = lowlevel.read_ibs(text)
    assert found.gaps == {4: "dword 4 of it is not printed"}
    assert "initiator=0" in lowlevel.text([found])


def test_a_register_that_no_table_has():
    text = pm4_dumps.umr(
        ib(pm4.SetContextReg.encode(gfx=11, reg={"offset": 8}, values=[7]), ip="gfx")
    )
    text = re.sub(r"\.reg\S+=", ".regNO_SUCH_THING=", text)
    [found] = lowlevel.read_ibs(text + "Opcode", ip="gfx")
    assert [packet.cls.NAME for packet in found.packets()] == ["NOP"]
    assert "NO_SUCH_THING" in found.gap(0, 1)


def test_lines_left_out_begin_another_ib(dispatch):
    """An excerpt, as people put it into a report."""
    lines = pm4_dumps.umr(dispatch).splitlines()
    packets = [i for i, line in enumerate(lines) if "Opcode" in line]
    lines[packets[3] : packets[5]] = ["......"]
    first, second = lowlevel.read_ibs("\n".join(lines[1:]))
    ends = [packet.at for packet in dispatch.packets()]
    assert first.dwords == dispatch.dwords[: ends[3]]
    assert (second.dwords, second.va) == (dispatch.dwords[ends[5] :], VA + 4 * ends[5])


# --- bad input ------------------------------------------------------------------------------------

HUGE = "IB #0 0x1000 2000000000 dw\n"
UMR = "[0x3@0x1000 + {0:#x}]\t[ {1:#010x}]\tOpcode 0x10 [PKT3_NOP] ({2} words, type: 3, hdr: 0)\n"
BEGIN = "------------------ Main IB begin - COMPUTE ------------------\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HUGE, "in an IB, got 2000000000"),
        ("IB #0 0x1000 4 dw\n0xzz\n", "expected a dword, got '0xzz'"),
        ("IB #0 0x1000 1 dw\n0x1\n0x2\n", "expected 1 dwords of this ring or IB, got more"),
        ("IB #0 0x1000 -1 dw\n", "expected IB #N"),
        ("IB #0 0x1000 1 dw\n0x123456789\n", "expected a dword"),
        (pm4_dumps.ring("gfx", [1, 2]).replace("0x4 \t", "0x8 \t"), "expected offset 0x4"),
        (pm4_dumps.ring("gfx", [1, 2]).replace("0x2\n", "0x2 junk\n"), "expected a dword"),
        (BEGIN + "c0001000 NOP:\nzzzz\n", "expected a dword at column 1, got 'zzzz'"),
        (BEGIN + "    c0001000 NOP:\n", "expected a dword at column 1"),
        (UMR.format(0, 1, 0).replace("0x00000001", "0x000000001"), "expected a dword of PM4"),
        (UMR.format(2, 1, 0), "expected a dword of PM4"),
        (UMR.format(0, 1, 0).replace("Opcode", "|--->"), "line of the packet's opcode"),
        (UMR.format(0, 1, 0) + UMR.format(8, 1, 0).replace("Opcode", "|--->"), "once, got dword 2"),
        ("".join(UMR.format(0x10000 * (i % 60), 1, 16383) for i in range(400)), "in all, got more"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(text, words, capsys, tmp_path):
    import pm4 as tool

    mark = "" if text.startswith(("[", "---")) else "**** AMDGPU Device Coredump ****\n"
    (tmp_path / "bad").write_text(mark + text)
    assert tool.main(["decode", str(tmp_path / "bad"), "--gfx", "11"]) == 1
    out, said = capsys.readouterr()
    assert (out, said.count("\n")) == ("", 1)
    assert re.match(r"pm4.py: \S+/bad:\d+:\d+: ", said)
    assert words in said


@pytest.mark.parametrize("form", ["devcoredump", "umr", "mesa"])
def test_nuls_and_more_than_is_read(form, capsys, tmp_path):
    import pm4 as tool

    start = {"devcoredump": "IB #0 0x1000 4 dw\n", "umr": UMR.format(0, 1, 0), "mesa": BEGIN}[form]
    (tmp_path / "nul").write_bytes(start.encode() + b"c0001000\0\0" + bytes(4096))
    assert tool.main(["decode", str(tmp_path / "nul"), "--gfx", "11", "--from", form]) in (0, 1)
    with (tmp_path / "large").open("wb") as file:
        file.write(start.encode())
        file.truncate(100 << 20)
    before = time.monotonic()
    assert tool.main(["decode", str(tmp_path / "large"), "--gfx", "11"]) == 1
    assert time.monotonic() - before < 5
    assert "expected at most 32 MiB, got more" in capsys.readouterr()[1]


@pytest.mark.unmeasured
def test_spoilt_dumps_are_read_or_refused(dispatch):
    """Whatever is in a dump: IBs that survive text and back, or a line; nothing else is raised."""
    texts = [
        pm4_dumps.devcoredump([dispatch], pm4_dumps.ring("gfx_0.0.0", [FILLER] * 64, wptr=8)),
        pm4_dumps.mesa(ib(call(VA, 8), ip="gfx"), nested=dispatch),
        pm4_dumps.umr(dispatch),
        pm4_dumps.umr_ring("sdma0", dispatch.dwords),
    ]
    seed = random.SystemRandom().getrandbits(32)
    rng, read, refused = random.Random(seed), 0, 0
    for number in range(400):
        text = pm4_fuzz.scratch(rng, rng.choice(texts))
        try:
            ibs = lowlevel.read_ibs(text, gfx=rng.choice((10, 11)))
        except TextError:
            refused += 1
            continue
        assert lowlevel.parse(lowlevel.text(ibs)) == ibs, (seed, number)
        for finding in lowlevel.lint(ibs):
            assert str(finding)
        read += 1
    assert read > 50, seed
    assert refused > 50, seed
