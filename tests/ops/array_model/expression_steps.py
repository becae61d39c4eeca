"""Steps that make expressions, views, copies and results of operations. None of them writes."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from memory_model import SUM_LIMIT, Skipped, expect
from model_actor import Actor

import sparkle_drv as sp

ARITHMETIC = (operator.add, operator.sub, operator.mul, np.maximum, np.minimum)
COMPARISONS = (operator.lt, operator.ge, operator.eq, operator.ne)
LOGIC = (operator.and_, operator.or_, operator.xor)
ON_HOST = (operator.floordiv, operator.mod)
UNARY = (operator.neg, operator.abs, np.square, np.floor, operator.invert)
REDUCTIONS = ("sum", "sum", "max", "min", "argmax", "any", "all")


def _is_truth(x: Any) -> bool:
    return np.asarray(getattr(x, "expected", x)).dtype == bool


def _name(x: Any) -> str:
    return getattr(x, "name", repr(x))


def _both(x: Any) -> tuple[Any, Any]:
    """Returns an operand for the package and for numpy."""
    return getattr(x, "array", x), getattr(x, "expected", x)


def _is_operand(x: Any) -> bool:
    """Whether kernels of every device take this array; some cannot bind a view at any offset."""
    return bool(x.dtype == np.float32 and x.offset % 256 == 0)


def make(actor: Actor) -> None:
    actor.make()


def unary(actor: Actor) -> None:
    x, function = actor.pick(), actor.draw.choice(UNARY)
    with actor.using(x):
        expected = expect(function, x.expected)
        new = actor.keep(function(x.array), expected)
        actor.say(f"{new.name} = {function.__name__}({x.name})")


def binary(actor: Actor) -> None:
    draw, x = actor.draw, actor.pick()
    scalar = draw.choice((draw.randint(0, 5), draw.choice((0.5, 2.0, -1.0)), np.float32(3)))
    y = actor.pick() if draw.random() < 0.5 else scalar
    truths = _is_truth(x) and _is_truth(y)
    functions = LOGIC if truths else (*ARITHMETIC * 3, *COMPARISONS, *ON_HOST, operator.truediv)
    function, swap = draw.choice(functions), draw.random() < 0.3
    with actor.using(x, y):
        pair, plain = zip(*map(_both, (y, x) if swap else (x, y)), strict=True)
        expected = expect(function, *plain)
        new = actor.keep(function(*pair), expected)
        actor.say(f"{new.name} = {function.__name__}({', '.join(map(_name, (x, y)))}), {swap=}")


def nested(actor: Actor) -> None:
    """One expression of several steps."""
    x, y = actor.pick(), actor.pick()
    k = actor.draw.randint(1, 3)

    def function(a: Any, b: Any) -> Any:
        return np.maximum(a * k - b, -b) + k

    if _is_truth(x) or _is_truth(y):
        raise Skipped
    with actor.using(x, y):
        expected = expect(function, x.expected, y.expected)
        new = actor.keep(function(x.array, y.array), expected)
        actor.say(f"{new.name} = maximum({x.name} * {k} - {y.name}, -{y.name}) + {k}")


def chain(actor: Actor) -> None:
    """An expression that takes a device longer than most."""
    x = actor.pick(lambda x: x.dtype == np.float32)
    steps = actor.draw.randint(8, 20)
    with actor.using(x):
        array, expected = x.array, x.expected
        for _ in range(steps):
            array, expected = -abs(array) + 1, -abs(expected) + 1
        new = actor.keep(array, expect(np.array, expected))
        actor.say(f"{new.name} = {x.name}; {steps} times {new.name} = -abs({new.name}) + 1")


def loop(actor: Actor) -> None:
    """A new expression, updated again and again while it waits."""
    x, times = actor.pick(lambda x: x.dtype == np.float32), actor.draw.randint(2, 6)
    with actor.using(x):
        expected = expect(operator.add, x.expected, times)
        array = x.array + 0
        for _ in range(times):
            array += 1
        new = actor.keep(array, expected)
        actor.say(f"{new.name} = {x.name} + 0; {times} times {new.name} += 1")


def fold(actor: Actor) -> None:
    """A reduction of an expression, which a device may compute in one pass."""
    x = actor.pick(lambda x: x.dtype == np.float32 and x.expected.ndim == 2)
    axis = actor.draw.choice((0, 1, None))
    with actor.using(x):
        _sum_fits(x.expected * x.expected)
        expected = expect(lambda a: (a * a).sum(axis=axis), x.expected)
        new = actor.keep((x.array * x.array).sum(axis=axis), expected, reads=[x])
        actor.say(f"{new.name} = ({x.name} * {x.name}).sum({axis})")


def reduction(actor: Actor) -> None:
    x, name = actor.pick(), actor.draw.choice(REDUCTIONS)
    axis = actor.draw.choice((None, *range(x.expected.ndim)))
    with actor.using(x):
        _sum_fits(x.expected)
        expected = expect(lambda a: getattr(a, name)(axis=axis), x.expected)
        new = actor.keep(getattr(x.array, name)(axis=axis), expected, reads=[x])
        actor.say(f"{new.name} = {x.name}.{name}({axis})")


def matmul(actor: Actor) -> None:
    def suits(x: Any) -> bool:
        return _is_operand(x) and x.expected.ndim == 2

    x, y = actor.pick(suits), actor.pick(suits)
    if x.expected.shape[1] != y.expected.shape[0] or x.expected.size > 2**14:
        raise Skipped
    way = actor.draw.choice(("@", "gemm", "ctx.gemm"))
    with actor.using(x, y):
        expected = expect(operator.matmul, x.expected, y.expected)
        if actor.context is not None:
            array = x.array @ y.array if way == "@" else actor.context.gemm(x.array, y.array)
        elif way == "@":
            array = x.array @ y.array
        else:
            array = sp.ops.gemm(actor.device, x.array, y.array)
        new = actor.keep(array, expected, reads=[x, y])
        actor.say(f"{new.name} = {x.name} @ {y.name} by {way}")


def map_or_reduce(actor: Actor) -> None:
    """Operations of sp.ops without `out`."""
    x = actor.pick(_is_operand)
    maps = actor.draw.random() < 0.5 or not x.expected.ndim
    with actor.using(x):
        _sum_fits(x.expected)
        ops, first = (sp.ops, (actor.device,)) if actor.context is None else (actor.context, ())
        if maps:
            expected = expect(lambda a: a * 2 + 1, x.expected)
            array = ops.map(*first, "a * 2 + 1", a=x.array)
        else:
            expected = expect(lambda a: a.sum(axis=0), x.expected)
            array = ops.reduce(*first, x.array, "sum", axis=0)
        new = actor.keep(array, expected, reads=[x])
        actor.say(f"{new.name} = ops.{'map: 2 a + 1' if maps else 'reduce: axis 0'} of {x.name}")


def conv2d(actor: Actor) -> None:
    """Compared at once: its algorithms may round."""
    x = actor.pick(lambda x: _is_operand(x) and x.expected.ndim == 2)
    if x.expected.size > 2**14 or min(x.expected.shape) < 2 or actor.context is not None:
        raise Skipped
    weights = np.array([[1, 2], [0, -1]], np.float32)
    with actor.using(x):
        actor.say(f"conv2d of {x.name}")
        a = x.expected
        expected = a[:-1, :-1] + 2 * a[:-1, 1:] - a[1:, 1:]
        image = x.array.reshape(1, 1, *a.shape)
        result = sp.ops.conv2d(actor.device, image, weights.reshape(1, 1, 2, 2))
        if not np.allclose(result.numpy().reshape(expected.shape), expected, atol=1e-2):
            raise AssertionError(f"conv2d of {x.name}: expected other elements")


def _key(actor: Actor, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Returns an index of ints and slices; about half of them are contiguous."""
    key: list[Any] = []
    for n in shape[: actor.draw.randint(0, len(shape))]:
        low, high = sorted((actor.draw.randrange(n), actor.draw.randrange(n)))
        key.append(actor.draw.choice((low, slice(low, high + 1), slice(low, high + 1, 2))))
    return (*key, ...)


