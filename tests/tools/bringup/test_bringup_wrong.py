"""Rungs that check results fail when the results are wrong: programs that are almost right.

When this fails, a card that computes wrongly passes bring-up.
"""

from __future__ import annotations

import pytest
from _bringup.benches.amdgpu import Bench
from _bringup.benches.hw import NOP, Gpu
from _bringup.rungs import coherence, kernels
from bringupkit import CHIPS, bench, climbed

from sparkle_drv.lowlevel import pm4, sdma

ALMOST = [
    ("store", "STORE", "0xcafebabe", "0xcafebabf", "wrong-code"),
    ("store", "STORE", "global_store_dword v4, v1, s[0:1]", "s_nop 0", "not-visible"),
    ("ids-3d", "IDS3", "v_lshl_or_b32 v4, v1, 4, v0", "v_lshl_or_b32 v4, v0, 4, v1", "ids-order"),
    ("ids-3d", "IDS3", "s_lshl_b32 s5, s15, 20", "s_lshl_b32 s5, s14, 20", "ids-order"),
    ("lds-barrier", "LDS", "v_sub_nc_u32 v3, 0xff, v0", "v_sub_nc_u32 v3, 0xfe, v0", None),
    ("wave64", "WAVE", "v_mbcnt_hi_u32_b32 v1, -1, v1", "s_nop 0", "half-waves"),
    ("atomics", "ATOMIC", "v_mov_b32 v1, 1", "v_mov_b32 v1, 2", "wrong-code"),
    ("dispatch-order", "STORE", "v_xor_b32", "v_or_b32", "wrong-code"),
    ("host-coherence", "ECHO", "global_store_dword v7, v6, s[0:1]", "s_nop 0", None),
    ("host-coherence", "ECHO", "global_store_dword v3, v5, s[0:1]", "s_nop 0", None),
    ("host-coherence", "ECHO", "v_add_nc_u32 v5, s4, v5", "v_add_nc_u32 v5, 1, v5", None),
    ("code-cache", "STORE", "v_xor_b32", "v_or_b32", "code-stale"),
    ("stress", "STORE", "0xcafebabe", "0xcafebabf", "bad-cu"),
]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("rung", "program", "right", "wrong", "cause"), ALMOST, ids=range(len(ALMOST))
)
def test_a_wrong_program(monkeypatch, chip, rung, program, right, wrong, cause):
    text = getattr(kernels, program)
    assert right in text
    monkeypatch.setattr(kernels, program, text.replace(right, wrong))
    with bench(chip) as (_, made):
        result = climbed(made, rung)[rung]
    assert result.status == "FAIL"
    if cause:
        assert result.causes[0]["id"] == cause, result


def test_a_result_that_an_earlier_job_left(monkeypatch):
    """The second round's job does nothing: the CPU sees what the first one stored."""
    launched, right = [], Bench.run

    def run(self, gpu, ip, dwords, *bos, **more):
        launched.append(ip)
        again = len(launched) == 2
        return right(self, gpu, ip, [NOP] * 8 if again else dwords, *bos, **more)

    monkeypatch.setattr(Bench, "run", run)
    with bench() as (_, made):
        result = climbed(made, "host-coherence")["host-coherence"]
    assert result.status == "FAIL"
    assert result.causes[0]["id"] == "not-written-back"
    assert "round 2: the CPU sees an earlier dispatch's store" in result.text


@pytest.mark.parametrize("chip", CHIPS)
def test_code_that_is_not_replaced(monkeypatch, chip):
    """REPLACE leaves the old BO at this address, as a TLB that is not flushed would."""
    right = Gpu.va

    def va(self, op, *given, **more):
        return None if op == "REPLACE" else right(self, op, *given, **more)

    monkeypatch.setattr(Gpu, "va", va)
    with bench(chip) as (_, made):
        result = climbed(made, "code-cache")["code-cache"]
    assert (result.status, result.causes[0]["id"]) == ("FAIL", "code-stale")
    assert "code of another BO at this address" in result.text


@pytest.mark.parametrize(
    ("packet", "change", "said"),
    [
        (sdma.SdmaTimestamp, lambda words: [0, 0, 0], "timestamps to rise"),
        (pm4.CopyData, lambda words: [NOP] * len(words), "compute behind copies"),
    ],
)
def test_packets_of_order_that_are_wrong(monkeypatch, packet, change, said):
    right = packet.encode
    monkeypatch.setattr(packet, "encode", lambda **given: change(right(**given)))
    with bench() as (_, made):
        result = climbed(made, "order")["order"]
    assert result.status == "FAIL"
    assert said in result.text


def test_engines_that_stand_behind_one_another(monkeypatch):
    """Copies that wait for nobody are made to wait for the compute job."""
    right, before = Gpu.submit, []

    def submit(self, ip, dwords, *, chunks=(), **more):
        if ip == "dma" and not chunks:
            chunks = coherence.behind(self, before[-1])
        before.append(right(self, ip, dwords, chunks=chunks, **more))
        return before[-1]

    monkeypatch.setattr(Gpu, "submit", submit)
    with bench(job_s=0.2, job_limit_s=3.0) as (_, made):
        result = climbed(made, "order")["order"]
    assert (result.status, result.causes[0]["id"]) == ("FAIL", "never-done")
    assert "waits for a compute job" in result.text


def test_scratch_that_is_not_kept(monkeypatch):
    right = kernels.scratch
    monkeypatch.setattr(kernels, "scratch", lambda gfx: right(gfx).replace("offset:8", "offset:12"))
    with bench() as (_, made):
        result = climbed(made, "scratch")["scratch"]
    assert result.status == "FAIL"


@pytest.mark.parametrize(
    ("rung", "packet", "field", "change", "cause"),
    [
        ("write-data", pm4.WriteData, "values", lambda v: [*v[:-1], v[-1] ^ 4], "cp-corrupts"),
        ("copy-data", pm4.CopyData, "dst", lambda v: v + 8, "cp-corrupts"),
        ("sdma-fill", sdma.ConstFill, "value", lambda v: v ^ 1, "sdma-corrupts"),
        (
            "sdma-copy",
            sdma.CopyLinear,
            "count",
            lambda v: {"bytes": max(1, v["bytes"] - 4)},
            "sdma-corrupts",
        ),
        ("sdma-fence", sdma.SdmaWrite, "values", lambda v: [0], "sdma-corrupts"),
        ("mem-hidden", sdma.CopyLinear, "count", lambda v: {"bytes": v["bytes"] - 4}, None),
        ("release-mem", pm4.ReleaseMem, "value", lambda v: v ^ 1 << 33, None),
        ("chained-ib", pm4.WriteData, "values", lambda v: [v[0] + 1], "cp-corrupts"),
    ],
)
def test_a_wrong_packet(monkeypatch, rung, packet, field, change, cause):
    right = packet.encode

    def encode(**given):
        return right(**{**given, field: change(given[field])})

    monkeypatch.setattr(packet, "encode", encode)
    with bench(job_s=0.5) as (_, made):
        result = climbed(made, rung)[rung]
    assert result.status == "FAIL", result
    if cause:
        assert cause in {c["id"] for c in result.causes}, result
