"""Mode pipeline: three ways to submit the same launches, and what is told of them.

When this fails, pipeline mode compares launches that are not the same.
"""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from _bench.jobs import catalog
from _bench.measure import engine, pipeline_mode
from _bench.measure.bound import Bound
from _bench.measure.engine import Settings
from _bench.measure.stop_rule import StopRule
from _bench.report import row_table, tables, writers
from _bench.rows import overhead
from _bench.rows.overhead import WAYS, Overhead, Way
from _bench.rows.results import Measured, Report, Row, Subject
from _console import table
from uris import OF_TOOLS

import sparkle_drv as sp
from sparkle_drv import assets

pytestmark = pytest.mark.devices(*OF_TOOLS)

BRIEF = Settings(seed=11, precision=0.5, timeout_s=0.05, least=3)


def manifest_job(device, kernel, **axes):
    given = {name: str(value) for name, value in axes.items()}
    (point,) = catalog.expand(kernel, given, device.info)
    return catalog.make(kernel, point, device.info, assets.manifest()["kernels"], BRIEF.seed)


def even(sync, batched, pipelined, device=1000.0, n=40):
    """Overheads of so many ns, without spread."""
    costs = zip(WAYS, (sync, batched, pipelined), strict=True)
    return Overhead({w: Way([device + cost] * n, [device] * n) for w, cost in costs}, 12)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_does_the_same_work(device, way):
    """y += x, in every placement as often as the others, and nothing is in flight afterwards."""
    job = manifest_job(device, "saxpy_f32", n=50)
    with Bound(job, device, 1, nsets=pipeline_mode.PIPELINE_DEPTH) as bound:
        ways = pipeline_mode.ThreeWays(bound)
        for placement in bound.placements:
            placement.guarded["x"].view.write(np.ones(50, np.float32))
            placement.guarded["y"].view.write(np.zeros(50, np.float32))
        device_ns, host_ns = ways.sample(way)
        assert bound.queue.reached == bound.queue.submitted
        assert device_ns > 0
        assert host_ns > 0
        a = job.scalars["a"]
        each = ways.batch // pipeline_mode.PIPELINE_DEPTH
        for placement in bound.placements:
            y = placement.guarded["y"].read()
            assert y == pytest.approx(np.full(50, a * each), rel=1e-4)
        ways.close()


def test_a_row_has_all_three_verified(device):
    row = engine.run(manifest_job(device, "vecadd_f32", n=999), device, "pipeline", BRIEF, None)
    assert row.verified
    told = row.as_json()["overhead"]
    assert set(told) == {"batch", *WAYS}
    for way in WAYS:
        host, spent, over = (told[way][f"{key}_ns"] for key in ("host", "device", "overhead"))
        assert host["n"] == spent["n"] == over["n"] == row.time.n
        assert (
            len(told[way]["host_samples_ns"]) == len(told[way]["device_samples_ns"]) == row.time.n
        )
        assert over["median"] < host["median"]
    assert told["sync"]["overhead_of_sync"] is None
    assert told["batched"]["host_of_sync"]["ratio"] > 0
    assert told["pipelined"]["host_ns"]["median"] == row.as_json()["time_ns"]["median"]


def test_other_modes_and_failed_rows_tell_nothing_of_it(device):
    row = engine.run(manifest_job(device, "noop"), device, "latency", BRIEF, None)
    assert "overhead" not in row.as_json()
    broken = Row.failed(row.subject, {"what": "wrong"}, "wrong")
    assert "overhead" not in broken.as_json()
    assert not row_table.overhead_table([row, broken]).rows


def test_overhead_is_the_hosts_time_less_the_devices():
    told = even(400.0, 40.0, 100.0)
    assert told.summary("sync", "overhead").median == 400
    assert told.summary("batched", "host").median == 1040
    assert told.of_sync("sync", "overhead") is None
    assert told.of_sync("batched", "overhead") == pytest.approx((0.1, 0.1, 0.1))
    assert told.of_sync("pipelined", "host") == pytest.approx((1100 / 1400,) * 3)
    assert told.of_sync("pipelined", "device") == pytest.approx((1.0, 1.0, 1.0))


def test_no_ratio_to_nothing_and_no_interval_of_few():
    assert even(-1.0, 5.0, 5.0).of_sync("batched", "overhead") is None
    assert even(0.0, 5.0, 5.0).of_sync("batched", "overhead") is None
    assert even(10.0, 5.0, 5.0, n=5).of_sync("batched", "overhead") == (0.5, None, None)


