"""What test_plugin_opencl.py has done in processes that have the plug-in: the functions named on
the command line. Each prints its name when all was right. Not a test.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

import sparkle_drv as sp

URI = "opencl:0"


@contextlib.contextmanager
def raises(kind, says=""):
    met = None
    try:
        yield
    except kind as error:
        met = error
    assert met is not None, f"{kind} was wanted"
    assert says in str(met), met


def found():
    nodes = [f for f in sp.discover() if f.backend == "opencl"]
    print(json.dumps([{"uri": f.uri, "reason": f.reason} for f in nodes]))


def absent():
    nodes = {f.backend: f for f in sp.discover()}
    assert "planted" in nodes["opencl"].reason
    assert nodes["opencl"].advice
    assert nodes["cpu"].usable
    with raises(sp.DeviceNotFound, "planted"):
        sp.open(URI)


def suite():
    from sparkle_drv.testing import suite as judge

    print(json.dumps([asdict(result) for result in judge.run(URI)]))


def everywhere():
    """Discovery, a Context of several devices, operations on the device, arrays that move."""
    info = next(i for i in sp.devices() if i.uri == URI)
    assert info.shares == ("cpu",)  # pocl computes on the host's cores
    assert info.software
    with raises(sp.DeviceNotFound, "there are opencl:0"):
        sp.open("opencl:9")
    chance = np.random.default_rng(5)
    a, b = chance.standard_normal((2, 70, 70)).astype(np.float32)
    with sp.open(URI) as dev:
        assert np.allclose(sp.ops.gemm(dev, a, b), a @ b, atol=1e-4)
        x = sp.ops.map(dev, "where(x > y, sin(x), pow(y, 2.0)) + 1.5", x=a, y=b)
        assert np.allclose(x, np.where(a > b, np.sin(a), b**2) + 1.5, atol=1e-5)
        assert np.allclose(sp.ops.reduce(dev, a, "max", axis=0), a.max(0))
        image, w = a[:3, :64].reshape(1, 3, 8, 8), b[:4, :27].reshape(4, 3, 3, 3)
        with sp.open("cpu") as cpu:
            same = [sp.ops.conv2d(d, image, w, padding=1) for d in (dev, cpu)]
        assert np.allclose(*same, atol=1e-5)
        with sp.open(URI) as peer, peer.array(a) as there, dev.empty(a.shape, a.dtype) as here:
            dev.default_queue.copy_peer(here.buffer, there.buffer).wait()
            assert (np.asarray(here) == a).all()
    with sp.init(["cpu", URI], profile=False) as ctx:
        assert np.allclose(ctx.gemm(a, b), a @ b, atol=1e-4)
        assert {c.device for c in ctx.last_plan.candidates} == {"cpu", URI}
        y = ctx.array(a.shape, np.float32, device=URI).fill_random(seed=3)
        z = ctx.gemm(y, y, devices=[URI])
        assert np.allclose(z.numpy(), y.numpy() @ y.numpy(), atol=1e-3)
        assert "shares cpu with opencl:0" in ctx.explain_devices()
    with sp.init("all", profile=False) as ctx:
        assert URI in [device.uri for device in ctx.devices]


TWICE = b"""
__kernel void twice(__global float *y, __global const float *x, uint n)
{
    if (get_global_id(0) < n) y[get_global_id(0)] = 2 * x[get_global_id(0)];
}
__kernel void turned(__global int *y, __local int *kept)
{
    const uint i = get_local_id(0);
    kept[i] = y[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[get_global_id(0)] = kept[get_local_size(0) - 1 - i];
}
__kernel void for_ever(__global volatile uint *stop) { while (!stop[0]) {} }
"""


def user_kernels():
    path = Path(os.environ["SPARKLE_HOME"]) / "twice.cl"
    path.write_bytes(TWICE)
    with sp.open(URI) as dev, dev.array(np.arange(100, dtype=np.float32)) as x:
        for image in (str(path), TWICE):
            k = dev.kernel(image=image, entry="twice", args="f32* f32* u32", group_size=32)
            with k, dev.empty(100, np.float32) as y:
                dev.default_queue.launch(k, y, x, 100, groups=4).wait()
                assert (np.asarray(y) == 2 * np.arange(100)).all()
        k = dev.kernel(image=TWICE, entry="turned", args="i32*", group_size=8)
        with k, dev.array(np.arange(16, dtype=np.int32)) as y:
            dev.default_queue.launch(k, y, groups=2, shared=32).wait()
            assert np.asarray(y).tolist() == [*range(7, -1, -1), *range(15, 7, -1)]
            with raises(ValueError, "__local"):
                dev.default_queue.launch(k, y, groups=2)
        k = dev.kernel(image=TWICE, entry="twice", args="f32* f32* u32")
        with k, dev.empty(4, np.float32) as y, raises(ValueError, "__local"):
            dev.default_queue.launch(k, y, x, 4, groups=4, shared=64)


def bad_images():
    with sp.open(URI) as dev:
        before = dev.live_counts()
        for image, entry, args, says in (
            (b"__kernel void f(__global int *x) { x[0] = y; }", "f", "i32*", "undeclared"),
            (TWICE, "thrice", "f32*", "there are: "),
            (TWICE, "twice", "f32* f32*", "takes 3 arguments, 2 were told"),
            (TWICE, "twice", "f32* f32* u32 u32", "takes 3 arguments, 4 were told"),
            (TWICE, "twice", "f32* f64* u32", "argument 1 of twice is float*, f64* was told"),
            (TWICE, "twice", "f32* f32 u32", "argument 1 of twice is float*, f32 was told"),
            (TWICE, "twice", "f32* f32* f32", "argument 2 of twice is uint, f32 was told"),
            (b"\x03\x02\x23\x07" + bytes(16), "f", "", "allow_spirv"),
            (b"\xff\xfe\xfd", "f", "", "neither OpenCL C nor SPIR-V"),
            (TWICE + b"\0", "twice", "f32* f32* u32", "zero byte"),
        ):
            with raises(sp.ImageError, says):
                dev.kernel(image=image, entry=entry, args=args)
        spirv = {"entry": "f", "args": "", "allow_spirv": True}
        with raises(sp.ImageError, "SPIR-V"):
            dev.kernel(image=b"\x03\x02\x23\x07" + bytes(16), **spirv)
        assert dev.live_counts() == before


def failures():
    """OpenCL's errors, planted where pyopencl would raise them: how each is told."""
    import pyopencl as cl
    from sparkle_opencl import trouble, work

    assert trouble.errno_of(cl.status_code.OUT_OF_RESOURCES) == errno.ENOMEM
    assert trouble.errno_of(-9999) == errno.EIO
    real = work.cl.enqueue_nd_range_kernel
    status = cl.status_code

    def planted(code):
        def fails(*args, **named):
            raise cl.RuntimeError(cl._cl._ErrorRecord("planted", code, "clEnqueueNDRangeKernel"))

        return fails

    for code, kind in (
        (status.OUT_OF_RESOURCES, sp.OutOfDeviceMemory),
        (status.INVALID_KERNEL_ARGS, sp.DriverCallError),
        (status.DEVICE_NOT_AVAILABLE, sp.DeviceLost),
    ):
        with sp.open(URI) as dev, dev.kernel("fill_f32") as k, dev.buffer(400) as y:
            queue = dev.default_queue
            queue.launch(k, y, 1.0, 100).wait()
            cl.enqueue_nd_range_kernel = planted(code)
            try:
                with raises(kind, "planted"):
                    queue.launch(k, y, 2.0, 100)
                # Behind what was enqueued the failure is the submission's, and its wait tells.
                if kind is not sp.DeviceLost:
                    both = sp.Commands().fill(y, 0).dispatch(k, y, 2.0, 100)
                    with raises((sp.KernelFault, sp.OutOfDeviceMemory), "planted"):
                        queue.submit(both).wait()
            finally:
                cl.enqueue_nd_range_kernel = real
            if kind is sp.DeviceLost:
                with raises(kind, "planted"):
                    queue.launch(k, y, 2.0, 100)
            else:
                queue.launch(k, y, 3.0, 100).wait()
                assert (y.read(np.float32, 100) == 3).all()


def timestamps():
    with sp.open(URI) as dev:
        backend = dev._backend
        first, second = backend.timestamp(), backend.timestamp()
        assert 0 < first < second
        stamp = dev.timestamp()
        dev.default_queue.submit(sp.Commands().timestamp(stamp)).wait()
        assert second < stamp.ns < backend.timestamp()
        with dev.queue(timing=True) as queue, dev.kernel("busy_u32") as busy, dev.buffer(4) as y:
            times = [queue.launch(busy, y, n, groups=1).time_ns for n in (1000, 20_000_000)]
            assert times[1] > 20 * times[0] > 0, times
        stamp.close()


def fork():
    """A child is told at once; lets go of what it inherited; and the parent goes on."""
    with sp.open(URI) as dev, dev.kernel("busy_u32") as busy, dev.buffer(4) as y:
        queue = dev.default_queue
        go = queue.prepare(busy, y, 1, groups=1)
        fence = queue.launch(busy, y, 50_000_000, groups=1)
        pid = os.fork()
        if not pid:
            code = 1
            try:
                for call in (
                    lambda: queue.launch(busy, y, 1, groups=1), fence.wait, go, dev.wait_idle,
                    lambda: dev.buffer(4), lambda: y.read(np.uint8, 4), dev.queue,
                    lambda: dev.kernel("noop"),
                ):  # fmt: skip
                    with raises(sp.DeviceLost, "forked"):
                        call()
                y.close()
                busy.close()
                dev.close()
                code = 0
            finally:
                os._exit(code)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            time.sleep(0.01)
        assert done, "the child hangs"
        assert os.waitstatus_to_exitcode(status) == 0
        fence.wait()
        queue.fence(go()).wait()


def full():
    """More submissions than a queue holds, and a wait that times out over a kernel that spins."""
    with sp.open(URI) as dev, dev.kernel("noop") as noop:
        queue = dev.default_queue
        fences = [queue.launch(noop, groups=1) for _ in range(3000)]
        assert fences[-1].wait().value >= 3000
        k = dev.kernel(image=TWICE, entry="for_ever", args="u32*")
        with k, dev.buffer(4, sp.Memory.HOST) as stop:
            fence = queue.launch(k, stop, groups=1)
            with raises(sp.FenceTimeout, "for_ever"):
                fence.wait(0.3)
            with raises(sp.FenceTimeout, "for_ever"):
                dev.wait_idle(0.05)
            with stop.map() as view:
                view[0] = 1
            fence.wait()


def memory():
    """What is closed and still seen by numpy stays; what cannot fit is refused."""
    with sp.open(URI) as dev:
        buffer = dev.buffer(1 << 16, sp.Memory.HOST)
        with buffer.map() as view:
            held = np.frombuffer(view, np.uint8)
        held[:] = 7
        buffer.close()
        filler = [dev.buffer(1 << 16) for _ in range(8)]
        assert (held == 7).all()
        for one in filler:
            one.close()
        with raises(sp.OutOfDeviceMemory, "asked for"):
            dev.buffer(dev.info.memory_nbytes + 1)
        with dev.buffer(64, sp.Memory.SHARED) as shared, raises(NotImplementedError):
            shared.export()
        with raises(ValueError, "copy it with Device.array"):
            sp.wrap(dev, np.ones(4))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        globals()[name]()
        if name not in ("found", "suite"):
            print(name)
