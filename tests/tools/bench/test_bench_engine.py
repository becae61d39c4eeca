"""The engine on a device: honest kernels get a time in every mode, cheating ones none at all.

When this fails, a kernel that computes wrongly gets a time.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from _bench.jobs import cache_reach, catalog
from _bench.jobs.job import Job, Operand
from _bench.measure import engine, launch_cost, peak, timing
from _bench.measure.bound import Bound
from _bench.measure.engine import Settings
from uris import OF_TOOLS

import sparkle_drv as sp
from sparkle_drv import assets

pytestmark = pytest.mark.devices(*OF_TOOLS)

MANIFEST = assets.manifest()["kernels"]
BRIEF = Settings(seed=11, precision=0.5, timeout_s=0.02, least=3)
SAXPY = "f32* f32* f32 u32"
SUM = "f32* f32* u32 u32 u32"


def manifest_job(device, kernel, **axes) -> Job:
    given = {name: str(value) for name, value in axes.items()}
    (point,) = catalog.expand(kernel, given, device.info)
    return catalog.make(kernel, point, device.info, MANIFEST, BRIEF.seed)


CPU = pytest.mark.devices("cpu")  # the planted kernels are machine code


def planted(job, library, entry, args, **more) -> Job:
    """The job of a manifest kernel, run by another's code."""

    def load(device):
        return device.kernel(image=library, entry=entry, args=args)

    return replace(job, load=load, **more)


@pytest.mark.parametrize(
    ("mode", "kernel"),
    [
        ("hot", "saxpy_f32"),
        ("cold", "vecadd_i32"),
        ("latency", "gemm_f64"),
        ("pipeline", "reduce_max_f32"),
    ],
)
def test_honest_kernels_are_timed_in_every_mode(device, kernel, mode):
    axes = {"m": 5, "k": 7} if kernel == "gemm_f64" else {}
    row = engine.run(manifest_job(device, kernel, n=33, **axes), device, mode, BRIEF, None)
    assert row.verified, row.reason
    assert row.subject.mode == mode
    measured = row.measured
    assert len(measured.device_ns) == len(measured.host_ns) >= 1
    assert min(measured.device_ns) > 0
    assert min(measured.host_ns) > 0
    assert measured.primary == ("device" if mode in ("hot", "cold") else "host")
    assert measured.stop in ("precision", "timeout", "max_samples")
    assert row.gbytes_per_s == pytest.approx(row.extra["nbytes"] / row.time.median)


@pytest.mark.parametrize("kernel", MANIFEST)
def test_every_manifest_kernel_verifies_at_an_ugly_size(device, kernel):
    known = {axis.name for axis in catalog.table()[kernel].axes}
    ugly = {"n": 13, "m": 3, "k": 17, "iters": 5, "c": 4, "h": 7, "w": 5, "oc": 6, "kw": 2}
    if not device.provides(kernel):
        pytest.skip(f"{device.uri} has no {kernel}")
    ugly |= {"outer": 3, "inner": 2, "block": 3, "groups": 2, "bias": 1, "act": "relu", "ta": 1}
    job = manifest_job(device, kernel, **{k: v for k, v in ugly.items() if k in known})
    with Bound(job, device, seed=3) as bound:
        for phase in (0, 1):
            verdict = bound.check(phase)
            assert verdict.ok, verdict.sentence


CHEATS = {
    "nothing": "wrong result: y[0]",
    "zeros": "wrong result: y[0]",
    "off_by_one": "wrong result: y[999]",
    "writes_behind": "wrote outside of y: the guard band behind it changed, nearest 1 bytes",
    "writes_before": "wrote outside of y: the guard band before it changed, nearest 9 bytes",
    "writes_input": "input was overwritten: x[0]",
}


def without_time(row):
    """Nothing in the row that could be read as a time or a rate."""
    as_json = row.as_json()
    return not as_json["verified"] and not any(
        as_json[key]
        for key in ("time_ns", "samples_ns", "host_ns", "device_ns", "gflops", "gbytes_per_s")
    )


@CPU
@pytest.mark.parametrize("entry", CHEATS)
def test_cheaters_are_refused(device, library, entry):
    job = planted(manifest_job(device, "saxpy_f32", n=1000), library, entry, SAXPY)
    row = engine.run(job, device, "hot", BRIEF, None)
    assert without_time(row)
    assert row.reason.startswith("before timing: ")
    assert CHEATS[entry] in row.reason


