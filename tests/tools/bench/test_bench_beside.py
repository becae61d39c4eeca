"""The roof beside a row: whatever the host does to both, the share is the kernel's."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from _bench.commands import runner
from _bench.jobs import catalog, roofs
from _bench.measure import beside, engine, verify
from _bench.measure.bound import Bound
from _bench.measure.stop_rule import StopRule
from _bench.report import row_table
from _bench.rows import stats
from _bench.rows.results import Share, load

import sparkle_drv as sp

MANIFEST = runner.manifest()
BRIEF = engine.Settings(seed=5, precision=0.2, timeout_s=0.05, least=3)
TINY = ("--quick", "--timeout", "0.05")


class Host:
    """A clock that a sampler's work moves; `slow` is what everything takes longer by just now."""

    def __init__(self, slow=lambda now: 1.0):
        self.now, self.slow = 0.0, slow

    def clock(self):
        return self.now


class Kernel:
    """A sampler whose launch takes `lasts_s` on an idle host."""

    primary = "device"

    def __init__(self, host, lasts_s, batch=1):
        self.host, self.lasts_s, self.batch = host, lasts_s, batch

    def sample(self):
        took = self.lasts_s * self.host.slow(self.host.now)
        self.host.now += took * self.batch
        return took * 1e9, took * 1e9

    def close(self):
        pass


def share_on(host, rule=None):
    """A row that reaches 80 % of its roof on an idle host."""
    row, roof = Kernel(host, 1e-3), Kernel(host, 4e-3)
    rule = rule or StopRule(0.01, 5.0, stats.FEWEST_FOR_INTERVAL)
    mine, others = beside.turns(row, {"roof": roof}, rule, host.clock)
    return Share("flops", "roof", [20 / ns for ns in mine], [100 / ns for ns in others["roof"]])


def test_a_slow_host_slows_both():
    for slow in (
        lambda now: 1.0,
        lambda now: 3.0,
        lambda now: 1 + now,  # it becomes slower and slower
        lambda now: 5.0 if now % 0.3 < 0.1 else 1.0,  # stretches
        lambda now: 1 + 0.5 * math.sin(1000 * now),
    ):
        ratio = share_on(Host(slow)).ratio
        assert ratio.low <= 0.8 * 1.1
        assert ratio.high >= 0.8 / 1.1
        assert ratio.n >= stats.FEWEST_FOR_INTERVAL


def test_turns_end():
    """After six where they agree, after the second that they may take where they do not, and after
    the row's own time where a launch takes longer than all of that."""
    assert share_on(Host()).ratio.n == stats.FEWEST_FOR_INTERVAL
    rng = np.random.default_rng(1)
    noisy = Host(lambda now: float(rng.uniform(1, 20)))
    share_on(noisy)
    assert beside.LONGEST_S <= noisy.now < 2 * beside.LONGEST_S
    endless = Host(lambda now: 1e4)
    assert share_on(endless).ratio.n == 1


def test_turns_are_longer_than_a_time_slice_however_short_a_launch():
    host = Host()
    row, roof = Kernel(host, 1e-6, batch=200), Kernel(host, 2e-3)
    rule = StopRule(0.01, 5.0, stats.FEWEST_FOR_INTERVAL)
    mine, _ = beside.turns(row, {"roof": roof}, rule, host.clock)
    assert host.now >= 2 * len(mine) * beside.TURN_S


class Greedy(Kernel):
    """It uses up its share of the cores: after 20 ms at a stretch it runs at half of its rate."""

    began = ended = 0.0

    def sample(self):
        if self.host.now != self.ended:
            self.began = self.host.now
        lasts_s = self.lasts_s * (2 if self.host.now - self.began > 0.02 else 1)
        self.host.now += lasts_s
        self.ended = self.host.now
        return lasts_s * 1e9, lasts_s * 1e9


def test_a_roof_that_uses_up_its_share_of_the_cores_is_not_halved():
    host = Host()
    rule = StopRule(0.01, 5.0, stats.FEWEST_FOR_INTERVAL)
    _, others = beside.turns(Kernel(host, 1e-3), {"roof": Greedy(host, 4e-3)}, rule, host.clock)
    assert others["roof"] == pytest.approx([4e6] * len(others["roof"]))


@pytest.fixture
def cpu():
    with sp.open("cpu") as device:
        yield device


@pytest.fixture
def small(monkeypatch):
    """Gauges of sizes that are made at once."""
    monkeypatch.setattr(
        beside,
        "point",
        lambda kernel, info: {
            **catalog.expand(kernel, {}, info)[0],
            **({"iters": 2048} if "fma" in kernel else {"n": 1 << 16}),
        },
    )


def bound_of(device, kernel, **axes):
    given = {name: str(value) for name, value in axes.items()}
    (at,) = catalog.expand(kernel, given, device.info)
    return Bound(catalog.make(kernel, at, device.info, MANIFEST, BRIEF.seed), device, BRIEF.seed)


@pytest.mark.parametrize("mode", ["hot", "cold", "latency", "pipeline"])
def test_every_mode_has_a_share(cpu, small, mode):
    (at,) = catalog.expand("gemm_f32", {"size": "16"}, cpu.info)
    job = catalog.make("gemm_f32", at, cpu.info, MANIFEST, BRIEF.seed)
    with beside.gauges(cpu, MANIFEST, BRIEF) as gauges:
        row = engine.run(job, cpu, mode, BRIEF, gauges)
    assert row.verified, row.reason
    assert row.share.ratio.low <= row.share.ratio.median <= row.share.ratio.high
    assert row.roof_percent > 0
    told = row.as_json()["roof_beside"]
    assert told["row"] > 0
    assert told["roof"] > 0
    assert len(told["turns"]) == row.share.ratio.n


