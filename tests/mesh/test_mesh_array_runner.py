"""Programs of copies and reductions on real devices: what arrives is what numpy says.

When this fails, a collective on real devices gives wrong numbers.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

from sparkle_drv.core.queue import Queue
from sparkle_drv.errors import DeviceLost
from sparkle_drv.mesh.lanes.array_runner import Ways, run_on_arrays
from sparkle_drv.mesh.lanes.program import Lane, Program, Reduce, Region, RegionCopy, Step

PAIRS = [("cpu", "egl:0"), ("egl:0", "cuda:0"), ("cpu", "cuda:0")]
CASES = [(a, b, dtype) for a, b in PAIRS for dtype in (np.float32, np.int32)]
CASES.append(("cpu", "cuda:0", np.float64))  # egl:0 has no maps of it


def exchanged(a: str, b: str, nbytes: int, half: int) -> Program:
    """Each sends a half to the other, which adds it and sends the sum back."""
    ends = {a: (0, half), b: (half, nbytes)}
    steps: list[Step] = []
    for mine, other in ((a, b), (b, a)):
        begin, end = ends[mine]
        own = Region(mine, "data", begin, end - begin)
        temp, theirs = own._replace(memory="temp"), own._replace(place=other)
        n = len(steps)
        steps.append(Step(n, Lane(other, mine), RegionCopy(theirs, temp)))
        steps.append(Step(n + 1, Lane(mine), Reduce(temp, own), (n,)))
        steps.append(Step(n + 2, Lane(mine, other), RegionCopy(own, theirs), (n + 1,)))
    return Program(tuple(steps))


@pytest.fixture
def ways(opened):
    made = []

    def of(*uris):
        made.append(Ways({uri: opened(uri) for uri in uris}))
        return made[-1]

    before = set(threading.enumerate())
    yield of
    for one in made:
        one.close()
        one.close()
    assert set(threading.enumerate()) <= before


def given(ways, dtype, count):
    """By URI: a host array, and the same on the device."""
    chance = np.random.default_rng(count)
    host = {uri: (chance.random(count) * 100).astype(dtype) for uri in ways.devices}
    return host, {uri: ways.devices[uri].array(x) for uri, x in host.items()}


@pytest.mark.parametrize(("a", "b", "dtype"), CASES)
@pytest.mark.parametrize("count", [128, 5000, 300_000])
def test_two_devices_exchange_halves(ways, a, b, count, dtype):
    there = ways(a, b)
    host, arrays = given(there, dtype, count)
    size = np.dtype(dtype).itemsize
    program = exchanged(a, b, count * size, count // 2 // 64 * 64 * size)
    for op, function in (("sum", np.add), ("max", np.maximum)):
        want = function(host[a], host[b])
        ran = run_on_arrays(program, arrays, there, op)
        assert [r.step.number for r in ran] == list(range(6))
        for uri, array in arrays.items():
            np.testing.assert_array_equal(array.numpy(), want)
            array.device.default_queue.write(array.buffer, host[uri]).wait()
    assert sum(there.moved().values()) == 2 * 2 * count * size


def test_memory_of_another_place_is_read_where_it_is(ways):
    """On memory that both devices share no byte is copied for a reduction."""
    there = ways("cpu")
    there.devices["other"] = there.devices["cpu"]
    host, arrays = given(there, np.float32, 1000)
    own, other = Region("cpu", "data", 0, 4000), Region("other", "data", 0, 4000)
    run_on_arrays(Program((Step(0, Lane("cpu"), Reduce(other, own)),)), arrays, there)
    np.testing.assert_array_equal(arrays["cpu"].numpy(), host["cpu"] + host["other"])
    np.testing.assert_array_equal(arrays["other"].numpy(), host["other"])
    assert there.moved() == {}


def test_a_device_that_is_lost_names_the_step(ways, monkeypatch):
    there = ways("cpu", "egl:0")
    _, arrays = given(there, np.float32, 1000)
    write = Queue.write

    def lost(queue, *args):
        if queue.device.uri == "egl:0":
            raise DeviceLost("egl:0: it was unplugged")
        return write(queue, *args)

    monkeypatch.setattr(Queue, "write", lost)
    with pytest.raises(
        DeviceLost, match=r"step \d, copy of \d+ bytes from cpu to egl:0: egl:0: it"
    ):
        run_on_arrays(exchanged("cpu", "egl:0", 4000, 2048), arrays, there)
