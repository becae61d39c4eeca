"""Ctrl-C at every position of the calls of core and ops, while a device is late.

When this fails, Ctrl-C at a bad moment frees memory that the device still writes, leaves a lock
held, leaks, or makes later results wrong.
"""

import contextlib
import gc
import threading

import numpy as np
import pytest
from gated import GATE, Gated
from interrupts import all_of
from userlib import Compiler

import sparkle_drv as sp

A = np.arange(240, dtype=np.float32).reshape(15, 16)
IMAGE = np.ones((1, 1, 6, 6), np.float32)
FILTER = np.ones((1, 1, 3, 3), np.float32)
CANARY = np.float32(85)


class State:
    """The objects of one call that stay open, on the device of the gate."""

    def __init__(self, gate):
        self.gate, self.dev = gate, gate.dev
        self.queue = self.dev.default_queue
        self.fill = self.dev.kernel("fill_f32")
        self.x, self.y = self.dev.array(A), self.dev.array(A.T.copy())
        self.z = self.dev.array(A)  # the host never maps it, so expressions over it wait
        self.image = self.dev.array(IMAGE)
        self.list = sp.Commands().dispatch(self.fill, self.x, 3.0, 240, groups=1)
        self.go = self.queue.prepare(self.fill, self.x, 3.0, 240, groups=1)

    def host(self, like=A):
        """Returns a host array that the caller drops."""
        return np.array(like)


def launch(s):
    s.queue.launch(s.fill, s.x, 3.0, 240, groups=1)


def launch_over_host_memory(s):
    s.queue.launch(s.fill, s.host(), 3.0, 240, groups=1)


def launch_after_a_close(s):
    s.dev.buffer(64).close()
    s.queue.launch(s.fill, s.x, 3.0, 240, groups=1)


def prepared(s):
    s.queue.fence(s.go())


def prepare(s):
    s.queue.prepare(s.fill, s.x, 3.0, 240, groups=1)()


def write(s):
    s.queue.write(s.x, s.host())


def read(s):
    s.queue.read(s.x, np.empty_like(A))


def read_and_wait(s):
    out = s.x.buffer.read(np.float32, 240)
    return lambda: np.testing.assert_array_equal(out, A.reshape(-1))


def array(s):
    out = s.dev.array(A)
    return lambda: np.testing.assert_array_equal(out.numpy(), A)


def close_of_a_buffer(s):
    made = s.dev.buffer(960)
    s.queue.launch(s.fill, made, 3.0, 240, groups=1)
    made.close()


def end_of_a_buffer(s):
    s.queue.launch(s.fill, s.dev.buffer(960), 3.0, 240, groups=1)


def close_of_a_kernel(s):
    kernel = s.dev.kernel("fill_f32")
    s.queue.launch(kernel, s.x, 3.0, 240, groups=1)
    kernel.close()


def close_of_a_queue(s):
    queue = s.dev.queue()
    queue.launch(s.fill, s.y, 3.0, 240, groups=1)
    queue.close()


def end_of_a_queue(s):
    s.dev.queue().launch(s.fill, s.y, 3.0, 240, groups=1)


def mapped(s):
    s.x.buffer.map()[:4]


def copy_peer(s):
    made = s.dev.buffer(960)
    s.queue.copy_peer(made, s.x)
    made.close()


def commands(s):
    made = s.dev.buffer(960)
    work = sp.Commands().copy(made, s.x.buffer).dispatch(s.fill, s.x, 3.0, 240, groups=1)
    s.queue.submit(work)


def commands_again(s):
    s.queue.submit(s.list)


def commands_that_wait(s):
    other = s.dev.queue()
    fence = other.launch(s.fill, s.y, 3.0, 240, groups=1)
    s.queue.submit(sp.Commands().wait(fence).dispatch(s.fill, s.x, 3.0, 240, groups=1))


def pipeline(s):
    with s.dev.pipeline(2, queue=s.queue, make=lambda dev: dev.buffer(960)) as pipe:
        for value in range(3):
            slot = pipe.acquire()
            pipe.submit(slot, sp.Commands().dispatch(s.fill, slot, value, 240, groups=1))


def gemm(s):
    out = sp.ops.gemm(s.dev, s.host(), s.host(A.T))
    return lambda: np.testing.assert_array_equal(out, A @ A.T)


