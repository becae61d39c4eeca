"""Kernels that interpret memory, with contents and sizes from an untrusted writer.

When this fails, buffers that another client wrote make a kernel read or write outside its memory.

A record is checked once, in the device's own copy. What lies in buffers is not copied: another
queue may write it while a kernel runs.
"""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.errors import SparkleError
from sparkle_drv.types import TilePlan


@pytest.fixture(scope="module")
def cpu():
    with sp.open("cpu") as device:
        yield device


def outcome(queue, kernel, *args):
    """ "ran", or the name of the error."""
    try:
        queue.launch(kernel, *args).wait(20)
    except (ValueError, SparkleError) as error:
        return type(error).__name__
    return "ran"


@pytest.mark.parametrize("algo", ["auto", "naive", "blocked"])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_products_without_rows_or_columns_do_nothing(cpu, element, algo):
    kernel, queue = cpu.kernel(f"gemm_{element}", plan=TilePlan(algo=algo)), cpu.default_queue
    some = cpu.buffer(1 << 12)
    strides = (0, 1, 7)
    for m, n in ((0, 5), (5, 0), (0, 0), (1, 0), (0, 1)):
        for rsa, csa, rsb, csb in itertools.product(strides, repeat=4):
            args = (some, some, some, None, m, n, 4, rsa, csa, rsb, csb, 8, 0)
            assert outcome(queue, kernel, *args) == "ran"
    assert not some.read("u1", 1 << 12).any()


@pytest.mark.parametrize("nhwc", [0, 1])
@pytest.mark.parametrize(
    "algo", ["auto", "naive", "direct", "im2col", "winograd", "winograd2", "winograd6"]
)
def test_a_convolution_of_no_channels_is_its_bias(cpu, algo, nhwc):
    kernel, queue = cpu.kernel("conv2d_f32", plan=TilePlan(algo=algo)), cpu.default_queue
    y, none, bias = cpu.buffer(4 * 3 * 16), cpu.buffer(0), cpu.buffer(12)
    bias.write(np.array([1, 2, 3], "f4"))
    size = (1, 0, 4, 4, 3, 3, 3, 4, 4, 1, 1, 1, 1, 1, 1, 1, nhwc, 0)
    assert outcome(queue, kernel, y, none, none, bias, *size) == "ran"
    found = y.read("f4", (16, 3) if nhwc else (3, 16))
    assert (found == (np.array([1, 2, 3]) if nhwc else np.array([[1], [2], [3]]))).all()


def test_a_blob_that_is_longer_than_its_memory_is_refused(cpu):
    n, k = 5, 100
    plan = TilePlan(algo="blocked", pack=True)
    pack, queue = cpu.kernel("pack_gemm_f32", plan=TilePlan(algo="blocked")), cpu.default_queue
    b, blob = cpu.array(np.ones((k, n), "f4")), cpu.buffer(1 << 16)
    assert outcome(queue, pack, blob, 1 << 16, b, n, k, n, 1) == "ran"
    nbytes = int(blob.read("u8", 1, 8)[0])  # struct sp_packed
    assert nbytes > 4 * n * k  # so the extent of b alone does not cover it
    gemm, a, c = cpu.kernel("gemm_f32", plan=plan), cpu.array(np.ones((3, k), "f4")), cpu.buffer(60)
    sizes = (None, 3, n, k, k, 1, n, 1, n, 0)
    assert outcome(queue, gemm, c, a, blob.view(0, nbytes), *sizes) == "ran"
    assert (c.read("f4", 15) == k).all()
    for short in (4 * n * k, nbytes - 1):
        assert outcome(queue, gemm, c, a, blob.view(0, short), *sizes) != "ran"
    gemm.close()


def test_packed_weights_of_a_convolution_likewise(cpu):
    size = (1, 8, 6, 6, 16, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1, 1, 0)
    queue, x, y = cpu.default_queue, cpu.buffer(4 * 8 * 36), cpu.buffer(4 * 16 * 36)
    weights, blob = cpu.buffer(4 * 16 * 8 * 9), cpu.buffer(1 << 18)
    for algo in ("direct", "winograd"):
        pack = cpu.kernel("pack_conv2d_f32", plan=TilePlan(algo=algo))
        assert outcome(queue, pack, blob, 1 << 18, weights, *size) == "ran"
        nbytes = int(blob.read("u8", 1, 8)[0])
        conv = cpu.kernel("conv2d_f32", plan=TilePlan(algo=algo, pack=True))
        assert outcome(queue, conv, y, x, blob.view(0, nbytes), None, *size, 0) == "ran"
        assert outcome(queue, conv, y, x, blob.view(0, nbytes - 1), None, *size, 0) != "ran"


def test_a_program_that_changes_while_it_is_read(cpu):
    """The kernel runs what it has checked: its own copy."""
    n, words = 64, 4000
    kernel, queue = cpu.kernel("map_f32"), cpu.queue()
    add, load = 3, 1
    good = np.array([load] + [load, add] * (words // 2), "u4")
    program = cpu.buffer(good.nbytes)
    x, y = cpu.array(np.ones(n, "f4")), cpu.buffer(4 * n)
    program.write(good)
    stop = threading.Event()

    def spoil():
        with program.map() as view:
            at = np.frombuffer(view, "u4")[1::2]
            while not stop.is_set():
                at[:] = load | 0xFFFFFF << 8  # an input that there is not
                at[:] = load
            del at

    thread = threading.Thread(target=spoil)
    thread.start()
    try:
        args = (y, x, *[None] * 7, program, None, len(good), 0, n)
        seen = {outcome(queue, kernel, *args) for _ in range(1500)}
    finally:
        stop.set()
        thread.join()
    assert "ran" in seen
    queue.close()
