"""The roof beside a row: whatever the host does to both, the share is the kernel's.

When this fails, the share of the roof changes with the host's load.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from _bench.commands import runner
from _bench.jobs import cache_reach, catalog
from _bench.measure import engine, interleaved_roofs, probes, self_test, timing, verify
from _bench.measure.bound import Bound
from _bench.measure.stop_rule import StopRule
from _bench.report import row_table
from _bench.rows import stats
from _bench.rows.results import Share, load

import sparkle_drv as sp
from sparkle_drv.backends import machine

MANIFEST = runner.manifest()
FMAS = {"peak_fma_f32", *(["peak_fma_f32, 1 thread"] if machine.thread_count() > 1 else [])}
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


def rounds_on(host, row_s=1e-3, roof_s=1e-3, seed=1):
    """(times of the row, times of the roof, why it ended)."""
    row, roof = (
        interleaved_roofs.TimedKernel(Kernel(host, lasts_s)) for lasts_s in (row_s, roof_s)
    )
    rng = np.random.default_rng(seed)
    stop = interleaved_roofs.rounds(row, {"roof": roof}, StopRule(0.01, 5.0), rng, host.clock)
    return row.times, roof.times, stop


def test_a_slow_host_slows_both():
    for slow in (
        lambda now: 1.0,
        lambda now: 3.0,
        lambda now: 1 + now,  # it becomes slower and slower
        lambda now: 5.0 if now % 0.3 < 0.1 else 1.0,  # stretches
        lambda now: 1 + 0.5 * math.sin(1000 * now),
    ):
        row, roof, _ = rounds_on(Host(slow), row_s=1e-3, roof_s=0.8e-3)
        ratio = stats.paired(roof, row)
        assert ratio.low <= 0.8 * 1.05
        assert ratio.high >= 0.8 / 1.05


def test_a_scheduler_that_stops_samples_at_random_leaves_the_share():
    """Beside two busy loops a launch of 1 ms either meets no slice of 4 ms or one. That is the same
    for a row and for a probe as long."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        host = Host(lambda now, rng=rng: 5.0 if rng.random() < 0.45 else 1.0)
        row, roof, _ = rounds_on(host, row_s=1e-3, roof_s=0.9e-3, seed=seed)
        assert stats.paired(roof, row).low < 0.93


def test_neither_side_of_a_round_is_always_first():
    host, order = Host(), []

    class Named(Kernel):
        def sample(self):
            order.append(self.lasts_s)
            return super().sample()

    row, roof = (interleaved_roofs.TimedKernel(Named(host, lasts_s)) for lasts_s in (1e-3, 2e-3))
    interleaved_roofs.rounds(
        row, {"roof": roof}, StopRule(0.01, 5.0), np.random.default_rng(3), host.clock
    )
    firsts = order[::2]
    assert 0.2 < firsts.count(1e-3) / len(firsts) < 0.8


def test_rounds_end():
    """With the row's precision where the ratio agrees; 1 s later where it does not; at the row's
    time where nothing does, however long a launch takes."""
    row, _, stop = rounds_on(Host())
    assert (len(row), stop) == (20, "precision")
    rng = np.random.default_rng(1)

    class Wild(Kernel):
        def sample(self):
            self.host.now += self.lasts_s
            return float(rng.uniform(1, 20)), 1.0

    host = Host()
    steady, wild = (
        interleaved_roofs.TimedKernel(Kernel(host, 1e-3)),
        interleaved_roofs.TimedKernel(Wild(host, 1e-3)),
    )
    assert (
        interleaved_roofs.rounds(steady, {"": wild}, StopRule(0.01, 5.0), rng, host.clock)
        == "precision"
    )
    assert interleaved_roofs.RATIO_S < host.now < 1.2 * interleaved_roofs.RATIO_S
    noisy = Host(lambda now: float(rng.uniform(1, 20)))
    assert rounds_on(noisy)[2] == "timeout"
    assert 5.0 <= noisy.now < 5.1
    assert len(rounds_on(Host(lambda now: 1e4))[0]) == 1


