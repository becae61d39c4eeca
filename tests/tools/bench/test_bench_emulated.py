"""Benchmarks of emulated devices: verified, without a time of the device, and what a submission
asks of the kernel driver counted.

When this fails, emulated devices show times as if they were real.
"""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import fakecuda
import pytest
from _bench.jobs import catalog
from _bench.measure import emulated_rows, engine
from _bench.measure.bound import Bound
from _bench.measure.engine import Settings
from _console.problems import UsageError

from sparkle_drv import assets
from sparkle_drv.testing.emulator import seam

MANIFEST = assets.manifest()["kernels"]
BRIEF = Settings(seed=5, precision=0.5, timeout_s=0.05, least=3)
CHIPS = ["emu:gfx1036", "emu:gfx1100"]
NAMES = ("saxpy_f32", "gemm_f32", "conv2d_f32", "reduce_sum_i32")
IB_DWORDS = {"emu:gfx1036": 80, "emu:gfx1100": 88}  # tests/golden/test_golden_amdgpu_ib.py


@pytest.fixture(params=CHIPS)
def chip(request, opened):
    return opened(request.param)


def job_of(device, kernel, **axes):
    given = {name: str(value) for name, value in axes.items()}
    point = catalog.expand(kernel, given, device.info)[0]
    return catalog.make(kernel, point, device.info, MANIFEST, BRIEF.seed)


@pytest.mark.parametrize("mode", ["hot", "cold", "latency"])
def test_a_row_has_host_time_and_counts_and_nothing_of_the_device(chip, mode):
    row = engine.run(job_of(chip, "saxpy_f32", n=100), chip, mode, BRIEF, None)
    assert row.verified, row.reason
    assert row.subject.emulated
    assert 1 <= row.submission.ioctls <= 2  # the evictions, unless L2 is emptied anyway; CS
    assert row.submission.ib_dwords == IB_DWORDS[chip.uri]
    assert row.measured.primary == "host"
    assert min(row.measured.host_ns) > 0
    assert (row.device, row.gflops, row.gbytes_per_s, row.roof_percent) == (None,) * 4
    made = row.as_json()
    assert made["device_ns"] is None
    assert made["ib_dwords_per_dispatch"] == IB_DWORDS[chip.uri]
    assert made["bus_code_bytes"] == made["bus_scalar_bytes"] == made["gli_invalidations"] == 0
    assert made["bus_packets_bytes"] == (352 if "1100" in chip.uri else 0)  # an APU has no bus
    assert made["glv_invalidations"] == made["glk_invalidations"] == made["gl1_invalidations"] == 1
    assert made["gl2_flushes"] == made["gl2_invalidations"] < 1


def test_a_row_of_a_driver_without_a_gpu_is_an_emulated_devices(cuda):
    """Unless a real GPU is there: tests/fake_cuda says of itself that it is none."""
    if cuda.info.name != fakecuda.NAME:
        pytest.skip("needs the fake driver: cuda:0 is a real GPU")
    row = engine.run(job_of(cuda, "saxpy_f32", n=100), cuda, "hot", BRIEF, None)
    assert row.verified, row.reason
    assert row.subject.emulated
    assert row.measured.primary == "host"
    assert (row.device, row.gbytes_per_s, row.roof_percent, row.submission) == (None,) * 4


def test_time_inside_the_emulated_kernel_does_not_count(chip, monkeypatch):
    """What the seam says is subtracted: twice as much of it makes every sample smaller."""
    with Bound(job_of(chip, "saxpy_f32", n=100), chip, 1) as bound:
        sampler = emulated_rows.Submitting(bound)
        before = seam()
        sampler.sample()
        inside = seam().since(before)
        assert inside.submissions == 1
        assert inside.ns > 0
        monkeypatch.setattr("time.perf_counter_ns", iter((0, 10**9)).__next__)
        _, host = sampler.sample()
    assert 0 < 10**9 - host < 10**9


@pytest.mark.parametrize("kernel", NAMES)
def test_sizes_that_nobody_named_are_small_on_an_emulated_device(chip, kernel, cpu):
    (point,) = catalog.expand(kernel, {}, chip.info)
    usual = catalog.expand(kernel, {}, cpu.info)[0]
    assert 0 < catalog.cost(kernel, point)[1] < catalog.cost(kernel, usual)[1] / 3
    assert catalog.cost(kernel, point)[1] < 1 << 18
    first = next(axis.name for axis in catalog.table()[kernel].axes if axis.name in "nm")
    (named,) = catalog.expand(kernel, {first: "77"}, chip.info)
    assert named[first] == 77


def test_the_command_verifies_all_and_every_file_says_emulated(bench, capsys, tmp_path):
    files = {kind: tmp_path / f"rows.{kind}" for kind in ("json", "csv", "md")}
    written = [word for kind, path in files.items() for word in (f"--{kind}", path)]
    small = ("-a", "size=9", "-a", "c=3", "-a", "oc=2", "-a", "h=5", "-a", "w=4")
    names = ("saxpy", "gemm_f32", "conv2d", "reduce_sum_f32")
    spec = ("-d", ",".join(CHIPS), "--timeout", "0.02", "--quick")
    assert bench("run", *names, *spec, *small, *written) == 0
    table = capsys.readouterr().out
    header = table.splitlines()[1]
    assert "ioctls / submit" in header
    assert "IB dwords / dispatch" in header
    assert "bus bytes / submit" in header
    assert not {"device time", "GFLOPS", "GB/s", "% of roof"} & set(header.split("  "))
    assert table.count("(emulated)") == table.count("verified") == 8
    rows = json.loads(files["json"].read_text())["results"]
    assert len(rows) == 8
    assert all(row["verified"] and row["emulated"] and row["gflops"] is None for row in rows)
    with files["csv"].open() as file:
        lines = list(csv.DictReader(file))
    assert all(1 < float(line["ioctls_per_submit"]) <= 2 for line in lines)
    assert {line["bus_code_bytes"] for line in lines} == {"0.0"}
    assert {float(line["ib_dwords_per_dispatch"]) for line in lines} == {80, 88}
    (head,) = [line for line in files["md"].read_text().splitlines() if "| kernel" in line]
    assert "IB dwords / dispatch" in head
    for said in (table, head, ",".join(lines[0])):
        assert not any(real in said for real in ("GFLOPS", "GB/s |", "roof", "gflops", "gbytes"))


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("run", "saxpy", "--mode", "pipeline"), "mode pipeline"),
        (("peak",), "peak"),
    ],
)
def test_what_compares_times_is_refused(bench, capsys, words, what):
    assert bench(*words, "-d", "emu:gfx1100") == 2
    assert f"{what}: emu:gfx1100 is emulated, so its times mean nothing" in capsys.readouterr().err


def test_rivals_are_refused(chip):
    job = job_of(chip, "saxpy_f32", n=8)
    with pytest.raises(UsageError, match=f"--vs: {chip.uri} is emulated"):
        emulated_rows.check_job(replace(job, rivals=(job,)), "hot", chip.info)
