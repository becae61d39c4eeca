"""Graphs: nodes, changed parameters, capture.

When this fails, tests of CUDA graphs run on a driver that does not behave as NVIDIA's.
"""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_float, c_size_t, c_uint, c_uint64, c_void_p

import numpy as np
import pytest
from fakekit import Kernel

N = 256
ONES = np.ones(N, np.float32)


class Saxpy:
    """Kernel node parameters with memory that they point to."""

    def __init__(self, function, y, x, a: float):
        self.args = (y, x, c_float(a), c_uint(N))
        self.pointers = (c_void_p * 4)(*map(ctypes.addressof, self.args))
        self.raw = Kernel(function.value, 1, 1, 1, 256, 1, 1, 0, ctypes.addressof(self.pointers))


def test_a_changed_node_leaves_queued_launches_alone(fake):
    y, x, f, s = fake.upload(ONES), fake.upload(ONES), fake.function("saxpy_f32"), fake.stream()
    graph = c_void_p(fake.get("cuGraphCreate", c_void_p, 0))
    node = c_void_p()
    first, second = Saxpy(f, y, x, 1.0), Saxpy(f, y, x, 10.0)
    fake.ok("cuGraphAddKernelNode_v2", byref(node), graph, None, c_size_t(0), byref(first.raw))
    run = c_void_p(fake.get("cuGraphInstantiateWithFlags", c_void_p, graph, c_uint64(0)))
    fake.control("endless noop")
    assert fake.launch(fake.function("noop"), 1, stream=s) == 0
    fake.ok("cuGraphLaunch", run, s)
    fake.ok("cuGraphExecKernelNodeSetParams_v2", run, node, byref(second.raw))
    fake.ok("cuGraphLaunch", run, s)
    fake.ok("cuGraphExecDestroy", run)
    fake.ok("cuGraphDestroy", graph)
    fake.control("release")
    fake.ok("cuStreamSynchronize", s)
    assert (fake.download(y, N) == 12).all()
    assert fake.control("live graphs") == fake.control("live execs") == 0


def test_capture_runs_nothing_until_launched(fake):
    y, x, f = fake.upload(ONES), fake.upload(ONES), fake.function("saxpy_f32")
    s, joined, fork = fake.stream(), fake.stream(), fake.event(2)
    fake.ok("cuStreamBeginCapture_v2", s, 0)
    assert fake.saxpy(f, y, x, 1.0, N, s) == 0
    fake.ok("cuEventRecord", fork, s)
    fake.ok("cuStreamWaitEvent", joined, fork, 0)
    fake.ok("cuMemsetD32Async", x, c_uint(0), c_size_t(N), joined)
    graph = c_void_p()
    fake.ok("cuStreamEndCapture", s, byref(graph))
    assert (fake.download(y, N) == 1).all()
    count = c_size_t()
    fake.ok("cuGraphGetNodes", graph, None, byref(count))
    assert count.value == 2
    run = c_void_p(fake.get("cuGraphInstantiateWithFlags", c_void_p, graph, c_uint64(0)))
    for _ in range(2):
        fake.ok("cuGraphLaunch", run, s)
    fake.ok("cuStreamSynchronize", s)
    assert (fake.download(y, N) == 2).all()
    assert (fake.download(x, N) == 0).all()
    fake.ok("cuGraphExecDestroy", run)
    fake.ok("cuGraphDestroy", graph)


GLOBAL, THREAD_LOCAL, RELAXED = range(3)


def exchanged(fake, mode: int) -> int:
    """This thread's mode before, which `mode` takes the place of."""
    now = ctypes.c_int(mode)
    fake.ok("cuThreadExchangeStreamCaptureMode", byref(now))
    return now.value


def elsewhere(function):
    """What the function returns in another thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(20)


# cuThreadExchangeStreamCaptureMode, CUDA driver API 13.0: the three modes of a thread.
@pytest.mark.parametrize("captured", [GLOBAL, THREAD_LOCAL, RELAXED])
@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
@pytest.mark.parametrize("same", [True, False], ids=["same thread", "another thread"])
def test_what_a_capture_prohibits(fake, captured, mode, same):
    s, other, context, memory = fake.stream(), fake.stream(), fake.context(), fake.alloc(4)
    if mode == RELAXED:
        prohibited = False
    elif same:
        prohibited = captured != RELAXED
    else:
        prohibited = captured == mode == GLOBAL

    def query():
        fake.ok("cuCtxSetCurrent", context)
        assert exchanged(fake, mode) == GLOBAL
        found = fake.call("cuStreamQuery", other)
        assert exchanged(fake, GLOBAL) == mode
        return found

    fake.ok("cuStreamBeginCapture_v2", s, captured)
    assert (query() if same else elsewhere(query)) == (900 if prohibited else 0)
    status, graph = ctypes.c_int(), c_void_p()
    fake.ok("cuStreamIsCapturing", s, byref(status))
    assert status.value == (2 if prohibited else 1)
    assert fake.call("cuEventRecord", fake.event(), s) == 901 * prohibited
    assert fake.call("cuMemsetD32Async", memory, 0, c_size_t(1), s) == 901 * prohibited
    assert fake.call("cuStreamEndCapture", s, byref(graph)) == 901 * prohibited
    assert (graph.value is None) == prohibited
    assert query() == 0, "the capture has ended"
    if graph:
        fake.ok("cuGraphDestroy", graph)
    assert fake.control("live graphs") == 0


def test_asking_about_a_stream_that_captures_spoils_its_capture(fake):
    s, event, graph = fake.stream(), fake.event(2), c_void_p()
    for ask, what, error in ("cuStreamQuery", s, 900), ("cuEventQuery", event, 907):
        fake.ok("cuStreamBeginCapture_v2", s, RELAXED)
        fake.ok("cuEventRecord", event, s)
        assert fake.call(ask, what) == error
        assert fake.call("cuStreamEndCapture", s, byref(graph)) == 901
    assert fake.call("cuStreamWaitEvent", s, event, 0) == 907, "that capture is over"


def test_a_capture_ends_in_the_thread_that_began_it_or_with_its_stream(fake):
    s, context, graph = fake.stream(), fake.context(), c_void_p()
    fake.ok("cuStreamBeginCapture_v2", s, GLOBAL)

    def end():
        fake.ok("cuCtxSetCurrent", context)
        return fake.call("cuStreamEndCapture", s, byref(graph))

    assert elsewhere(end) == 908
    fake.ok("cuStreamDestroy_v2", s)
    fake.alloc(4)  # nothing prohibits it any more
