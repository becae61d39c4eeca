"""Random sequences of calls on views of one buffer, against numpy's float64.

When this fails, a repeated call of an operation gives the result of an earlier one.

Each sequence has few shapes, so that most of its calls are known. Everything else changes: places,
strides, overlap, dtypes, numbers, constants, `out`, and objects at the address of an earlier one.
"""

from __future__ import annotations

import numpy as np
import pytest
from callkit import unaligned
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkle_drv import ops
from sparkle_drv.ops import ref

pytestmark = pytest.mark.opens(threads=1)

SIZE = 64
DTYPES = (np.float32, np.float64, np.int32)
SHAPES = [(2, 3), (3, 2), (3, 3), (1, 3), (3, 1), (1, 1), (2, 2)]
EXPRESSIONS = {
    "x*a + y": lambda x, y, a: x * a + y,
    "where(x > a, y, x)": lambda x, y, a: np.where(x > a, y, x),
    "max(x, y) - a": lambda x, y, a: np.maximum(x, y) - a,
}
TRACED = ops.traced(lambda x, y, a: x - y * a)
NUMBERS = (2, 3, True, -1.5, np.float32(0.5), np.float64(0.25), np.int32(7), 2**33, float("nan"))


class Sequence:
    """Draws calls, makes them and compares them."""

    def __init__(self, dev, seed):
        self.dev, self.rng = dev, np.random.default_rng(seed)
        self.bases = {d: self.filled(np.empty(SIZE, d)) for d in DTYPES}
        self.constants = []

    def pick(self, among):
        return among[int(self.rng.integers(len(among)))]

    def filled(self, base):
        base[...] = self.rng.integers(-9, 10, base.shape)
        return base

    def view(self, shape, dtype):
        """Plain, by columns, backwards, with gaps, repeated, overlapping itself or not aligned."""
        size, base = int(np.prod(shape)), self.bases[dtype]
        at = int(self.rng.integers(SIZE - 4 * size))
        flat = base[at:]
        way = self.rng.integers(8)
        if way == 0:
            return flat[:size].reshape(shape[::-1]).T
        if way == 1:
            return flat[:size].reshape(shape)[::-1, ::-1]
        if way == 2:
            return flat[: 4 * size].reshape([2 * d for d in shape])[::2, ::2]
        if way == 3:
            steps = [int(s) * base.itemsize for s in self.rng.integers(0, 3, len(shape))]
            return np.lib.stride_tricks.as_strided(flat, shape, steps)
        if way == 4:
            return unaligned(flat[:size].reshape(shape))
        return flat[:size].reshape(shape)

    def out(self, shape, dtype):
        return None if self.rng.random() < 0.4 else self.view(shape, dtype)

    def check(self, want, out, call, dtype):
        """What is stored, as numpy stores it; refused: nothing is."""
        base = self.bases[dtype]
        before, refused = base.copy(), None
        if out is not None:
            steps = zip(out.strides, out.shape, strict=True)
            refused = any(s == 0 and d > 1 for s, d in steps)
        if refused:
            with pytest.raises(ValueError, match="out: expected separate elements"):
                call(out)
            np.testing.assert_array_equal(base, before)
            return
        if out is None or not np.may_share_memory(out, base):
            for _ in range(2):
                np.testing.assert_allclose(call(out), want, rtol=1e-4, atol=1e-3)
                np.testing.assert_array_equal(base, before)
            return
        with np.errstate(invalid="ignore"):
            out[...] = want
        stored = base.copy()
        for _ in range(2):
            base[...] = before
            assert call(out) is out
            np.testing.assert_allclose(base, stored, rtol=1e-4, atol=1e-3)
        self.filled(base)

    def product(self):
        dtype, shape = self.pick(DTYPES[:2]), self.pick(SHAPES)
        n = self.pick((1, 2, 3))
        a, b = self.view(shape, dtype), self.view((shape[1], n), dtype)
        bias = self.view((1, n), dtype)[0] if self.rng.random() < 0.5 else None
        want = ref.gemm(a, b) + (0 if bias is None else bias.astype(float))
        if self.rng.random() < 0.3:
            self.constants.append(ops.constant(self.dev, b))
            b = self.constants[-1]
            if len(self.constants) > 2:
                gone = self.constants.pop(0)
                if self.rng.random() < 0.5:
                    gone.close()
        out = self.out((shape[0], n), dtype)
        self.check(want, out, lambda y: ops.gemm(self.dev, a, b, y, bias=bias), dtype)

    def mapped(self):
        dtype, shape = self.pick(DTYPES[:2]), self.pick(SHAPES)
        x = self.view(shape, dtype)
        y = x if self.rng.random() < 0.2 else self.view(self.pick((shape, (1, shape[1]))), dtype)
        a, text = self.pick(NUMBERS), self.pick([*EXPRESSIONS, None])
        a = float(a) if dtype is np.float32 and isinstance(a, np.float64) else a
        a = int(a) if isinstance(a, np.int32) and dtype is np.float32 else a
        function = EXPRESSIONS.get(text, lambda x, y, a: x - y * a)
        want = function(x.astype(float), y.astype(float), float(a))
        out = self.out(shape, dtype)
        if text is None:
            self.check(want, out, lambda z: ops.map(self.dev, TRACED, x, y, a, out=z), dtype)
        else:
            named = {"x": x, "y": y, "a": a}
            self.check(want, out, lambda z: ops.map(self.dev, text, out=z, **named), dtype)

    def reduced(self):
        dtype, shape = self.pick(DTYPES), self.pick(SHAPES)
        x, axis = self.view(shape, dtype), self.pick((None, (0,), 1, (0, 1), -2))
        op, keep = self.pick(("sum", "max", "min")), self.pick((True, False))
        want = getattr(np, op)(x.astype(float), axis, keepdims=keep)
        self.check(want, None, lambda _: ops.reduce(self.dev, x, op, axis, keepdims=keep), dtype)

    def turned(self):
        shape = self.pick(((1, 2, 2, 1), (1, 2, 1, 2), (2, 1, 1, 2)))
        x = self.view((4, 1), np.float32).reshape(shape)
        out = self.out((shape[0], shape[2] * shape[3] * shape[1]), np.float32)
        out = None if out is None or not out.flags.c_contiguous else out.reshape(
            shape[0], shape[2], shape[3], shape[1]
        )  # fmt: skip
        want = x.astype(float).transpose(0, 2, 3, 1)
        self.check(want, out, lambda y: ops.layout(self.dev, x, "NHWC", out=y), np.float32)

    def convolved(self):
        x = self.view((3, 3), np.float32)[None, None]
        w = self.view((2, 2), np.float32)[None, None]
        stride = self.pick(([1, 1], (1, 1), (2, 1), [2, 1]))
        want = ref.conv2d(x, w, stride=tuple(stride))
        out = self.out(want.shape[2:], np.float32)
        out = None if out is None else out[None, None]
        call = lambda y: ops.conv2d(self.dev, x, w, None, y, stride=stride)  # noqa: E731
        self.check(want, out, call, np.float32)

    def step(self):
        self.pick((self.product, self.mapped, self.reduced, self.turned, self.convolved))()


@pytest.mark.unmeasured
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_sequences_of_calls(dev, seed):
    with np.errstate(all="ignore"):
        sequence = Sequence(dev, seed)
        for _ in range(60):
            sequence.step()
