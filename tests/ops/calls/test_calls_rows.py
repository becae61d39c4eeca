"""What Python's part of the call table hands to C (native/hot/calls): wrong arguments end in an
exception, or in a row that no call finds.

When this fails, a corrupt entry of the call table crashes the process.

A record is believed to be one of these arrays and this result: the fuzz launches it with no others.
"""

from __future__ import annotations

import contextlib
import gc
import struct
import weakref

import numpy as np
import pytest
from agree import agree
from callkit import CALLS

import sparkle_drv as sp
from sparkle_drv import _hot, ops

pytestmark = pytest.mark.opens(threads=1)

ODD = [
    None, 0, 1, -1, 2**31, 2**63, 2**64, -(2**70), 1.5, "x", "", b"", b"x" * 7, b"\xff" * 64,
    (), (1,), (None,) * 30, (((((),),),),), [], [1], {}, object, print, np.ones(3), np.float32(1),
    np.dtype("f4"), bytearray(40), memoryview(b"ab"), float("nan"), 1 << 24, (1,) * 6, True,
]  # fmt: skip
FIELDS = 16  # of `fixed`
RECORD, PATCHES, KEPT, EMPTY, SHAPE, DTYPE, OUT, BLOCK, NUMBERS = 5, 6, 7, 8, 9, 10, 12, 14, 15
TRUSTED = (RECORD, PATCHES, KEPT, SHAPE, DTYPE, OUT, BLOCK, NUMBERS)  # what a launch believes


@pytest.fixture
def made(own_dev, monkeypatch):
    """(values, fixed) of the row of each call, by name."""
    rows, row = {}, _hot.Row
    for name, call in CALLS.items():

        def note(values, fixed, name=name):
            rows[name] = values, fixed
            return row(values, fixed)

        monkeypatch.setattr(_hot, "Row", note)
        call.on(own_dev)(**call.operands())
    monkeypatch.setattr(_hot, "Row", row)
    return rows


def attempt(dev, values, fixed, called=True):
    """Is there such a row? It is put, and called."""
    try:
        row = _hot.Row(values, fixed)
    except (TypeError, ValueError, OverflowError, BufferError):
        return False
    rows = _hot.Table(1)
    if row is not None:
        rows.put(row)
        rows.put(row)
    with contextlib.suppress(sp.errors.SparkleError):
        rows.again(fixed[0], dev if called else None, *values)
    return row is not None


def test_rows_as_they_are_made_are_taken(own_dev, made):
    assert list(made) == list(CALLS)
    for values, fixed in made.values():
        assert len(fixed) == FIELDS
        assert attempt(own_dev, values, fixed)


@pytest.mark.parametrize("name", CALLS)
def test_any_field_may_be_anything(own_dev, made, name):
    values, fixed = made[name]
    for at in range(FIELDS):
        for odd in ODD:
            attempt(own_dev, values, (*fixed[:at], odd, *fixed[at + 1 :]), called=at not in TRUSTED)
    for n in range(FIELDS):
        with pytest.raises(TypeError):
            _hot.Row(values, fixed[:n])
    for at in range(len(values)):
        for odd in (*ODD, values, fixed):
            attempt(own_dev, (*values[:at], odd, *values[at + 1 :]), fixed, called=False)
    for odd in (values[:-1], (*values, 1), values * 9, values[::-1]):
        attempt(own_dev, odd, fixed, called=False)


def test_a_call_that_nobody_waits_for_says_its_epoch(own_dev, made):
    """One that is not the device's is refused: something may be closed since."""
    values, fixed = next(iter(made.values()))
    dev, rows = own_dev, _hot.Table(1)
    epoch = dev._backend.epoch()
    rows.put(_hot.Row(values, fixed))
    assert rows.submit() is rows.submit(fixed[0], dev) is rows.submit(1, dev, epoch) is None
    assert rows.submit(fixed[0], dev, epoch + 1, *values) is None
    rows.submit(fixed[0], dev, epoch, *values).wait()
    for odd, error in (("x", TypeError), (1.0, TypeError), (-1, OverflowError)):
        with pytest.raises(error):
            rows.submit(fixed[0], dev, odd, *values)


@pytest.mark.parametrize("name", CALLS)
def test_places_outside_the_record_are_refused(own_dev, made, name):
    values, fixed = made[name]
    patch, number = struct.Struct("=iIIIq"), struct.Struct("=4I")
    nbytes, nvalues = len(fixed[RECORD]), len(values)
    source, flags, address_at, covered_at, offset = patch.unpack(fixed[PATCHES][: patch.size])
    for wrong in (
        (nvalues, flags, address_at, covered_at), (-4, flags, address_at, covered_at),
        (2**31 - 1, flags, address_at, covered_at), (-(2**31), flags, address_at, covered_at),
        (source, flags, nbytes - 7, covered_at), (source, flags, 2**32 - 1, covered_at),
        (source, flags, address_at, nbytes - 7), (source, flags, address_at, 2**32 - 4),
    ):  # fmt: skip
        bad = patch.pack(*wrong, offset) + fixed[PATCHES][patch.size :]
        with pytest.raises(ValueError, match="Row: expected"):
            _hot.Row(values, (*fixed[:PATCHES], bad, *fixed[PATCHES + 1 :]))
    block = max(7, len(fixed[-2]))
    for wrong in ((nvalues, ord("f"), 0), (0, ord("f"), block - 7), (0, ord("d"), 2**32 - 8)):
        with pytest.raises(ValueError, match="Row: expected"):
            _hot.Row(values, (*fixed[:-1], number.pack(*wrong, 0)))
    with pytest.raises(ValueError, match="Row: expected"):
        _hot.Row(values, (*fixed[:2], 1 << len(values), *fixed[3:]))
    short = fixed[RECORD][:40]
    with pytest.raises(ValueError, match="Row: expected"):
        _hot.Row(values, (*fixed[:RECORD], short, *fixed[RECORD + 1 :]))