def row_of(told):
    subject = Subject("saxpy_f32", "cpu", "CPU", False, {"n": 8}, "pipeline")
    way = told.ways["pipelined"]
    measured = Measured(way.device, way.host, "host", told.batch, "precision")
    return Row(subject, True, {"max_rel_rms": 0.0, "tolerance": 0.0}, measured, told)


def test_the_table_has_the_ways_side_by_side(capsys):
    tables.show(Report({}, [row_of(even(400.0, 40.0, -5.0))]))
    printed = capsys.readouterr().out
    first, second = printed.split("\n\n")
    assert "pipelined" not in first
    head, _, *lines = second.splitlines()
    assert head.split("  ")[-1].strip() == "pipelined / sync"
    assert [line.split()[3] for line in lines[:3]] == ["overhead", "host", "device"]
    assert "400.0 +- 0.0 ns" in lines[0]
    assert "-5.0 +- 0.0 ns" in lines[0]
    assert "0.10 (0.10 .. 0.10)" in lines[0]
    assert lines[3] == f"({row_table.OVERHEAD_LEGEND})"


def test_files_have_the_same_facts():
    report = Report({}, [row_of(even(400.0, 40.0, 100.0)), row_of(even(10.0, 5.0, 5.0, n=2))])
    lines = list(csv.DictReader(io.StringIO(writers.as_csv(report))))
    assert float(lines[0]["sync_overhead_ns"]) == 400
    assert float(lines[0]["pipelined_host_ci_high_ns"]) == 1100
    assert float(lines[0]["batched_of_sync_ci_low"]) == pytest.approx(0.1)
    assert lines[1]["batched_of_sync_ci_low"] == ""
    assert set(overhead.CSV_COLUMNS) <= set(lines[0])
    text = writers.as_markdown(report)
    heads = [line for line in text.splitlines() if line.startswith("| kernel")]
    assert len(heads) == 2
    assert [cell.strip() for cell in heads[1].split("|")][-3:-1] == list(
        row_table.OVERHEAD_COLUMNS[-2:]
    )
    assert text.count("| overhead ") == 2


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((12.34, 12.0, 13.0, 9), "12.3 +- 0.7 ns"),
        ((12345.0, 12000.0, 12400.0, 9), "12.35 +- 0.34 us"),
        ((-5.0, -1500.0, 3000.0, 9), "-0.01 +- 3.00 us"),
        ((5e6, 5e6, 5e6, 1), "5.00 ms"),
    ],
)
def test_spread(given, text):
    assert table.spread(*given) == text


class Scripted:
    """Ways with known times, and a clock that each sample advances."""

    batch = 3

    def __init__(self):
        self.order, self.now = [], 0.0

    def sample(self, way):
        self.order.append(way)
        self.now += 0.01
        return 10.0, {"sync": 100.0, "batched": 20.0, "pipelined": 30.0}[way] + len(self.order) % 2

    def clock(self):
        return self.now


def test_ways_take_turns_until_all_are_precise():
    ways = Scripted()
    measured, told = pipeline_mode.take(ways, lambda: StopRule(0.2, 9.0, least=8), ways.clock)
    assert measured.stop == "precision"
    assert measured.primary == "host"
    assert len(measured.host_ns) == len(told.ways["sync"].host) == 8
    assert ways.order[-24:-15] == [
        *("sync", "batched", "pipelined"),
        *("batched", "pipelined", "sync"),
        *("pipelined", "sync", "batched"),
    ]
    assert told.summary("batched", "overhead").median == pytest.approx(10.5, abs=0.6)


def test_ways_end_with_the_time():
    ways = Scripted()
    measured, _ = pipeline_mode.take(ways, lambda: StopRule(1e-9, 0.2, least=8), ways.clock)
    assert measured.stop == "timeout"
    assert 6 <= len(measured.host_ns) <= 8


def test_launches_of_a_sample():
    for launch_ns in (0.0, 100.0, 1e4, 1e6, 1e8, 1e10):
        batch = pipeline_mode.batch_for(launch_ns)
        assert batch % pipeline_mode.PIPELINE_DEPTH == 0
        assert 6 <= batch <= 1024
    assert pipeline_mode.batch_for(1e5) == 12
    assert pipeline_mode.batch_for(1e7) == 6


def test_a_launch_that_does_not_end_fails_the_row(device, monkeypatch):
    def stuck(self, way):
        raise sp.FenceTimeout("value 1 was not reached", "one launch")

    monkeypatch.setattr(pipeline_mode.ThreeWays, "sample", stuck)
    with pytest.raises(engine.Stuck, match="hung"):
        engine.run(manifest_job(device, "saxpy_f32", n=10), device, "pipeline", BRIEF, None)