@CPU
def test_an_output_kept_from_an_earlier_call_is_refused(device, library):
    """Right the first time, then the old answer again: only fresh inputs after timing tell."""
    job = planted(manifest_job(device, "saxpy_f32", n=1000), library, "cached", SAXPY)
    row = engine.run(job, device, "hot", BRIEF, None)
    assert without_time(row)
    assert row.reason.startswith("after timing: wrong result: y[")


@CPU
@pytest.mark.parametrize("entry", ["copy_with_hole", "copy_first_only"])
def test_unwritten_and_constant_outputs_are_refused(device, library, entry):
    job = manifest_job(device, "copy_f32", n=500)
    y, x, n = job.args
    job = replace(job, args=(y, x, replace(n, name="a", type="f32", value=1.0), n))
    honest = planted(job, library, "copy", SAXPY)
    honest = replace(honest, oracle=lambda values: {"y": values["x"].astype(np.float64)})
    assert engine.run(honest, device, "hot", BRIEF, None).verified
    row = engine.run(
        replace(honest, load=planted(job, library, entry, SAXPY).load), device, "hot", BRIEF, None
    )
    assert without_time(row)
    assert row.error["first_wrong_index"] == [5 if entry == "copy_with_hole" else 1]


@CPU
@pytest.mark.parametrize(
    ("kernel", "entry", "ok"),
    [
        *(("reduce_sum_f32", f"sum_{how}", how == "good") for how in ("good", "short", "late")),
        *(("reduce_max_f32", f"max_{how}", how == "good") for how in ("good", "short", "late")),
    ],
)
def test_one_forgotten_element_in_100000_shows(device, library, kernel, entry, ok):
    job = manifest_job(device, kernel, n=100_000)
    job = planted(job, library, entry, SUM, groups=(1,), group_size=(1, 1, 1))
    row = engine.run(job, device, "latency", BRIEF, None)
    assert row.verified == ok
    assert without_time(row) != ok


def test_checks_use_other_inputs_each_time_and_the_same_for_a_seed(device):
    job = manifest_job(device, "vecadd_f32", n=100)

    def inputs(seed, phase):
        with Bound(job, device, seed) as bound:
            return bound.fill(phase, bound.placements[0])

    first = inputs(1, 0)
    assert np.isnan(first["z"]).all()
    for other in (inputs(1, 1), inputs(2, 0)):
        assert (first["x"] != other["x"]).mean() > 0.9
    assert (first["x"] == inputs(1, 0)["x"]).all()
    assert (first["x"] != first["y"]).mean() > 0.9


@CPU
def test_without_a_reference_nothing_is_timed_unless_asked(device, library):
    job = replace(manifest_job(device, "saxpy_f32", n=100), oracle=None)
    row = engine.run(job, device, "hot", BRIEF, None)
    assert without_time(row)
    assert row.reason == "no reference"
    row = engine.run(job, device, "hot", replace(BRIEF, unverified=True), None)
    assert not row.verified
    assert row.reason == "no reference"
    assert row.time.median > 0
    # A hole in a write-only output is found without a reference, too.
    job = manifest_job(device, "copy_f32", n=500)
    y, x, n = job.args
    args = (y, x, replace(n, name="a", type="f32", value=1.0), n)
    holed = planted(replace(job, args=args, oracle=None), library, "copy_with_hole", SAXPY)
    row = engine.run(holed, device, "hot", replace(BRIEF, unverified=True), None)
    assert without_time(row)
    assert "not written" in row.reason
    integers = tuple(replace(a, type="i32") if isinstance(a, Operand) else a for a in args)
    row = engine.run(replace(holed, args=integers), device, "hot", BRIEF, None)
    assert "two runs over the same inputs differ" in row.reason


def test_an_oracle_that_disagrees_in_size_or_says_nothing(device):
    job = manifest_job(device, "saxpy_f32", n=10)
    row = engine.run(replace(job, oracle=lambda v: {"y": np.zeros(9)}), device, "hot", BRIEF, None)
    assert "has 9 elements, the output 10" in row.reason
    row = engine.run(replace(job, oracle=lambda values: {}), device, "hot", BRIEF, None)
    assert "gives no value for y" in row.reason


def test_what_the_device_refuses_becomes_a_failed_row(device, monkeypatch):
    job = manifest_job(device, "saxpy_f32", n=10)

    def lost(*_):
        raise sp.DeviceLost("cpu: gone")

    monkeypatch.setattr(engine, "_run", lost)
    row = engine.run(job, device, "hot", BRIEF, None)
    assert without_time(row)
    assert row.reason == "DeviceLost: cpu: gone"


