"""Operands of other libraries by DLPack, through every operation and a Context: taken where they
lie, or refused in one line. The exporter is of our own (kits/dlpack.py): torch and JAX are
not here.

When this fails, arrays of torch and others are copied, refused or read wrongly.
"""

import ctypes
import gc
import importlib.util

import dlpack
import numpy as np
import pytest

import sparkle_drv as sp

pytestmark = pytest.mark.devices("cpu", "egl:0", "emu:gfx1036")

HAS_BF16 = importlib.util.find_spec("ml_dtypes") is not None


def floats(shape, **options):
    n = int(np.prod(shape))
    return dlpack.Exporter(range(1, n + 1), shape=shape, version=1, **options)


def host(x):
    """What numpy has of an exporter's memory."""
    return np.array(x.memory[:], np.float32).reshape(x.shape)


def calls(dev):
    """Each operation: (ours, numpy's) of foreign operands."""
    a, b, bias = floats((3, 4)), floats((4, 2)), floats((2,))
    yield sp.ops.gemm(dev, a, b, bias=bias), host(a) @ host(b) + host(bias)
    yield sp.ops.map(dev, "x * 2 + y", x=a, y=np.float32(1)), host(a) * 2 + 1
    yield sp.ops.reduce(dev, a, "max", axis=0), host(a).max(axis=0)
    yield sp.ops.reduce(dev, "x * x", x=a), (host(a) ** 2).sum()
    image, w = floats((1, 2, 3, 3)), floats((1, 2, 3, 3))
    yield sp.ops.conv2d(dev, image, w), (host(image) * host(w)).sum().reshape(1, 1, 1, 1)
    yield sp.ops.layout(dev, image, "NHWC"), host(image).transpose(0, 2, 3, 1)
    with sp.ops.constant(dev, b) as constant:
        yield sp.ops.gemm(dev, a, constant), host(a) @ host(b)
    yield sp.ops.gemm.plan(dev, 3, 2, 4, b=b).weights.numpy().ravel()[:1], [1]


def test_every_operation_takes_host_memory_and_gives_numpy(each_dev):
    for got, want in calls(each_dev):
        assert isinstance(got, (np.ndarray, np.generic))
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_nothing_is_copied_on_the_cpu_and_all_is_given_back():
    x, y = floats((3,)), floats((3,))
    with sp.open("cpu") as dev:
        assert sp.ops.map(dev, "x + 1", x, out=y) is y, "the caller's own array comes back"
        assert list(y.memory) == [2, 3, 4]
        x.memory[0] = 50
        assert sp.ops.map(dev, "x + 1", x)[0] == 51
        gc.collect()
        assert (x.exported, x.released) == (2, 2)
        assert (y.exported, y.released) == (1, 1)


def test_views_of_foreign_memory(each_dev):
    """Steps, reversals and transposes of torch and JAX are strides here, as numpy's are."""
    base = list(range(1, 7))
    cases = [
        (dlpack.Exporter(base, (3,), (2,), version=1), [1, 3, 5]),
        (dlpack.Exporter(base, (3,), (-2,), version=1, first=5), [6, 4, 2]),
        (dlpack.Exporter(base, (3, 2), (1, 3), version=1), [[1, 4], [2, 5], [3, 6]]),
        (dlpack.Exporter(base, (2, 0), version=1), np.zeros((2, 0))),
    ]
    for x, want in cases:
        np.testing.assert_array_equal(sp.ops.map(each_dev, "x * 1", x), want)
    turned = dlpack.Exporter(base, (3, 2), (1, 3), version=1)
    np.testing.assert_array_equal(
        sp.ops.gemm(each_dev, turned, np.eye(2, dtype=np.float32)), cases[2][1]
    )


def test_read_only_memory_is_read_and_never_written(each_dev):
    x = floats((3,), readonly=True)
    assert sp.ops.map(each_dev, "x + 1", x).tolist() == [2, 3, 4]
    for unwritable in (x, dlpack.Exporter([1, 2, 3])):  # the old kind cannot say that it may be
        with pytest.raises(ValueError, match=r"out: .*read-only"):
            sp.ops.map(each_dev, "x + 1", floats((3,)), out=unwritable)
        assert list(unwritable.memory) == [1, 2, 3]


def test_an_array_beside_them_gives_an_array(each_dev):
    with each_dev.array(np.ones(3, np.float32)) as a:
        got = sp.ops.map(each_dev, "x + y", a, floats((3,)))
        assert isinstance(got, type(a))
        assert got.numpy().tolist() == [2, 3, 4]


