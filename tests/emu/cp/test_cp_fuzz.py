"""Spoilt streams: every job ends, by itself or by a fault that is named, and nothing crashes.

When this fails, a spoilt command stream crashes the emulator's process.
"""

from __future__ import annotations

import random

import pytest
from dispatches import stream

from sparkle_drv.lowlevel import pm4, sdma, type3

SEED = 20
LIMIT_S = 2.0
# What may really take that long.
WAITS = ("WAIT_REG_MEM", "POLL_REGMEM", "ATOMIC_MEM", "WAIT_ON_CE_COUNTER")


def compute_stream(rng, gfx, va):
    """A dispatch, then one packet of a random opcode with a random body, some of it addresses."""
    cls = rng.choice([c for c in type3.classes() if gfx in c.LEVELS])
    tail = rng.randrange(4) if cls.tail() else 0
    body = [rng.choice([0, 1, rng.getrandbits(32), va & 0xFFFFFFFF, va >> 32]) for _ in range(
        cls.fixed_ndw() - 1 + tail
    )]  # fmt: skip
    header = 3 << 30 | (len(body) - 1 & 0x3FFF) << 16 | cls.OPCODE << 8
    return [*stream(gfx, groups=(0, 1, 1)), header, *body]


def sdma_stream(rng, gfx, va):
    made = sdma.CopyLinear.encode(gfx=gfx, count={"bytes": 64}, src=va, dst=va + 64)
    made += sdma.SdmaWrite.encode(gfx=gfx, addr=va, values=[1, 2, 3])
    return made + sdma.SdmaFence.encode(gfx=gfx, header={"mtype": 3}, addr=va + 256, value=1)


def check_time(fault):
    if fault is not None and fault.kind == "timeout":
        assert any(name in fault.text for name in WAITS), fault


@pytest.mark.parametrize(("ip", "make"), [("compute", compute_stream), ("dma", sdma_stream)])
@pytest.mark.parametrize("chip", ["gfx1036", "gfx1100"])
def test_spoilt_streams_end(open_rig, chip, ip, make):
    rig = open_rig(chip, job_limit_s=LIMIT_S)
    out = rig.buffer(8192)
    rng = random.Random(SEED)
    faults = 0
    for _ in range(120):
        dwords = make(rng, rig.gfx, out.va)
        for _ in range(rng.randrange(3)):
            dwords[rng.randrange(len(dwords))] ^= 1 << rng.randrange(32)
        fault = rig.run(dwords, out, ip=ip)
        assert fault is None or (fault.kind != "none" and fault.text), f"seed {SEED}: {dwords}"
        check_time(fault)
        faults += fault is not None
    assert 20 < faults < 120, f"seed {SEED}"


@pytest.mark.parametrize("chip", ["gfx1036", "gfx1100"])
def test_whatever_python_declares_the_engine_reads_alike(open_rig, chip):
    """An empty packet of each kind: the engine refuses it for its meaning, never for its form."""
    rig = open_rig(chip, job_limit_s=LIMIT_S)
    for cls in type3.classes():
        if rig.gfx not in cls.LEVELS or cls.tail() is not None:
            continue
        for queue in cls.ON:
            fault = rig.run(cls.encode(gfx=rig.gfx), ip=queue)
            check_time(fault)
            words = ("reserved", "dwords long", "no packet")
            assert fault is None or not any(word in fault.text for word in words), fault
    assert pm4.Nop.encode() == [0xFFFF1000]
