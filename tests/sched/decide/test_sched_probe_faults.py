"""A device whose probes fail is left out with a reason; others go on, and later tries are bounded.

When this fails, one broken device stops a Context, or is left out without a word.
"""

import random
import types

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.errors import DriverCallError, ImageError
from sparkle_drv.mesh.links.probe import NoTimes
from sparkle_drv.sched.decide.choose import Impossible
from sparkle_drv.sched.journal import journal
from sparkle_drv.sched.model import costs
from sparkle_drv.sched.model.work_class import Class
from sparkle_drv.sched.run import probe
from sparkle_drv.testing import sim
from sparkle_drv.testing.faults import Fault, Schedule
from sparkle_drv.testing.simulated import Rate, SimDevice, SimMachine

URIS = ["sim:near", "sim:far"]
A, B = np.random.default_rng(5).standard_normal((2, 256, 256)).astype(np.float32)
WANT = A @ B


@pytest.fixture
def opened(request):
    """(faults of sim:far, its memory) -> a Context of sim:near and sim:far, or of some of them."""

    def make(faults=(), uris=URIS, **far):
        near = SimDevice("sim:near", {"gemm_f32": Rate(1e-6, 1e10)})
        away = SimDevice("sim:far", {"gemm_f32": Rate(2e-5, 1e12)}, to_s=(1e-5, 1e10), **far)
        machine = SimMachine({d.uri: d for d in (near, away)}, random.Random(1))
        on = sim.on(machine)
        on.__enter__()
        request.addfinalizer(lambda: on.__exit__(None, None, None))
        ctx = sp.init(uris, profile=False)
        request.addfinalizer(ctx.close)
        ctx.faulty = sim.apply(Schedule(0, list(faults)), ctx.devices[-1])
        return ctx

    return make


def right(ctx, **options):
    np.testing.assert_allclose(ctx.gemm(A, B, **options), WANT, rtol=1e-3, atol=1e-3)
    return ctx.last_plan.device


def test_a_device_without_memory_for_a_probe_drops_itself_alone(opened, caplog):
    ctx = opened(memory_nbytes=1000)
    a, b = A[:8, :8], B[:8, :8]  # which would fit
    want = a @ b
    for _ in range(2):
        np.testing.assert_allclose(ctx.gemm(a, b), want, rtol=1e-4, atol=1e-4)
        assert ctx.last_plan.device == "sim:near"
    why = "its probe failed: sim:far: 4096 bytes asked for and 0 taken, the device has 1000"
    assert ctx.last_plan.candidates[1].why == why
    assert f"    from the host and to it: {why}; tried again when next asked for" in (
        ctx.explain_devices()
    )
    assert "sim:far: the probe of the way from host failed: sim:far: 4096 bytes" in caplog.text
    with ctx.graph() as g:
        g.gemm(a, b)
    np.testing.assert_allclose(g.run().numpy(), want, rtol=1e-4, atol=1e-4)
    with pytest.raises(Impossible, match="sim:far: its probe failed"):
        ctx.gemm(a, b, devices=["sim:far"])
    with pytest.raises(Impossible, match="786432 bytes are needed, it has 1000"):
        ctx.gemm(A, B, devices=["sim:far"])


@pytest.mark.parametrize("on", ["alloc", "submit", "wait"])
@pytest.mark.parametrize("error", ["ENOMEM", "EIO"])
def test_whatever_a_driver_refuses_the_others_go_on(opened, on, error):
    ctx = opened([Fault(on, 1, "fail", error=error, count=10**6)])
    assert right(ctx) == "sim:near"
    x = ctx.array(A.shape, A.dtype, device="sim:near").fill(A)
    np.testing.assert_allclose(ctx.gemm(x, B).numpy(), WANT, rtol=1e-3, atol=1e-3)
    assert right(ctx) == "sim:near"


@pytest.mark.parametrize("what", ["hang", "pagefault", "reset"])
@pytest.mark.parametrize("at", [1, 20])
def test_a_fault_that_passes_is_forgotten_when_the_next_probe_goes_well(opened, what, at, caplog):
    ctx = opened([Fault("job", at, what)])
    assert right(ctx) == "sim:near"
    assert "its probe failed: sim:far: submission" in ctx.last_plan.candidates[1].why
    assert "    gemm_f32: its probe failed: sim:far" in ctx.explain_devices()
    assert caplog.text.count("sim:far: the probe of gemm_f32 failed") == 1
    used = [right(ctx) for _ in range(12)]
    assert used[-1] == "sim:far"
    assert ctx._executor.costs.unmeasured == {}
    assert "its probe failed" not in ctx.explain_devices()


def test_the_only_device_is_asked_again_at_the_next_call(opened):
    ctx = opened([Fault("job", 4, "hang")], ["sim:far"])
    with pytest.raises(Impossible, match=r"sim:far: its probe failed: .* hang"):
        ctx.gemm(A, B)
    assert right(ctx) == "sim:far"


def test_a_device_that_always_fails_is_asked_a_few_times_only(opened, monkeypatch):
    asked = []

    def speeds(dev, kind, clock):
        asked.append(kind.name)
        raise failure

    ctx = opened(uris=["sim:far"])
    monkeypatch.setattr(probe, "speeds", speeds)
    kinds = ["sum", "max", "min", "mean"]
    errors = [ImageError("no"), DriverCallError(5, "no"), TimeoutError("no"), MemoryError("no")]
    for i, failure in enumerate(errors):  # noqa: B007  # `speeds` reads it
        words = "its probe failed" if i < 2 else "6 probes of it failed one after the other"
        for _ in range(5):
            with pytest.raises(Impossible, match=rf"sim:far: {words}"):
                ctx.reduce(A, kinds[i])
    times = [asked.count(f"reduce_{kind}_f32") for kind in kinds]
    assert times == [costs.TRIES, costs.TRIES, 0, 0]
    assert len(asked) == costs.MOST_FAILED


def test_a_replay_knows_which_probes_failed(opened, tmp_path):
    ctx = opened([Fault("job", 6, "pagefault")])
    with ctx.trace("t"):
        for _ in range(8):
            right(ctx)
    ctx.save_trace(tmp_path / "t.json")
    lines = (tmp_path / "t.json.journal").read_text().splitlines()
    assert any("probe_failed" in line for line in lines)
    pairs = list(journal.replay(lines))
    assert len(pairs) >= 2
    assert all(stands == now for stands, now in pairs)


def test_a_clock_that_stands_still_is_no_measure():
    dev = types.SimpleNamespace(info=types.SimpleNamespace(unified=False))

    def one(dev, i):
        return (lambda: types.SimpleNamespace(fence=None)), 8.0**i

    with pytest.raises(NoTimes, match=r"expected a plausible time of a measurement, got 0\.0 s"):
        probe.speeds(dev, Class("x", one), lambda: 1.0)
