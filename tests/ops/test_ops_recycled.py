"""Memory of results: used again once nobody holds it, and never before.

When this fails, two results share the same memory.
"""

import ctypes
import gc
import os
import pickle
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import _hot, ops
from sparkle_drv.ops.memory import recycled

pytestmark = pytest.mark.opens(threads=1)

N = 300_000  # of float32: above the least, and no whole pages
MIB = 1 << 20


@pytest.fixture(autouse=True)
def roomy():
    before = recycled.limit()
    recycled.limit(256 * MIB)
    recycled.release()
    yield
    recycled.limit(before)
    recycled.release()


def at(x):
    return x.__array_interface__["data"][0]


def made(nbytes=4 * N):
    return recycled.empty((nbytes,), np.uint8, nbytes)


def numpy_core():
    return getattr(np, "_core", None) or np.core  # the latter before numpy 2


def handler(x):
    return numpy_core().multiarray.get_handler_name(x if x.base is None else x.base)


def is_ours(x):
    return handler(x) == "sparkle_drv"


X = np.linspace(-1, 1, N, dtype=np.float32)
IMAGE = np.ones((2, 4, 100, 100), np.float32)
WEIGHTS = np.ones((8, 4, 3, 3), np.float32)
A = np.ones((500, 300), np.float32)

OPERATIONS = {
    "map": lambda dev: ops.map(dev, "2*x + 1", x=X),
    "map of strides": lambda dev: ops.map(dev, "2*x + 1", x=np.ones((600, 700))[:, ::2]),
    "map in another order": lambda dev: ops.map(dev, "2*x + 1", x=np.ones((600, 700)).T),
    "gemm": lambda dev: ops.gemm(dev, A, A.T),
    "gemm with bias": lambda dev: ops.gemm(dev, A, A.T, bias=np.ones(500, np.float32)),
    "conv2d": lambda dev: ops.conv2d(dev, IMAGE, WEIGHTS, padding=1),
    "layout": lambda dev: ops.layout(dev, IMAGE, "NHWC"),
    "layout as it is": lambda dev: ops.layout(dev, IMAGE, "NCHW"),
    "reduce": lambda dev: ops.reduce(dev, np.ones((100_000, 3), np.float32), axis=1),
    "fold": lambda dev: ops.reduce(dev, ops.lazy("x*x", x=np.ones((100_000, 3))), axis=1),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_results_come_from_memory_of_former_ones(dev, name):
    run = OPERATIONS[name]
    for _ in range(3):  # the whole way, then the short one
        y = run(dev)
        want, place = y.copy(), at(y)
        assert is_ours(y)
        del y
        y = run(dev)
        assert at(y) == place
        np.testing.assert_array_equal(y, want)


def test_a_result_is_an_array_as_any_other(dev):
    y = ops.map(dev, "2*x", x=X)
    flags = y.flags
    assert (flags.owndata, flags.writeable, flags.aligned, flags.c_contiguous) == (True,) * 4
    assert (type(y), y.base, at(y) % 4096) == (np.ndarray, None, 0)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(y)), y)
    assert not is_ours(y.copy())
    z = ops.map(dev, "2*x", x=np.ones((600, 700))[:, ::2])
    assert (z.base, z.flags.c_contiguous) == (None, True)


def test_small_results_are_numpy_s_own(dev):
    least = recycled.LEAST // 4
    assert not is_ours(ops.map(dev, "2*x", x=X[: least - 1]))
    assert is_ours(ops.map(dev, "2*x", x=X[:least]))


def held_by_a_frame(y):
    try:
        raise ValueError(y)
    except ValueError as error:
        return error


HOLDERS = {
    "an array": lambda y: y,
    "a view": lambda y: y[5:7],
    "a transposed view of another type": lambda y: y.view(np.int8).reshape(2, -1).T,
    "a memoryview": memoryview,
    "DLPack": np.from_dlpack,
    "an exception": held_by_a_frame,
    "a closure": lambda y: lambda: y,
    "a buffer": None,
}


@pytest.mark.parametrize("name", HOLDERS)
def test_never_while_anything_holds_it(dev, name):
    y = ops.map(dev, "2*x", x=X)
    place = at(y)
    holder = sp.wrap(dev, y) if name == "a buffer" else HOLDERS[name](y)
    del y
    gc.collect()
    others = [ops.map(dev, "0*x", x=X) for _ in range(4)]
    assert place not in {at(other) for other in others}
    if name == "a buffer":
        holder.close()
    del holder
    gc.collect()
    assert place == at(ops.map(dev, "0*x", x=X))


def test_never_while_a_cycle_holds_it(dev):
    cycle = [ops.map(dev, "2*x", x=X)]
    place = at(cycle[0])
    cycle.append(cycle)
    gc.disable()
    try:
        del cycle
        assert at(ops.map(dev, "2*x", x=X)) != place
        gc.collect()
        assert recycled.kept() >= 2 * X.nbytes
    finally:
        gc.enable()