def test_what_makes_the_result_may_fail(own_dev, made):
    """No array, or an exception: Python's way begins again, and says it."""
    values, fixed = made["map"]
    for empty in (5, print, lambda *_: 5, lambda *_: None, lambda *_: 1 / 0, lambda *_: "x" * 99):
        rows = _hot.Table(1)
        rows.put(_hot.Row(values, (*fixed[:EMPTY], empty, *fixed[EMPTY + 1 :])))
        assert rows.again(fixed[0], own_dev, *values) is None


def test_a_key_that_is_too_long_has_no_row(own_dev, made):
    values, fixed = made["map"]
    assert _hot.Row(values * 9, fixed) is None
    many = np.ones((1,) * 31)[..., ::-1]
    assert _hot.Row((many,) * 6, fixed) is None
    rows = _hot.Table(1)
    for given in (values * 9, (many,) * 9, (), values[:1]):
        assert rows.again(fixed[0], own_dev, *given) is None


def test_tables(own_dev):
    for wrong in (0, 3, 1 << 20, -1, 2**40):
        with pytest.raises((ValueError, OverflowError)):
            _hot.Table(wrong)
    for wrong in ((), (1, 2), ("1",), (1.0,)):
        with pytest.raises(TypeError):
            _hot.Table(*wrong)
    with pytest.raises(TypeError, match="no keywords"):
        _hot.Table(1, sets=2)
    rows = _hot.Table(4096)
    for odd in ODD:
        with pytest.raises(TypeError, match="put: expected a Row"):
            rows.put(odd)
        assert rows.again(odd, odd, odd) is None
    assert rows.again() is rows.again(1) is rows.again(1, own_dev) is None


def test_a_constant_that_points_to_no_table(own_dev):
    held = ops.constant(own_dev, np.ones((3, 3), np.float32))
    for odd in ODD:
        held._calls = odd
        assert _hot.Table(1).again(1, own_dev, held) is None
    del held._calls
    assert _hot.Table(1).again(1, own_dev, held, held) is None


def test_rows_and_tables_in_a_cycle_go(own_dev, made):
    values, fixed = made["map"]

    class Site:
        pass

    site = Site()
    site.rows = _hot.Table(2)
    site.rows.put(_hot.Row(values, (site, *fixed[1:])))
    gone = weakref.ref(site)
    del site
    gc.collect()
    assert gone() is None


def test_objects_begin_once(own_dev):
    def function(self, *args, **named):
        return args, named

    good = (("a", "b"), 1, {"b": 2})
    for wrong in (
        (), (function,), (function, None), (function, None, 5), (function, 5, good),
        (function, None, ()), (function, None, (["a"], 1, {})), (function, None, (("a",), "1", {})),
        (function, None, (("a",), 1, None)), (function, None, (("a",), 2, {})),
        (function, None, (("a",), -1, {})), (function, None, (("a",) * 25, 1, {})),
        (function, None, (([],), 1, {})), (function, None, (("a",), 2**70, {})),
    ):  # fmt: skip
        one = _hot.direct(_hot.CallableBase)()
        with pytest.raises((TypeError, ValueError, OverflowError)):
            one._begin(*wrong)
        with pytest.raises(TypeError, match="it is not begun"):
            one()
        one._begin(function, None, good)
        with pytest.raises(ValueError, match="_begin: expected"):
            one._begin(function, None, good)
        assert one(1, b=3) == ((1,), {"b": 3})
    for odd in ODD:
        one = _hot.direct(_hot.CallableBase)()
        one._begin(odd, _hot.Table(1), (("a", 5, odd if callable(odd) else None), 3, {5: odd}))
        if not callable(odd):
            with pytest.raises(TypeError):
                one(1)


def test_defaults_are_those_of_the_beginning(own_dev):
    defaults = {"b": np.ones((4, 4), np.float32)}
    one = _hot.direct(_hot.CallableBase)()
    one._begin(lambda self, *args: args, None, (("a", "b"), 2, defaults))
    defaults.clear()
    gc.collect()
    assert len(one(own_dev, 1)) == 2


def test_only_callables_are_made_direct():
    for odd in (*ODD, int, type, ops.gemm):
        with pytest.raises(TypeError, match="direct: expected a class of Callables"):
            _hot.direct(odd)

    class Odd(_hot.CallableBase):
        pass

    Odd.__module__ = 5
    with pytest.raises(TypeError):
        _hot.direct(Odd)
    Odd.__module__ = "here"
    assert _hot.direct(_hot.direct(Odd)).__doc__ is None


def test_a_patch_of_other_dtypes_is_another_key(own_dev):
    """The table itself, without an operation: what is found, and what replaces what."""
    x = np.ones(4, np.float32)
    for text in ("x + 1", "x + 2"):
        for dtype in (np.float32, np.float64, np.int32):
            for _ in range(2):
                agree(ops.map(own_dev, text, x.astype(dtype)), np.full(4, 1 + int(text[-1])))
    assert type(own_dev._calls) is _hot.Table
