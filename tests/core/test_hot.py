"""sparkle_drv._hot: C packs a launch, and leaves what is unusual to Python.

When this fails, a launch packs wrong arguments on its fastest path.
"""

from __future__ import annotations

import ctypes
import gc
import struct
import weakref
from fractions import Fraction

import functions
import numpy as np
import pytest
from sparkle_drv._native import ffi, lib

import sparkle_drv as sp
from sparkle_drv import _hot, ops
from sparkle_drv.backends.abilities import CALLED_BY_C
from sparkle_drv.core import launch_errors, numpy_layout
from sparkle_drv.core.abi.records import DISPATCH, DISPATCH_HEAD
from sparkle_drv.core.queue import Queue


@pytest.fixture
def seen(cpu, monkeypatch):
    """(queue, records that C handed over): nothing is launched. Python's way is an error."""
    records = []

    def take(_handle, record, nbytes, _epoch):
        records.append(ffi.buffer(record, nbytes)[:])
        return len(records)

    queue = cpu.default_queue

    def slowly(self, *given):
        raise LookupError("left to Python")

    monkeypatch.setattr(Queue, "_launch_slowly", slowly)
    with functions.changed(queue, launch=take):
        yield queue, records


def written(kernel, args, groups=(1, 1, 1), size=None, shared=0):
    """The record, by struct."""
    signature = kernel.signature
    head = DISPATCH_HEAD.pack(
        DISPATCH, signature.record_nbytes, kernel._pointer, *groups, *(size or kernel.group_size),
        shared, signature.args_nbytes,
    )  # fmt: skip
    pointers = [given for given in args if hasattr(given, "nbytes") and hasattr(given, "_address")]
    values = [getattr(given, "_address", given) for given in args]
    return (
        head
        + signature.args_struct.pack(*values)
        + struct.pack(f"={len(pointers)}Q", *(given.nbytes for given in pointers))
    )


@pytest.mark.parametrize(
    ("a", "n"),
    [(2.5, 4), (3, 0), (float("inf"), 2**32 - 1), (-0.0, 1), (1e-46, 7), (float("-inf"), 9)],
)
def test_a_record_is_as_written(seen, cpu, a, n):
    queue, records = seen
    with cpu.kernel("saxpy_f32") as k, cpu.empty(4, "f4") as x, cpu.empty(4, "f4") as y:
        fence = queue.launch(k, y, x, a, n, groups=3)
        assert records == [written(k, (y, x, a, n), (3, 1, 1))]
    assert (type(fence), fence.queue, fence.value) == (sp.Fence, queue, 1)


@pytest.mark.parametrize(
    "value",
    ["f32 1e39", "u32 -1", "u32 4294967296", "u32 2.0", "f32 x"],
)
def test_what_fits_no_scalar_is_left_to_python(seen, cpu, value):
    queue, records = seen
    kind, _, text = value.partition(" ")
    given = text if text == "x" else (float if "e" in text or "." in text else int)(text)
    with cpu.kernel("saxpy_f32") as k, cpu.empty(4, "f4") as x:
        args = (x, x, given, 1) if kind == "f32" else (x, x, 1.0, given)
        with pytest.raises(LookupError):
            queue.launch(k, *args, groups=1)
    assert records == []


@pytest.mark.parametrize("n", [True, np.uint32(7), np.int64(0), np.array(3)])
@pytest.mark.parametrize(
    "a", [np.float32(0.1), np.float64(1e-46), np.uint8(2), False, Fraction(1, 3), np.array(2.0)]
)
def test_scalars_are_read_as_struct_reads_them(seen, cpu, a, n):
    queue, records = seen
    with cpu.kernel("saxpy_f32") as k, cpu.empty(4, "f4") as x:
        queue.launch(k, x, x, a, n, groups=1)
        assert records == [written(k, (x, x, float(a), int(n)))]


@pytest.mark.parametrize(
    ("words", "groups", "size", "shared"),
    [
        ({"groups": (2, 1, 1), "group_size": 64}, (2, 1, 1), (64, 1, 1), 0),
        ({"group_size": (32, 1), "groups": 5, "shared": 0}, (5, 1, 1), (32, 1, 1), 0),
        ({"shared": 16, "groups": 1}, (1, 1, 1), None, 16),
        ({"groups": 1, "shared": 0, "group_size": None}, (1, 1, 1), None, 0),
        ({"groups": [np.uint32(7), True]}, (7, 1, 1), None, 0),
        ({"groups": np.uint32(3), "group_size": (n for n in (256,))}, (3, 1, 1), (256, 1, 1), 0),
        ({"".join(["gro", "ups"]): 9}, (9, 1, 1), None, 0),
    ],
)
def test_the_shape_of_a_launch(seen, cpu, words, groups, size, shared):
    queue, records = seen
    with cpu.kernel("saxpy_f32") as k, cpu.empty(4, "f4") as x:
        queue.launch(k, x, x, 1.0, 1, **words)
        assert records == [written(k, (x, x, 1.0, 1), groups, size, shared)]