def test_out_of_memory_is_a_failed_row(device):
    huge = replace(manifest_job(device, "fill_f32", n=10), args=())
    y = Operand("y", "f32", "w", (1 << 42,), lambda *_: None)
    row = engine.run(replace(huge, args=(y,)), device, "hot", BRIEF, None)
    assert without_time(row)
    assert "OutOfDeviceMemory" in row.reason


def test_short_kernels_are_batched_and_long_ones_are_not(device):
    with Bound(manifest_job(device, "copy_f32", n=8), device, 1) as bound:
        sampler = timing.steady(bound, "hot", timing.SAMPLE_NS / 10)
        assert sampler.batch == 10
        sampler.close()
        assert timing.steady(bound, "latency", timing.SAMPLE_NS / 10).batch == 1
        assert timing.estimate(bound) > 0
    with Bound(manifest_job(device, "busy_u32", iters=2_000_000), device, 1) as bound:
        assert timing.steady(bound, "hot").batch == 1


def test_cold_rotates_through_more_than_the_cache(device):
    for cache in (1 << 20, 300 << 20):
        level = sp.CacheLevel(3, cache, device.info.compute_units)
        info = replace(device.info, caches=(level,), memory_nbytes=16 << 30)
        for footprint in (cache // 7, cache // 2, 3 * cache):
            nsets = timing.cold_sets(footprint, info)
            assert nsets * footprint > 2 * cache
        assert timing.cold_sets(16, info) == timing.MOST_COLD_SETS
        assert timing.cold_sets(1 << 50, info) == 2
    job = manifest_job(device, "copy_f32", n=100)
    with Bound(job, device, 1, nsets=5) as bound:
        bound.fill_all()
        sampler = timing.Batched(bound, batch=2)
        for _ in range(5):  # ten launches: every placement twice, in turn
            sampler.sample()
        sampler.close()
        for placement in bound.placements:
            y, x = (placement.guarded[name].read() for name in ("y", "x"))
            assert (y == x).all()


def test_rates():
    """60 us for 12 MB and 2 MFLOP."""
    measured = engine.Measured([6e4] * 9, [7e4] * 9, "device", 1, "precision")
    row = engine.Row(engine.Subject("k", "cpu", "x", False, {}, "hot"), True, {}, measured)
    engine.rate(row, Job("k", {}, "", (), lambda device: None, 0.0, nbytes=12e6), 2e6)
    assert row.gflops == pytest.approx(2e6 / 6e4)
    assert row.gbytes_per_s == pytest.approx(200)
    assert row.roof_percent is None


def test_peak_measures_and_verifies(device, monkeypatch):
    real = catalog.expand

    def smaller(kernel, given, info):
        return [
            {**p, **dict.fromkeys(p.keys() & {"n", "iters"}, 1000)}
            for p in real(kernel, given, info)
        ]

    monkeypatch.setattr(catalog, "expand", smaller)
    cached = list(peak.measure(device, {"copy_f32": MANIFEST["copy_f32"]}, BRIEF))
    assert [roof.gbytes_per_s for roof, _ in cached] == [{}], "the rate of a cache is no roof"
    monkeypatch.setattr(cache_reach, "caches_nbytes", lambda info: 1 << 10)
    said = []
    found = list(peak.measure(device, MANIFEST, BRIEF, said.append))
    roof = found[-1][0]
    assert set(roof.gflops) == {"f32", "f64"}
    assert min(*roof.gflops.values(), *roof.gbytes_per_s.values()) > 0
    assert all(row.verified for _, row in found)
    assert roof.gbytes_per_s["read"] >= roof.gbytes_per_s["copy"]
    assert len(said) == 5
    assert list(peak.measure(device, {}, BRIEF)) == []


def test_launch_cost(device):
    rows = list(launch_cost.measure(device, MANIFEST, BRIEF))
    assert [row.subject.kernel for row in rows][:4] == [
        *("launch: prepared, 0 arguments", "launch: prepared, 4 arguments"),
        *("launch: launch, 0 arguments", "launch: launch, 4 arguments"),
    ]
    assert len(rows) == 7
    for row in rows:
        assert row.measured.primary == "host"
        assert 0 < row.time.median < math.inf


def test_launch_cost_of_a_wrong_saxpy_is_not_shown(device, monkeypatch):
    def refused(job, device, mode, settings, roof):
        subject = engine.subject_of(job, device.info, mode)
        return engine.Row.failed(subject, {"what": "wrong"}, "wrong")

    monkeypatch.setattr(engine, "run", refused)
    (row,) = launch_cost.measure(device, MANIFEST, BRIEF)
    assert without_time(row)
