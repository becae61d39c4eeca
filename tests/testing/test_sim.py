"""`sim:` devices: right results in virtual time, by the rates and the faults that were stated.

When this fails, tests of the scheduler rest on devices that do not keep their stated rates.
"""

import errno
import random

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import ops
from sparkle_drv.sched.run.local import LocalExecutor, default_clock
from sparkle_drv.testing import sim
from sparkle_drv.testing.faults import Fault, Schedule
from sparkle_drv.testing.simulated import Rate, SimDevice, SimMachine

F32 = np.float32


def made(*devices, seed=1):
    return SimMachine({d.uri: d for d in devices}, random.Random(seed))


def gpu(name="gpu0", **more):
    """1 us and 1e9 a second; 10 us and 1e9 bytes a second away."""
    rates = {"gemm_f32": Rate(1e-6, 1e9)}
    return SimDevice(f"sim:{name}", rates, **{"to_s": (1e-5, 1e9), **more})


def cpu(**more):
    return SimDevice("sim:cpu", {"gemm_f32": Rate(1e-7, 1e8)}, **more)


@pytest.fixture
def machine():
    there = made(cpu(), gpu())
    with sim.on(there):
        yield there


def matrices(n=8, seed=3):
    return np.random.default_rng(seed).standard_normal((2, n, n)).astype(F32)


def test_results_are_right_and_times_are_those_stated(machine):
    a, b = matrices(10)
    with sp.open("sim:gpu0") as dev, dev.queue(timing=True) as queue:
        x, y, c = dev.array(a), dev.array(b), dev.empty(a.shape, F32)
        before = dev.clock()
        k = dev.kernel("gemm_f32")
        fence = queue.launch(k, c, x, y, None, 10, 10, 10, 10, 1, 10, 1, 10, 0)
        assert dev.clock() == before  # time passes for who waits
        assert fence.wait().time_ns == pytest.approx(1e3 + 2000, abs=2)
        assert dev.clock() - before == pytest.approx(3e-6)
        np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-5, atol=1e-6)
        assert dev.clock() - before == pytest.approx(3e-6 + 1e-5 + 400e-9)
        assert (dev.info.emulated, dev.info.unified, dev.info.backend) == (True, False, "sim")
    with sp.open("sim:cpu") as dev:
        assert dev.info.unified
        before = dev.clock()
        np.testing.assert_array_equal(ops.map(dev, "x + y", a, b), a + b)
        assert dev.clock() > before


def test_queues_of_a_machine_overlap_and_wait_for_one_another(machine):
    with sp.open("sim:gpu0") as dev, dev.queue() as one, dev.queue() as two:
        k, n = dev.kernel("busy_u32"), 10_000  # of "other": 2 us, and a byte a step
        outs = [dev.buffer(4) for _ in range(3)]
        each = 2e-6 + n / 1e10
        before = dev.clock()
        first = one.launch(k, outs[0], n, groups=1)
        second = two.launch(k, outs[1], n, groups=1)
        first.wait()
        second.wait()
        assert dev.clock() - before == pytest.approx(each)
        first = one.launch(k, outs[0], n, groups=1)
        two.submit(sp.Commands().wait(first).dispatch(k, outs[2], n, groups=1)).wait()
        assert dev.clock() - before == pytest.approx(3 * each)


def test_bends_noise_slowness_and_drift():
    bent = SimDevice("sim:x", {"gemm_f32": Rate(0.0, 1e9, 1e6, 0.5)})
    assert bent.mean_s("gemm_f32", 1e4) == pytest.approx(1e-5 * 10)
    assert bent.mean_s("gemm_f32", 0.0) == 0
    noisy = made(gpu(noise=0.1), seed=5)
    times = {noisy.draw("sim:gpu0", "gemm_f32", 1e6) for _ in range(20)}
    assert len(times) == 20
    drifting = made(gpu(drift=0.5))
    first = drifting.draw("sim:gpu0", "gemm_f32", 1e6)
    drifting.clock.advance(2.0)
    assert drifting.draw("sim:gpu0", "gemm_f32", 1e6) == pytest.approx(first * np.e)


