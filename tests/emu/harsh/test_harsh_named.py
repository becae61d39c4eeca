"""Reads of old bytes as faults that name the cache and what was left out (`name_stale`).

When this fails, a stale read is reported at the wrong cache, and bring-up looks in the wrong place.
"""

from __future__ import annotations

import pytest
from cachekit import CHIPS, LOAD, NEW, OLD, SCALAR_LOAD, UC, acquire, code, run
from ioctls import await_word, store

pytestmark = pytest.mark.parametrize("chip", CHIPS)


@pytest.fixture
def rig(open_rig, chip):
    return open_rig(chip, name_stale=True)


@pytest.mark.parametrize(
    ("text", "actions", "cache", "lacks"),
    [
        (LOAD, ("gl1_inv",), "the vector L0", "GLV_INV"),
        (LOAD, ("glv_inv",), "GL1", "GL1_INV"),
        (SCALAR_LOAD, ("gl1_inv",), "the scalar cache", "GLK_INV"),
        (LOAD, ("gl1_inv", "glv_inv"), "", ""),
        (SCALAR_LOAD, ("gl1_inv", "glk_inv"), "", ""),
    ],
)
def test_a_wave_reads_what_a_packet_has_overwritten(rig, text, actions, cache, lacks):
    x, out, program = rig.buffer(4096), rig.buffer(4096, rights=UC), code(rig, text)
    x.write([0, OLD])
    look = run(rig, program, x.va + 4, out.va)
    fault = rig.run(look + store(x, NEW, 4) + acquire(rig, *actions) + look, program, x, out)
    if not lacks:
        assert fault is None
        assert out.words() == [NEW]
        return
    said = f"read at 0x{x.va + 4:x}: {cache} holds 0x00001111, it is 0x00002222 by now: "
    assert (fault.kind, fault.va) == ("stale", x.va + 4)
    assert fault.text.startswith(said + f"expected {lacks} between the two")
    assert program.va <= fault.pc < program.va + 64


def test_bytes_beside_those_that_changed_may_be_read(rig):
    x, out, program = rig.buffer(4096), rig.buffer(4096, rights=UC), code(rig, LOAD)
    x.write([OLD, 0])
    look = run(rig, program, x.va, out.va)
    assert rig.run(look + store(x, NEW, 4) + look, program, x, out) is None
    assert out.words() == [OLD]


def test_a_job_polls_what_the_cpu_has_written(rig):
    """WAIT_REG_MEM on a word that GL2 holds: named at once, where it would wait for ever."""
    x = rig.buffer(4096)
    assert rig.run(store(x, OLD), x) is None
    x.write([NEW])
    fault = rig.run(await_word(x, NEW), x)
    assert fault.kind == "stale"
    assert "GL2 holds 0x00001111, it is 0x00002222 by now: expected GL2_INV" in fault.text
    assert "WAIT_REG_MEM" in fault.text
