"""map: one expression over every element, in f32, f64 or i32.

Binds names to arrays and scalars, brings arrays to one shape, and launches map_*. The language is
expr.py's, the program program.py's.
"""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.types import TilePlan

from . import check, program, staging, tiles
from .expr import parse

_WANTED = ("f32", "f64", "i32")
PIECE = 2**32 - 2**12  # elements of one launch: n is a u32
PROGRAMS = 256  # kept on a device


def map(dev: Device, expression: str, /, *args: Any, out: Any = None, **names: Any) -> Any:
    """`expression` for every element, as in map(dev, "relu(a*x + y)", a=2.0, x=x, y=y).

    Values go to names by keyword, or by position in the order in which the names that are left
    first appear. Each is an array (all float32, float64 or int32, at most 8, shapes as numpy
    broadcasts them) or a number. There are + - * / ** ( ), relu abs neg exp log sqrt tanh sigmoid
    sin cos floor square, and min max pow of two; whole numbers have + - * neg abs relu min max
    square only and wrap around. NaN wins in relu, min and max.

    numpy arrays and numbers in: synchronous, a numpy array out. Any Array among them: asynchronous,
    an Array out with `.fence`; one that has to be broadcast is read back for that. `out` may be an
    input.

    Raises ValueError (the expression, with a caret; shapes) and TypeError (names without a value,
    values without a name, dtypes, an operation that int32 has not).
    """
    staging.device(dev)
    if not isinstance(expression, str):
        raise TypeError(f"expression: a str is wanted, got {type(expression).__name__}")
    values = _bind(parse(expression).names, args, names)
    arrays: dict[str, Any] = {
        name: staging.operand(name, value)
        for name, value in values.items()
        if not isinstance(value, (numbers.Number, np.bool_))
    }
    tag, dtype = _dtype(arrays, out)
    layouts = [x.layout for x in arrays.values() if isinstance(x, Array) and x.layout]
    if len(set(layouts)) > 1:
        raise ValueError(f"map: arrays of one layout are wanted, got {' and '.join(layouts)}")
    shape = _shape(arrays, out)
    stage = staging.Stage(dev, arrays, out)
    for name, x in arrays.items():
        if tuple(x.shape) == shape:
            continue
        host = x.numpy() if isinstance(x, Array) else x
        if host.ndim:
            arrays[name] = np.broadcast_to(host, shape)
        else:
            values[name] = host[()]
    inputs = [name for name in arrays if tuple(arrays[name].shape) == shape]
    code = program.compile_map(expression, frozenset(values) - frozenset(inputs), tag)
    constants = [_scalar(c, values[c], tag) if isinstance(c, str) else c for c in code.constants]
    target = stage.target(shape, dtype, inplace=True, layout=layouts[0] if layouts else None)
    pointers = [stage.pointer(arrays[name]) for name in code.inputs]
    run(stage, code, tag, target.pointer, pointers, constants)
    return stage.finish(target)


def run(
    stage: staging.Stage, code: program.Program, tag: str, y: Any, inputs: list[Any],
    constants: list[Any],
) -> None:  # fmt: skip
    """Launches `code`, in pieces when there are more elements than a u32 counts."""
    total = math.prod(y.shape)
    if not total:
        return
    kernel = _kernel(stage.dev, code, tag, total)
    absent = [None] * (program.limits().inputs - len(inputs))
    words = _words(stage, code)
    consts = stage.constant(np.array(constants, y.dtype)) if constants else None
    for start in range(0, total, PIECE):
        n = min(PIECE, total - start)
        pointers = [y, *inputs]
        if n != total:
            pointers = [_piece(x, start, n) for x in pointers]
        stage.launch(kernel, *pointers, *absent, words, consts, code.words.size, len(constants), n)


def _kernel(dev: Device, code: program.Program, tag: str, n: int) -> Kernel:
    """The kernel that interprets programs, or, where the tile model says so, one made for this."""
    plan = tiles.map(dev.info, tuple(code.words.tolist()), n)
    if plan is None:
        return staging.kernel(dev, f"map_{tag}")
    there: dict[tuple[str, TilePlan], Kernel] = dev.kept.setdefault("ops expressions", {})
    found = there.get((tag, plan))
    if found is None or found.closed:
        if len(there) >= PROGRAMS:
            there.clear()  # what is in flight is kept until its fence
        found = there[tag, plan] = dev.kernel(f"map_{tag}", plan=plan)
    return found


def _words(stage: staging.Stage, code: program.Program) -> Array:
    """The program on the device, copied there once."""
    there: dict[program.Program, Array] = stage.dev.kept.setdefault("ops programs", {})
    found = there.get(code)
    if found is None or found.closed:
        if len(there) >= PROGRAMS:
            there.clear()  # launches in flight keep what they use
        found = there[code] = stage.moved(code.words)
    return found


def _piece(x: Any, start: int, n: int) -> Any:
    if isinstance(x, Array):
        size = x.dtype.itemsize
        return x.buffer.view(start * size, n * size)
    return x.reshape(-1)[start : start + n]


def _bind(wanted: tuple[str, ...], args: tuple[Any, ...], names: dict[str, Any]) -> dict[str, Any]:
    """Every name with its value."""
    unknown = [name for name in names if name not in wanted]
    if unknown:
        raise TypeError(
            f"{unknown[0]}: the expression has no such name; it has {', '.join(wanted) or 'none'}"
        )
    left = [name for name in wanted if name not in names]
    if len(args) > len(left):
        raise TypeError(
            f"map: {len(args)} values by position are given, {len(left)} names are left for them"
        )
    if len(args) < len(left):
        raise TypeError(f"{left[len(args)]}: it stands in the expression and has no value")
    given = {**names, **dict(zip(left, args, strict=True))}
    return {name: given[name] for name in wanted}


def _dtype(arrays: dict[str, Any], out: Any) -> tuple[str, Any]:
    """The one dtype of all arrays; that of `out` when there are none."""
    if not arrays:
        if out is None:
            raise TypeError("map: at least one array is wanted, or out=")
        dtype = staging.operand("out", out).dtype
        return check.dtype("map", "out", dtype, _WANTED), dtype
    first = next(iter(arrays))
    dtype = arrays[first].dtype
    tag = check.dtype("map", first, dtype, _WANTED)
    for name, x in arrays.items():
        check.same_dtype(name, x.dtype, first, dtype)
    return tag, dtype


def _shape(arrays: dict[str, Any], out: Any) -> tuple[int, ...]:
    if not arrays:
        return tuple(out.shape)
    shapes = [tuple(x.shape) for x in arrays.values()]
    if len(set(shapes)) == 1:
        return shapes[0]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        given = ", ".join(f"{name} {shape}" for name, shape in zip(arrays, shapes, strict=True))
        raise ValueError(f"map: shapes that broadcast are wanted, got {given}") from None


def _scalar(name: str, value: Any, tag: str) -> int | float:
    """A number as the arrays' dtype holds it."""
    if not isinstance(value, (numbers.Real, np.bool_)):
        raise TypeError(f"{name}: a real number is wanted, got {value!r}")
    if tag == "i32":
        try:
            whole = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            raise TypeError(
                f"{name}: a whole number is wanted with int32 arrays, got {value!r}"
            ) from None
        if not -(2**31) <= whole < 2**31:
            raise ValueError(f"{name}: {whole} does not fit int32")
        return whole
    limit = float(np.finfo(np.float32 if tag == "f32" else np.float64).max)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
        value = 0.0
    if (math.isfinite(number) and abs(number) > limit) or (value == 0 and number):
        raise ValueError(f"{name}: it does not fit {tag}")
    return number
