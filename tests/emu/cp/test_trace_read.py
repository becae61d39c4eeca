"""What the emulator traces is what lowlevel reads: the trace of a job means what was submitted.

When this fails, tools read something else from a trace than what ran.
"""

from __future__ import annotations

import dispatches

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import Ib, pm4, sdma


def traced(rig):
    """The IBs of the trace since the last look."""
    return lowlevel.read_ibs("\n".join(rig.machine.trace), rig.gfx, form="capture")


def submitted(rig, dwords, *bos, ip="compute"):
    traced(rig)
    assert rig.run(dwords, *bos, ip=ip) is None
    return traced(rig), [Ib(tuple(dwords), rig.gfx, "sdma" if ip == "dma" else ip)]


def test_a_dispatch(rig):
    dwords = pm4.AcquireMem.encode(gfx=rig.gfx, gcr=0xC3F1) + dispatches.stream(rig.gfx)
    dwords += pm4.SetShReg.encode(gfx=rig.gfx, reg={"offset": 0x24F}, values=[7])
    dwords += pm4.EventWrite.encode(gfx=rig.gfx, event={"type": 7, "index": 4})
    trace, given = submitted(rig, dwords, dispatches.program(rig))
    assert lowlevel.diff(trace, given) == []
    assert [f.rule.id for f in lowlevel.lint(trace)] == []


def test_pairs_of_gfx11(open_rig):
    text = "SET_SH_REG_PAIRS_PACKED COMPUTE_PGM_LO=1 COMPUTE_PGM_HI=2\n"
    text += "SET_SH_REG_PAIRS COMPUTE_USER_DATA_3=5"
    [ib] = lowlevel.parse(text, gfx=11)
    trace, given = submitted(open_rig("gfx1100", trace=2), list(ib.dwords))
    assert lowlevel.diff(trace, given) == []


def test_sdma(rig):
    page = rig.buffer(4096)
    dwords = sdma.ConstFill.encode(
        gfx=rig.gfx, header={"fillsize": 2}, addr=page.va, value=7, count={"bytes": 256}
    )
    dwords += [0] * (-len(dwords) % 8)
    trace, given = submitted(rig, dwords, page, ip="dma")
    assert lowlevel.diff(trace, given) == []