def gemm_of_arrays(s):
    out = sp.ops.gemm(s.dev, s.x, s.y)
    return lambda: np.testing.assert_array_equal(out.numpy(), A @ A.T)


def gemm_into(s):
    out = np.empty((15, 15), np.float32)
    sp.ops.gemm(s.dev, s.host(), s.host(A.T), out)
    return lambda: np.testing.assert_array_equal(out, A @ A.T)


def gemm_of_both(s):
    out = sp.ops.gemm(s.dev, s.x, s.host(A.T))
    return lambda: np.testing.assert_array_equal(out.numpy(), A @ A.T)


def conv2d(s):
    out = sp.ops.conv2d(s.dev, s.host(IMAGE), s.host(FILTER))
    return lambda: np.testing.assert_array_equal(out, np.full((1, 1, 4, 4), 9))


def conv2d_of_arrays(s):
    out = sp.ops.conv2d(s.dev, s.image, s.host(FILTER))
    return lambda: np.testing.assert_array_equal(out.numpy(), np.full((1, 1, 4, 4), 9))


def mapping(s):
    out = sp.ops.map(s.dev, "2 * x + 1", x=s.host())
    return lambda: np.testing.assert_array_equal(out, 2 * A + 1)


def reduction(s):
    out = sp.ops.reduce(s.dev, s.host(), op="max", axis=0)
    return lambda: np.testing.assert_array_equal(out, A.max(axis=0))


def reduction_of_an_array(s):
    out = sp.ops.reduce(s.dev, s.x, op="max", axis=0)
    return lambda: np.testing.assert_array_equal(out.numpy(), A.max(axis=0))


def expression(s):
    out = (s.z * 2 + 1).numpy()
    return lambda: np.testing.assert_array_equal(out, A * 2 + 1)


def expression_before_a_launch(s):
    out = s.z + 1
    s.queue.launch(s.fill, s.z, 3.0, 240, groups=1)
    return lambda: np.testing.assert_array_equal(out.numpy(), A + 1)


def expression_before_a_close(s):
    operand = s.dev.array(A)
    out = operand + 1
    operand.close()
    return lambda: np.testing.assert_array_equal(out.numpy(), A + 1)


def expression_before_another_queue(s):
    with s.dev.queue() as queue:
        out = s.z - 1
        assert out.fence is not None
        queue.launch(s.fill, s.z, 3.0, 240, groups=1)
        s.gate.open_gate()
    return lambda: np.testing.assert_array_equal(out.numpy(), A - 1)


def in_place(s):
    s.z += 1
    return lambda: np.testing.assert_array_equal(s.z.buffer.read("f4", A.shape), A + 1)


def in_place_while_waiting(s):
    out = s.z * 2
    out += 1
    return lambda: np.testing.assert_array_equal(out.numpy(), A * 2 + 1)


def elements(s):
    s.gate.open_gate()
    s.z[1:3] = 7
    return lambda: np.testing.assert_array_equal(s.z.buffer.read("f4", A.shape)[1:3], 7)


def sum_of_an_expression(s):
    out = (s.z * s.z).sum(axis=0)
    return lambda: np.testing.assert_array_equal(out.numpy(), (A * A).sum(axis=0))


def transpose(s):
    out = s.z.T
    return lambda: np.testing.assert_array_equal(out.numpy(), A.T)


def layout(s):
    out = sp.ops.layout(s.dev, s.host(IMAGE), "NHWC")
    return lambda: np.testing.assert_array_equal(out, IMAGE.transpose(0, 2, 3, 1))


CALLS = [
    launch, launch_over_host_memory, launch_after_a_close, prepared, prepare, write, read,
    read_and_wait, array, close_of_a_buffer, end_of_a_buffer, close_of_a_kernel, close_of_a_queue,
    end_of_a_queue, mapped, copy_peer, commands, commands_again, commands_that_wait, pipeline, gemm,
    gemm_of_arrays, gemm_into, gemm_of_both, conv2d, conv2d_of_arrays, mapping, reduction,
    reduction_of_an_array, layout, expression, expression_before_a_launch,
    expression_before_a_close, expression_before_another_queue, in_place, in_place_while_waiting,
    elements, sum_of_an_expression, transpose,
]  # fmt: skip


