"""What only a cuda device does: graphs of repeated lists, transfers, two GPUs, user images, foreign
memory.

When this fails, users of NVIDIA GPUs get wrong order, lost copies or an unclear error.
"""

from __future__ import annotations

import os
import weakref

import fakecuda
import numpy as np
import pytest
from fakecuda import SAXPY
from sparkle_drv._native import lib
from where import ROOT

import sparkle_drv as sp

CUBINS = ROOT / "tests" / "cuda"


@pytest.fixture
def pair(opened):
    """Two GPUs, for this test alone."""
    opened("cuda:0")  # the driver is the fake's now, whatever the environment says
    with sp.open("cuda:0") as first, sp.open("cuda:1") as second:
        yield first, second


def test_it_says_what_it_is(cuda):
    info = cuda.info
    assert (info.backend, info.kind, info.unified, info.vendor) == ("cuda", "gpu", False, "NVIDIA")
    assert info.isa.startswith("sm_")
    assert info.emulated == (info.name == fakecuda.NAME)
    assert info.max_group_size >= 1024
    assert cuda._backend.sensors()["memory_free_mib"] > 0


def growing(dev, k, y, count):
    """y += 1, `count` times over."""
    commands = sp.Commands()
    for _ in range(count):
        commands.dispatch(k, y, y, 0.0, 64, groups=1)
    return commands


def graphs(dev):
    return {k: v for k, v in dev._backend.counters().items() if k.startswith("graph")}


@pytest.fixture
def saxpy(cuda):
    with (
        cuda.kernel("saxpy_f32") as k,
        cuda.array(np.ones(64, np.float32)) as x,
        cuda.empty(64, np.float32) as y,
    ):
        yield k, x, y


def added(before, after):
    return tuple(
        after[f"graph_{name}"] - before[f"graph_{name}"]
        for name in ("builds", "launches", "updates")
    )


def test_a_list_that_comes_again_is_one_graph(cuda, saxpy):
    k, x, y = saxpy
    commands = sp.Commands().fill(y, 0).barrier()
    for _ in range(20):
        commands.dispatch(k, y, x, 1.0, 64, groups=1)
    commands.dispatch(k, y, x, 1.0, 64, groups=0).copy(x, x)
    before = graphs(cuda)
    for _ in range(5):
        cuda.default_queue.submit(commands)
    assert (np.asarray(y) == 20).all()
    assert added(before, graphs(cuda)) == (1, 4, 0)


def test_patched_arguments_change_their_node_alone(cuda, saxpy):
    k, x, y = saxpy
    with cuda.empty((6, 64), np.float32) as out:
        row = [out.buffer.view(256 * i, 256) for i in range(6)]
        commands = sp.Commands().copy(row[0], y)
        for _ in range(12):
            commands.dispatch(k, y, x, 1.0, 64, groups=1)
        at = len(commands)
        commands.dispatch(k, row[0], x, 0.0, 64, groups=1)
        before = graphs(cuda)
        for i in range(6):
            commands.patch(at, row[i], x, float(i), 64)
            fence = cuda.default_queue.submit(commands)
        fence.wait()
        assert (np.asarray(y) == 72).all()
        got = np.asarray(out)
        assert (got[1:] == np.arange(1, 6)[:, None]).all()
        assert (got[0] == 60).all()
        assert added(before, graphs(cuda)) == (1, 5, 4)


def test_another_kernel_at_the_same_address_is_another_graph(cuda, saxpy):
    _, x, y = saxpy
    for name, result in (("copy_f32", 1), ("relu_f32", 1), ("neg_f32", -1), ("copy_f32", 1)):
        with cuda.kernel(name) as k:
            commands = sp.Commands()
            for _ in range(10):
                commands.dispatch(k, y, x, 64, groups=1)
            for _ in range(3):
                cuda.default_queue.submit(commands).wait()
            assert (np.asarray(y) == result).all(), name


