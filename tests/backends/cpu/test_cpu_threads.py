"""Threads of the cpu device: how many, on which NUMA nodes, and two pools at once.

When this fails, the cpu device uses too few or too many cores, or two devices block each other.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from sparkle_drv._native import lib

import sparkle_drv as sp
from sparkle_drv.backends import machine
from sparkle_drv.backends.base import Settings
from sparkle_drv.backends.cpu.backend import CpuBackend
from sparkle_drv.core.device import Device


def pool_threads() -> set[int]:
    """Ids of this process's threads that are pool workers."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # one that ended meanwhile is none
            if (task / "comm").read_text().strip() == "sparkle-pool":
                found.add(int(task.name))
    return found


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    monkeypatch.delenv("SPARKLE_THREADS", raising=False)


@pytest.mark.parametrize("threads", [1, 2, 7, np.int64(3)])
def test_as_many_threads_as_asked_for(threads):
    before = pool_threads()
    x = np.arange(1 << 20, dtype=np.float32)
    with sp.open("cpu", threads=threads) as dev:
        assert dev.info.compute_units == threads
        assert sp.ops.reduce(dev, x, "max") == x[-1]
        assert len(pool_threads() - before) == threads - 1
    assert pool_threads() <= before


def test_the_argument_goes_before_the_variable(monkeypatch):
    monkeypatch.setenv("SPARKLE_THREADS", "5")
    with sp.open("cpu", threads=2) as dev:
        assert dev.info.compute_units == 2
    with sp.open("cpu") as dev:
        assert dev.info.compute_units == 5


def test_without_either_the_machine_says():
    with sp.open("cpu") as dev:
        assert dev.info.compute_units == machine.thread_count()


@pytest.mark.parametrize("threads", [0, -1, 1025, 10_000, 2**70])
def test_threads_out_of_range(threads):
    with pytest.raises(ValueError, match=f"threads: expected 1 to 1024, got {threads}"):
        sp.open("cpu", threads=threads)


@pytest.mark.parametrize("threads", ["2", 2.0, True, [2]])
def test_threads_of_another_type(threads):
    with pytest.raises(TypeError, match="threads: expected a whole number, got"):
        sp.open("cpu", threads=threads)


@pytest.mark.parametrize("uri", ["egl:0", "cuda:0", "amdgpu:0", "nvidia:0", "emu:gfx1036"])
def test_devices_that_take_no_threads_say_so(uri):
    name = uri.replace("nvidia", "cuda")
    with pytest.raises(ValueError, match=f"threads: expected None for {name}, got 2"):
        sp.open(uri, threads=2)


def test_deterministic_is_a_truth_value():
    with pytest.raises(TypeError, match="deterministic: expected True or False, got 'yes'"):
        sp.open("cpu", deterministic="yes")
    with pytest.raises(TypeError, match="deterministic: expected True or False, got 1"):
        sp.init(["cpu"], deterministic=1)
    with sp.init(["cpu"], deterministic=True) as ctx:
        assert ctx.device.deterministic
    with sp.init(["cpu"]) as ctx:
        assert not ctx.device.deterministic


def test_the_most_threads_there_may_be():
    """1023 workers on a few cores: slow, but right, and all of them end."""
    before = pool_threads()
    x = np.ones(1 << 20, np.float32)
    with sp.open("cpu", threads=1024) as dev:
        for _ in range(3):
            assert sp.ops.reduce(dev, x) == x.size
    assert pool_threads() <= before


