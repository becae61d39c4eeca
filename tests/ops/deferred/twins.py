"""Arrays and what numpy has of them, side by side: random expressions, views and writes.

A twin is exact while only whole numbers of moderate size are computed: it has to be numpy's bit for
bit. Others are compared by the largest value on their way.
"""

from __future__ import annotations

import operator
import random
from dataclasses import dataclass

import numpy as np

import sparkle_drv as sp

DTYPES = ("float32", "float32", "float32", "float64", "int32", "int64", "uint8", "bool", "float16")
SHAPES = ((3, 4), (4,), (3, 1), (1,), (), (2, 3, 4))
ARITHMETIC = (operator.add, operator.sub, operator.mul)
EXACT = (operator.floordiv, operator.mod, operator.lt, operator.le, operator.gt, operator.ge)
EXACT += (operator.eq, operator.ne, operator.and_, operator.or_, operator.xor, np.maximum)
EXACT += (np.minimum,)
UNARY = (operator.neg, operator.abs, np.square, np.floor, operator.invert)
INEXACT = (np.sin, np.cos, np.tanh, np.sqrt, np.exp)
IN_PLACE = (operator.iadd, operator.isub, operator.imul)
REDUCTIONS = ("sum", "max", "min", "mean", "argmax", "argmin", "any", "all", "prod")
MOST = {"f2": 1000.0, "f4": 2.0**22}
"""Larger whole numbers are not exact in these types."""


@dataclass
class Twin:
    array: sp.Array
    host: np.ndarray
    exact: bool = True
    scale: float = 1.0

    def check(self, what: str) -> None:
        """The array is numpy's, in type, shape and elements."""
        got = np.asarray(self.array)
        assert (got.dtype, got.shape) == (self.host.dtype, self.host.shape), what
        if self.exact:
            np.testing.assert_array_equal(got, self.host, what)
        else:
            near = 2e-3 if self.host.dtype == np.float16 else 2e-5
            np.testing.assert_allclose(got, self.host, near, near * self.scale, err_msg=what)


def largest(*given: object) -> float:
    found = 1.0
    for x in given:
        values = np.abs(np.asarray(x, np.float64))
        values = values[np.isfinite(values)]
        found = max(found, float(values.max(initial=0)))
    return found


