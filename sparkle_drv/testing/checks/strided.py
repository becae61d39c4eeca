"""Strided copies, compared with numpy: slices, transposes, reversals and shards of columns, for
every element size that a device can move. Also random views, compared with numpy's as_strided, and
refused calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np

import sparkle_drv as sp
from sparkle_drv.ops.shapes.view import View
from sparkle_drv.testing.checks import base
from sparkle_drv.testing.checks.base import Array, NotProvided, raises, seeded

KINDS = {1: np.uint8, 2: np.int16, 4: np.float32, 8: np.complex64}
"""A dtype of each size."""
FULL = slice(None)


def check(function: Callable[[sp.Device], None]) -> Callable[[sp.Device], None]:
    """Registers a check, and makes it close the kernels that `sp.ops` keeps. The suite would
    otherwise count them as left alive.
    """

    @wraps(function)
    def closing(dev: sp.Device) -> None:
        try:
            function(dev)
        finally:
            for kernel in dev.kept.pop("ops kernels", {}).values():
                kernel.close()

    return base.check("strided")(closing)


def has(dev: sp.Device, itemsize: int) -> bool:
    """Returns whether the device has a kernel that copies strided elements of `itemsize` bytes."""
    return dev.provides(f"strided_u{8 * itemsize}")


def kinds(dev: sp.Device) -> list[Any]:
    """Returns the dtypes whose single elements the device can move. Raises NotProvided if there is
    none.
    """
    found = [kind for itemsize, kind in KINDS.items() if has(dev, itemsize)]
    if not found:
        raise NotProvided(f"expected a kernel strided_u32 for {dev.info.backend}, there is none")
    return found


def noise(rng: np.random.Generator, shape: tuple[int, ...], kind: Any) -> Array:
    """Returns random bits as an array, including NaN payloads and denormals."""
    nbytes = np.dtype(kind).itemsize * int(np.prod(shape))
    found: Array = rng.integers(0, 256, nbytes, np.uint8).view(kind).reshape(shape)
    return found


def bits(x: Array) -> Array:
    """Returns the bytes of all elements, in their order."""
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


@contextmanager
def held(dev: sp.Device, *values: Array) -> Iterator[list[sp.Array]]:
    """Yields device arrays with these values, and closes them."""
    arrays: list[sp.Array] = []
    try:
        arrays.extend(dev.array(x) for x in values)
        yield arrays
    finally:
        for x in arrays:
            x.close()


def packs(dev: sp.Device, x: Array, view: View, want: Array) -> None:
    """Checks a strided copy of `view` of `x` to a packed array, which must then equal `want`.

    Also checks the copy back: from the packed array to the elements that `view` selects in another
    array like `x`.
    """
    rest = np.full(x.shape, 0x5A, np.uint8 if x.dtype.itemsize == 1 else x.dtype)
    with held(dev, x, np.zeros_like(want), rest) as (src, dst, back):
        made = sp.ops.strided_copy(
            dev, dst, src, view.shape, src_strides=view.strides, src_offset=view.offset
        )
        assert made is dst
        assert (bits(dst.numpy()) == bits(want)).all(), f"{x.dtype}: {view} of {x.shape}"
        sp.ops.strided_copy(
            dev, back, dst, view.shape, dst_strides=view.strides, dst_offset=view.offset
        )
        there = rest.copy()
        _lay(there, view)[...] = want.view(there.dtype)
        assert (bits(back.numpy()) == bits(there)).all(), f"{x.dtype}: back by {view} of {x.shape}"


def _lay(x: Array, view: View) -> Array:
    """Returns the elements of `x` that `view` selects, as a view that numpy's as_strided makes."""
    start = x.reshape(-1)[view.offset :] if x.size else x.reshape(-1)
    strides = [s * x.itemsize for s in view.strides]
    return np.lib.stride_tricks.as_strided(start, view.shape, strides)


@check
def check_slices(dev: sp.Device) -> None:
    with seeded() as rng:
        for kind in kinds(dev):
            x = noise(rng, (5, 7, 6, 9), kind)
            for key in (
                2,
                (FULL, slice(2, 5)),
                (..., slice(3, 8)),  # some columns, as a shard takes them
                (..., slice(8, 9)),
                (slice(1, 4), FULL, slice(None, None, 2), slice(1, None, 3)),
                (slice(None, None, -1), -1, None, slice(4, 0, -2)),
                (..., slice(None, None, -1)),
                (slice(2, 2), FULL),
            ):
                packs(dev, x, View.of(x.shape).at(key), x[key])


@check
def check_transposes(dev: sp.Device) -> None:
    with seeded() as rng:
        for kind in kinds(dev):
            for shape in ((1, 1), (33, 17), (64, 48), (3, 19, 21), (2, 3, 5, 7)):
                x = noise(rng, shape, kind)
                for axes in list(itertools.permutations(range(len(shape))))[1::3]:
                    packs(dev, x, View.of(shape).turned(axes), x.transpose(axes))
        if has(dev, 8):  # an element of 16 bytes moves as two of 8 bytes
            x = noise(rng, (5, 3, 4), np.complex128)
            packs(dev, x, View.of(x.shape).turned(), x.T)


