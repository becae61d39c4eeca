"""Every class with close() is made and closed in numbers: by `with`, by hand and by forgetting. The
counts on both sides return to where they were. No class is forgotten.

When this fails, forgetting or closing an object leaks memory, threads or descriptors.
"""

import gc
import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import sparkle_drv
import sparkle_drv as sp
from sparkle_drv.core.storage import Storage
from sparkle_drv.mesh.lanes.array_runner import Ways
from sparkle_drv.mesh.lanes.staged_transfer import StagingMemory
from sparkle_drv.mesh.lanes.transports import Way
from sparkle_drv.mesh.mesh import Mesh
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.sched.graph.record import TaskGraph
from sparkle_drv.sched.run import arrays
from sparkle_drv.sched.run.arrays import ContextArray
from sparkle_drv.sched.run.constants import ContextConstant
from sparkle_drv.sched.run.local import LocalExecutor, default_clock

ROUNDS = 10

# class -> how one is made on a device, in use when it goes
MAKE = {
    sp.Device: lambda dev: used(sp.open(dev.uri)),
    sp.Buffer: lambda dev: dev.buffer(100),
    sp.Array: lambda dev: dev.array(np.arange(10.0)),
    sp.Kernel: lambda dev: dev.kernel("saxpy_f32"),
    sp.Queue: lambda dev: worked(dev.queue(timing=True)),
    sp.Pipeline: lambda dev: dev.pipeline(3, lambda d: d.buffer(64)),
    sp.Timestamp: lambda dev: dev.timestamp(),
    sp.Context: lambda dev: sp.init([dev.uri]),
    Storage: lambda dev: dev.buffer(100)._storage,
    LocalExecutor: lambda dev: LocalExecutor([dev], default_clock()),
    ContextArray: lambda dev: arrays.empty(
        LocalExecutor([dev], default_clock()), dev, 10, np.float32, None
    ),
    Constant: lambda dev: sp.ops.constant(dev, np.ones((3, 4), np.float32)),
    ContextConstant: lambda dev: ContextConstant(
        LocalExecutor([dev], default_clock()), np.ones((3, 4), np.float32)
    ),
    StagingMemory: lambda dev: StagingMemory(dev, dev, 64),
    Way: lambda dev: moved(Way(dev, dev), dev),
    Ways: lambda dev: between(Ways({dev.uri: dev}), dev),
    Mesh: lambda dev: Mesh([dev]),
    TaskGraph: lambda dev: recorded(TaskGraph(LocalExecutor([dev], default_clock()), (dev.uri,))),
}


def used(dev):
    worked(dev.default_queue)
    dev.buffer(10)
    return dev


def moved(way, dev):
    way.move(dev.buffer(1000), dev.buffer(1000)).wait()
    return way


def between(ways, dev):
    moved(ways.between(dev.uri, dev.uri), dev)
    return ways


def recorded(graph):
    graph.map("x + 1", x=np.ones(10, np.float32))
    return graph


def worked(queue):
    queue.submit(sp.Commands())
    return queue


def closing_classes():
    """Classes of the package with a close() of their own; backends, those of other machines among
    them, and what plug-ins build them from, are closed by their device, nodes of bring-up by their
    tools. Nodes that lend devices are processes: tests/cluster ends them."""
    others = (".testing", ".backends", ".amd", ".plugin", ".cluster", "__main__")
    for module in pkgutil.walk_packages(sparkle_drv.__path__, "sparkle_drv."):
        if any(part in module.name for part in others):
            continue
        for thing in vars(importlib.import_module(module.name)).values():
            mine = inspect.isclass(thing) and thing.__module__ == module.name
            if mine and "close" in vars(thing) and not thing.__name__.startswith("_"):
                yield thing


def test_no_class_is_forgotten():
    assert set(closing_classes()) == set(MAKE)


KINDS = [pytest.param(make, id=kind.__name__) for kind, make in MAKE.items()]


@pytest.fixture
def counted(device):
    gc.collect()
    before = device.live_counts()
    yield device
    gc.collect()
    assert device.live_counts() == before


@pytest.mark.parametrize("make", KINDS)
def test_closed_by_hand_twice(counted, make):
    for _ in range(ROUNDS):
        thing = make(counted)
        thing.close()
        thing.close()


WITHOUT_WITH = ("Timestamp", "Storage", "LocalExecutor")


@pytest.mark.parametrize("make", [p for p in KINDS if p.id not in WITHOUT_WITH])
def test_closed_by_with(counted, make):
    for _ in range(ROUNDS):
        with make(counted) as thing:
            assert thing is not None
        thing.close()


@pytest.mark.parametrize("make", KINDS)
def test_forgotten(counted, make):
    for _ in range(ROUNDS):
        make(counted)


@pytest.mark.parametrize("make", KINDS)
def test_closed_when_the_block_raises(counted, make):
    thing = make(counted)
    if hasattr(thing, "__enter__"):
        with pytest.raises(KeyError), thing:
            raise KeyError
    thing.close()


def test_a_device_outlives_those_who_drop_it(device):
    """A buffer, kernel or queue keeps its device alive when nobody else does."""
    before = device.live_counts()
    buffer = sp.open(device.uri).buffer(64)
    queue = sp.open(device.uri).queue()
    kernel = sp.open(device.uri).kernel("noop")
    gc.collect()
    buffer.write(np.ones(64, np.uint8))
    assert buffer.read(np.uint8, 64).all()
    queue.submit(sp.Commands()).wait()
    kernel.device.default_queue.launch(kernel, groups=1).wait()
    del buffer, queue, kernel
    gc.collect()
    assert device.live_counts() == before


def test_a_device_waits_for_a_queue_that_nobody_has(device, monkeypatch):
    monkeypatch.setattr("sparkle_drv.core.queue.BRIEFLY_S", 0.0)  # its finalizer does not wait
    with device.kernel("busy_u32") as busy, device.buffer(400) as out:
        steps = 100_000 if device.info.emulated else 10_000_000
        work = sp.Commands().dispatch(busy, out, steps, groups=1).fill(out, 3)
        device.queue().submit(work)
        device.wait_idle()
        assert device.idle
        assert (out.read(np.uint32, 100) == 3).all()


def test_a_fence_keeps_its_queue(device):
    fence = device.queue().submit(sp.Commands())
    gc.collect()
    assert fence.wait().done
    assert fence.queue.reached == 1


def test_prepared_work_keeps_what_it_uses(device):
    go = device.queue().prepare(device.kernel("fill_f32"), device.buffer(400), 1.0, 100, groups=1)
    gc.collect()
    assert [go() for _ in range(3)] == [1, 2, 3]


def test_a_failed_construction_leaves_nothing(device):
    def broken(dev):
        raise RuntimeError("no slot today")

    before = device.live_counts()
    for attempt in (
        lambda: device.pipeline(3, broken),
        lambda: sp.init([device.uri, "nonsense:0"]),
        lambda: device.kernel(image=b"x", entry="f", args="u32"),
    ):
        with pytest.raises((RuntimeError, sp.SparkleError)):
            attempt()
        gc.collect()
        assert device.live_counts() == before