def test_never_while_another_thread_holds_it(dev):
    go, done = threading.Event(), threading.Event()
    seen = []

    def holds(y):
        done.set()
        go.wait(30)
        seen.append(float(y.max()))

    y = ops.map(dev, "0*x + 7", x=X)
    place = at(y)
    thread = threading.Thread(target=holds, args=(y,))
    thread.start()
    assert done.wait(30)
    del y
    assert place != at(ops.map(dev, "0*x", x=X))
    go.set()
    thread.join()
    assert seen == [7.0]


def test_values_never_change_under_a_holder(dev):
    """Threads that make, keep, hand on and drop results of a few sizes at random."""
    sizes = [40_000, 41_000, 70_000, 1_200_000]
    wrong: list[str] = []
    shared: list[tuple[float, np.ndarray]] = []

    def worker(seed):
        rng = np.random.default_rng(seed)
        mine: list[tuple[float, np.ndarray]] = []
        for step in range(150):
            value = float(seed * 1000 + step)
            n = sizes[rng.integers(len(sizes))]
            y = ops.map(dev, "0*x + v", x=np.zeros(n, np.float32), v=value)
            (mine if rng.random() < 0.7 else shared).append((value, y[:: rng.integers(1, 9)]))
            del y
            while len(mine) > 5:
                value, y = mine.pop(rng.integers(len(mine)))
                if not (y == value).all():
                    wrong.append(f"{value} has become {y.min()} to {y.max()}")
            if len(shared) > 8:
                try:
                    value, y = shared.pop(0)
                except IndexError:
                    continue
                if not (y == value).all():
                    wrong.append(f"{value} has become {y.min()} to {y.max()}")
                del y

    threads = [threading.Thread(target=worker, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert all((y == value).all() for value, y in shared)


def test_a_device_that_closes_takes_no_result_along(dev):
    with sp.open("cpu", threads=1) as other:
        y = ops.map(other, "0*x + 3", x=X)
    z = ops.map(dev, "0*x + 4", x=X)
    assert (y == 3).all()
    assert (z == 4).all()
    place = at(y)
    del y, z
    gc.collect()
    assert place in {at(y) for y in [ops.map(dev, "0*x", x=X) for _ in range(2)]}


def test_resized_results(dev):
    y = ops.map(dev, "0*x + 3", x=X)
    y.resize(5 * N, refcheck=False)
    assert is_ours(y)
    assert (y[:N] == 3).all()
    assert not y[N:].any()
    y.resize(10, refcheck=False)
    assert (y == 3).all()
    y.resize(0, refcheck=False)
    del y
    assert recycled.kept() > 0


def test_a_block_that_fits_is_given():
    """One that is large enough, and none that is larger by more than a quarter."""
    sizes = [MIB, MIB + MIB // 8, 2 * MIB]
    arrays = [made(n) for n in sizes]
    places = [at(x) for x in arrays]
    arrays.clear()
    first, second = made(MIB), made(MIB)
    assert {at(first), at(second)} == set(places[:2])
    third = made(MIB)
    assert at(third) not in places


def test_no_more_is_kept_than_the_limit_says():
    recycled.limit(3 * MIB)
    arrays = [made(MIB) for _ in range(6)]
    last = [at(x) for x in arrays[-3:]]
    while arrays:
        arrays.pop(0)
    assert recycled.kept() == 3 * MIB
    assert sorted(at(x) for x in [made(MIB) for _ in range(3)]) == sorted(last)  # the latest
    assert recycled.kept() == 3 * MIB
    made(8 * MIB)  # which is too much by itself pushes nothing out
    assert recycled.kept() == 3 * MIB
    recycled.limit(MIB)
    assert (recycled.limit(), recycled.kept()) == (MIB, MIB)


def test_it_can_be_emptied_and_turned_off():
    made()
    assert recycled.kept() >= 4 * N
    recycled.release()
    assert recycled.kept() == 0
    made()
    assert recycled.kept() >= 4 * N  # it goes on
    recycled.limit(0)
    assert recycled.kept() == 0
    made()
    assert recycled.kept() == 0


def test_memory_goes_back_to_the_system():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    before = resident()
    made(200 * MIB).fill(1)
    assert recycled.kept() == 200 * MIB
    recycled.release()
    assert resident() < before + 50 * MIB


@pytest.mark.parametrize("wrong", [-1, 2**63])
def test_no_such_limit(wrong):
    with pytest.raises(ValueError, match="nbytes"):
        recycled.limit(wrong)


@pytest.mark.parametrize("wrong", [1.5, "1", True])
def test_no_limit_at_all(wrong):
    with pytest.raises(TypeError, match="nbytes"):
        recycled.limit(wrong)


class Handler(ctypes.Structure):
    """PyDataMem_Handler of numpy/ndarraytypes.h, with malloc's functions."""

    MALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    TWO = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
    REALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    _fields_ = (
        ("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("given", ctypes.c_void_p),
        ("malloc", MALLOC), ("calloc", TWO), ("realloc", REALLOC), ("free", FREE),
    )  # fmt: skip


LIBC = ctypes.CDLL(None)
LIBC.malloc.restype = LIBC.calloc.restype = LIBC.realloc.restype = ctypes.c_void_p
THEIRS = Handler(
    b"theirs", 1, None,
    Handler.MALLOC(lambda _, n: LIBC.malloc(ctypes.c_size_t(n))),
    Handler.TWO(lambda _, n, size: LIBC.calloc(ctypes.c_size_t(n), ctypes.c_size_t(size))),
    Handler.REALLOC(lambda _, p, n: LIBC.realloc(ctypes.c_void_p(p), ctypes.c_size_t(n))),
    Handler.FREE(lambda _, p, n: LIBC.free(ctypes.c_void_p(p))),
)  # fmt: skip
"""For ever: arrays may outlive a test."""


def numpy_function(place):
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = pointer(numpy_core()._multiarray_umath._ARRAY_API, None)
    address = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[place]
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(address)


def test_a_handler_of_the_program_s_own_is_used_and_left(dev):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    set_handler = numpy_function(304)
    before = set_handler(new(ctypes.addressof(THEIRS), b"mem_handler", None))
    try:
        assert handler(ops.map(dev, "2*x", x=X)) == "theirs"
        assert handler(np.empty(N)) == "theirs"
    finally:
        set_handler(before)
    assert is_ours(ops.map(dev, "2*x", x=X))


def test_other_arrays_are_none_of_ours():
    assert is_ours(made())
    assert not is_ours(np.empty(N))
    with pytest.raises(ValueError, match="negative"):
        _hot.result(np.empty, (-1,), np.dtype("f4"), MIB)
    assert not is_ours(np.empty(N))


def test_tracemalloc_sees_results_and_not_what_is_kept(dev):
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        y = ops.map(dev, "2*x", x=X)
        assert X.nbytes <= tracemalloc.get_traced_memory()[0] - before < X.nbytes + 100_000
        del y
        assert tracemalloc.get_traced_memory()[0] - before < 100_000
    finally:
        tracemalloc.stop()


def test_no_memory_is_said(dev):
    with pytest.raises(MemoryError):
        recycled.empty((1 << 55,), np.uint8, 1 << 55)
    assert not is_ours(np.empty(N))


FORKS = """
import os, sys, threading, numpy as np
from sparkle_drv.ops import recycled
def made(): return recycled.empty((1 << 20,), np.uint8, 1 << 20)
stop = False
def busy():
    while not stop:
        made()
threads = [threading.Thread(target=busy) for _ in range(3)]
for t in threads: t.start()
held = made(); held.fill(5)
bad = 0
for _ in range(20):
    pid = os.fork()
    if not pid:
        y = made(); y.fill(9)
        os._exit(0 if (held == 5).all() and (y == 9).all() else 1)
    bad += os.waitpid(pid, 0)[1] != 0
stop = True
for t in threads: t.join()
sys.exit(bad or not (held == 5).all())
"""


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env={**os.environ, **environment},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_forks_while_threads_are_at_it():
    # Not measured: a lock of coverage that another thread has at a fork is never free in the child.
    done = run(FORKS, COVERAGE_PROCESS_CONFIG="", COVERAGE_PROCESS_START="")
    assert done.returncode == 0, done.stderr


def test_the_environment_says_how_much():
    code = "from sparkle_drv.ops import recycled; print(recycled.limit())"
    assert run(code, SPARKLE_RECYCLE_MIB="3").stdout.split() == [str(3 * MIB)]
    assert run(code, SPARKLE_RECYCLE_MIB="0").stdout.split() == ["0"]
    unsaid = int(run(code, SPARKLE_RECYCLE_MIB="").stdout)
    with sp.open("cpu") as dev:
        assert unsaid == min(1 << 30, dev.info.memory_nbytes // 16)


RACE = """
import sys, threading
from sparkle_drv.backends import machine
from sparkle_drv.ops import recycled
ask = machine.memory_nbytes
def meanwhile(*args):
    machine.memory_nbytes = ask
    other = threading.Thread(target=recycled.limit, args=(77,))
    other.start()
    other.join()
    return ask(*args)
machine.memory_nbytes = meanwhile
print(recycled.limit())
"""


def test_a_limit_that_another_thread_sets_meanwhile_stays():
    done = run(RACE, SPARKLE_RECYCLE_MIB="")
    assert done.stdout.split() == ["77"], done.stderr
