"""Copies to and from the host on a cuda device: staged in pieces, in order, with little page-locked
memory however large they are. On the fake driver.

When this fails, copies to NVIDIA GPUs arrive out of order, or lock too much host memory.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest
from fakecuda import run

import sparkle_drv as sp

PIECE = 4 << 20  # SP_CUDA_PIECE_NBYTES, native/cuda/progress/staging.h
LARGE = 5 * PIECE + 12345  # more than the three pieces that are handed over at once
PINNED = 3  # SP_CUDA_SLOTS


@pytest.mark.parametrize("nbytes", [4096, 1 << 20])
def test_transfers_beside_work_go_by_streams_of_their_own(cuda, tell, nbytes):
    data = np.random.default_rng(3).integers(0, 256, nbytes, np.uint8)
    with (
        cuda.buffer(nbytes) as b,
        cuda.queue() as q,
        cuda.kernel("saxpy_f32") as k,
        cuda.empty(64, np.float32) as y,
    ):
        streams = tell("live streams")
        tell("endless saxpy_f32")
        q.launch(k, y, y, 0.0, 64, groups=1)
        q.write(b, data)
        out = np.zeros_like(data)
        fence = q.read(b, out)
        tell("release")  # not before: beside work that has ended there is nothing to go around
        fence.wait()
        assert (out == data).all()
        assert tell("live streams") - streams == (2 if nbytes > 65536 else 0)


def test_transfers_are_staged_and_in_order(cuda):
    """Each write is of what the array held then, however late it is copied."""
    data, outs = np.zeros(1 << 18, np.uint8), []
    with cuda.buffer(data.nbytes) as b, cuda.queue() as q:
        for i in range(8):
            data[:] = i
            q.write(b, data)
            q.submit(sp.Commands().fill(b.view(0, 1), 100 + i, 1))
            outs.append(np.empty_like(data))
            fence = q.read(b, outs[-1])
        fence.wait()
    for i, out in enumerate(outs):
        assert out[0] == 100 + i
        assert (out[1:] == i).all()


@pytest.fixture
def large(cuda):
    rng = np.random.default_rng(11)
    with cuda.buffer(LARGE) as b:
        yield b, cuda.default_queue, rng.integers(0, 256, LARGE, np.uint8)


@pytest.mark.parametrize("nbytes", [PIECE, PIECE + 1, PINNED * PIECE, PINNED * PIECE + 1, LARGE])
def test_large_transfers_need_three_pieces_of_page_locked_memory(large, tell, nbytes):
    b, q, data = large
    pinned = tell("live pinned")
    q.write(b, data[:nbytes])
    out = np.zeros_like(data)
    q.read(b, out[:nbytes]).wait()
    assert (out[:nbytes] == data[:nbytes]).all()
    assert not out[nbytes:].any()
    assert tell("live pinned") - pinned <= 2 * PINNED  # both may be on their way
    q.write(b, data[::-1].copy()).wait()
    q.read(b, out).wait()
    assert (out == data[::-1]).all()
    assert tell("live pinned") - pinned <= 2 * PINNED


@pytest.mark.parametrize("busy", [False, True])
def test_an_array_may_change_as_soon_as_it_was_written(large, tell, busy):
    b, q, data = large
    with q.device.kernel("saxpy_f32") as k, q.device.empty(64, np.float32) as y:
        if busy:
            tell("endless saxpy_f32")
            q.launch(k, y, y, 0.0, 64, groups=1)
        given = data.copy()
        fence = q.write(b, given)
        given[:] = 0
        assert not (busy and fence.done)
        tell("release")
        fence.wait()
        out = np.zeros_like(data)
        q.read(b, out).wait()
    assert (out == data).all()


@pytest.mark.parametrize("pools", [True, False])
def test_a_busy_queue_without_memory_to_spare_keeps_no_writer_waiting(pools):
    """Nothing goes over the bus before the kernel ends: the rest is staged as it is."""
    run(f"""