def test_what_fits_a_cache_is_launched_once_before_each_sample():
    """The kernels before it in the round drove its operands out."""
    host = Host()
    row, warms, roof = Kernel(host, 1e-3), Kernel(host, 3e-3), Kernel(host, 1e-3)
    kernel = interleaved_roofs.TimedKernel(row, warms)
    interleaved_roofs.rounds(
        kernel,
        {"": interleaved_roofs.TimedKernel(roof)},
        StopRule(0.01, 5.0),
        np.random.default_rng(1),
        host.clock,
    )
    assert host.now == pytest.approx(20 * 5e-3)
    assert kernel.times == pytest.approx([1e6] * 20)


def test_one_thread_and_all_are_one_roof():
    """On busy cores all threads are faster than one for a while, then slower. A row that changes
    with them would exceed either of the two."""
    all_threads, one = [200.0] * 40 + [50.0] * 40, [100.0] * 80
    row_ns = [1 / rate for rate in [190.0] * 40 + [95.0] * 40]
    made = [probes.Probe(name, 1.0, None) for name in ("fma", "fma, 1 thread")]
    rates = {"fma": all_threads, "fma, 1 thread": one}
    share = interleaved_roofs._share(probes.Roofed("flops", 1.0, made), row_ns, rates)
    assert (share.kernel, share.roof) == ("fma", [200.0] * 40 + [100.0] * 40)
    assert share.ratio.median == pytest.approx(0.95)


@pytest.fixture
def cpu():
    with sp.open("cpu") as device:
        yield device


@pytest.fixture
def gauges(cpu):
    with probes.gauges(cpu, MANIFEST, BRIEF) as made:
        yield made


class Modelled(timing.Batched):
    """A stream that launches truly, timed by a model: 1 us a launch, and 1 ns for 8 bytes."""

    def sample(self):
        super().sample()
        lasts_ns = 1000 + self.bound.job.footprint / 8
        return lasts_ns, lasts_ns


@pytest.fixture
def idle_host(monkeypatch):
    """Streams are chosen by a model of their times, so that this machine's load does not count."""
    several, estimate = timing.several, timing.estimate

    def timed(bound, batch):
        return Modelled(bound, max(1, batch)) if bound.job.nbytes else several(bound, batch)

    def estimated(bound):
        return Modelled(bound, 1).sample()[0] if bound.job.nbytes else estimate(bound)

    monkeypatch.setattr(timing, "several", timed)
    monkeypatch.setattr(timing, "estimate", estimated)


def bound_of(device, kernel, **axes):
    given = {name: str(value) for name, value in axes.items()}
    (at,) = catalog.expand(kernel, given, device.info)
    return Bound(catalog.make(kernel, at, device.info, MANIFEST, BRIEF.seed), device, BRIEF.seed)


def roofs_of(gauges, bound, lasts_ns=1e6):
    """{kind: {kernel: its sampler's bound}}."""
    with ExitStack() as stack:
        found = gauges.roofs_of(bound, lasts_ns, stack)
        return {one.kind: {p.kernel: p.sampler.bound for p in one.probes} for one in found}


@pytest.mark.parametrize("mode", ["hot", "cold", "latency", "pipeline"])
def test_every_mode_has_a_share(cpu, gauges, mode):
    (at,) = catalog.expand("gemm_f32", {"size": "16"}, cpu.info)
    job = catalog.make("gemm_f32", at, cpu.info, MANIFEST, BRIEF.seed)
    row = engine.run(job, cpu, mode, replace(BRIEF, timeout_s=1.0), gauges)
    assert row.verified, row.reason
    assert row.share.ratio.low <= row.share.ratio.median <= row.share.ratio.high
    assert row.roof_percent > 0
    told = row.as_json()
    assert told["roof_beside"]["row"] > 0
    assert told["roof_beside"]["roof"] > 0
    if mode != "pipeline":  # which has samples of its own
        assert len(told["roof_beside"]["turns"]) == len(told["samples_ns"])
        assert {len(rates) for rates in told["probes"].values()} == {len(told["samples_ns"])}