@pytest.mark.parametrize(
    ("extents", "grid"),
    [
        (("n/256",), lambda outer, n, inner: (-(-n // 256), 1, 1)),
        (("n", "outer*n", "inner"), lambda outer, n, inner: (n, outer * n, inner)),
        (("n/4", "inner+1-outer"), lambda outer, n, inner: (-(-n // 4), inner + 1 - outer, 1)),
    ],
)
def test_a_grid_that_follows_from_arguments(seen, cpu, extents, grid):
    queue, records = seen
    wanted = []
    with cpu.kernel("reduce_sum_f32") as k, cpu.empty(4096, "f4") as x:
        k.groups, k.form = extents, "grid"
        k._packing = bytes(ffi.buffer(k._native(cpu.info)))
        for outer, n, inner in ((1, 1000, 2), (2, 1000, 2), (1, 300, 2), (1, np.uint32(300), 3)):
            queue.launch(k, x, x, outer, n, inner)
            given = (outer, int(n), inner)
            wanted.append(written(k, (x, x, *given), grid(*given)))
        for wrong in ((x, x, 1, 300.0, 2), (x, x, 1, "3", 2), (x, x, 1), ()):
            with pytest.raises(LookupError):
                queue.launch(k, *wrong)
        refused = _hot.pack(cpu, k, (x, x, 1, 300, 2), None, 64, 0)
        assert refused == (lib.SP_REFUSED_OWN_SIZE, 0, 0)
        with pytest.raises(ValueError, match="expected groups= with group_size"):
            launch_errors.packed(cpu, k, (x, x, 1, 300, 2), (None, 64, 0))
        if len(extents) == 3:
            refused = _hot.pack(cpu, k, (x, x, 2**31, 2, 1), None, None, 0)
            assert refused == (lib.SP_REFUSED_GROUPS, 1, 2**32)
            with pytest.raises(
                ValueError, match=r"groups: expected 0 to .* in y .* got 4294967296"
            ):
                launch_errors.packed(cpu, k, (x, x, 2**31, 2, 1), (None, None, 0))
    assert records == wanted


@pytest.mark.parametrize(
    "words",
    [
        {"groups": 3.0},
        {"groups": (3.0, 1, 1)},
        {"groups": 3 + 0j},
        {"groups": 3, "group_size": 256.0},
        {"groups": 3, "group_size": (256.0,)},
        {"groups": 3, "shared": None},
        {"groups": 3, "shared": 0.0},
        {"groups": 3, "shared": ""},
    ],
)
def test_what_is_only_equal_to_a_shape_is_not_that_shape(seen, cpu, words):
    queue, records = seen
    shape = {"groups": None, "group_size": None, "shared": 0} | words
    with cpu.kernel("saxpy_f32") as k, cpu.empty(4, "f4") as x:
        args = (x, x, 1.0, 1)
        with pytest.raises(LookupError):
            queue.launch(k, *args, **words)
        with pytest.raises(TypeError, match=next(iter({*words} - {"groups"}), "groups")):
            launch_errors.packed(cpu, k, args, tuple(shape.values()))
    assert records == []


def test_odd_pointers_are_left_to_python(seen, cpu):
    queue, records = seen
    with cpu.kernel("saxpy_f32") as k, cpu.empty(4, "f4") as x, cpu.empty(4, "i4") as i:
        closed = cpu.empty(4, "f4")
        closed.close()
        readonly = np.zeros(4, np.float32)
        readonly.flags.writeable = False
        with sp.wrap(cpu, readonly) as fixed:
            for wrong in (i, closed, None, fixed, readonly, 5):
                with pytest.raises(LookupError):
                    queue.launch(k, wrong, x, 1.0, 1, groups=1)
            queue.launch(k, x, fixed, 1.0, 1, groups=1)  # only read
    assert len(records) == 1


def test_other_shapes_are_left_to_python(seen, cpu):
    queue, records = seen
    with cpu.kernel("saxpy_f32") as k, cpu.empty(4, "f4") as x:
        args = (x, x, 1.0, 1)
        for words in ({}, {"groups": ["1"]}, {"groups": (1, 2)}, {"groups": 1, "shared": -1}):
            with pytest.raises(LookupError):
                queue.launch(k, *args, **words)
        for wrong in ((k,), (x,), (k, x), (k, *args, 1), (k, *args * 20)):
            with pytest.raises(LookupError):
                queue.launch(*wrong, groups=1)
        with pytest.raises(TypeError, match=r"launch\(\) .* keyword argument 'group'"):
            queue.launch(k, *args, group=1)
        with pytest.raises(TypeError, match=r"launch\(\) missing .*'kernel'"):
            queue.launch(groups=1)
    with pytest.raises(LookupError):
        queue.launch(k, *args, groups=1)  # closed
    assert records == []


def test_prepared():
    made = _hot.Prepared()
    with pytest.raises(RuntimeError, match="nothing is prepared"):
        made.go()
    answers = [7, -5]
    handle = ffi.new("struct sp_handle *")
    submission = ffi.new("struct sp_submission *", {"queue": handle})
    kept = functions.made(run=lambda at: answers.pop(0) if at == submission else 0)
    handle.functions = kept[0]  # of which the struct has the address alone
    address = int(ffi.cast("uintptr_t", submission))
    made.take(kept, address)
    assert (made.kept, made.prepared) == (kept, address)
    made.again = lambda given, value: (given is made, value)
    assert made.go() == 7
    assert made.go() == (True, -5)


def test_a_wrong_call_of_submit_is_told_as_python_would(cpu):
    commands = sp.Commands()
    with cpu.queue() as queue:
        for wrong in ((), (commands, commands), (commands, {"commands": commands})):
            named = wrong[-1] if wrong and isinstance(wrong[-1], dict) else {}
            with pytest.raises(TypeError, match=r"submit\(\) takes one argument, commands, got"):
                queue.submit(*(x for x in wrong if x is not named), **named)
        with pytest.raises(TypeError, match="got an unexpected keyword argument 'command'"):
            queue.submit(command=commands)
        assert queue.submit(**{"".join(["com", "mands"]): commands}).wait().value == 1


@pytest.mark.parametrize("name", CALLED_BY_C)
def test_c_leaves_a_backend_with_a_method_of_somebody_elses_to_python(name):
    with sp.open("cpu") as dev:
        backend, seen = dev._backend, []
        real = getattr(backend, name)

        def stand_before(*given):
            seen.append(name)
            return real(*given)

        setattr(backend, name, stand_before)
        with dev.kernel("saxpy_f32") as k, dev.queue() as queue, dev.empty(4, "f4") as x:
            queue.launch(k, x, x, 1.0, 1, groups=1)
            queue.launch(k, x, x, 1.0, 1, groups=1).wait()
            queue.fence(queue.prepare(k, x, x, 1.0, 1, groups=1)()).wait()
            commands = sp.Commands().fill(x, 0)
            queue.submit(commands)
            queue.submit(commands).wait()
            assert queue.reached == 5
        assert name in seen


def test_what_is_prepared_anew_takes_the_place_of_the_old_in_one_step(cpu, monkeypatch):
    """At any moment another thread may call the same, and launches what is there."""
    backend, pointer, seen = cpu._backend, cpu._backend.queue_pointer, []
    with cpu.kernel("saxpy_f32") as k, cpu.queue() as queue, cpu.empty(4, "f4") as x:
        go = queue.prepare(k, x, x, 1.0, 1, groups=1)
        made = go.__self__
        old = made.prepared, weakref.ref(made.kept, lambda _: seen.append(made.prepared))

        def look(given):
            seen.append(made.prepared if old[1]() else None)
            return pointer(given)

        cpu.buffer(4).close()
        with monkeypatch.context() as patch:
            patch.setattr(backend, "queue_pointer", look)
            go()
        assert seen == [old[0], made.prepared]
        assert made.prepared != old[0]


@pytest.fixture
def asked(monkeypatch):
    """The timeouts of the waits that C left to Python."""
    seen = []
    slowly = sp.Fence._wait_slowly

    def note(self, *timeout):
        seen.append(timeout)
        return slowly(self, *timeout)

    monkeypatch.setattr(sp.Fence, "_wait_slowly", note)
    return seen


@pytest.fixture
def own():
    """A device that may keep kernels of operations: it is closed."""
    with sp.open("cpu") as dev:
        yield dev


def test_nothing_changes_a_fence(own):
    """Neither Python, nor a plan that has made it: a thread may look at it at any time."""
    x = np.ones((4, 4), np.float32)
    plan = sp.ops.gemm.plan(own, 4, 4, 4)
    for fence in (own.default_queue.submit(sp.Commands()), plan(x, x, np.empty_like(x))):
        assert not any(held is fence for held in gc.get_referents(plan))
        for name in ("queue", "value"):
            before = getattr(fence, name)
            with pytest.raises(AttributeError):
                setattr(fence, name, before)
            with pytest.raises((AttributeError, TypeError)):
                delattr(fence, name)
        with pytest.raises(AttributeError):
            fence.other = 1


def test_nothing_changes_what_a_launch_reads_of_a_pointer(cpu):
    buffer = cpu.buffer(64)
    view, array = buffer.view(0, 8), buffer.array("f4", 4)
    for pointer in (buffer, view, array):
        for name in ("_storage", "_address", "_elements", "nbytes"):
            with pytest.raises(AttributeError):
                setattr(pointer, name, getattr(pointer, name))
        with pytest.raises(TypeError, match="has not begun"):
            pointer._begin(pointer._storage, 0, 0, 0)
    view.close()
    assert view._storage.device is None
    assert view._end() is view._storage  # closed twice
    assert buffer._storage.device is array._storage.device is cpu
    buffer.close()
    assert array.closed
    with pytest.raises(TypeError, match="StorageBase"):
        _hot.PointerBase()._begin(None, 0, 0, 0)
    assert _hot.PointerBase()._storage.device is None


def test_what_makes_no_fence(cpu):
    queue = cpu.default_queue
    for wrong, kind in (((), TypeError), ((queue,), TypeError), ((queue, "1"), TypeError),
                        ((queue, 1, 2), TypeError), ((queue, -1), OverflowError)):  # fmt: skip
        with pytest.raises(kind):
            sp.Fence(*wrong)
    with pytest.raises(TypeError):
        sp.Fence(queue=queue, value=1)
    assert sp.Fence(queue, 2**64 - 1).value == 2**64 - 1


@pytest.mark.parametrize("brief", [True, False])
def test_a_fence_that_has_ended_is_waited_for_in_c(cpu, asked, brief):
    with cpu.kernel("saxpy_f32") as k, cpu.queue() as queue, cpu.empty(4, "f4") as x:
        fence = queue.launch(k, x, x, 1.0, 1, groups=1)  # a grid of one group: run by the caller
        with functions.changed(queue, brief=brief):
            assert fence.wait() is fence.wait(0) is fence.wait(timeout_s=2.5) is fence
        assert fence.done
    assert asked == []
    with pytest.raises(TypeError, match="timeout_s and nothing else"):
        fence.wait(1, 2)
    with pytest.raises(TypeError, match="timeout_s and nothing else"):
        fence.wait(timeout=1)


@pytest.mark.parametrize("timeout", [-1, -0.5, float("nan"), float("inf"), 10**400, "x", None])
def test_odd_timeouts_are_pythons_even_of_what_has_ended(cpu, asked, timeout):
    with cpu.kernel("saxpy_f32") as k, cpu.queue() as queue, cpu.empty(4, "f4") as x:
        fence = queue.launch(k, x, x, 1.0, 1, groups=1)
        with pytest.raises((TypeError, ValueError, OverflowError)):
            fence.wait(timeout)
        assert fence.wait(np.float32(1)) is fence  # no plain number, but one
    assert asked == [(timeout,), (np.float32(1),)]


@pytest.mark.parametrize("brief", [True, False])
def test_a_wait_with_something_to_free_or_to_tell_is_pythons(cpu, asked, brief):
    with (
        cpu.kernel("saxpy_f32") as k,
        cpu.queue() as queue,
        functions.changed(queue, brief=brief),
        cpu.empty(4, "f4") as x,
    ):
        freed = []
        fence = queue.launch(k, x, x, 1.0, 1, groups=1)
        entry = [lambda: freed.append(1)], []
        cpu._retired._entries[id(entry)] = entry
        fence.wait()
        assert (freed, asked) == ([1], [()])
        queue._waits.append(sp.core.cross_queue_waits.Waited(fence.value, ()))
        fence.wait(3)
        assert (queue._waits, asked) == ([], [(), (3,)])
        with pytest.raises(AttributeError):
            sp.Fence(None, 1).wait()


class Length:
    """Has one, of Python's."""

    def __init__(self, answer):
        self.answer = answer

    def __len__(self):
        return self.answer()


def base(queue, pending, keeping=(id, None, None)):
    """What a queue begins with, over the handle of `queue`."""
    handle = queue._backend.queue_pointer(queue._handle)
    return _hot.QueueBase(queue.device, handle, pending, keeping)


def test_what_waits_for_a_wait_may_be_anything_with_a_length(cpu, monkeypatch):
    left = []
    monkeypatch.setattr(sp.Fence, "_wait_slowly", lambda *given: left.append(given[1:]))
    with cpu.queue() as queue:
        for pending, asks in (
            (([], set(), {}), 0),
            (([], set(), "1"), 1),
            (([1], set(), {}), 1),
            (([], [], Length(lambda: 0)), 0),
            (([], [], Length(lambda: 2)), 1),
            (([], [], Length(lambda: 1 / 0)), 1),
            (([], [], 5), 1),
        ):
            fence = sp.Fence(base(queue, pending), 0)
            for _ in range(2):
                assert fence.wait() is (None if asks else fence)
            assert len(left) == 2 * asks
            del left[:]


def test_what_is_no_beginning_of_a_queue(cpu):
    with cpu.queue() as queue:
        three = ([],) * 3
        for wrong in (
            (([],) * 2,),
            (([],) * 4,),
            (None,),
            (three, (id, None)),
            (three, None),
        ):
            with pytest.raises(TypeError):
                base(queue, *wrong)


def test_nothing_changes_what_a_launch_reads_of_a_queue(cpu):
    with cpu.queue() as queue:
        assert queue.device is queue._device is cpu
        for name in ("_device", "device", "_pending"):
            with pytest.raises(AttributeError):
                setattr(queue, name, None)


@pytest.mark.parametrize("brief", [True, False])
def test_a_failure_is_told_by_the_wait_of_what_came_after(cpu, asked, brief):
    bad = sp.TilePlan(algo="naive", pack=True)  # no packed operand: the kernel refuses it
    with (
        cpu.kernel("gemm_f32", plan=bad) as k,
        cpu.queue() as queue,
        functions.changed(queue, brief=brief),
        cpu.empty((1, 1), "f4") as x,
    ):
        work = sp.Commands().dispatch(k, x, x, x, None, 1, 1, 1, 1, 1, 1, 1, 1, 0)
        with pytest.raises(sp.KernelFault):
            queue.submit(work).wait()
        failed = queue.submit(work)
        with cpu.kernel("saxpy_f32") as well:
            after = queue.launch(well, x, x, 1.0, 1, groups=1)
        while not after.done:
            pass
        with pytest.raises(sp.KernelFault):
            after.wait()
        with pytest.raises(sp.KernelFault):
            failed.wait()
    assert asked


def test_nothing_is_kept(cpu):
    with cpu.kernel("saxpy_f32") as k, cpu.queue() as queue:
        x = cpu.empty(4, "f4")
        go = queue.prepare(k, x, x, 1.0, 1, groups=1)
        queue.launch(k, x, x, 1.0, 1, groups=1).wait()
        go()
        gone = weakref.ref(x)
        del go, x
        gc.collect()
        assert gone() is None


def test_c_reads_numpy_s_arrays():
    """What C gets of an array by its struct is what a sum over it is of."""
    assert numpy_layout.known()
    whole = np.arange(80, dtype=np.float32).reshape(10, 8)
    constant = whole[:1, :5].copy()
    constant.flags.writeable = False
    with sp.open("cpu") as dev:
        for x in (whole, whole[2:], whole[2:, ::2], whole.T, whole[::-1], whole[:0], constant):
            for _ in range(3):  # the first call is Python's, later ones are C's
                np.testing.assert_array_equal(ops.map(dev, "x + 1", x=x), x + 1)


def test_a_numpy_of_another_abi_is_not_looked_at():
    version = ctypes.CFUNCTYPE(ctypes.c_uint)(lambda: 0x03000000)
    table = (ctypes.c_void_p * 1)(ctypes.cast(version, ctypes.c_void_p))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    assert _hot.know_numpy(new(ctypes.addressof(table), None, None)) is False
    with pytest.raises(ValueError, match="PyCapsule"):
        _hot.know_numpy(None)