def test_short_lists_and_waits_are_replayed(cuda, saxpy):
    k, x, y = saxpy
    before = graphs(cuda)
    with cuda.queue() as other:
        early = other.submit(sp.Commands().fill(x, 0))
        for commands in (
            sp.Commands().dispatch(k, y, x, 1.0, 64, groups=1),
            sp.Commands().wait(early),
            sp.Commands().copy(y.buffer.view(4, 100), y.buffer.view(0, 100)),
        ):
            for _ in range(12 if len(commands) else 1):
                commands.dispatch(k, y, x, 1.0, 64, groups=1)
            short = sp.Commands().dispatch(k, y, x, 1.0, 64, groups=1)
            for _ in range(3):
                cuda.default_queue.submit(short).wait()
                if commands.commands[0].__class__.__name__ != "DispatchCommand":
                    cuda.default_queue.submit(commands).wait()
    assert added(before, graphs(cuda)) == (0, 0, 0)


def test_a_graph_that_cannot_be_built_is_replayed(cuda, saxpy, tell):
    k, x, y = saxpy
    tell("fail cuGraphInstantiateWithFlags 801 times=9")
    commands = sp.Commands().fill(y, 0)
    for _ in range(12):
        commands.dispatch(k, y, x, 1.0, 64, groups=1)
    for _ in range(4):
        cuda.default_queue.submit(commands).wait()
        assert (np.asarray(y) == 12).all()


def test_memory_given_back_is_used_again(cuda, tell):
    cuda.buffer(1 << 20, sp.Memory.HOST).close()
    pinned = tell("live pinned")
    for _ in range(5):
        cuda.buffer(1 << 20, sp.Memory.HOST).close()
    assert tell("live pinned") == pinned


def test_host_memory_is_wrapped_in_place(cuda):
    host = np.arange(3000, dtype=np.float32)
    with sp.wrap(cuda, host) as x, cuda.empty(3000, np.float32) as y, cuda.kernel("copy_f32") as k:
        cuda.default_queue.launch(k, y, x, 3000, groups=12).wait()
        assert (np.asarray(y) == host).all()
        cuda.default_queue.submit(sp.Commands().fill(x, 0)).wait()
        assert not host.any()
        with pytest.raises(ValueError, match="page-locked already"):
            sp.wrap(cuda, host)
    host[:] = 1
    host.flags.writeable = False
    with sp.wrap(cuda, host) as x:
        assert x.readonly
    sp.wrap(cuda, host[:0]).close()


def test_wrapped_memory_is_let_go_of_before_its_owner(cuda):
    """Who gets its pages next may lock them, or unmap them."""
    before, left = cuda.live_counts()["native_allocations"], []
    host = np.ones(3000, np.float32)
    weakref.finalize(host, lambda: left.append(cuda.live_counts()["native_allocations"]))
    x = sp.wrap(cuda, host)
    del host
    assert not left
    x.close()
    assert left == [before]


def test_mapped_memory_outlives_its_buffer(cuda):
    with cuda.buffer(64, sp.Memory.HOST) as b, b.map() as view:
        kept = np.frombuffer(view, np.uint8)
        kept[:] = 7
        del kept
    with cuda.buffer(64) as b, pytest.raises(ValueError, match="does not reach"), b.map():
        pass


def test_shared_memory_goes_to_the_cpu_device_and_back(cpu, cuda):
    with cuda.buffer(4096, sp.Memory.SHARED) as mine:
        fd = mine.export()
        try:
            with cpu.import_buffer(fd, 4096) as theirs:
                mine.write(np.full(4096, 5, np.uint8))
                assert (theirs.read(np.uint8, 4096) == 5).all()
            with pytest.raises(ValueError, match="at least 4097 bytes"):
                cuda.import_buffer(fd, 4097)
        finally:
            os.close(fd)