def test_rivals_have_shares_too(bench, library, tmp_path, small, monkeypatch):
    """Every kernel of a race beside the roof; --flops without a type has that of memory alone."""
    monkeypatch.setattr(beside, "in_cache", lambda bound: False)
    words = ("--arg", "inout:f32[N]", "--arg", "in:f32[N]", "--arg", "f32=2.0", "--arg", "u32=N")
    sizes = ("-D", "N=64K", "--groups", "N/4096", "--group-size", "4096", "--unverified")
    out = tmp_path / "o.json"
    pair = (f"{library}:good", "--vs", f"{library}:good")
    assert bench("kernel", *pair, *words, *sizes, "--bytes", "12*N", *TINY, "--json", out) == 0
    rows = load(out)["results"]
    assert [row["roof"] for row in rows] == ["copy", "copy"]


def test_memory_is_no_roof_of_what_fits_a_cache(cpu, small):
    largest = max(cache.nbytes for cache in cpu.info.caches)
    with beside.gauges(cpu, MANIFEST, BRIEF) as gauges:
        for n, kinds in ((1 << 12, []), (largest, ["copy"])):
            with bound_of(cpu, "copy_f32", n=n) as bound:
                sampler = engine.timing.steady(bound, "hot")
                found = beside.shares(bound, sampler, 1e6, gauges)
                assert [share.kind for share in found] == kinds
        assert set(gauges.best.gbytes_per_s) == {"copy"}


def test_what_mostly_reads_has_the_read_roof(cpu, small):
    largest = max(cache.nbytes for cache in cpu.info.caches)
    with (
        beside.gauges(cpu, MANIFEST, BRIEF) as gauges,
        bound_of(cpu, "reduce_max_f32", n=largest) as bound,
    ):
        found = beside.shares(bound, engine.timing.steady(bound, "hot"), 1e6, gauges)
    assert [share.kind for share in found] == ["read"]
    assert found[0].kernel in roofs.KERNELS


def test_a_gauge_that_computes_wrongly_is_none(cpu, small, monkeypatch, caplog):
    monkeypatch.setattr(Bound, "check", lambda self, phase: verify.broken("it is wrong"))
    with beside.gauges(cpu, MANIFEST, BRIEF) as gauges:
        assert gauges.of("f32") == gauges.of("copy") == []
    assert "no roof by peak_fma_f32: it is wrong" in caplog.text


def test_a_gauge_without_memory_is_none(cpu, small, monkeypatch, caplog):
    def refuse(*words, **more):
        raise sp.OutOfDeviceMemory("none is left")

    with beside.gauges(cpu, MANIFEST, BRIEF) as gauges:
        monkeypatch.setattr(beside, "Bound", refuse)
        assert gauges.of("read") == []
    assert caplog.text.count("none is left") == 3


def test_gauges_leave_nothing_behind(cpu, small):
    cpu.default_queue.fence(0).wait()  # opened at first use, and then it stays
    before = cpu.live_counts()
    with beside.gauges(cpu, MANIFEST, BRIEF) as gauges:
        assert {g.kernel for kind in ("f32", "f64", "read") for g in gauges.of(kind)} == set(
            roofs.KERNELS
        )
    assert cpu.live_counts() == before


def test_winograd_counts_its_own_products(cpu, small):
    """Else its share of the roof would be up to four times what the device does."""
    axes = {"c": "64", "oc": "64", "h": "56", "w": "56", "pad": "1"}
    (at,) = catalog.expand("conv2d_f32", axes, cpu.info)
    job = catalog.make("conv2d_f32", at, cpu.info, MANIFEST, 1)
    if not job.extra["plan"]["algo"].startswith("winograd"):
        pytest.skip("this CPU's plan is no Winograd convolution")
    assert 0 < job.executed < job.flops / 2
    assert "% of roof counts the products of winograd" in job.notes[-1]
    direct = catalog.make("conv2d_f32", {**at, "kh": 1, "kw": 1, "pad": 0}, cpu.info, MANIFEST, 1)
    assert direct.executed == 0
    assert direct.notes == ()


def test_no_note_calls_the_host_an_error(bench, small, tmp_path, monkeypatch):
    """A share above 100 % is printed as it is."""
    monkeypatch.setattr(
        beside, "turns", lambda sampler, others, rule: ([1.0] * 6, {n: [1e6] * 6 for n in others})
    )
    monkeypatch.setattr(stats, "drift", lambda samples: 0.0)  # of a busy host, another note
    out = tmp_path / "o.json"
    assert bench("run", "gemm_f32", "-a", "size=16", *TINY, "--json", out) == 0
    (row,) = load(out)["results"]
    assert row["roof_percent"] > 100
    assert row["notes"] == []


def test_the_cell_of_a_share():
    row = engine.Row(engine.Subject("k", "cpu", "x", False, {}, "hot"), True, {})
    at = row_table.COLUMNS.index("% of roof")

    def cell(mine, roof):
        return row_table.cells(replace(row, share=Share("copy", "copy_f32", mine, roof)))[at]

    assert row_table.cells(row)[at] == "-"
    assert cell([5.0] * 6, [10.0, 10.0, 10.0, 8.0, 10.0, 20.0]) == "50% copy (25..62)"
    assert cell([5.0], [10.0]) == "50% copy"
    assert cell([1.0] * 6, [1e4] * 6) == "0.01% copy (0.01..0.01)"
    assert cell([3.0], [2.0]) == "150% copy"


def test_fmas_are_counted_exactly(cpu):
    """However their rounds are cut into tasks."""
    counts = set()
    for iters in (1, 2, 17, 4099):
        with bound_of(cpu, "peak_fma_f32", iters=iters) as bound:
            bound.launch(bound.placements[0])
            counts.add(bound.flops() / iters)
    assert len(counts) == 1
