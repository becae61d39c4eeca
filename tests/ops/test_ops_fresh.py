"""Every call reads its operands anew: no way of changing weights gives the product of old ones.

When this fails, changed weights give the product of the old ones.

`SPARKLE_FRESH_DRAWS` sets how many shapes are drawn for each case; a failure names its seed.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import secrets

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import ops

DRAWS = int(os.environ.get("SPARKLE_FRESH_DRAWS", "1"))
CALLS = 3
"""Before the change: caches that fill in the second call are full by then."""
FAR = 100.0
"""What one element becomes, among standard normal ones: no rounding error hides it."""


@pytest.fixture(scope="module")
def ctx():
    with sp.init(["cpu"], profile=False) as context:
        yield context


def at_address(address, i):
    ctypes.c_float.from_address(address + 4 * i).value = FAR


def by_flag(w):
    def change(i):
        w.flags.writeable = True
        w.reshape(-1)[i] = FAR
        w.flags.writeable = False

    return change


def by_view(w):
    view = w.reshape(-1)
    return lambda i: view.__setitem__(i, FAR)


def by_memoryview(w):
    view = memoryview(w).cast("B").cast("f")
    return lambda i: view.__setitem__(i, FAR)


def by_buffer(w):
    view = np.frombuffer(memoryview(w), np.float32)
    return lambda i: view.__setitem__(i, FAR)


def by_dlpack(w):
    view = np.from_dlpack(w)
    return lambda i: at_address(view.ctypes.data, i)


def by_ctypes(w):
    address = w.ctypes.data
    return lambda i: at_address(address, i)


def by_torch(w):
    import torch

    view = torch.from_numpy(w).reshape(-1)
    return lambda i: view.__setitem__(i, FAR)


HOST_WAYS = [by_flag, by_view, by_memoryview, by_buffer, by_dlpack, by_ctypes]
if importlib.util.find_spec("torch"):
    HOST_WAYS.append(by_torch)


def by_map(x):
    def change(i):
        with x.buffer.map() as mapped:
            mapped.cast("f")[i] = FAR

    return change


def by_numpy(x):
    view = x.numpy().reshape(-1)
    return lambda i: view.__setitem__(i, FAR)


def by_own_address(x):
    address = x.buffer.address
    return lambda i: at_address(address, i)


def by_own_dlpack(x):
    view = np.from_dlpack(x)
    return lambda i: at_address(view.ctypes.data, i)


def by_queue(x):
    piece = np.full(1, FAR, np.float32)
    return lambda i: x.buffer.write(piece, 4 * i)


ARRAY_WAYS = [by_map, by_numpy, by_own_address, by_own_dlpack, by_queue]


class Product:
    """A random matrix product; `weights` is what changes."""

    def __init__(self, rng):
        m, n, k = (int(rng.integers(*span)) for span in ((1, 70), (100, 400), (100, 400)))
        self.x = rng.standard_normal((m, k), np.float32)
        self.weights = rng.standard_normal((k, n), np.float32)

    def run(self, ops, *first):
        return lambda x, w: ops.gemm(*first, x, w)

    def wanted(self, w):
        return ops.ref.gemm(self.x, w)


class Convolution:
    """A random convolution."""

    def __init__(self, rng):
        side, c, oc = (int(rng.integers(*span)) for span in ((5, 12), (8, 40), (8, 40)))
        edge = int(rng.choice([1, 3]))
        self.how = {"stride": int(rng.integers(1, 3)), "padding": int(rng.integers(2))}
        self.x = rng.standard_normal((1, c, side, side), np.float32)
        self.weights = rng.standard_normal((oc, c, edge, edge), np.float32)

    def run(self, ops, *first):
        return lambda x, w: ops.conv2d(*first, x, w, **self.how)

    def wanted(self, w):
        stride, padding = self.how["stride"], self.how["padding"]
        return ops.ref.conv2d(self.x, w, stride=(stride, stride), padding=((padding, padding),) * 2)


def shown(way):
    return way.__name__


@pytest.fixture(params=range(DRAWS))
def rng():
    seed = secrets.randbits(32)
    print("seed", seed)
    return np.random.default_rng(seed)


def check(work, rng, change, call, now):
    """`call()` follows the change of one element; `now()` has the weights as they are."""
    for _ in range(CALLS):
        np.testing.assert_allclose(call(), work.wanted(now()), rtol=1e-3, atol=1e-2)
    before = now().copy()
    change(int(rng.integers(before.size)))
    assert (now() != before).any()
    for _ in range(2):
        np.testing.assert_allclose(call(), work.wanted(now()), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("way", HOST_WAYS, ids=shown)
@pytest.mark.parametrize("kind", [Product, Convolution])
def test_numpy_weights(dev, ctx, rng, kind, way):
    work = kind(rng)
    for run in (work.run(ops, dev), work.run(ctx)):
        w = work.weights.copy()
        change = way(w)
        w.flags.writeable = False
        check(work, rng, change, lambda w=w, run=run: run(work.x, w), lambda w=w: w)


@pytest.mark.parametrize("way", HOST_WAYS, ids=shown)
@pytest.mark.parametrize("kind", [Product, Convolution])
@pytest.mark.parametrize("scaled", [False, True])
def test_numpy_weights_of_a_graph(ctx, rng, kind, way, scaled):
    work = kind(rng)
    w = work.weights.copy()
    change = way(w)
    w.flags.writeable = False
    with ctx.graph() as g:
        made = work.run(g)(work.x, w)
        if scaled:
            made = g.map("2 * y", y=made)
    factor = 2 if scaled else 1
    check(work, rng, change, lambda: g.run().numpy() / np.float32(factor), lambda: w)
    g.close()


@pytest.mark.parametrize("way", ARRAY_WAYS, ids=shown)
@pytest.mark.parametrize("kind", [Product, Convolution])
def test_an_array_as_weights(dev, rng, kind, way):
    work = kind(rng)
    w = dev.array(work.weights)
    x = dev.array(work.x)
    change = way(w)
    run = work.run(ops, dev)
    check(work, rng, change, lambda: run(x, w).numpy(), lambda: w.buffer.read(w.dtype, w.shape))


@pytest.mark.parametrize("kind", [Product, Convolution])
def test_wrapped_memory_as_weights(dev, rng, kind):
    work = kind(rng)
    host = work.weights.copy()
    w = dev.wrap(host).array(np.float32, host.shape)
    x, run = dev.array(work.x), work.run(ops, dev)
    check(work, rng, by_view(host), lambda: run(x, w).numpy(), lambda: host)
