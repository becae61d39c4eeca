"""Operands of random calls: what a call is given, what is in it, and new contents for it.

An operand lies in numpy's memory, with any strides, on the device, or in a Context. A constant
keeps what it was made of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import sparkle_drv as sp

WAYS = ("plain", "plain", "permuted", "stepped", "reversed", "padded", "broadcast", "odd", "locked")


def contents(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Numbers of the size of 1; small whole numbers for int32."""
    if np.dtype(dtype).kind == "i":
        return rng.integers(-50, 50, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def strided(rng: np.random.Generator, way: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros of this shape, laid out in some way. Elements of "broadcast" are shared."""
    size = np.dtype(dtype).itemsize
    if way == "permuted":
        order = rng.permutation(len(shape))
        return np.zeros([shape[i] for i in order], dtype).transpose(np.argsort(order))
    if way in ("stepped", "reversed"):
        step = [int(rng.integers(1, 4)) for _ in shape]
        whole = np.zeros([d * s for d, s in zip(shape, step, strict=True)], dtype)
        sign = -1 if way == "reversed" else 1
        return whole[tuple(slice(None, None, sign * s) for s in step)]
    if way == "padded":
        around = [(int(rng.integers(0, 3)), int(rng.integers(0, 3))) for _ in shape]
        whole = np.zeros([d + sum(two) for d, two in zip(shape, around, strict=True)], dtype)
        inner = (slice(a, a + d) for d, (a, _) in zip(shape, around, strict=True))
        return whole[tuple(inner)]
    if way == "broadcast":
        alone = [1 if rng.random() < 0.5 else d for d in shape]
        whole = np.zeros(alone, dtype)
        strides = [s if d > 1 else 0 for d, s in zip(alone, whole.strides, strict=True)]
        return np.lib.stride_tricks.as_strided(whole, shape, strides)
    if way == "odd":  # an address that is no multiple of an element's size
        n = int(np.prod(shape)) * size
        return np.zeros(n + 1, np.uint8)[1:].view(dtype).reshape(shape)
    return np.zeros(shape, dtype)


@dataclass
class Operand:
    """`given` goes to the call."""

    given: Any
    kind: str
    filled: np.ndarray | None = None
    """Where numpy's memory can be written; None: it is elsewhere, or a constant's."""
    kept: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """The contents of what is not in numpy's memory."""

    @property
    def value(self) -> np.ndarray:
        """What is in it now."""
        if self.filled is None:
            return self.kept
        return np.array(self.given)

    def refill(self, rng: np.random.Generator) -> None:
        """New contents in the same memory. A constant keeps its own."""
        if self.kind == "constant":
            return
        fresh = contents(rng, self.given.shape, self.given.dtype)
        if self.filled is not None:
            self.filled[...] = fresh[tuple(slice(0, d) for d in self.filled.shape)]
            return
        self.kept = fresh
        if self.kind == "context":
            self.given.fill(fresh)
        elif fresh.size:
            self.given.device.default_queue.write(self.given, fresh).wait()

    def close(self) -> bool:
        """False: numpy's memory is not closed."""
        if self.filled is None:
            self.given.close()
        return self.filled is None


def host(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, way: str = "") -> Operand:
    """An operand in numpy's memory."""
    way = way or WAYS[rng.integers(len(WAYS))]
    given = strided(rng, way, shape, dtype)
    filled = given
    if way == "broadcast":
        alone = tuple(slice(None) if stride else slice(0, 1) for stride in given.strides)
        filled = given[alone]
        given = np.broadcast_to(filled, shape)
    if way == "locked":
        given = given.view()
        given.flags.writeable = False
    made = Operand(given, "host", filled)
    made.refill(rng)
    return made


def of_device(
    rng: np.random.Generator, dev: sp.Device, shape: tuple[int, ...], dtype: Any
) -> Operand:
    made = Operand(dev.empty(shape, dtype), "array")
    made.refill(rng)
    return made


def of_context(rng: np.random.Generator, ctx: Any, shape: tuple[int, ...], dtype: Any) -> Operand:
    made = Operand(ctx.array(shape, dtype), "context")
    made.refill(rng)
    return made


def constant(rng: np.random.Generator, make: Any, shape: tuple[int, ...], dtype: Any) -> Operand:
    """`make` copies an array, which is changed afterwards: that must not matter."""
    source = host(rng, shape, dtype)
    value = source.value
    made = Operand(make(source.given), "constant", kept=value)
    source.refill(rng)
    return made


def on_host(result: Any) -> np.ndarray:
    """The elements of a result, when it is done."""
    if isinstance(result, np.ndarray):
        return result
    if result.fence is not None:
        result.fence.wait()
    return np.array(result.numpy())
