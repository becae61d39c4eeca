"""Changes of layout as strided copies, which move the bytes of elements of any type unchanged.

float32 has kernels of its own (operation.py, which calls this).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.ops.memory import staging
from sparkle_drv.ops.strided.moves import StridedMove

Sizes = tuple[int, int, int, int]
_ZERO = np.zeros(1, np.uint64)
"""The padding after the last channel of a blocked layout, for elements of any width."""


def kernel_name(dtype: np.dtype[Any]) -> str:
    """Returns the name of the kernel that moves elements of this size."""
    return f"strided_u{8 * dtype.itemsize}"


def change(stage: staging.Stage, to: Any, of: Any, sizes: Sizes, blocks: tuple[int, int]) -> None:
    """Launches the copies from `of` to `to`, for images of `sizes` (n, c, h, w).

    `to` or `of` is NCHW. blocks: the channels per block in `to` and in `of`; 0 for NCHW.
    """
    name = kernel_name(to.dtype)
    kernel = staging.kernel(stage.dev, name)
    zero: Any = None
    for move, is_zero in _moves(to.dtype.itemsize, sizes, blocks):
        if is_zero and zero is None:
            zero = _bare(stage.constant(_ZERO.view(f"u{to.dtype.itemsize}")))
        source = zero if is_zero else _bare(of)
        stage.launch(kernel, _bare(to), source, *move.padded(), *move.offsets, *move.needed)


def _bare(x: Any) -> Any:
    """Returns the memory of an array, without its element type."""
    return x.buffer if isinstance(x, Array) else x.view(f"u{x.dtype.itemsize}")


def _moves(width: int, sizes: Sizes, blocks: tuple[int, int]) -> Iterator[tuple[StridedMove, bool]]:
    """Yields the strided copies of a change of layout, as pairs (StridedMove, is_zero).

    `is_zero` is True if the copy fills padding with zeros. `width` is the bytes of an element.
    """
    n, c, pixels = sizes[0], sizes[1], sizes[2] * sizes[3]
    block = max(blocks)
    whole, rest = divmod(c, block)
    image, planes = (whole + bool(rest)) * pixels * block, c * pixels
    for first, count, together in ((0, whole, block), (whole, 1, rest)):
        if not count or not together:
            continue
        # For the blocked and the plain array: the strides of image, block, pixel and channel, and
        # the position of the first element of the copy.
        blocked = (image, pixels * block, block, 1), first * pixels * block
        plain = (planes, block * pixels, 1, pixels), first * block * pixels
        shape = n, count, pixels, together
        (dst, to), (src, of) = (blocked, plain) if blocks[0] else (plain, blocked)
        order = (0, 1, 2, 3) if blocks[0] else (0, 1, 3, 2)
        strides = tuple(dst[i] for i in order), tuple(src[i] for i in order)
        yield StridedMove(width, tuple(shape[i] for i in order), strides, (to, of)), False
    if rest and blocks[0]:
        shape = n, 1, pixels, block - rest
        offset = whole * pixels * block + rest
        yield (
            StridedMove(width, shape, ((image, pixels * block, block, 1), (0,) * 4), (offset, 0)),
            True,
        )
