"""Collectives of ContextArrays: where each takes part, and what becomes of its copies.

When this fails, a collective of a Context's arrays leaves stale copies behind.
"""

from __future__ import annotations

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.core.queue import Queue
from sparkle_drv.errors import DeviceLost

URIS = ["cpu", "egl:0"]


@pytest.fixture
def ctx():
    with sp.init(URIS, profile=False) as one:
        yield one


@pytest.fixture
def mesh(ctx):
    with ctx.create_mesh() as one:
        yield one


def anywhere(ctx, shape=1000, seed=0, uri="cpu"):
    return ctx.array(shape, np.float32, device=uri).fill_random(seed)


def test_the_ith_takes_part_on_the_ith_device_and_is_there_alone(ctx, mesh):
    arrays = [anywhere(ctx, seed=at, uri="cpu") for at in range(2)]
    for x in arrays:
        x.on("egl:0")
        assert set(x.places) == set(URIS)
    want = arrays[0].numpy() + arrays[1].numpy()
    mesh.all_reduce(arrays)
    for x, uri in zip(arrays, URIS, strict=True):
        assert x.places == (uri,)
        np.testing.assert_allclose(x.numpy(), want, rtol=1e-6)


def test_what_operations_return_takes_part_and_can_be_used_again(ctx, mesh):
    a = anywhere(ctx, (64, 64), 1)
    given = [ctx.gemm(a, a), ctx.map("2 * a", a=a)]
    want = given[0].numpy() + given[1].numpy()
    mesh.all_reduce(given, "max")
    mesh.all_reduce(given, "sum")
    np.testing.assert_allclose(
        ctx.map("a + b", a=given[0], b=given[1]).numpy(),
        4 * np.maximum(a.numpy() @ a.numpy(), 2 * a.numpy()),
        rtol=1e-4,
    )
    assert given[0].numpy().shape == want.shape


def test_arrays_and_context_arrays_mix(ctx, mesh):
    x, y = anywhere(ctx, seed=1, uri="egl:0"), ctx.devices[0].array(np.ones(1000, np.float32))
    # The Array is on the first device: then the ContextArray must stand second.
    mesh.all_reduce([y, x])
    assert x.places == ("egl:0",)
    np.testing.assert_array_equal(x.numpy(), y.numpy())
    with pytest.raises(
        ValueError, match=r"arrays\[1\]: expected one Array on each .* a second on cpu"
    ):
        mesh.all_reduce([x, y])


def test_the_other_collectives(ctx, mesh):
    whole = anywhere(ctx, (8, 3), 5, uri="egl:0")
    want = whole.numpy().copy()
    parts = [ctx.array((5, 3), np.float32, device="cpu"), ctx.array((3, 3), np.float32)]
    mesh.scatter(whole, parts)
    assert whole.places[0] == "egl:0"
    assert [x.places for x in parts] == [("cpu",), ("egl:0",)]
    np.testing.assert_array_equal(np.concatenate([x.numpy() for x in parts]), want)
    back = ctx.array((8, 3), np.float32, device="egl:0")
    back.on("cpu")
    mesh.gather(parts, back)
    assert back.places == ("egl:0",)
    np.testing.assert_array_equal(back.numpy(), want)
    outs = [ctx.array((8, 3), np.float32, device="cpu") for _ in URIS]
    mesh.all_gather(parts, outs)
    for out in outs:
        np.testing.assert_array_equal(out.numpy(), want)
    mesh.reduce_scatter(outs, parts)
    np.testing.assert_allclose(np.concatenate([x.numpy() for x in parts]), 2 * want, rtol=1e-6)
    mesh.broadcast([parts[0], ctx.array((5, 3), np.float32)], parts[0])
    pair = [anywhere(ctx, seed=3), anywhere(ctx, seed=4)]
    mesh.broadcast(pair, pair[1])
    np.testing.assert_array_equal(pair[0].numpy(), pair[1].numpy())
    assert pair[0].places == ("cpu",)


def test_wrong_ones(ctx, mesh):
    x, y, closed = anywhere(ctx), anywhere(ctx, 999), anywhere(ctx)
    closed.close()
    with sp.init(URIS, profile=False) as other:
        foreign = anywhere(other)
        for arrays, kind, says in (
            ([x, y], ValueError, r"arrays\[1\]: expected float32\[1000\], got float32\[999\]"),
            ([x, closed], ValueError, r"arrays\[1\]: expected an open ContextArray"),
            ([x, x], ValueError, r"arrays\[1\]: expected a different array"),
            ([foreign, x], ValueError, r"arrays\[0\]: expected an Array of <Mesh of cpu, egl:0>"),
            ([x, np.ones(1000)], TypeError, r"arrays\[1\]: expected an Array, got ndarray"),
        ):
            with pytest.raises(kind, match=says):
                mesh.all_reduce(arrays)
    with pytest.raises(ValueError, match="outs: expected arrays that are not read by this call"):
        mesh.reduce_scatter([x, anywhere(ctx)], [anywhere(ctx, 0), x])
    with pytest.raises(
        ValueError, match="outs: expected 1000 rows in all to match arrays, got 1500"
    ):
        mesh.reduce_scatter([x, anywhere(ctx)], [anywhere(ctx, 500), anywhere(ctx)])


def test_after_a_failure_no_old_copy_is_taken_for_the_result(ctx, mesh, monkeypatch):
    arrays = [anywhere(ctx, seed=at) for at in range(2)]
    mesh.all_reduce(arrays)
    arrays[1].on("cpu")

    def lost(queue, *args):
        raise DeviceLost("egl:0: it was unplugged")

    monkeypatch.setattr(Queue, "write", lost)
    with pytest.raises(DeviceLost, match="partial results"):
        mesh.all_reduce(arrays)
    assert [x.places for x in arrays] == [("cpu",), ("egl:0",)]