def test_a_context_learns_virtual_speeds_and_goes_where_they_say(machine):
    with sp.init(["sim:cpu", "sim:gpu0"], profile=False, topology="single") as ctx:
        small, large = matrices(8), matrices(128)
        np.testing.assert_allclose(ctx.gemm(*small), small[0] @ small[1], rtol=1e-4, atol=1e-5)
        assert ctx.last_plan.device == "sim:cpu"
        np.testing.assert_allclose(ctx.gemm(*large), large[0] @ large[1], rtol=1e-3, atol=1e-4)
        assert ctx.last_plan.device == "sim:gpu0"
        predicted = ctx.last_plan.candidates[0].cost
        assert predicted.compute_s == pytest.approx(1e-6 + 2 * 128**3 / 1e9, rel=0.05)
        assert predicted.in_s == pytest.approx(2 * (1e-5 + 65536e-9), rel=0.05)
        machine.devices["sim:gpu0"].slower = 100.0
        for _ in range(200):
            ctx.gemm(*large)
        assert ctx.last_plan.device == "sim:cpu"


def test_the_same_calls_take_the_same_virtual_time():
    def total():
        there = made(cpu(noise=0.05), gpu(noise=0.05))
        with sim.on(there), sp.init(["sim:cpu", "sim:gpu0"], profile=False) as ctx:
            plans = []
            for n in (8, 32, 64, 32):
                ctx.gemm(*matrices(n))
                plans.append(ctx.last_plan)
            return there.clock.now_s, plans

    assert total() == total()


def test_beside_a_real_device(machine):
    a, b = matrices(32)
    with sp.init(["cpu", "sim:gpu0"], profile=False) as ctx:
        for uri in ("cpu", "sim:gpu0"):
            np.testing.assert_allclose(ctx.gemm(a, b, devices=[uri]), a @ b, rtol=1e-3, atol=1e-4)
            assert ctx.last_plan.device == uri
        x = ctx.array(a.shape, F32, device="sim:gpu0").fill(a)
        np.testing.assert_allclose(ctx.gemm(x, b, devices=["cpu"]), a @ b, rtol=1e-3, atol=1e-4)


def faulty(*faults):
    dev = sp.open("sim:gpu0")
    return dev, sim.apply(Schedule(0, faults), dev)


def test_jobs_that_fail(machine):
    a, b = matrices()
    for what, more in (("hang", {"recovery": "soft"}), ("pagefault", {}), ("reset", {})):
        dev, counts = faulty(Fault("job", 2, what, **more))
        with dev:
            np.testing.assert_allclose(ops.gemm(dev, a, b), a @ b, rtol=1e-4, atol=1e-5)
            with pytest.raises(sp.KernelFault, match=f"EIO: simulated job 2: {what}"):
                ops.gemm(dev, a, b)
            np.testing.assert_allclose(ops.gemm(dev, a, b), a @ b, rtol=1e-4, atol=1e-5)
            assert counts.happened == {what: 1}


@pytest.mark.parametrize(
    "fault",
    [Fault("job", 1, "unplug"), Fault("submit", 2, "unplug"), Fault("job", 1, "reset", vram_lost=1),
     Fault("job", 1, "hang", recovery="vram_lost"), Fault("alloc", 2, "reset", vram_lost=1)],
)  # fmt: skip
def test_a_device_that_is_gone_stays_so(machine, fault):
    dev, _ = faulty(fault)
    with dev:
        for _ in range(2):
            with pytest.raises(sp.DeviceLost):
                ops.gemm(dev, *matrices())


def test_calls_that_fail(machine):
    a, b = matrices()
    dev, counts = faulty(
        Fault("alloc", 1, "fail"), Fault("submit", 1, "fail", error="EAGAIN", count=2),
        Fault("wait", 1, "fail", error="EINTR", count=3), Fault("map", 1, "fail", error="EIO"),
        Fault("submit", 3, "fail", error="EINTR"), Fault("context", 2, "fail", error="EIO"),
    )  # fmt: skip
    with dev:
        with pytest.raises(sp.OutOfDeviceMemory):
            ops.gemm(dev, a, b)
        np.testing.assert_allclose(ops.gemm(dev, a, b), a @ b, rtol=1e-4, atol=1e-5)
        with dev.buffer(64, sp.Memory.HOST) as buffer:
            with pytest.raises(sp.DriverCallError) as told, buffer.map():
                pass
            with buffer.map() as view:
                assert not any(view)
        assert told.value.errno == errno.EIO
        with pytest.raises(sp.DriverCallError):  # the first is the default queue
            dev.queue()
        dev.queue().close()
        assert counts.happened["fail"] >= 6


