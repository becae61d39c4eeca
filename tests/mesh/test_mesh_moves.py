"""broadcast, scatter, gather, all_gather and reduce_scatter of real devices, against numpy.

When this fails, broadcast, scatter or gather delivers the wrong bytes.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.core.queue import Queue
from sparkle_drv.errors import DeviceLost
from sparkle_drv.mesh.mesh import Mesh

SETS = [("cpu",), ("cpu", "egl:0"), ("egl:0", "cuda:0", "cpu")]
SHAPES = [(0,), (1,), (5,), (7, 3), (1000,), (300, 333)]
DTYPES = [np.int32, np.uint8, np.float64]


@pytest.fixture(scope="module", params=SETS, ids="-".join)
def mesh(request, opened):
    with Mesh([opened(uri) for uri in request.param]) as one:
        yield one


def drawn(mesh, shapes, dtype=np.float32):
    """Host arrays, and the same on the devices, in the order of the mesh."""
    chance = np.random.default_rng(len(shapes))
    host = [(chance.random(shape) * 200).astype(dtype) for shape in shapes]
    return host, [d.array(x) for d, x in zip(mesh.devices.values(), host, strict=True)]


def cut(mesh, shape):
    """Shapes of parts along axis 0: unequal, and with an empty one where there are three."""
    p, rows = len(mesh.devices), shape[0]
    ends = [0, *sorted({rows // 3} if p == 2 else {0, rows // 2} if p == 3 else set()), rows]
    ends = [0] * (p + 1 - len(ends)) + ends
    return [(b - a, *shape[1:]) for a, b in pairwise(ends)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_broadcast(mesh, dtype):
    for shape in [*SHAPES, ()]:
        for at, uri in enumerate(mesh.devices):
            host, arrays = drawn(mesh, [shape] * len(mesh.devices), dtype)
            mesh.broadcast(arrays, {"cpu": "cpu:0"}.get(uri, uri) if at % 2 else arrays[at])
            for array in arrays:
                np.testing.assert_array_equal(array.numpy(), host[at])


@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter_and_gather(mesh, dtype):
    for shape in SHAPES:
        for device in mesh.devices.values():
            whole = (np.random.default_rng(1).random(shape) * 200).astype(dtype)
            shapes = cut(mesh, shape)
            _, arrays = drawn(mesh, shapes, dtype)
            mesh.scatter(device.array(whole), arrays)
            got = np.concatenate([array.numpy() for array in arrays])
            np.testing.assert_array_equal(got, whole)
            dst = device.array(whole * 0)
            mesh.gather(arrays, dst)
            np.testing.assert_array_equal(dst.numpy(), whole)
            _, outs = drawn(mesh, [shape] * len(arrays), dtype)
            mesh.all_gather(arrays, outs)
            for out in outs:
                np.testing.assert_array_equal(out.numpy(), whole)


@pytest.mark.parametrize(("op", "want"), [("sum", np.sum), ("max", np.max), ("mean", np.mean)])
def test_reduce_scatter(mesh, op, want):
    for shape in SHAPES:
        host, arrays = drawn(mesh, [shape] * len(mesh.devices))
        _, outs = drawn(mesh, cut(mesh, shape))
        mesh.reduce_scatter(arrays, outs, op)
        got = np.concatenate([out.numpy() for out in outs])
        np.testing.assert_allclose(got, want(np.array(host, np.float64), axis=0), rtol=1e-5)
        for array, x in zip(arrays, host, strict=True):
            np.testing.assert_array_equal(array.numpy(), x)


def test_wrong_arguments(opened):
    cpu, egl = opened("cpu"), opened("egl:0")
    with Mesh([cpu, egl]) as one, sp.open("cpu") as other:
        a, b = (d.array(np.ones((4, 2), np.float32)) for d in (cpu, egl))
        big, ints = cpu.array(np.ones((8, 2), np.float32)), egl.array(np.ones((4, 2), np.int32))
        wide, none = cpu.array(np.ones((8, 3), np.float32)), cpu.array(np.float32(1))
        foreign = other.array(np.ones((8, 2), np.float32))
        outs = [d.array(np.ones((8, 2), np.float32)) for d in (cpu, egl)]
        for call, kind, says in (
            (lambda: one.broadcast([a, b], "cuda:0"), ValueError, "root: expected one of"),
            (lambda: one.broadcast([a, b], 0), TypeError, "root: expected a URI or an Array"),
            (lambda: one.broadcast([a, b], big), ValueError, "root: expected a device of"),
            (lambda: one.broadcast([a, ints], "cpu"), ValueError, r"arrays\[1\]: expected float32"),
            (lambda: one.scatter(big, [a]), ValueError, "arrays: expected 2 Arrays, got 1"),
            (
                lambda: one.scatter(a, [a, b]),
                ValueError,
                "arrays: expected 4 rows in all to match src, got 8",
            ),
            (lambda: one.scatter(wide, [a, b]), ValueError, "arrays: expected parts of src"),
            (lambda: one.scatter(none, [a, b]), ValueError, "arrays: expected parts of src"),
            (lambda: one.scatter(foreign, [a, b]), ValueError, "src: expected an Array of <Mesh"),
            (lambda: one.gather([a, b], wide), ValueError, "arrays: expected parts of dst"),
            (lambda: one.gather([a, b], None), TypeError, "dst: expected an Array, got NoneType"),
            (lambda: one.all_gather([a, b], [big, b]), ValueError, r"outs\[1\]: expected float32"),
            (lambda: one.reduce_scatter(outs, [a, b], "min"), ValueError, "op: expected one of"),
            (lambda: one.reduce_scatter([a, b], outs), ValueError, "outs: expected 4 rows"),
        ):
            with pytest.raises(kind, match=says):
                call()
    apart = "outs: expected memory that is not read"
    with Mesh([cpu]) as alone, pytest.raises(ValueError, match=apart):
        alone.all_gather([a], [a])


def test_a_lost_device_is_told(opened, monkeypatch):
    with Mesh([opened("cpu"), opened("egl:0")]) as one:
        _, arrays = drawn(one, [(1000,)] * 2)
        one.broadcast(arrays, "cpu")

        def lost(queue, *args):
            raise DeviceLost("egl:0: it was unplugged")

        monkeypatch.setattr(Queue, "write", lost)
        with pytest.raises(DeviceLost, match=r"broadcast: step .* unplugged; .* partial results"):
            one.broadcast(arrays, "cpu")
