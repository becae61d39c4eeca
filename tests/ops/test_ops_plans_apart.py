"""Plans refuse an `out` that shares memory with an operand, by whatever way it comes to both.

When this fails, a prepared plan overwrites its own input without an error.
"""

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.ops import conv2d, gemm, ref

OVERLAP = "overlaps an operand"


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.mark.parametrize("how", ["numpy", "arrays", "buffers"])
def test_a_plan_refuses_an_out_over_an_operand(dev, how):
    memory = np.arange(3 * 64, dtype=np.float32)
    if how != "numpy":
        memory = dev.array(memory).buffer

    def part(first):
        if how == "numpy":
            return memory[first : first + 64].reshape(8, 8)
        piece = memory.view(4 * first, 4 * 64)
        return piece.array(np.float32, (8, 8)) if how == "arrays" else piece

    product = gemm.plan(dev, 8, 8, 8)
    for first in (0, 63):
        for operands in ((part(0), part(128)), (part(128), part(0))):
            with pytest.raises(ValueError, match="overlaps an operand"):
                product(*operands, part(first))
            if how != "numpy":
                with pytest.raises(ValueError, match="overlaps an operand"):
                    product.bind(*operands, part(first))
    product(part(0), part(0), part(64)).wait()

    convolution = conv2d.plan(dev, (1, 1, 8, 8), normal(1, 1, 1, 3, 3), padding=1)
    plane = (lambda x: x.reshape(1, 1, 8, 8)) if how == "numpy" else (lambda x: x)
    with pytest.raises(ValueError, match="overlaps an operand"):
        convolution(plane(part(0)), plane(part(63)))
    if how != "numpy":
        with pytest.raises(ValueError, match="overlaps an operand"):
            convolution.bind(part(0), part(63))
    convolution(plane(part(0)), plane(part(64))).wait()


class Exporter:
    """What another library's array is to this one."""

    def __init__(self, array):
        self.array = array
        self.exports = 0

    def __dlpack__(self, **options):
        self.exports += 1
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Interface:
    """What has no more than an address for numpy."""

    def __init__(self, array):
        self.__array_interface__ = array.__array_interface__
        self.array = array


def wrapped(dev, host):
    return dev.wrap(host).array(np.float32, host.shape)


# Two names of one memory, of 8 x 8 floats: `host` is numpy's, `held` the device's.
WAYS = {
    "wrapped twice": lambda dev, host, held: (wrapped(dev, host), wrapped(dev, host)),
    "wrapped and bytes": lambda dev, host, held: (wrapped(dev, host), dev.wrap(host)),
    "wrapped and host": lambda dev, host, held: (dev.wrap(host), host),
    "array and its view": lambda dev, host, held: (held, held.numpy()),
    "buffer and its view": lambda dev, host, held: (held.buffer, held.numpy()),
    "host and subclass": lambda dev, host, held: (host, host.view(np.recarray)),
    "two subclasses": lambda dev, host, held: (host.view(np.recarray), host.view(np.matrix)),
    "exporter and host": lambda dev, host, held: (Exporter(host), host),
    "exporter and array": lambda dev, host, held: (Exporter(held.numpy()), held),
    "two exporters": lambda dev, host, held: (Exporter(host), Exporter(host)),
    "interface and host": lambda dev, host, held: (Interface(host), host),
    "one exporter": lambda dev, host, held: (Exporter(host),) * 2,
    "one array": lambda dev, host, held: (held, held),
}


@pytest.mark.parametrize("way", WAYS)
def test_one_memory_under_two_names(dev, way):
    host, held, other = normal(1, 8, 8), dev.array(normal(1, 8, 8)), normal(2, 8, 8)
    one, two = WAYS[way](dev, host, held)
    product = gemm.plan(dev, 8, 8, 8)
    convolution = conv2d.plan(dev, (1, 1, 8, 8), normal(3, 1, 1, 3, 3), padding=1)
    for x, out in ((one, two), (two, one)):
        for operands in ((x, other, out), (other, x, out), (other, other, out, x)):
            with pytest.raises(ValueError, match=OVERLAP):
                product(*operands)
        with pytest.raises(ValueError, match=OVERLAP):
            convolution(x, out)
    np.testing.assert_array_equal(host, normal(1, 8, 8))
    np.testing.assert_array_equal(held.numpy(), normal(1, 8, 8))