class Play:
    """One run: `twins` are alive, `log` says what was done."""

    def __init__(self, device: sp.Device, seed: int) -> None:
        self.device, self.draw = device, random.Random(seed)
        self.queue = device.queue()
        self.numbers = np.random.default_rng(seed)
        self.twins: list[Twin] = []
        self.log = [f"seed {seed}"]
        self.expressions = 0

    def fresh(self) -> Twin:
        shape, dtype = self.draw.choice(SHAPES), np.dtype(self.draw.choice(DTYPES))
        host = self.numbers.integers(0 if dtype.kind in "ub" else -9, 10, shape)
        host = np.asarray(host).astype(dtype)
        return self.keep(Twin(self.device.array(host), host))

    def keep(self, twin: Twin) -> Twin:
        self.twins.append(twin)
        if len(self.twins) > 10:
            gone = self.twins.pop(self.draw.randrange(9))
            if self.draw.random() < 0.5:
                gone.check(" / ".join(self.log[-8:]))
        return twin

    def step(self) -> None:
        actions = (self.binary, self.binary, self.binary, self.unary, self.view, self.reduction,
                   self.write, self.in_place, self.fresh, self.read, self.convert)  # fmt: skip
        self.draw.choice(actions)()

    def pick(self) -> Twin:
        return self.draw.choice(self.twins) if self.twins else self.fresh()

    def other(self) -> Twin:
        """A second operand: a twin, a number of Python's or numpy's, a host array."""
        kind = self.draw.randrange(8)
        whole = self.draw.randrange(5)
        if kind < 4:
            return self.pick()
        if kind == 4:
            return Twin(whole, whole)
        if kind == 5:
            return Twin(whole * 0.5, whole * 0.5, exact=False, scale=4.0)
        if kind == 6:
            number = self.draw.choice((np.float32, np.int32, np.float64, np.uint8))(whole)
            return Twin(number, number)
        host = np.arange(4).astype(self.draw.choice(DTYPES))
        return Twin(host, host)

    def both(self, name: str, function, *twins: Twin, exact: bool = True) -> None:
        """`function` of twins makes a twin, or raises what numpy raises."""
        self.log.append(
            f"{name} {[(str(np.result_type(t.host)), np.shape(t.host)) for t in twins]}"
        )
        try:
            with np.errstate(all="ignore"):
                host = np.asarray(function(*(t.host for t in twins)))
        except (TypeError, ValueError, OverflowError) as error:
            try:
                function(*(t.array for t in twins))
            except type(error).__mro__[-4]:
                return
            raise AssertionError(f"{self.log[-1]}: numpy says {error!r}") from None
        self.expressions += 1
        made = function(*(t.array for t in twins))
        assert isinstance(made, sp.Array), self.log[-1]
        assert (made.dtype, made.shape) == (host.dtype, host.shape), (self.log[-1], made)
        scale = largest(host, *(t.host for t in twins), *(t.scale for t in twins if not t.exact))
        exact = exact and all(t.exact for t in twins)
        most = MOST.get(host.dtype.str[1:], 2.0**50)
        if scale <= most:
            self.keep(Twin(made, host, exact, scale))

    def binary(self) -> None:
        x, y = self.pick(), self.other()
        functions = ARITHMETIC + (EXACT if x.exact and y.exact else ())
        function = self.draw.choice(functions)
        pair = (y, x) if self.draw.random() < 0.5 else (x, y)
        self.both(function.__name__, function, *pair)

    def unary(self) -> None:
        x = self.pick()
        if self.draw.random() < 0.4 and x.host.dtype.kind != "c" and largest(x.host) < 50:
            function = self.draw.choice(INEXACT)
            if function is np.sqrt:
                self.both("sqrt", lambda a: np.sqrt(abs(a)), x, exact=False)
            else:
                self.both(function.__name__, function, x, exact=False)
            return
        function = self.draw.choice(UNARY if x.exact else UNARY[:3])
        self.both(function.__name__, function, x)

    def view(self) -> None:
        """A part, or the whole in another shape: where ours is a view, numpy's has to be one."""
        x = self.pick()
        ways = [lambda a: a.T, lambda a: a.reshape(-1), lambda a: a[None], lambda a: a[...]]
        if x.host.ndim:
            ways += [lambda a: a[1:], lambda a: a[::-1], lambda a: a[..., ::2], lambda a: a[-1]]
            ways += [lambda a: a[:0]]
        self.log.append(f"view of {x.host.shape}")
        way = self.draw.choice(ways)
        made, host = way(x.array), np.asarray(way(x.host))
        shared = made.buffer._storage is x.array.buffer._storage
        assert made.shape == host.shape
        if not shared or np.shares_memory(host, x.host):
            self.keep(Twin(made, host if shared else host.copy(), x.exact, x.scale))

    def reduction(self) -> None:
        x = self.pick()
        name = self.draw.choice(REDUCTIONS if x.exact else ("sum", "max", "mean"))
        axes = [None, *range(x.host.ndim)]
        axes += [tuple(range(x.host.ndim))] if not name.startswith("arg") else []
        axis, keep = self.draw.choice(axes), self.draw.random() < 0.5
        self.both(f"{name} {axis}", lambda a: getattr(a, name)(axis=axis, keepdims=keep), x,
                  exact=name not in ("mean", "prod"))  # fmt: skip

    def convert(self) -> None:
        x = self.pick()
        if x.exact and np.isfinite(np.asarray(x.host, float)).all() and largest(x.host) < 100:
            dtype = self.draw.choice(("float32", "float64", "int32", "float16"))
            self.both(f"astype {dtype}", lambda a: a.astype(dtype), x)

    def in_place(self) -> None:
        x, y = self.pick(), self.other()
        function = self.draw.choice(IN_PLACE)
        if x.host.ndim == 0 or largest(x.host) > 1000 or not y.exact:
            return
        self.log.append(f"{function.__name__} {x.host.dtype}{x.host.shape} {np.shape(y.host)}")
        before = x.host.copy()
        try:
            with np.errstate(all="ignore"):
                function(before, y.host)
        except (TypeError, ValueError, OverflowError):
            return
        host, array = x.host, x.array
        with np.errstate(all="ignore"):
            host = function(host, y.host)
        array = function(array, y.array)
        assert array is x.array
        self.scaled(x, y)

    def scaled(self, x: Twin, y: Twin | None = None) -> None:
        """Everything over x's memory has new elements."""
        for t in self.twins:
            if np.shares_memory(t.host, x.host):
                t.exact = t.exact and x.exact and (y is None or y.exact)
                t.scale = largest(t.host, t.scale, x.scale)

    def write(self) -> None:
        """New elements by one of the ways that there are."""
        x = self.pick()
        if not x.host.size or not x.exact:
            return
        values = np.asarray(self.numbers.integers(0, 9, x.host.shape)).astype(x.host.dtype)
        way = self.draw.choice(("write", "queue", "item", "fill", "copy", "part", "map", "numpy"))
        self.log.append(f"{way} to {x.host.dtype}{x.host.shape}")
        device, array = self.device, x.array
        if way == "write":
            device.default_queue.write(array, values)
        elif way == "queue":
            if array.fence is not None:
                array.fence.wait()
            device.wait_idle()
            self.queue.write(array, values).wait()
        elif way == "fill":
            values = np.zeros_like(values)
            device.default_queue.submit(sp.Commands().fill(array, 0, 1)).wait()
        elif way == "copy":
            source = device.array(values)
            device.default_queue.submit(sp.Commands().copy(array, source)).wait()
        elif way == "map" and x.host.dtype in (np.float32, np.int32):
            sp.ops.map(device, "a", device.array(values), out=array)
        elif way == "part" and x.host.ndim:
            array[::-1] = values[::-1]
        elif way == "numpy" and device.info.unified:
            array.numpy()[...] = values
        else:
            array[...] = values
        x.host[...] = values
        self.scaled(x)
        device.wait_idle()

    def read(self) -> None:
        self.pick().check(" / ".join(self.log[-8:]))
