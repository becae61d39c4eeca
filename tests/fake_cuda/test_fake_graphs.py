"""Graphs: nodes, changed parameters, capture."""

import ctypes
from ctypes import byref, c_float, c_size_t, c_uint, c_uint64, c_void_p

import numpy as np
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
    assert fake.call("cuStreamSynchronize", s) == 900
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