def test_two_pools_at_once_from_two_threads_each():
    """Every job of every pool ends and is right, whoever owns the cores meanwhile."""
    rng = np.random.default_rng(7)
    a, b = rng.random((2, 160, 160), dtype=np.float32)
    wanted = a.astype(float) @ b
    failures = []

    def work(dev):
        out = np.empty_like(a)
        for _ in range(40):
            sp.ops.gemm(dev, a, b, out)
            if not np.allclose(out, wanted, rtol=1e-4):
                failures.append(np.abs(out - wanted).max())

    with sp.open("cpu", threads=2) as one, sp.open("cpu", threads=3) as two:
        threads = [threading.Thread(target=work, args=(dev,)) for dev in (one, two, one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
    assert not failures


# NUMA


def numa(root: Path, *lists: str) -> Path:
    for number, text in enumerate(lists):
        path = root / f"sys/devices/system/node/node{number}/cpulist"
        path.parent.mkdir(parents=True)
        path.write_text(f"{text}\n")
    return root


def opened(root: Path, threads: int) -> Device:
    backend = CpuBackend(Settings(home="", threads=threads), root)
    return Device("cpu", backend)


def test_on_one_node_threads_are_left_where_they_are(tmp_path):
    ours = os.sched_getaffinity(0)
    before = pool_threads()
    with opened(numa(tmp_path, "0-1023"), 3) as dev:
        sp.ops.reduce(dev, np.ones(1 << 20, np.float32))
        workers = pool_threads() - before
        assert len(workers) == 2
        assert all(os.sched_getaffinity(worker) == ours for worker in workers)


def test_workers_stay_on_their_node_s_cpus(tmp_path):
    ours = sorted(os.sched_getaffinity(0))
    if len(ours) < 2:
        pytest.skip("needs two CPUs, this process may use one")
    before = pool_threads()
    with opened(numa(tmp_path, str(ours[0]), ",".join(map(str, ours[1:]))), 2 * len(ours)) as dev:
        x = np.ones(1 << 20, np.float32)
        assert sp.ops.reduce(dev, x) == x.size
        wanted = sorted([1, *[len(ours) - 1] * (2 * len(ours) - 2)])
        until = time.monotonic() + 20
        while True:  # a worker pins itself when it first runs, which may be after the job's end
            where = [os.sched_getaffinity(worker) for worker in pool_threads() - before]
            if sorted(map(len, where)) == wanted or time.monotonic() > until:
                break
            time.sleep(0.01)
        assert sorted(map(len, where)) == wanted
        assert {ours[0]} in where
        assert set(ours[1:]) in where
    assert os.sched_getaffinity(0) == set(ours), "the caller itself is nobody's to pin"


@pytest.mark.parametrize("shape", [(1,), (5000,), (1 << 20,), (3, 1 << 20)])
def test_every_task_runs_once_whatever_the_nodes(placed, shape):
    """Each element once, and reductions right: tasks are dealt by node, then stolen."""
    x = np.random.default_rng(3).integers(-9, 9, shape).astype(np.float32)
    arr, y = placed.array(x), placed.empty(shape, np.float32)
    for _ in range(3):
        placed.default_queue.launch(
            placed.kernel("vecadd_f32"), y, arr, arr, x.size, groups=-(-x.size // 256)
        ).wait()
        assert np.array_equal(y.numpy(), 2 * x)
        assert np.array_equal(sp.ops.reduce(placed, x, "sum", axis=-1), x.sum(-1))


@pytest.fixture(params=[(1, 1), (1, 3), (2, 2, 1)])
def placed(request):
    """A device whose pool believes in several nodes; all of them are CPUs of ours."""
    with sp.open("cpu", threads=sum(request.param)) as dev:
        node_of = [node for node, count in enumerate(request.param) for _ in range(count)]
        ours = os.sched_getaffinity(0)
        cpus = [0 if cpu in ours else 2**32 - 1 for cpu in range(max(ours) + 1)]
        native = dev._backend._native.device
        assert lib.sp_cpu_place(native, len(request.param), node_of, len(cpus), cpus) == 0
        dev._backend._placed = True
        assert lib.sp_cpu_place(native, len(request.param), node_of, len(cpus), cpus) < 0  # once
        yield dev


@pytest.mark.parametrize("nbytes", [0, 1, 4096, 1 << 21, (1 << 21) + 1, (9 << 20) + 5])
def test_first_touch_leaves_zeros_and_takes_the_pages(placed, nbytes):
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    placed.wait_idle()
    before = resident()
    with placed.buffer(nbytes) as buf:
        grown = resident() - before
        if nbytes > 1 << 21:
            assert grown > 0.9 * nbytes, "no thread has touched it"
        if nbytes:
            with buf.map() as view:
                assert not np.frombuffer(view, np.uint8).any()


def test_lists_that_make_no_sense():
    with sp.open("cpu", threads=2) as dev:
        native = dev._backend._native.device
        for nodes, node_of, cpus in [
            (0, [0, 0], [0]), (2, [0, 2], [0, 1]), (2, [1, 0], [0, 1]), (2, [0, 1], [0, 2]),
            (2, [0, 1], []), (5000, [0, 1], [0]), (2, [0, 1], [0] * 70000),
        ]:  # fmt: skip
            assert lib.sp_cpu_place(native, nodes, node_of, len(cpus), cpus) < 0
        assert sp.ops.reduce(dev, np.ones(1 << 20, np.float32)) == 1 << 20