@pytest.mark.usefixtures("in_this_process")
def test_rivals_have_shares_too(bench, library, tmp_path):
    """Every kernel of a race beside the roof; --flops without a type has that of memory alone."""
    words = ("--arg", "inout:f32[N]", "--arg", "in:f32[N]", "--arg", "f32=2.0", "--arg", "u32=N")
    sizes = ("-D", "N=64K", "--groups", "N/4096", "--group-size", "4096", "--unverified")
    out = tmp_path / "o.json"
    pair = (f"{library}:good", "--vs", f"{library}:good")
    assert bench("kernel", *pair, *words, *sizes, "--bytes", "12*N", *TINY, "--json", out) == 0
    rows = load(out)["results"]
    assert [row["roof"] for row in rows] == ["copy", "copy"]


@pytest.mark.usefixtures("idle_host")
@pytest.mark.parametrize("n", [1 << 14, 1 << 16, 1 << 21])
def test_a_stream_has_the_row_s_footprint(cpu, gauges, n, monkeypatch):
    """So that it runs from the same cache."""
    monkeypatch.setattr(cache_reach, "caches_nbytes", lambda info: 1 << 25)
    with bound_of(cpu, "copy_f32", n=n) as bound:
        found = roofs_of(gauges, bound)
        assert set(found) == {"copy", probes.REFERENCE}
        assert set(found["copy"]) == {"copy_f32", "saxpy_f32"}
        for stream in found["copy"].values():
            assert stream.job.footprint == pytest.approx(bound.job.footprint, abs=8)


@pytest.mark.usefixtures("idle_host")
def test_a_row_that_is_all_launch_has_no_roof_of_memory(cpu, gauges):
    """But FMAs as a reference, by which compare tells the machine from the row."""
    with bound_of(cpu, "copy_f32", n=16) as bound:
        assert set(roofs_of(gauges, bound)) == {probes.REFERENCE}
        sampler = timing.steady(bound, "hot")
        measured, share = interleaved_roofs.take(bound, sampler, StopRule(0.5, 0.05, 3), gauges)
    assert share is None
    assert set(measured.probes) == FMAS


@pytest.mark.usefixtures("idle_host")
def test_a_stream_beyond_the_caches_is_not_longer_than_needed(cpu, gauges, monkeypatch):
    monkeypatch.setattr(cache_reach, "caches_nbytes", lambda info: 1 << 20)
    with bound_of(cpu, "copy_f32", n=1 << 21) as bound:
        found = roofs_of(gauges, bound)
    assert {stream.job.footprint for stream in found["copy"].values()} == {8 << 20}


@pytest.mark.usefixtures("idle_host")
def test_a_device_of_short_pointers_has_no_stream_beside_a_row_of_memory(cpu, gauges, monkeypatch):
    """A stream that stays in the cache is no roof of a row that leaves it."""
    monkeypatch.setattr(cache_reach, "caches_nbytes", lambda info: 1 << 22)
    monkeypatch.setattr(cache_reach, "LEAST_LENGTH", 1)
    info = replace(cpu.info, max_pointer_nbytes=1 << 21)
    monkeypatch.setattr(sp.Device, "info", property(lambda device: info))
    with bound_of(cpu, "copy_f32", n=1 << 20) as bound:
        assert set(roofs_of(gauges, bound)) == {probes.REFERENCE}
    with bound_of(cpu, "copy_f32", n=1 << 18) as bound:
        assert set(roofs_of(gauges, bound)["copy"]) == {"copy_f32", "saxpy_f32"}


@pytest.mark.usefixtures("idle_host")
def test_what_mostly_reads_has_the_read_roof(cpu, gauges):
    with bound_of(cpu, "reduce_max_f32", n=1 << 16) as bound:
        assert set(roofs_of(gauges, bound)["read"]) == {"copy_f32", "saxpy_f32", "reduce_max_f32"}


def test_a_launch_of_fmas_lasts_as_long_as_the_row_s(cpu, gauges):
    """Within what an estimate on a busy machine can do; never shorter than starting it costs."""
    with bound_of(cpu, "gemm_f32", size=16) as bound, ExitStack() as stack:
        long, short = (
            next(o for o in gauges.roofs_of(bound, ns, stack) if o.kind == "flops").probes[0]
            for ns in (4e6, 1e3)
        )
        assert long.work / short.work > 4
    with bound_of(cpu, "gemm_f64", size=16) as bound:
        assert {name[:12] for name in roofs_of(gauges, bound)["flops"]} == {"peak_fma_f64"}