def test_gemm_by_halves_on_two_gpus(pair):
    """Row halves by ops.gemm, gathered by copy_peer."""
    rng = np.random.default_rng(5)
    a = rng.standard_normal((150, 70), np.float32)
    b = rng.standard_normal((70, 90), np.float32)
    first, _ = pair
    with first.empty((150, 90), np.float32) as c:
        halves = []
        for dev, rows in zip(pair, (a[:75], a[75:]), strict=True):
            with dev.array(rows) as left, dev.array(b) as right:
                halves.append(sp.ops.gemm(dev, left, right))
                halves[-1].fence.wait()
        fences = [
            first.default_queue.submit(sp.Commands().copy(c.buffer.view(0, 27000), halves[0])),
            first.default_queue.copy_peer(c.buffer.view(27000, 27000), halves[1].buffer),
        ]
        for fence in fences:
            fence.wait()
        np.testing.assert_allclose(np.asarray(c), a.astype(float) @ b, rtol=1e-4, atol=1e-4)
        for half in halves:
            half.close()


def test_copies_between_gpus_and_within_one(pair):
    first, second = pair
    data = np.arange(1000)
    with first.array(data) as a, second.empty(1000, data.dtype) as b, first.buffer(8000) as c:
        second.default_queue.copy_peer(b.buffer, a.buffer).wait()
        assert (np.asarray(b) == data).all()
        first.default_queue.copy_peer(c, a.buffer).wait()
        assert (c.read(data.dtype, 1000) == data).all()
        with first.buffer(0) as none, second.buffer(0) as other:
            first.default_queue.copy_peer(none, other).wait()


def test_times_stay_right_far_from_the_first(cuda):
    """Events are reckoned from one that moves along (native/cuda/flight/events.c)."""
    stamp = cuda.timestamp()
    with cuda.queue(timing=True) as q:
        before = cuda._backend.timestamp()
        fence = q.submit(sp.Commands().timestamp(stamp))
        assert fence.time_ns > 0
        now = cuda._backend.timestamp()
        assert before - 10**9 < stamp.ns < now + 10**9
    stamp.close()


def test_counts_are_asked_for_and_set(cuda):
    raw = cuda._backend._native.device
    was = lib.sp_cuda_graph_nodes(raw, 0)
    assert lib.sp_cuda_graph_nodes(raw, 3) == was
    assert lib.sp_cuda_graph_nodes(raw, was) == 3


class Exported:
    """Memory of a GPU as torch or CuPy show it."""

    def __init__(self, array, **more):
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": "<f4", "version": 3,
            "data": (array.buffer.address, False), **more,
        }  # fmt: skip


def test_memory_of_others_in_place_in_the_order_of_their_stream(cuda, saxpy):
    k, x, y = saxpy
    with sp.wrap(cuda, Exported(y, stream=1)) as theirs:
        cuda.default_queue.launch(k, theirs, x, 3.0, 64, groups=1)
        cuda.default_queue.launch(k, Exported(y), x, 3.0, 64, groups=1).wait()
    assert (np.asarray(y) == 6).all()
    with cuda.queue() as q, cuda.queue() as other:
        stream = cuda._backend.share_stream(other._handle)
        q.order_stream(stream)
        q.wait_stream(stream)
        q.launch(k, y, x, 1.0, 64, groups=1).wait()
    assert (np.asarray(y) == 7).all()
    with pytest.raises(ValueError, match="expected memory of cuda:0"):
        cuda._backend.adopt(4096, 64, None)


def test_discovery_lists_every_gpu_or_says_why_not(cuda, tell):
    def found():
        return [f for f in sp.discover() if f.backend == "cuda"]

    assert [(f.uri, f.usable) for f in found()] == [("cuda:0", True), ("cuda:1", True)]
    tell("fail cuDeviceTotalMem_v2 999 after=2")
    first, second = found()
    assert first.usable != second.usable
    assert "CUDA_ERROR_UNKNOWN" in first.reason + second.reason
    tell("fail cuInit 803 times=2")
    (none,) = found()
    assert "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" in none.reason
    with pytest.raises(sp.DeviceNotFound, match="install its driver"):
        sp.open("cuda:0")
    for wrong, words in (("cuda:9", "there are 2"), ("cuda:one", "'cuda:0', 'cuda:1'")):
        with pytest.raises(sp.DeviceNotFound, match=words):
            sp.open(wrong)
    tell("fail cuDeviceGetName 999 after=2 times=9")
    with pytest.raises(sp.DeviceNotFound, match="cuDeviceGetName"):
        sp.open("cuda:1")