@check
def check_random_views(dev: sp.Device) -> None:
    with seeded() as rng:
        for _ in range(24):
            kind = rng.choice(kinds(dev))
            ndim = int(rng.integers(1, 5))
            shape = tuple(int(n) for n in rng.integers(1, 8, ndim))
            x = noise(rng, shape, kind)
            view = View.of(shape).at(tuple(_slice(rng, n) for n in shape))
            view = view.turned([int(axis) for axis in rng.permutation(ndim)])
            packs(dev, x, view, _lay(x, view))


def _slice(rng: np.random.Generator, n: int) -> slice:
    start, stop = (int(i) for i in rng.integers(0, n + 1, 2))
    step = int(rng.choice([1, 1, 2, 3, -1, -2]))
    return slice(start, stop, step) if rng.integers(3) else slice(None, None, step)


@check
def check_shards_of_columns_join_again(dev: sp.Device) -> None:
    """Cuts a matrix by columns into three shards, joins them again, and compares the matrices."""
    with seeded() as rng:
        for kind in kinds(dev):
            x = noise(rng, (37, 29), kind)
            with held(dev, x, np.zeros_like(x)) as (whole, joined):
                for start, end in ((0, 10), (10, 20), (20, 29)):
                    shape, strides, offset = View.of(x.shape).at((FULL, slice(start, end)))
                    of = {"src_strides": strides, "src_offset": offset}
                    to = {"dst_strides": strides, "dst_offset": offset}
                    with held(dev, np.zeros(shape, kind)) as (shard,):
                        sp.ops.strided_copy(dev, shard, whole, shape, **of)  # type: ignore[arg-type]
                        sp.ops.strided_copy(dev, joined, shard, shape, **to)  # type: ignore[arg-type]
                assert (bits(joined.numpy()) == bits(x)).all()


@check
def check_broadcast_and_within_one_array(dev: sp.Device) -> None:
    with seeded() as rng:
        for kind in kinds(dev):
            x = noise(rng, (6, 11), kind)
            with held(dev, x, np.zeros((4, 6, 11), kind)) as (src, dst):
                sp.ops.strided_copy(dev, dst, src, (4, 6, 11), src_strides=(0, 11, 1))
                assert (bits(dst.numpy()) == bits(np.broadcast_to(x, (4, 6, 11)))).all()
                # Copies columns 0 to 4 onto columns 6 to 10 of the same array: no element is both
                # read and written.
                sp.ops.strided_copy(
                    dev, src, src, (6, 5), dst_strides=(11, 1), src_strides=(11, 1), dst_offset=6
                )
                x[:, 6:] = x[:, :5]
                assert (bits(src.numpy()) == bits(x)).all()


@check
def check_small_elements_move_in_runs_of_four_bytes(dev: sp.Device) -> None:
    """Checks that a device without kernels for 1- and 2-byte elements copies them in runs of 4
    bytes.

    For runs of another length, the error names the dtype whose kernel is missing.
    """
    kinds(dev)
    with seeded() as rng:
        for kind, columns in ((np.uint8, slice(4, 12)), (np.float16, slice(2, 10))):
            x = noise(rng, (9, 16), kind)
            packs(dev, x, View.of(x.shape).at((FULL, columns)), x[:, columns])
            if not has(dev, x.itemsize):
                with held(dev, x, np.zeros((9, 3), kind)) as (src, dst):
                    with raises(TypeError, says=str(x.dtype)):
                        sp.ops.strided_copy(dev, dst, src, (9, 3), src_strides=(16, 1))
                    assert not dst.numpy().any()


@check
def check_what_is_refused(dev: sp.Device) -> None:
    kinds(dev)
    x = np.arange(12, dtype=np.float32)
    with held(dev, x, np.zeros_like(x)) as (src, dst):
        for shape, options, says in (
            ((13,), {}, "dst: "),
            ((4,), {"src_strides": (4,)}, "src: "),
            ((4,), {"src_strides": (-1,), "src_offset": 2}, "src: "),
            ((4,), {"dst_strides": (0,)}, "dst_strides"),
            ((3, 3), {"dst_strides": (2, 1)}, "dst_strides"),
            ((3,), {"dst_strides": (2**31,)}, "dst_strides"),
            ((-1,), {}, "shape"),
            ((2, 2), {"src_strides": (1,)}, "src_strides"),
            ((4,), {"dst_offset": -1}, "dst_offset"),
        ):
            with raises(ValueError, says=says):
                sp.ops.strided_copy(dev, dst, src, shape, **options)
        with raises(ValueError, says="dst"):
            sp.ops.strided_copy(dev, src, src, (4,), src_offset=3)
        assert not dst.numpy().any()
        assert (src.numpy() == x).all()
