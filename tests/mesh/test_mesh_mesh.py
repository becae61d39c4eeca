"""A Mesh of real devices: all_reduce against numpy, and every kind of wrong argument.

When this fails, all_reduce gives wrong sums, or takes wrong arguments.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.core.queue import Queue
from sparkle_drv.errors import DeviceLost
from sparkle_drv.mesh.mesh import Mesh

SETS = [("cpu",), ("cpu", "egl:0"), ("cpu", "cuda:0"), ("egl:0", "cuda:0", "cpu")]
COUNTS = (0, 1, 3, 5, 64, 1000, 4097, 300_001)


@pytest.fixture(scope="module")
def mesh(opened):
    """mesh(*uris): one for each set of devices, since each measures their links first."""
    made = {}

    def of(*uris):
        if uris not in made:
            made[uris] = Mesh([opened(uri) for uri in uris])
        return made[uris]

    yield of
    for one in made.values():
        one.close()


def drawn(mesh, dtype, shape, seed=0):
    chance = np.random.default_rng(seed)
    host = [(chance.random(shape) * 100 - 50).astype(dtype) for _ in mesh.devices]
    return host, [d.array(x) for d, x in zip(mesh.devices.values(), host, strict=True)]


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("uris", SETS, ids="-".join)
def test_all_reduce_is_numpys(mesh, uris, dtype):
    one = mesh(*uris)
    for count in COUNTS:
        for op, want in (("sum", np.sum), ("max", np.max), ("mean", np.mean)):
            if op == "mean" and dtype is np.int32:
                continue
            host, arrays = drawn(one, dtype, count, count)
            one.all_reduce(arrays, op)
            for array in arrays:
                expected = want(np.array(host, np.float64), axis=0)
                np.testing.assert_allclose(array.numpy(), expected, rtol=1e-5, atol=1e-4)
            assert len({array.numpy().tobytes() for array in arrays}) == 1, "places differ"
            assert one.plan.predicted_s >= one.plan.bound_s * (1 - 1e-9)


def test_named_cores_share_memory_and_move_nothing():
    """Each adds its half up where it is, and writes it to the other."""
    uris = ["cpu:c0", "cpu:c1"]
    if not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("needs the cores 0 and 1")
    with sp.open(uris[0]) as first, sp.open(uris[1]) as second, Mesh([first, second]) as one:
        host, arrays = drawn(one, np.float64, (513, 700))
        one.all_reduce(arrays)
        for array in arrays:
            np.testing.assert_array_equal(array.numpy(), host[0] + host[1])
        assert set(one.moved) <= {"shared"}
        assert one.network.direct == {tuple(uris), tuple(uris[::-1])}


def test_any_order_of_arrays(mesh):
    one = mesh("cpu", "egl:0")
    host, arrays = drawn(one, np.float32, 10)
    one.all_reduce(arrays[::-1])
    np.testing.assert_allclose(arrays[0].numpy(), host[0] + host[1], rtol=1e-6)


def test_a_route_is_explained(mesh):
    said = mesh("cpu", "egl:0").explain_route("cpu", "egl:0", 1 << 20)
    assert said.startswith("1048576 bytes by cpu -> egl:0")


def test_wrong_arguments(opened):
    cpu, egl = opened("cpu"), opened("egl:0")
    one = Mesh([cpu, egl])
    a, b = cpu.array(np.ones(4, np.float32)), egl.array(np.ones(4, np.float32))
    whole = [d.array(np.ones(4, np.int32)) for d in (cpu, egl)]
    short = egl.array(np.ones(3, np.float32))
    closed = egl.array(np.ones(4, np.float32))
    closed.close()
    bytes_ = [d.array(np.ones(4, np.uint8)) for d in (cpu, egl)]
    with sp.open("cpu") as other:
        foreign = other.array(np.ones(4, np.float32))
        for arrays, op, kind, says in (
            ([a, b], "product", ValueError, "op: expected one of sum, max, mean, got 'product'"),
            ([a], "sum", ValueError, "arrays: expected 2 Arrays, got 1"),
            (a, "sum", TypeError, "arrays: expected a list of Arrays, got Array"),
            ([a, np.ones(4)], "sum", TypeError, r"arrays\[1\]: expected an Array, got ndarray"),
            (
                [a, short],
                "sum",
                ValueError,
                r"arrays\[1\]: expected float32\[4\], got float32\[3\]",
            ),
            (
                [a, whole[1]],
                "sum",
                ValueError,
                r"arrays\[1\]: expected float32\[4\], got int32\[4\]",
            ),
            ([a, closed], "sum", ValueError, r"arrays\[1\]: expected an open Array"),
            (
                [foreign, b],
                "sum",
                ValueError,
                r"arrays\[0\]: expected an Array of <Mesh of cpu, egl:0>",
            ),
            (
                [a, a],
                "sum",
                ValueError,
                r"arrays\[1\]: expected one Array on each .* second on cpu",
            ),
            (whole, "mean", TypeError, "expected an array of floats for 'mean', got int32"),
            (bytes_, "sum", TypeError, "expected float32, float64 or int32, got uint8"),
        ):
            with pytest.raises(kind, match=says):
                one.all_reduce(arrays, op)
    one.close()
    with pytest.raises(ValueError, match="expected an open Mesh"):
        one.all_reduce([a, b])


def test_a_lost_device_is_told_with_what_the_arrays_hold(mesh, monkeypatch):
    one = mesh("cpu", "egl:0")
    _, arrays = drawn(one, np.float32, 1000)
    one.all_reduce(arrays)
    write = Queue.write

    def lost(queue, *args):
        if queue.device.uri == "egl:0":
            raise DeviceLost("egl:0: it was unplugged")
        return write(queue, *args)

    monkeypatch.setattr(Queue, "write", lost)
    with pytest.raises(DeviceLost, match=r"all_reduce: step .* unplugged; .* partial results"):
        one.all_reduce(arrays)


def test_a_context_makes_meshes():
    with sp.init(["cpu", "egl:0"], profile=False) as ctx:
        with ctx.create_mesh() as one, ctx.create_mesh(["egl:0"]) as small:
            assert list(one.devices) == ["cpu", "egl:0"]
            assert list(small.devices) == ["egl:0"]
            arrays = [d.array(np.full(3, 2, np.float32)) for d in ctx.devices]
            one.all_reduce(arrays)
            assert arrays[1].numpy().tolist() == [4, 4, 4]
        for wrong, kind in (("cpu", TypeError), ([], TypeError), (["cpu", "cpu"], ValueError)):
            with pytest.raises(kind, match="devices: "):
                ctx.create_mesh(wrong)
        with pytest.raises(ValueError, match="expected one of cpu, egl:0, got 'cuda:7'"):
            ctx.create_mesh(["cuda:7"])


def test_a_context_takes_aliases(opened):
    opened("cuda:0")  # its driver is there, if only the one of the tests
    with sp.init(["cpu:0", "nvidia:0"], profile=False) as ctx:
        a = np.ones((8, 8), np.float32)
        assert ctx.gemm(a, a, devices=["nvidia"])[0, 0] == 8
        assert ctx.last_plan.device == "cuda:0"
        assert ctx.array(3, np.float32, device="cpu:0").numpy().tolist() == [0, 0, 0]
        with ctx.create_mesh(["nvidia:0", "cpu:0"]) as one:
            assert list(one.devices) == ["cuda:0", "cpu"]
        for wrong in (["cuda:0", "nvidia:0"], ["cpu", "cpu:0"]):
            with pytest.raises(ValueError, match="devices: expected each device once"):
                ctx.create_mesh(wrong)
        for wrong in ("nvidia:1", "amd:0", "no uri"):
            with pytest.raises(
                ValueError, match=f"device: expected one of cpu, cuda:0 or 'auto', got '{wrong}'"
            ):
                ctx.array(3, np.float32, device=wrong)