def test_what_the_driver_refuses_is_told_in_its_words(cuda, saxpy, tell):
    k, x, y = saxpy
    tell("fail cuLaunchKernel 701")
    with pytest.raises(ValueError, match="than a multiprocessor has room for"):
        cuda.default_queue.launch(k, y, x, 1.0, 64, groups=1)
    tell("fail cuMemAllocAsync 2 times=2")
    with pytest.raises(sp.OutOfDeviceMemory, match="CUDA_ERROR_OUT_OF_MEMORY"):
        cuda.buffer(64)
    tell("fail cuMemcpyDtoHAsync_v2 1")
    with cuda.queue() as q:
        with pytest.raises(sp.KernelFault, match="CUDA_ERROR_INVALID_VALUE"):
            q.read(y.buffer, np.zeros(64, np.float32)).wait()
        assert q._backend.fault(q._handle, 0) == ""
    tell("fail cuMemHostRegister_v2 801 times=2")
    with pytest.raises(sp.DriverCallError, match="CUDA_ERROR_NOT_SUPPORTED"):
        sp.wrap(cuda, np.ones(10))
    assert cuda._backend.lost() == ""
    cuda.default_queue.launch(k, y, x, 1.0, 64, groups=1).wait()


def test_a_workgroup_too_deep_or_with_too_much_shared_memory(cuda):
    with (
        cuda.kernel(image=SAXPY.encode(), entry="saxpy_f32", args="f32* f32* f32 u32") as k,
        cuda.empty(64, np.float32) as y,
    ):
        with pytest.raises(ValueError, match="65 in z; at most 64"):
            cuda.default_queue.launch(k, y, y, 1.0, 64, groups=1, group_size=(1, 1, 65))
        most = cuda.info.max_shared_nbytes
        with pytest.raises(ValueError, match="shared"):
            cuda.default_queue.launch(k, y, y, 1.0, 64, groups=1, shared=most + 1)
    assert cuda._backend.refusal(b"", -22) == ""
    assert cuda._backend.refusal(bytes(64), -22) == ""


def test_a_copy_between_gpus_takes_arrays_and_nothing_of_the_host(pair):
    first, second = pair
    with second.array(np.array([7], np.float32)) as src, first.empty(1, np.float32) as dst:
        first.default_queue.copy_peer(dst, src).wait()
        assert dst.numpy() == 7
        with pytest.raises(TypeError, match=r"src: .*ndarray"):
            first.default_queue.copy_peer(dst, np.zeros(1, np.float32))


def test_a_number_in_other_digits_is_no_device():
    with pytest.raises(sp.DeviceNotFound, match="expected 'cuda:0'"):
        sp.open("cuda:\u00b2")


def test_a_launch_that_is_waited_for_needs_no_event(cuda, saxpy, tell):
    k, x, y = saxpy
    tell("time kernel 2000")
    before = tell("calls cuEventRecord")
    for _ in range(3):
        cuda.default_queue.launch(k, y, x, 1.0, 64, groups=1).wait()
    assert tell("calls cuEventRecord") == before


@pytest.mark.parametrize("later", ["launch", "submit", "write"])
def test_what_comes_later_keeps_nobody_waiting_who_has_asked(cuda, saxpy, tell, later):
    k, x, y = saxpy
    with cuda.kernel("busy_u32") as endless, cuda.queue() as q, cuda.buffer(64) as b:
        tell("time kernel 20000")
        first = q.launch(k, y, x, 1.0, 64, groups=1)
        assert not first.done
        tell("endless busy_u32")
        if later == "launch":
            last = q.launch(endless, b, 1, groups=1)
        elif later == "submit":
            last = q.submit(sp.Commands().dispatch(endless, b, 1, groups=1))
        else:
            q.write(b, np.zeros(64, np.uint8))
            last = q.launch(endless, b, 1, groups=1)
        first.wait(20)
        assert not last.done
        tell("release")
        last.wait(20)
