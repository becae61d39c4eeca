"""An expression that was computed before is one call of C: its results stay numpy's.

When this fails, a repeated expression of a numpy user gives a stale or wrong result.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.ops.map import operation

pytestmark = pytest.mark.devices("cpu", "egl:0")
HOST = np.arange(64, dtype=np.float32)


@pytest.fixture
def slowly(monkeypatch):
    """The maps that are computed by the long way."""
    seen = []
    compute = operation._compute

    def note(*args):
        seen.append(len(args))
        return compute(*args)

    monkeypatch.setattr(operation, "_compute", note)
    return seen


def test_the_second_time_is_short(fresh, slowly):
    """For who adds in a loop: with another thread alive, too, which once made it slow."""
    x, stop = fresh.array(HOST), threading.Event()
    thread = threading.Thread(target=stop.wait, args=(30,))
    thread.start()
    try:
        for i in range(4):
            y = fresh.array(HOST + i)
            np.testing.assert_array_equal((x + y).numpy(), HOST + HOST + i)
    finally:
        stop.set()
        thread.join(30)
    assert len(slowly) == 1


@pytest.mark.devices("cpu")
def test_numbers_are_those_of_each_call(fresh, slowly):
    x = fresh.array(HOST)
    for number in (2, 3, -1, 2.5, np.float32(4), 2**20):
        np.testing.assert_array_equal((x * number).numpy(), HOST * number)
    assert len(slowly) == 3  # int, float, numpy's


def test_shapes_of_as_many_bytes_are_told_apart(fresh):
    shapes = (64,), (8, 8), (1, 64), (64, 1), (4, 16), (8, 8), (64, 1)
    for a in shapes:
        for b in shapes:
            try:
                wanted = HOST.reshape(a) - HOST.reshape(b)
            except ValueError:
                continue
            made = fresh.array(HOST).reshape(a) - fresh.array(HOST).reshape(b)
            np.testing.assert_array_equal(made.numpy(), wanted)


def test_types_of_as_many_bytes_are_told_apart(fresh):
    whole = HOST.astype(np.int32)
    for _ in range(2):
        for host in (HOST, whole):
            made = fresh.array(host) + fresh.array(host)
            assert made.dtype == host.dtype
            np.testing.assert_array_equal(made.numpy(), host + host)
        for host in (HOST.astype(np.uint8), HOST > 0):  # True + True is True
            x, y = fresh.array(host), fresh.array(host)
            np.testing.assert_array_equal((x + y).numpy().view("u1"), (host + host).view("u1"))


def test_in_place_over_memory_that_is_shared(fresh):
    x, host = fresh.array(HOST), HOST.copy()
    for _ in range(3):
        x += x
        host += host
        x[1:] += x[:-1]
        host[1:] += host[:-1].copy()
        left, right = x[16:48], x[24:56]
        left *= right
        host[16:48] *= host[24:56].copy()
        x *= np.float32(0.25)
        host *= np.float32(0.25)
    np.testing.assert_array_equal(x.numpy(), host)


def test_an_operand_that_another_queue_still_writes(fresh):
    with fresh.queue() as queue:
        x, y = fresh.array(HOST), fresh.array(HOST)
        (x + y).get(0)
        for i in range(5):
            x.fence = queue.write(x, HOST * i)
            np.testing.assert_array_equal((x + y).numpy(), HOST * i + HOST)


def test_what_goes_while_launches_wait(fresh):
    """A launch that waits behind others reads memory of its row, which may go meanwhile."""
    big = fresh.array(np.ones(1 << 20, np.float32))
    x, made = fresh.array(HOST), []
    (x + HOST[:1]).get(0)
    for i in range(20):
        sp.ops.map(fresh, "sin(cos(a))", big, out=big)
        z = x * np.float32(i) + x
        assert z.buffer
        made.append(z)
        fresh._calls = None
    for i, z in enumerate(made):
        np.testing.assert_array_equal(z.numpy(), HOST * np.float32(i) + HOST)


def test_a_reduction_takes_the_expression_along(fresh):
    """One launch on the cpu; what else waits is left alone."""
    x, y = fresh.array(HOST), fresh.array(HOST + 1)
    product, other = x * y, x + 1
    before = fresh.default_queue.submitted
    total = product.sum()
    if fresh.info.kind == "cpu":
        assert fresh.default_queue.submitted == before + 1
        assert "waits" in repr(product)
        assert "waits" in repr(other)
    assert total.item() == (HOST * (HOST + 1)).sum()
    x[...] = 0
    np.testing.assert_array_equal(product.numpy(), HOST * (HOST + 1))
    np.testing.assert_array_equal(other.numpy(), HOST + 1)
    square = fresh.array(HOST.reshape(8, 8)) ** 2
    np.testing.assert_array_equal(
        square.max(axis=1, keepdims=True).numpy(),
        (HOST.reshape(8, 8) ** 2).max(axis=1, keepdims=True),
    )


def test_what_a_map_copies_first_is_copied_each_time(fresh):
    """More dimensions than the kernel takes; a result over an operand that is read elsewhere."""
    ragged = np.arange(2**5, dtype=np.float32).reshape(2, 1, 2, 1, 2, 1, 2, 1, 2)
    other = np.arange(2**4, dtype=np.float32).reshape(1, 2, 1, 2, 1, 2, 1, 2, 1)
    x = fresh.array(HOST)
    for i in range(3):
        made = fresh.array(ragged + i) - fresh.array(other * i)
        np.testing.assert_array_equal(made.numpy(), ragged + i - other * i)
        x = fresh.array(HOST)
        part = x[8:40]
        part -= x[:32]
        part -= x[:32]
        wanted = HOST.copy()
        wanted[8:40] -= wanted[:32].copy()
        wanted[8:40] -= wanted[:32].copy()
        np.testing.assert_array_equal(x.numpy(), wanted)