def test_bound_launches_of_memory_that_was_wrapped_twice(dev):
    host = normal(1, 8, 8)
    x, out, b = wrapped(dev, host), wrapped(dev, host), dev.array(normal(2, 8, 8))
    with pytest.raises(ValueError, match=OVERLAP):
        gemm.plan(dev, 8, 8, 8).bind(x, b, out)
    convolution = conv2d.plan(dev, (1, 1, 8, 8), normal(3, 1, 1, 3, 3), padding=1)
    with pytest.raises(ValueError, match=OVERLAP):
        convolution.bind(x, out)


@pytest.mark.parametrize("way", ["numpy", "array", "exporter"])
def test_what_a_plan_holds_is_an_operand(dev, way):
    """The plan's own weights and bias: to write them would change what later calls compute."""
    given = {"numpy": lambda x: x, "array": dev.wrap, "exporter": Exporter}[way]
    w, bias, b = normal(1, 4, 2, 3, 3), normal(2, 4), normal(3, 8, 8)
    x, a = normal(4, 1, 2, 3, 3), normal(5, 8, 8)
    biased = conv2d.plan(dev, (1, 2, 3, 3), w, bias)
    with pytest.raises(ValueError, match=OVERLAP):
        biased(x, given(biased.bias.numpy().reshape(1, 4, 1, 1)))
    naive = conv2d.plan(dev, (1, 4, 4, 2), normal(6, 4, 4, 3, 1), algo="naive")  # y is of w's size
    held = naive.w.numpy().reshape(-1)[:16].reshape(1, 4, 2, 2)
    with pytest.raises(ValueError, match=OVERLAP):
        naive(normal(7, 1, 4, 4, 2), given(held))
    product = gemm.plan(dev, 8, 8, 8, b=b)
    with pytest.raises(ValueError, match=OVERLAP):
        product(a, None, given(product.weights.numpy()))
    out = np.empty((1, 4, 1, 1), np.float32)
    biased(x, out).wait()
    np.testing.assert_allclose(out, ref.conv2d(x, w, bias), rtol=1e-4, atol=1e-4)
    out = np.empty((8, 8), np.float32)
    product(a, None, out).wait()
    np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-4)


def test_neighbours_are_apart(dev):
    """Memory that meets, but shares no byte; also what has no bytes at all."""
    host, b = normal(1, 128), normal(2, 8, 8)
    a, out = host[:64].reshape(8, 8), host[64:].reshape(8, 8)
    want = a @ b
    product = gemm.plan(dev, 8, 8, 8)
    for x, y in (
        (a, out), (dev.wrap(a), out), (a, dev.wrap(out)), (Exporter(a), out), (a, Exporter(out)),
        (wrapped(dev, a), wrapped(dev, out)), (a.view(np.recarray), dev.wrap(out)),
    ):  # fmt: skip
        out[:] = np.nan
        product(x, b, y).wait()
        np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="bytes"):  # of a too short operand, not of an overlap
        product(dev.wrap(out).view(4, 0), b, out)


def test_an_operand_is_exported_once(dev):
    """What is looked at is what is launched: another export may be of other memory."""
    a, b, out = Exporter(normal(1, 8, 8)), Exporter(normal(2, 8, 8)), np.empty((8, 8), np.float32)
    gemm.plan(dev, 8, 8, 8)(a, b, out).wait()
    assert (a.exports, b.exports) == (1, 1)
    np.testing.assert_allclose(out, a.array @ b.array, rtol=1e-4, atol=1e-4)


def test_what_is_no_operand_at_all_is_refused_by_the_launch(dev):
    a, b, out = (dev.array(normal(seed, 8, 8)) for seed in (1, 2, 3))
    product = gemm.plan(dev, 8, 8, 8)
    for odd in (None, 5, [1.0], a.numpy().tobytes()):
        for operands in ((odd, b, out), (a, odd, out), (a, b, odd)):
            with pytest.raises((TypeError, ValueError), match="gemm_f32: argument "):
                product(*operands)
            with pytest.raises((TypeError, ValueError), match="gemm_f32: argument "):
                product.bind(*operands)
    a.close()
    with pytest.raises(ValueError, match="closed"):
        product(a, b, a)
    product(out, b, dev.empty((8, 8), np.float32)).wait()


def test_another_device_is_said_to_be_one(dev):
    host, b = normal(1, 8, 8), normal(2, 8, 8)
    with sp.open("cpu") as other:
        foreign = wrapped(other, host)
        for operands in ((foreign, b, wrapped(dev, host)), (host, b, foreign)):
            with pytest.raises(ValueError, match="cpu") as caught:
                gemm.plan(dev, 8, 8, 8)(*operands)
            assert OVERLAP not in str(caught.value)