def test_only_roofs_near_the_row_are_timed(cpu, gauges):
    """A long stream beside a product of matrices would take time and say nothing."""
    with bound_of(cpu, "gemm_f32", size=96) as bound:
        sampler = timing.steady(bound, "hot")
        measured, share = interleaved_roofs.take(bound, sampler, StopRule(0.5, 0.2, 6), gauges)
    assert share.kind == "flops"
    assert set(measured.probes) == FMAS


def test_a_cache_is_no_roof_of_the_drawing(cpu, gauges):
    with bound_of(cpu, "copy_f32", n=1 << 16) as bound:
        interleaved_roofs.take(bound, timing.steady(bound, "hot"), StopRule(0.5, 0.05, 3), gauges)
    assert gauges.best.gbytes_per_s == {}


def test_a_probe_that_computes_wrongly_is_none(cpu, gauges, monkeypatch, caplog):
    with bound_of(cpu, "gemm_f32", size=16) as bound:
        monkeypatch.setattr(Bound, "check", lambda self, phase: verify.broken("it is wrong"))
        assert roofs_of(gauges, bound) == {}
    assert "no roof by peak_fma_f32: it is wrong" in caplog.text


def test_a_probe_without_memory_is_none(cpu, gauges, monkeypatch, caplog):
    """The row is timed all the same."""

    def refuse(*words, **more):
        raise sp.OutOfDeviceMemory("none is left")

    with bound_of(cpu, "copy_f32", n=1 << 16) as bound:
        monkeypatch.setattr(probes, "Bound", refuse)
        sampler = timing.steady(bound, "hot")
        measured, share = interleaved_roofs.take(bound, sampler, StopRule(0.5, 0.05, 3), gauges)
    assert share is None
    assert measured.samples
    assert caplog.text.count("none is left") >= 2


def test_probes_leave_nothing_behind(cpu, gauges):
    cpu.default_queue.fence(0).wait()  # opened at first use, and then it stays
    before = cpu.live_counts()
    job = catalog.make("saxpy_f32", {"n": 1 << 16}, cpu.info, MANIFEST, BRIEF.seed)
    assert engine.run(job, cpu, "hot", BRIEF, gauges).share
    self_test.run(gauges)
    assert cpu.live_counts() == before


def test_the_self_test_agrees_with_itself_whatever_the_host_does(cpu, monkeypatch):
    """A row and a probe of one kernel: 100 % is in the interval of a quiet host and of a busy one,
    and the busy one says that it is."""
    rng = np.random.default_rng(4)
    gauges = probes.Gauges(cpu, MANIFEST, replace(BRIEF, timeout_s=5.0))
    for slow, agrees in (
        (lambda now: 1.0, True),
        (lambda now: 1 + now, True),
        (lambda now: float(rng.uniform(1, 6)), False),
    ):
        host = Host(slow)
        monkeypatch.setattr(
            gauges,
            "fma",
            lambda ns, batch, stack, kernel, host=host: probes.Probe(
                kernel, 1e6, Kernel(host, 1.5e-3)
            ),
        )
        found = self_test.run(gauges, host.clock)
        assert found.agrees == agrees
        assert found.ratio.low <= 1 <= found.ratio.high
        assert host.now < 1.0
        words = self_test.words({"start": found.as_json(), "end": found.as_json()})
        assert words.startswith("machine busy: ") == (not agrees)


def test_the_heading_and_the_file_have_the_self_test(bench, tmp_path, capsys):
    out = tmp_path / "o.json"
    assert bench("run", "copy_f32", "-a", "n=64K", "--quick", "--json", out) == 0
    tests = load(out)["self_test"]["cpu"]
    assert set(tests) == {"start", "end"}
    assert f"self-test {tests['start']['ci_low_percent']:.0f}.." in capsys.readouterr().out


def test_winograd_counts_its_own_products(cpu):
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


def test_no_note_calls_the_host_an_error(bench, tmp_path, monkeypatch):
    """A share above 100 % is printed as it is."""
    monkeypatch.setattr(
        interleaved_roofs,
        "_share",
        lambda one, row, rates: Share(one.kind, "x", [1e6] * 6, [1.0] * 6),
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
