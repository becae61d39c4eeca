"""Rungs that check results fail when the results are wrong: programs that are almost right."""

from __future__ import annotations

import pytest
from _bringup.rungs import kernels
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
        ("sdma-fence", sdma.Write, "values", lambda v: [0], "sdma-corrupts"),
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
