"""Calls that simulated devices share while some are killed, hang, slow down or lie.

When this fails, a device that hangs, slows down or lies costs the result of a shared call.

`make fuzz-shards` runs the seeded part at full size (SPARKLE_FUZZ_SHARDS=1).
"""

from __future__ import annotations

import os
import random
import time

import numpy as np
import pytest
import shardrig
from shardrig import F32, NEVER, SLOW, breaks, machine, right, written_once

from sparkle_drv.errors import DeviceLost, SparkleError
from sparkle_drv.sched.health.states import State
from sparkle_drv.sched.run.shared_plan import KeptShards
from sparkle_drv.testing import sim
from sparkle_drv.testing.faults import Schedule

LONG = bool(os.environ.get("SPARKLE_FUZZ_SHARDS"))
BOUND_S = 20.0
"""Real seconds of a call; devices wait for 0.3 s for their jobs, and there are three calls."""
DEADLY = ("unplug", "reset", "pagefault")
HOW = {"hang": NEVER, "slow": SLOW}


@pytest.fixture
def ledgers(monkeypatch):
    return shardrig.counted(monkeypatch)


@pytest.mark.unmeasured
@pytest.mark.parametrize("seed", [*range(500 if LONG else 7), *(() if LONG else (88, 171))])
def test_devices_fail_in_mid_run(ledgers, seed, caplog):
    chance = random.Random(seed)
    n = chance.randint(2, 5)
    far = [at for at in range(n) if chance.random() < 0.4]
    wanted = shardrig.calls(np.random.default_rng(seed))
    name = (*wanted,)[seed % len(wanted)]
    call, want = wanted[name]
    shards, more = chance.choice(["auto", "each"]), chance.randint(1, n - 1)
    with machine([chance.uniform(1, 20) * 1e6 for _ in range(n)], far) as (ctx, _):
        right(call(ctx, shards=shards), want)
        hit = {}
        for at in chance.sample(range(n), more):
            what = chance.choice([*DEADLY, "hang", "slow"])
            hit[at] = breaks(ctx.devices[at], chance.randint(1, 6), what, **HOW.get(what, {}))
        for _ in range(3):
            begin = time.monotonic()
            right(call(ctx, shards=shards), want)
            assert time.monotonic() - begin < BOUND_S
            if isinstance(plan := ctx.last_plan, KeptShards):
                written_once(ledgers, plan)
                for uri in (*plan.done.lost, *plan.done.late):
                    assert uri in ctx.explain_last_plan()
        for at, fault in hit.items():
            if set(fault.happened) - {"slow"}:
                # The last call may have ended before a late piece that it does again was late.
                at_it, _ = ctx._executor.remains.ready_s([f"sim:d{at}"])
                assert at_it or f"sim:d{at}" in caplog.text
        assert all(device._backend._taken < 64 << 20 for device in ctx.devices)


