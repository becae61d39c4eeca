"""strided_copy copies slices, transposes and shards of Arrays on their device by one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkle_drv.core.array import Array, shape_of
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.arguments.quoting import shown
from sparkle_drv.ops.memory import staging
from sparkle_drv.ops.memory.constant import check_here
from sparkle_drv.ops.shapes.view import View

from . import moves


def strided_copy(
    dev: Device, dst: Array, src: Array, shape: int | Sequence[int], *,
    dst_strides: Sequence[int] | None = None, src_strides: Sequence[int] | None = None,
    dst_offset: int = 0, src_offset: int = 0,
) -> Array:  # fmt: skip
    """Copies elements of `src` to `dst` asynchronously, and returns `dst` with its `.fence` set.

    For each index (i0, i1, ...) below `shape`, the element of `src` at src_offset + i0 *
    src_strides[0] + ... goes to dst_offset + i0 * dst_strides[0] + ... of `dst`. Strides and
    offsets are in elements; offsets count from the start of the array. The shape of the array does
    not matter. None means the strides of a row-major array of `shape`. `View.of(x.shape).at(key)`
    and `.turned(axes)` (`sparkle_drv.ops.shapes.view`) give the shape, strides and offset of
    `x[key]` and `x.T`:

        v = View.of(x.shape).at((slice(None), slice(2, 5)))         # x[:, 2:5], packed into y
        ops.strided_copy(dev, y, x, v.shape, src_strides=v.strides, src_offset=v.offset)

    Strides of `src` may be negative or 0 (broadcast); strides of `dst` may be negative. Both arrays
    may have any dtypes of the same itemsize; the bytes move unchanged.

    At most 4 dimensions are possible. Neighbouring dimensions with matching strides on both sides
    are joined first. The bytes of an element larger than 8 bytes may count as one dimension. A
    device without kernels for 1 or 2 bytes (egl) moves such elements only in runs of 4 bytes that
    are aligned on both sides.

    Raises before anything is submitted: TypeError (not an Array, different itemsizes, no kernel for
    such elements) and ValueError (an Array that is closed, of another device or read-only; a
    position out of range; too many dimensions; elements of `dst` that share memory or interleave;
    `dst` overlaps `src`).

    >>> x, y = dev.array(np.arange(6, dtype=np.float32)), dev.empty((3,), np.float32)
    >>> sp.ops.strided_copy(dev, y, x, 3, src_strides=(-2,), src_offset=5).numpy()
    array([5., 3., 1.], dtype=float32)
    """
    staging.device(dev)
    for name, x in (("dst", dst), ("src", src)):
        if not isinstance(x, Array):
            raise TypeError(f"{name}: expected an Array, got {type(x).__name__}")
        check_here(name, x, x, dev)
    if dst.readonly:
        raise ValueError("dst: expected a writable Array, got a read-only one")
    itemsize = src.dtype.itemsize
    if dst.dtype.itemsize != itemsize:
        raise TypeError(
            f"dst: expected elements of {itemsize} bytes because src is {src.dtype}, "
            f"got {dst.dtype}"
        )
    dims = shape_of(shape)
    to = _view("dst", dst, dims, dst_strides, dst_offset)
    of = _view("src", src, dims, src_strides, src_offset)
    if 0 in dims:
        return dst
    if moves.interleaves(to):
        raise ValueError(
            f"dst_strides: expected separate elements, got shared or interleaved ones: "
            f"shape {shown(dims)}, strides {shown(to.strides)}"
        )
    addresses = dst._address, src._address
    move = moves.move(to, of, itemsize, addresses, lambda n: dev.provides(f"strided_u{8 * n}"))
    if move is None:
        raise check.NotThere(
            f"dst: {dev.uri} has no strided copy of {dst.dtype} ({itemsize} bytes an element): "
            "it copies only contiguous runs of 4, 8, ... bytes that are aligned to 4"
        )
    if len(move.shape) > moves.DIMS:
        raise ValueError(
            f"shape: expected at most {moves.DIMS} dimensions after joining neighbours, "
            f"got {len(move.shape)} of {shown(dims)}"
        )
    _check_reach(move)
    if staging.meets(dst, (src,)) and moves.share(move, src._address - dst._address):
        raise ValueError("dst: expected no memory in common with src, got an overlap")
    stage = staging.Stage(dev, {"dst": dst, "src": src})
    kernel = staging.kernel(dev, f"strided_u{8 * move.width}")
    arguments = (*move.padded(), *move.offsets, *move.needed)
    # The kernel moves unsigned integers. It refuses Arrays of another dtype, but a Buffer has none.
    stage.launch(kernel, dst.buffer, src.buffer, *arguments)
    dst.fence = stage.fence
    return dst


def _view(name: str, x: Array, dims: tuple[int, ...], strides: Any, offset: Any) -> View:
    """Returns the View of `name` ("src" or "dst"). Raises TypeError or ValueError with `name`."""
    view = View.of(dims)
    start = check.index(offset)
    if start is None:
        raise TypeError(f"{name}_offset: expected a whole number, got {shown(offset)}")
    if strides is not None:
        try:
            steps = [check.index(s) for s in strides]
        except TypeError:
            steps = [None]
        if None in steps:
            raise TypeError(f"{name}_strides: expected whole numbers, got {shown(strides)}")
        known = tuple(s for s in steps if s is not None)
        if len(known) != len(dims):
            raise ValueError(
                f"{name}_strides: expected {len(dims)} strides for shape {shown(dims)}, "
                f"got {len(known)}"
            )
        if any(abs(s) > check.I32 for s in known):
            raise ValueError(
                f"{name}_strides: expected strides below 2**31 elements, got {shown(strides)}"
            )
        view = View(dims, known)
    if not 0 <= start <= x.size:
        raise ValueError(f"{name}_offset: expected 0 to {x.size}, got {shown(offset)}")
    if 0 not in dims:
        ends = [(n - 1) * s for n, s in zip(dims, view.strides, strict=True)]
        low, high = (start + sum(f(0, end) for end in ends) for f in (min, max))
        if low < 0 or high >= x.size:
            raise ValueError(
                f"{name}: expected positions 0 to {x.size - 1}, got {shown(low)} to {shown(high)} "
                f"(shape {shown(dims)}, strides {shown(view.strides)}, offset {start})"
            )
    return View(dims, view.strides, start)


def _check_reach(move: moves.StridedMove) -> None:
    """Raises ValueError for positions beyond 32 bits or strides beyond 31 bits.

    These are the limits of the kernels.
    """
    for name, strides, needed in zip(("dst", "src"), move.strides, move.needed, strict=True):
        check.size(name, needed)
        check.size(f"{name}_strides", max(map(abs, strides)), check.I32)