dev = sp.open("cuda:0")
q, k, y = dev.queue(), dev.kernel("saxpy_f32"), dev.empty(64, np.float32)
data = np.random.default_rng(1).integers(0, 256, {LARGE}, np.uint8)
b, out = dev.buffer(data.nbytes), np.zeros_like(data)
tell("fail cuMemAllocAsync 2 times=-1")
tell("endless saxpy_f32")
q.launch(k, y, y, 0.0, 64, groups=1)
given = data.copy()
fence = q.write(b, given)
given[:] = 0
assert not fence.done
tell("release")
tell("reset")
q.read(b, out).wait()
assert (out == data).all()
""", *([] if pools else ["missing cuMemAllocAsync"]))  # fmt: skip


@pytest.mark.parametrize("then", ["launch", "submit", "write", "read", "stream", "prepared"])
def test_what_follows_a_large_read_does_not_change_what_it_reads(large, then):
    b, q, data = large
    q.write(b, data).wait()
    out, more = np.zeros_like(data), np.zeros_like(data)
    with q.device.kernel("fill_f32") as k:
        whole = b.view(0, LARGE // 4 * 4).array(np.float32, (LARGE // 4,))
        prepared = q.prepare(k, whole, 0.0, LARGE // 4, groups=-(-LARGE // 1024))
        fence = q.read(b, out)
        if then == "launch":
            q.launch(k, whole, 0.0, LARGE // 4, groups=-(-LARGE // 1024)).wait()
        elif then == "prepared":
            q.fence(prepared()).wait()
        elif then == "submit":
            q.submit(sp.Commands().fill(b, 0, 1)).wait()
        elif then == "write":
            q.write(b, np.zeros_like(data)).wait()
        elif then == "read":
            q.read(b, more).wait()
            assert (more == data).all()
        else:
            with q.device.queue() as other:
                q.order_stream(other.stream)
                other.submit(sp.Commands().fill(b, 0, 1)).wait()
        fence.wait()
    assert (out == data).all()


def test_another_queue_waits_for_all_of_a_large_read(large):
    b, q, data = large
    q.write(b, data).wait()
    out = np.zeros_like(data)
    with q.device.queue() as other:
        for _ in range(3):
            fence = q.read(b, out)
            other.submit(sp.Commands().wait(fence).fill(b, 0, 1)).wait()
            fence.wait()
            assert (out == data).all()
            q.write(b, data).wait()


def test_large_reads_of_several_threads(large):
    b, q, data = large
    q.write(b, data).wait()
    outs, wrong = [np.zeros_like(data) for _ in range(3)], []

    def read(out):
        try:
            for _ in range(3):
                out[:] = 0
                q.read(b, out).wait()
                assert (out == data).all()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=read, args=(out,)) for out in outs]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong, wrong


@pytest.mark.parametrize("nbytes", [4096, PIECE, LARGE])
def test_a_queue_is_closed_with_a_read_open_that_nobody_waits_for(large, cuda, nbytes):
    b, _, data = large
    b.write(data)
    out = np.zeros(nbytes, np.uint8)
    q = cuda.queue()
    q.read(b, out)
    q.close()
    assert (out == data[:nbytes]).all()


CALLS = ("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyAsync", "cuEventRecord",
         "cuEventQuery", "cuStreamWaitEvent", "cuMemAllocAsync", "cuMemHostAlloc",
         "cuEventCreate")  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_a_large_transfer_that_fails_half_way_tells_so_and_leaves_nothing_behind(large, tell, call):
    """Right, or a typed error; and the next one is right."""
    b, q, data = large
    rng = np.random.default_rng(5)
    for after in (0, 7):
        values = rng.integers(0, 256, LARGE, np.uint8)
        out, errors = np.zeros_like(data), []
        tell(f"fail {call} 2 after={after} times=1")
        for use in (lambda: q.write(b, values), lambda: q.read(b, out)):  # noqa: B023
            try:
                use().wait()
            except sp.SparkleError as error:
                errors.append(error)
        assert errors or (out == values).all(), (call, after)
        tell("reset")
        q.write(b, data).wait()
        q.read(b, out).wait()
        assert (out == data).all(), (call, after)


def test_a_device_that_is_lost_half_way_through_a_large_transfer():
    run(f"""
import gc
marks = range(9, 15)  # of the pieces of a read: the first that go at once, others as they come in
for call, afters in (("cuMemcpyHtoDAsync_v2", (0, 5)), ("cuMemcpyDtoHAsync_v2", (0, 5)),
                     ("cuEventRecord", (0, 5, *marks)), ("cuEventQuery", (0, 5))):
    for after in afters:
        with sp.open("cuda:0") as dev:
            q, b = dev.queue(), dev.buffer({LARGE})
            data = np.zeros({LARGE}, np.uint8)
            tell(f"fail {{call}} 700 after={{after}}")
            with pytest.raises(sp.DeviceLost):
                for _ in range(9):
                    q.write(b, data).wait()
                    q.read(b, data).wait()
            with pytest.raises(sp.DeviceLost): q.read(b, data)
            tell("reset")
        del dev, q, b
        gc.collect()  # what was raised held them, and with them the context
""")