def elsewhere(work):
    """Runs `work` on another thread, which a lock that this thread holds would stop."""
    errors = []

    def runs():
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=runs, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "a lock is held"
    if errors:
        raise errors[0]


# Between the native call that makes an object and the cffi owner that frees it, an interrupt leaks
# the object. Nothing uses it yet.
MAKERS = ("CpuBackend.alloc", "CpuBackend._owned", "CpuBackend.load", "Native.open_queue", "check:")


class Sweep:
    """Runs a call with an interrupt at each position. `faults` has a line for each fault."""

    def __init__(self, library, in_c):
        self.faults, self.leaks = [], 0
        self.gate = Gated(library, in_c)
        self.state = State(self.gate)

    def run(self, call, tried, each=False, every=1):
        for _ in range(2):  # kernels are loaded, plans are made
            self._one(call, contextlib.nullcontext())
        for interrupt in all_of(tried, each, every):
            try:
                before, after = self._one(call, interrupt)
                self._judge(interrupt.where, before, after)
            except Exception as error:
                self.faults.append(f"{interrupt.where}: {type(error).__name__}: {error}")

    def _judge(self, where, before, after):
        more = {name: n - before[name] for name, n in after.items() if n != before[name]}
        if list(more.values()) == [1] and any(maker in where for maker in MAKERS):
            self.leaks += 1
        elif more:
            self.faults.append(f"{where}: leaked {more}")

    def _one(self, call, interrupt):
        state, gate = self.state, self.gate
        state.dev.wait_idle()
        np.copyto(state.x.numpy(), A)
        state.queue.write(state.z, A).wait()
        before = self._counts()
        gate.faults.clear()
        gate.close_gate()
        verify = None
        try:
            with contextlib.suppress(KeyboardInterrupt), interrupt:
                verify = call(state)
            # Memory that was freed too early is most likely reused by these.
            innocent = [np.full(n, CANARY) for n in (240, 225, 16, 9) for _ in range(8)]
        finally:
            gate.open_gate()
        state.dev.wait_idle()
        for other in innocent:
            assert (other == CANARY).all(), "memory was written after it was freed"
        if verify:  # there was no interrupt
            verify()
        verify = None
        elsewhere(self._works)
        gc.collect()
        assert not gate.faults, gate.faults
        return before, self._counts()

    def _works(self):
        state = self.state
        np.testing.assert_array_equal(sp.ops.gemm(state.dev, A, A.T.copy()), A @ A.T)
        np.copyto(state.y.numpy(), A.T)
        np.testing.assert_array_equal((state.y * 2 + 1).numpy(), A.T * 2 + 1)
        state.queue.write(state.z, A).wait()
        later = state.z + 1
        state.queue.launch(state.fill, state.z, 4.0, 240, groups=1)
        np.testing.assert_array_equal(later.numpy(), A + 1)
        state.queue.launch(state.fill, state.x, 4.0, 240, groups=1).wait()
        assert (state.x.numpy() == 4).all()

    def _counts(self):
        self.gate.dev.wait_idle()
        counts = self.gate.dev.live_counts()
        return {name: n for name, n in counts.items() if "nbytes" not in name}

    def reported(self):
        """Returns the faults as text, and forgets them."""
        told, self.faults = "\n".join(self.faults), []
        return told

    def close(self):
        self.gate.close()


@pytest.fixture(scope="module", params=[True, False], ids=["c", "python"])
def sweep(request, tmp_path_factory):
    library = Compiler(tmp_path_factory.mktemp("gate")).library(GATE)
    made = Sweep(library, in_c=request.param)
    gc.collect()
    gc.freeze()  # a collection after each interrupt looks at new objects only
    yield made
    gc.unfreeze()
    made.close()


TRIED = set()  # a place of the code is tried in the first call that comes there
EVERY = 5  # one place in so many, always the same ones


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_an_interrupt_at_some_positions(sweep, call):
    sweep.run(call, TRIED, every=EVERY)
    assert not sweep.faults, sweep.reported()


@pytest.mark.long
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_an_interrupt_at_each_position_of_each_call(sweep, call):
    sweep.run(call, set())
    assert not sweep.faults, sweep.reported()