def view(actor: Actor) -> None:
    """A slice: contiguous ones share memory, others are copies. A Context always copies."""
    x = actor.pick()
    with actor.using(x):
        key = _key(actor, x.expected.shape)
        part, array = x.expected[key], x.array[key]
        if part.flags.c_contiguous and actor.context is None:
            new = actor.keep(array, part, x.memory)
        else:
            new = actor.keep(array, np.array(part, order="C"), reads=[x])
        actor.say(f"{new.name} = {x.name}[{key}]")


def reshape(actor: Actor) -> None:
    x = actor.pick()
    with actor.using(x):
        flat = x.expected.reshape(-1)
        if actor.context is None:
            new = actor.keep(x.array.reshape(-1), flat, x.memory)
        else:
            new = actor.keep(x.array.reshape(-1), flat.copy())
        actor.say(f"{new.name} = {x.name}.reshape(-1)")


def transpose(actor: Actor) -> None:
    x = actor.pick(lambda x: sum(n > 1 for n in x.expected.shape) > 1)
    with actor.using(x):
        new = actor.keep(x.array.T, np.array(x.expected.T, order="C"), reads=[x])
        actor.say(f"{new.name} = {x.name}.T")


def astype(actor: Actor) -> None:
    x, dtype = actor.pick(), actor.draw.choice(("f4", "f8", "i4", "i8"))
    with actor.using(x):
        expected = expect(lambda a: a.astype(dtype), x.expected)
        new = actor.keep(x.array.astype(dtype), expected, reads=[x])
        actor.say(f"{new.name} = {x.name}.astype({dtype})")


def _sum_fits(values: np.ndarray[Any, Any]) -> None:
    """Raises Skipped if a sum might not be exact."""
    if np.abs(values.astype(np.float64)).sum() > SUM_LIMIT:
        raise Skipped


MAKING = (make, unary, binary, binary, nested, nested, chain, loop, fold, reduction, matmul)
MAKING += (map_or_reduce, conv2d, view, view, reshape, transpose, astype)
OF_CONTEXTS = tuple(step for step in MAKING if step is not conv2d)