def test_slow_jobs(machine):
    dev, _ = faulty(Fault("job", 2, "slow", factor=50, count=1))
    with dev, dev.queue(timing=True) as queue:
        k, out = dev.kernel("busy_u32"), dev.buffer(4)
        times = [queue.launch(k, out, 1000, groups=1).wait().time_ns for _ in range(3)]
        assert times[0] == pytest.approx(times[2], abs=2)
        assert times[1] == pytest.approx(50 * times[0], rel=0.01)


def test_corruption_changes_one_dword_that_the_job_changed(machine):
    a, b = matrices(9)
    dev, counts = faulty(Fault("job", 1, "corrupt", seed=12345))
    with dev:
        right, got = a @ b, ops.gemm(dev, a, b)
        wrong = np.flatnonzero(~np.isclose(got, right, rtol=1e-4, atol=1e-5))
        assert len(wrong) == 1
        assert counts.happened == {"corrupt": 1}
        np.testing.assert_allclose(ops.gemm(dev, a, b), right, rtol=1e-4, atol=1e-5)
        x = dev.array(a)
        sim.apply(Schedule(0, [Fault("job", 1, "corrupt", seed=5)]), dev)
        with dev.empty(a.shape, F32) as y:
            dev.default_queue.submit(sp.Commands().copy(y.buffer, x.buffer)).wait()
            assert (y.numpy() != a).sum() == 1


def test_what_a_simulated_device_corrupts_is_done_elsewhere(machine, caplog):
    a, b = matrices(64)
    with sp.init(["cpu", "sim:gpu0"], profile=False, validate=1.0) as ctx:
        ctx.gemm(a, b, devices=["sim:gpu0"])
        plan = Schedule(0, [Fault("job", 1, "corrupt", seed=n) for n in (9,)])
        counts = sim.apply(plan, ctx.devices[1])
        ctx._executor.costs.nodes["cpu"].queued_s = 1e3  # so that the simulated one is preferred
        ctx._executor.forget()
        np.testing.assert_allclose(ctx.gemm(a, b), a @ b, rtol=1e-3, atol=1e-4)
        assert counts.happened == {"corrupt": 1}
        assert ctx.last_plan.device == "cpu"
        assert "sim:gpu0: gemm_f32 runs on another device" in caplog.text


def test_memory_is_as_much_as_was_stated():
    with sim.on(made(gpu(memory_nbytes=4096))), sp.open("sim:gpu0") as dev:
        assert dev.info.memory_nbytes == 4096
        with (
            dev.buffer(4000),
            pytest.raises(sp.OutOfDeviceMemory, match="4000 taken, the device has 4096"),
        ):
            dev.buffer(100)
        dev.buffer(4096).close()


def test_names():
    with sp.open("sim:7/gpu0") as dev, sp.open("sim:7/cpu") as beside, sp.open("sim:8/cpu") as far:
        assert (dev.uri, dev.info.uri) == ("sim:7/gpu0", "sim:7/gpu0")
        before = far.clock()
        dev.array(np.zeros(100, F32))
        assert dev.clock() == beside.clock() > 0
        assert far.clock() == before
        assert len({d.info.driver for d in (dev, beside, far)}) == 3  # profiles are kept apart
    for wrong in ("sim:gpu9", "sim:7/", "sim:x/y"):
        with pytest.raises(sp.DeviceNotFound, match=r"of the simulated machine \(sim:cpu"):
            sp.open(wrong)
    assert not any(found.backend == "sim" for found in sp.discover())
    with sp.open("cpu") as real:
        assert real.clock is None
        with pytest.raises(TypeError, match="expected a sim: device, got cpu"):
            sim.apply(Schedule(0, []), real)
        assert LocalExecutor([real], default_clock()).clock_of(real) is default_clock()