def stopped(seed, what):
    """What a call takes by what it takes who knew: all work till one device stops, then the others
    do the rest, and it what it can.
    """
    chance = random.Random(seed)
    n = chance.randint(2, 5)
    rates = [chance.uniform(1, 10) if seed % 2 else 1.0 for _ in range(n)]
    far = range(1, n, 2) if seed % 3 == 0 else ()
    a, b = np.ones((1024, 64), F32), np.ones((64, 16), F32)
    size = 2.0 * 1024 * 64 * 16
    with machine([rate * 2e5 for rate in rates], far) as (ctx, _):
        for _ in range(2):
            ctx.gemm(a, b, shards="each")
        plan, at = ctx.last_plan, chance.randrange(n)
        parts = plan.shares.parts[f"sim:d{at}"]
        job = chance.randint(1 + len(parts) // 10, max(1, 9 * len(parts) // 10))
        breaks(ctx.devices[at], job, what, **HOW[what])
        assert (ctx.gemm(a, b, shards="each") == 64).all()
        took_s, units = ctx.last_plan.done.seconds, sum(p.units for p in parts[: job - 1])
    stop_s = units / plan.shares.count * size / (rates[at] * 2e5)
    rest, slower = sum(rates) - rates[at], 100.0 if what == "slow" else np.inf
    left = size - sum(rates) * 2e5 * stop_s
    return took_s / (stop_s + left / (2e5 * (rest + rates[at] / slower)))


@pytest.mark.unmeasured
@pytest.mark.parametrize("what", ["hang", "slow"])
def test_a_device_that_stops_costs_little(what):
    """At most 1.15x of the ideal of who knew."""
    costs = [stopped(seed, what) for seed in range(100 if LONG else 6)]
    assert min(costs) > 0.99
    assert max(costs) <= 1.15, f"{what}: {[round(cost, 3) for cost in costs]}"


def test_long_work_as_predicted_is_not_lost(ledgers):
    """A piece of 3 s that was predicted to take 3 s: nobody doubts it."""
    a, b = np.ones((4, 64), F32), np.ones((64, 2), F32)
    with machine([2.0 * 64 * 2 / 3] * 2) as (ctx, _):
        ctx.gemm(a, b, shards="each")
        assert (ctx.gemm(a, b, shards="each") == 64).all()
        done = ctx.last_plan.done
        assert done.seconds > 3
        assert (done.doubled, done.lost, done.late) == (0, {}, {})
        assert all(health.state is State.HEALTHY for health in ctx.create_mesh().health().values())


def test_a_device_whose_heartbeats_come_back_is_not_lost():
    """Predicted 0.03 s, and it takes 100 times that, which is 3 s."""
    a, b = np.ones((64, 64), F32), np.ones((64, 16), F32)
    with machine([2.0 * 64 * 64 * 16 / 64 / 0.03] * 2) as (ctx, _):
        for _ in range(2):
            ctx.gemm(a, b, shards="each")
        breaks(ctx.devices[0], 2, "slow", **SLOW)
        for _ in range(4):
            assert (ctx.gemm(a, b, shards="each") == 64).all()
            assert not ctx.last_plan.done.lost
        story = ctx.create_mesh().health()["sim:d0"].story
        assert all(step.after is not State.LOST for step in story)


@pytest.mark.parametrize(
    "name", ["rows", "columns", "terms", "images", "channels", "map", "reduce"]
)
def test_a_device_that_lies_is_named(ledgers, name, caplog, monkeypatch):
    """One dword of a product is wrong; of others, which are judged by samples, all elements."""
    call, want = shardrig.calls(np.random.default_rng(3))[name]
    with machine([1e6, 1e6, 1e6], validate=1.0) as (ctx, _):
        right(call(ctx, shards="each"), want)
        if name in ("rows", "columns", "terms", "reduce"):
            breaks(ctx.devices[1], 1, "corrupt", mask=0x40000000)
        else:
            shardrig.lies(monkeypatch, "sim:d1")
        right(call(ctx, shards="each"), want)
        assert list(ctx.last_plan.done.lost) == ["sim:d1"]
        assert "sim:d1: " in caplog.text
        assert "gave a wrong result" in ctx.explain_last_plan()
        written_once(ledgers, ctx.last_plan)
        assert "sim:d1" not in ledgers[-1].committed.values()


def test_all_lost_names_them():
    a = np.ones((128, 64), F32)
    with machine([1e6] * 3, far=(1,)) as (ctx, _):
        ctx.gemm(a, a.T, shards="each")
        for device in ctx.devices:
            breaks(device, 2, "unplug")
        with pytest.raises(DeviceLost, match="sim:d"):
            ctx.gemm(a, a.T, shards="each")
        with pytest.raises((SparkleError, ValueError), match=r"sim:d0.*sim:d1.*sim:d2"):
            ctx.gemm(a, a.T, shards="each")


def test_devices_that_vanish_between_plan_and_run():
    a = np.ones((128, 64), F32)
    with machine([1e6] * 3, far=(1,)) as (ctx, _):
        ctx.gemm(a, a.T, shards="each")
        for device in ctx.devices[:2]:
            breaks(device, 1, "unplug")
        assert (ctx.gemm(a, a.T, shards="each") == 64).all()
        assert set(ctx.last_plan.done.lost) == {"sim:d0", "sim:d1"}


def test_a_matrix_that_fits_nowhere_says_what_there_is():
    a = np.ones((256, 256), F32)
    small = machine([1e6, 1e6], far=(0, 1), memory_nbytes=1 << 16)
    with small as (ctx, _), pytest.raises(ValueError, match="65536"):
        ctx.gemm(a, a, shards="each")


def test_a_closed_context_and_a_late_thread():
    a = np.ones((256, 64), F32)
    with machine([1e6] * 2) as (ctx, _):
        ctx.gemm(a, a.T, shards="each")
        breaks(ctx.devices[0], 2, "hang", **NEVER)
        assert (ctx.gemm(a, a.T, shards="each") == 64).all()
        devices = ctx.devices
        ctx.close(0.1)
        for device in devices:
            sim.resume(device)
        with pytest.raises(DeviceLost, match="closed"):
            ctx.gemm(a, a.T, shards="each")


def test_a_hung_device_comes_back():
    """Silent for four heartbeats it is lost; when it goes on, it is tried and has work again."""
    a, b = np.ones((1024, 64), F32), np.ones((64, 16), F32)
    with machine([1e4] * 2, patience_s=5.0) as (ctx, made):
        ctx.gemm(a, b, shards="each")
        breaks(ctx.devices[0], 2, "hang", jobs=9, **NEVER)  # those that ask it, too
        assert (ctx.gemm(a, b, shards="each") == 64).all()
        health = ctx.create_mesh().health()["sim:d0"]
        assert health.state is State.LOST, health.explain()
        sim.apply(Schedule(0, []), ctx.devices[0])
        sim.resume(ctx.devices[0])
        time.sleep(0.05)
        made.clock.advance(10.0)
        for _ in range(4):
            assert (ctx.gemm(a, b) == 64).all()
        assert health.state is State.HEALTHY, health.explain()
        states = [step.after for step in health.story]
        assert State.PROBATION in states
        assert State.BACK in states
        assert ctx.last_plan.done.units["sim:d0"]