@pytest.mark.parametrize(("code", "bits"), [(dlpack.BFLOAT, 16), (dlpack.BOOL, 8), (9, 8)])
def test_elements_are_what_they_say_or_refused(code, bits):
    memory = (ctypes.c_uint16 * 3)(0x3F80, 0x4000, 0x4040)
    x = dlpack.Exporter((), (3,), code=code, bits=bits, version=1, memory=memory)
    from sparkle_drv.ops.memory import foreign

    if code == dlpack.BOOL:
        assert foreign.operand("x", x).dtype == np.bool_
    elif code == dlpack.BFLOAT and HAS_BF16:
        assert foreign.operand("x", x).astype("f4").tolist() == [1, 2, 3]
    else:
        with pytest.raises(TypeError, match=r"^x: .*(ml_dtypes|Unsupported dtype)"):
            foreign.operand("x", x)


class There:
    """An array of another library in the memory of `array`'s device, or in this `place`."""

    def __init__(self, array, place=None):
        self.array, self.place, self.streams = array, place, []

    def __dlpack_device__(self):
        return self.place or self.array.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream, max_version=max_version)


def test_memory_of_the_device_counts_as_an_array(opened):
    """As for torch and CuPy on a CUDA card: not over the host, and behind their own work."""
    dev = opened("cuda:0")
    with dev.array(np.arange(6, dtype=np.float32).reshape(2, 3)) as a, dev.empty((2, 3), "f4") as b:
        x = There(a)
        got = sp.ops.map(dev, "x + 1", x, out=There(b))
        assert isinstance(got, type(a))
        assert got.buffer.address == b.buffer.address
        assert got.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
        assert x.streams == [dev.default_queue.stream]
        with sp.init([dev.uri, "cpu"], profile=False) as ctx:
            assert isinstance(ctx.map("x * 2", x), type(a))
            assert ctx.reduce(x, devices=[dev.uri]).numpy() == 15
        with sp.open("cpu") as cpu, pytest.raises(TypeError, match="in memory of cuda:0; copy it"):
            sp.ops.map(cpu, "x + 1", x)


def test_memory_of_another_device_is_refused_in_one_line(each_dev):
    for kind, number, told in ((2, 3, "cuda:3"), (8, 0, "metal:0"), (99, 0, "DLPack device 99:0")):
        x = There(None, (kind, number))
        for call in (
            lambda x: sp.ops.map(each_dev, "x + 1", x),
            lambda x: sp.ops.map(each_dev, "y + 1", np.ones(3, np.float32), out=x),
            lambda x: sp.ops.reduce(each_dev, x),
        ):
            with pytest.raises(TypeError, match=f"got one in memory of {told}") as refused:
                call(x)
            assert "\n" not in str(refused.value)


def test_broken_exporters_are_refused(each_dev):
    class NoDevice:
        def __dlpack__(self, **_):
            raise RuntimeError("never")

    class Broken(NoDevice):
        def __dlpack_device__(self):
            return 1, 0

    for bad, told in ((NoDevice(), "expected a DLPack device"), (Broken(), "never")):
        with pytest.raises(TypeError, match=f"^a: .*{told}"):
            sp.ops.gemm(each_dev, bad, np.eye(2))


def test_a_context_takes_them_as_numpy_arrays():
    with sp.init(["cpu", "egl:0"], profile=False) as ctx:
        a, b, out = floats((3, 4)), floats((4, 2)), floats((3, 2))
        want = host(a) @ host(b)
        for _ in range(3):  # the first is planned, the others are made again
            np.testing.assert_allclose(ctx.gemm(a, b), want)
        assert ctx.gemm(a, b, out) is out
        np.testing.assert_allclose(host(out), want)
        np.testing.assert_allclose(ctx.gemm(a, b, topology="mesh", shards="each"), want)
        np.testing.assert_allclose(ctx.map("x + y", a, y=floats((4,))), host(a) + np.arange(1, 5))
        np.testing.assert_allclose(ctx.reduce(a), host(a).sum())
        np.testing.assert_allclose(ctx.gemm(a, ctx.constant(b)), want)
        assert ctx.plan("gemm", a, b).predicted_s > 0
        with ctx.graph() as g:
            y = g.map("x + q", x=g.gemm(a, b), q=floats((2,)))
        g.run()
        np.testing.assert_allclose(y.numpy(), want + np.arange(1, 3))
        filled = floats((4,))
        ctx.dispatch("axpby_f32", [filled, floats((4,)), 2.0, 0.0, 4], groups=1)
        assert list(filled.memory) == [2, 4, 6, 8]
        with pytest.raises(TypeError, match=r"operand 2: .*got one in memory of cuda:0"):
            ctx.gemm(a, floats((4, 2), device=dlpack.CUDA))
