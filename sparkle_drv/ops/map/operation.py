"""map: computes an expression, or a traced function, for every element.

This file binds names to arrays and scalars. Types and shapes follow numpy's rules. The cpu device
then makes one pass over arrays of any strides and types (fused.py). Other devices run a portable
program of one type (program.py) over arrays of one shape.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.arguments.annotations import Exporter, Host, Number
from sparkle_drv.ops.arguments.quoting import listed, short, shown
from sparkle_drv.ops.calls import table
from sparkle_drv.ops.expression import grammar, lower, program, promote, scalars
from sparkle_drv.ops.expression.comparisons import comparable
from sparkle_drv.ops.expression.graph import Graph
from sparkle_drv.ops.expression.trace import Traced, trace
from sparkle_drv.ops.memory import staging
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.ops.shapes import space
from sparkle_drv.ops.tiles import gpu as tiles_gpu

from . import fused

_WANTED = tuple(check.DTYPES.values())
# tag of an element type -> the code that native/hot/launch/scalar.c has for it
_CODES = {"f32": "f", "f64": "d", "i32": "i", "i64": "q"}
_NAMES_END = 0
"""Ends the names in the key of a call, so that a text among the values is not taken for a name."""
Shape = tuple[int, ...]
Named = dict[str, Any]  # name in an expression -> the array or scalar that it stands for
Code = lower.Lowered | program.MapProgram
PIECE = 2**32 - 2**12  # the most elements of one launch, because n is a u32


@overload
def map(  # type: ignore[overload-overlap]  # a call without an array fits two
    dev: Device, expression: str | Graph | Callable[..., Any], /, *args: Host | Number,
    out: Host | None = None, **names: Host | Number,
) -> Host: ...  # fmt: skip
@overload
def map(
    dev: Device, expression: str | Graph | Callable[..., Any], /,
    *args: Array | Constant | Host | Number, out: Array | None = None,
    **names: Array | Constant | Host | Number,
) -> Array: ...  # fmt: skip
@overload
def map(
    dev: Device, expression: str | Graph | Callable[..., Any], /,
    *args: Exporter | Array | Constant | Number, out: Array | Host | Exporter | None = None,
    **names: Exporter | Array | Constant | Number,
) -> Host | Array: ...  # fmt: skip
def map(
    dev: Device,
    expression: str | Graph | Callable[..., Any],
    /,
    *args: Any,
    out: Any = None,
    **names: Any,
) -> Any:
    """Computes `expression` for every element, as in map(dev, "relu(a*x + y)", a=2.0, x=x, y=y).

    Values are bound to names by keyword. Values given by position are bound to the other names in
    the order of their first appearance. A value is an array (at most 8) or a number. Expressions
    have + - * / ** ( ) < <= > >= == !=, the functions relu abs neg exp log sqrt tanh sigmoid sin
    cos floor square, min max pow of two values, and where(condition, a, b). Whole numbers wrap
    around. relu, min and max of NaN are NaN. A text has 65536 characters at most. Instead of a
    text, give a Python function of the arrays (ops.traced): map(dev, lambda x, y: x * y, x, y). In
    a function, comparisons may also be joined by & | ^ ~.

    Arrays are float32, float64, int32, int64, uint8, bool, float16 or bfloat16. The cpu computes in
    all of them. Other devices compute in one of the first three, and the host converts the other
    types. They compute an expression of bool alone with 0 and 1. Shapes broadcast and types are
    promoted as in numpy: Python's numbers take the type of the other operand, numpy's numbers have
    their own type. Any other type in the expression raises TypeError. float16 and bfloat16 are
    computed in float32, and each step is rounded to nearest even.

    With numpy arrays and numbers a call is synchronous and returns a numpy array. If a value is an
    Array, the call is asynchronous and returns an Array with `.fence`. `out` may be an input, or
    overlap an input. On the cpu device no array is copied, whatever its strides. There, a product
    that is added to something is rounded only with the sum, if the CPU can do that. On other
    devices, arrays that are broadcast or converted are copied, and the whole expression must have
    one type.

    Raises ValueError (an invalid expression, with a caret; shapes), TypeError (names without a
    value, values without a name, dtypes, a function that branches on values), AttributeError (a
    function that reads an attribute of a value), OutOfDeviceMemory.

    >>> x = np.array([-1, 0, 1], np.float32)
    >>> sp.ops.map(dev, "relu(a*x + 1)", a=2.0, x=x)
    array([0., 1., 3.], dtype=float32)
    >>> sp.ops.map(dev, "x +", x=x)
    Traceback (most recent call last):
        ...
    ValueError: expression: expected a number, a name or '(', got the end
        x +
           ^
    """
    staging.device(dev)
    lasting = isinstance(expression, (str, Traced, Graph))
    site = sys.intern(expression) if type(expression) is str else expression
    call = site, dev, *names, _NAMES_END, *args, *names.values(), out
    known = table.again(dev, call) if lasting else None
    if known is not None:
        return known
    original = graph_of(expression)
    values = bind(original, args, names)
    graph = comparable(original, values)
    result, stage, code = _compute(dev, graph, values, out)
    lasting = lasting and graph is original
    if not lasting or stage is None or stage.on_device or not isinstance(code, lower.Lowered):
        return result
    left = (name for name in graph.names if name not in names)
    # the names of the objects in `call[2:]`, in their order
    order = *names, _NAMES_END, *left, *names
    return _remember(stage, result, call[0], call[2:], order, graph, code)


def again(dev: Device, graph: Graph, out: Array, *values: Any) -> None:
    """Computes `graph` into `out`; `values` has a value for each name of the graph, in order.

    A value is an Array or a number. The call sets the fence of `out`. Each call with the same
    object `graph` must have Arrays of the same shapes and dtypes. The launch may come
    before those of Arrays that are not computed yet (core/deferred/pending_arrays.py). Raises the
    errors of `map`.
    """
    # Read before the checks, so that a close during or after them makes this epoch stale.
    epoch = dev._backend.epoch()
    queue, calls = dev._default_queue, dev._calls
    for x in (*values, out):
        fence = x._fence if isinstance(x, Array) else None
        if fence is not None and fence.queue is not queue and not fence.done:
            calls = None
    fence = None if calls is None else calls.submit(graph, dev, epoch, *values, out)
    if fence is not None:
        out._fence = fence
        return
    _, stage, code = _compute(dev, graph, dict(zip(graph.names, values, strict=True)), out)
    if stage is not None and code is not None:
        _remember(stage, out, graph, (*values, out), graph.names, graph, code)


def _compute(
    dev: Device, graph: Graph, values: Named, out: Any
) -> tuple[Any, staging.Stage | None, Code | None]:
    """Returns the result of a map, its Stage, and the program that was launched.

    Stage and program are None if no launch was needed, because all values are numbers.
    """
    arrays, numbers = sorted_out(values, dev)
    if not arrays:
        return _fill(dev, graph, numbers, out), None, None
    shape, kinds, layout = outline("map", arrays)
    stage = staging.Stage(dev, arrays, out)
    code, node_values = fused.program(graph, kinds, numbers)
    if not fuses(dev):
        result, portable = _portable(stage, graph, code, node_values, shape, layout)
        return result, stage, portable
    return _fused(stage, code, code.constants(graph, node_values), shape, layout), stage, code


def _remember(
    stage: staging.Stage, result: Any, site: object, passed: tuple[Any, ...],
    names: Sequence[object], graph: Graph, code: Code,
) -> Any:  # fmt: skip
    """Returns `result`, that of a call, and adds the call to the call table if C can repeat it.

    C cannot repeat a call if the host computes a number that the call's program uses. `passed` are
    the values of the call, `out` last. `names` are the names of these values.
    """
    place = {name: i for i, name in enumerate(names)}
    numbers, block, used = [], b"", set(code.inputs)
    if isinstance(code, lower.Lowered):
        filled = [(cell, graph.nodes[node], kind) for cell, node, kind in code.filled]
        used |= {str(node.value) for _, node, _ in filled}
        if any(node.op != "name" or kind not in _CODES for _, node, kind in filled):
            return result
        numbers = [(place[str(node.value)], _CODES[kind], 8 * cell) for cell, node, kind in filled]
        block = code.cells.tobytes()
    # C cannot repeat a call in which a 0-d array counts as a number: its value may change, or the
    # array may be closed.
    written = any(isinstance(passed[at], (np.ndarray, Array, Constant)) for at, _, _ in numbers)
    if written or len(used) != len(graph.names):
        return result
    inputs = [place[name] for name in code.inputs]
    absent = [None] * (space.INPUTS - len(inputs))
    out = len(passed) - 1
    sources = out, *inputs, *absent, None, table.BLOCK if numbers else None
    return table.remember(
        stage, result, site, passed, sources, out=out, inplace=True, block=block, numbers=numbers,
        arrays=isinstance(result, Array),
        brief=table.is_brief(math.prod(result.shape), len(graph.nodes), 1),
    )  # fmt: skip


def fuses(dev: Device) -> bool:
    """Returns whether this device has the kernel fused_map: one pass, any strides and types."""
    return dev.provides("fused_map")


def graph_of(expression: Any) -> Graph:
    """Returns the graph of an expression or of a function."""
    if isinstance(expression, str):
        return grammar.parse(expression)
    if isinstance(expression, Traced):
        return expression.graph
    if isinstance(expression, Graph):
        return expression
    if callable(expression):
        return trace(expression)
    raise TypeError(f"expression: expected a str or a function, got {type(expression).__name__}")


def bind(graph: Graph, args: tuple[Any, ...], names: Named) -> Named:
    """Returns a dict: each name of `graph` -> its value. Raises TypeError for a missing value."""
    for name in names:
        if name not in graph.names:
            known = listed(graph.names) or "none"
            raise TypeError(f"{short(name)}: the expression has no such name; it has {known}")
    left = [name for name in graph.names if name not in names]
    if len(args) > len(left):
        raise TypeError(
            f"map: {len(args)} values by position are given, {len(left)} names are left for them"
        )
    if len(args) < len(left):
        lost = left[len(args)]
        node = next((n for n in graph.nodes if n.op == "name" and n.value == lost), None)
        graph.fail(node, f"{short(lost)}: it stands in the expression and has no value", TypeError)
    given = {**names, **dict(zip(left, args, strict=True))}
    return {name: given[name] for name in graph.names}


def sorted_out(values: Named, dev: Device | None = None) -> tuple[Named, Named]:
    """Returns (arrays, scalars), dicts by name.

    Arrays without dimensions count as scalars if another array has dimensions.
    """
    arrays: Named = {}
    single: Named = {}
    for name, value in values.items():
        if isinstance(value, (numbers.Real, np.bool_)):
            single[name] = value
        elif isinstance(value, numbers.Number):
            raise TypeError(f"{short(name)}: expected a real number, got {shown(value)}")
        else:
            arrays[name] = staging.readable(name, value, dev)
    if any(x.shape for x in arrays.values()):
        for name in [name for name, x in arrays.items() if not x.shape]:
            x = arrays.pop(name)
            check.dtype("map", name, x.dtype, check.TYPES)
            x = x.array(name, dev or x.device) if isinstance(x, Constant) else x
            single[name] = (x if isinstance(x, np.ndarray) else x._host())[()]
    return arrays, single


def outline(op: str, arrays: Named) -> tuple[Shape, dict[str, str], str | None]:
    """Returns (shape of the result, kinds by name, layout) of a map of these arrays."""
    kinds = {name: check.dtype(op, name, x.dtype, check.TYPES) for name, x in arrays.items()}
    layouts = [x.layout for x in arrays.values() if getattr(x, "layout", None)]
    if len(set(layouts)) > 1:
        raise ValueError(f"{op}: expected arrays of one layout, got {' and '.join(layouts)}")
    return common_shape(arrays), kinds, layouts[0] if layouts else None


def common_shape(arrays: Named) -> Shape:
    """Returns the shape to which the arrays' shapes broadcast; raises ValueError if they do not."""
    shapes = [tuple(x.shape) for x in arrays.values()]
    try:
        return space.common(shapes)
    except ValueError:
        given = listed(f"{short(n)} {shape}" for n, shape in zip(arrays, shapes, strict=True))
        raise ValueError(f"map: expected shapes that broadcast, got {given}") from None


def _fused(
    stage: staging.Stage, code: lower.Lowered, cells: Any, shape: Shape, layout: str | None
) -> Any:
    dtype = promote.dtype_of(code.result)
    inputs = fused.placed(stage, [stage.inputs[name] for name in code.inputs])
    target = stage.target(
        shape, dtype, inplace=True, layout=layout, strided=True, order=_memory_order(inputs, shape)
    )
    place = fused.place(target.pointer, inputs, shape)
    if len(place.shape) > space.DIMS:  # more dimensions than the kernel takes
        inputs = fused.whole(stage, inputs, shape, None)
        target = stage.target(shape, dtype, layout=layout)
        place = fused.place(target.pointer, inputs, shape)
    if math.prod(shape):
        fused.launch(stage, code, cells, place, target.pointer, inputs, code.result)
    return stage.finish(target)


def convert(dev: Device, x: Any, kind: str, out: Any = None) -> Any:
    """Returns an array converted to another type, as numpy converts.

    Whole numbers wrap; float16 and bfloat16 are rounded to nearest even. A numpy array gives a
    numpy array. For devices without fused maps the host converts.
    """
    stage = staging.Stage(dev, {"x": x}, out)
    (x,) = stage.inputs.values()
    dtype = promote.dtype_of(kind)
    if fuses(dev) and kind in check.TYPES:
        code = fused.conversion(_ONE, check.tag_of(np.dtype(x.dtype)), kind)
        return _fused(stage, code, code.cells, tuple(x.shape), getattr(x, "layout", None))
    host = x._host() if isinstance(x, Array) else x
    with np.errstate(all="ignore"):
        if host.dtype == np.float64 and kind == "u8":
            host = host.astype(np.int64)  # numpy's float64 to u8 is undefined out of range
        return stage.copy(host.astype(dtype), getattr(x, "layout", None))


def through(dev: Device, op: str, x: Any, kind: str, call: Callable[[Any], Any]) -> Any:
    """Converts `x` to type `kind` and returns the result of `call` with it.

    If the result is an Array, its `explain()` says that `x` was converted.
    """
    made = call(convert(dev, x, kind))
    if isinstance(made, Array):
        made._origin = _converted(op, promote.dtype_of(kind), dev, [str(x.dtype)])
    return made


def _converted(op: str, dtype: np.dtype[Any], dev: Device, others: list[str]) -> str:
    by = "its maps" if fuses(dev) else "the host"
    return f"{op} of {dtype} on {dev.uri}; {by} converted {' and '.join(others)}"


_ONE = grammar.parse("x")


def _memory_order(inputs: list[Any], shape: Shape) -> list[int]:
    """Returns the order of dimensions in the memory of a result, outermost first.

    It is the common order of all inputs that have this shape, as in numpy. Returns [] if that order
    is row-major, or the inputs have different orders.
    """
    full = [x for x in inputs if tuple(x.shape) == shape and isinstance(x, np.ndarray)]
    if not full or any(x.flags.c_contiguous for x in full) or 0 in shape:
        return []
    orders = [space.order_of(x.strides) for x in full]
    common = all(order == orders[0] for order in orders) and orders[0] != sorted(orders[0])
    return orders[0] if common else []


def _portable(
    stage: staging.Stage, graph: Graph, code: lower.Lowered, node_values: dict[int, Any],
    shape: Shape, layout: str | None,
) -> tuple[Any, program.MapProgram]:  # fmt: skip
    tag, compiled, fit = _program(stage.dev, graph, code, node_values)
    dtype, result = promote.dtype_of(tag), promote.dtype_of(code.result)
    constants = [promote.fitted(graph, i, node_values[i], fit) for i in compiled.constants]
    operands, out = [stage.inputs[name] for name in compiled.inputs], stage.returned
    if dtype != result:
        if out is not None:
            staging.check_out(stage.out, shape, result, layout)
        stage = staging.Stage(stage.dev, stage.inputs)
    target = stage.target(shape, dtype, inplace=True, layout=layout)
    inputs = fused.whole(stage, operands, shape, dtype)
    run(stage, compiled, tag, target.pointer, inputs, constants)
    final = stage.finish(target)
    if dtype != result:
        final = convert(stage.dev, final, code.result, out)
    others = {str(x.dtype) for x in operands if x.dtype != dtype} | {str(result)} - {str(dtype)}
    if isinstance(final, Array) and others:
        final._origin = _converted("map", dtype, stage.dev, sorted(others))
    return final, compiled


def check_on(dev: Device, graph: Graph, code: lower.Lowered, numbers: dict[int, Any]) -> None:
    """Raises the TypeError or ValueError of `map` if the device cannot run this program.

    `numbers` has the scalars by node.
    """
    if not fuses(dev):
        _program(dev, graph, code, numbers)


def _program(
    dev: Device, graph: Graph, code: lower.Lowered, node_values: dict[int, Any]
) -> tuple[str, program.MapProgram, str]:
    """Returns (type in which the map computes, portable program, type of its constants)."""
    if len(code.types) > 1:
        graph.fail(
            None,
            f"it computes in {' and '.join(sorted(code.types))}, but {dev.uri} computes in one "
            "type throughout",
            check.NotThere,
        )
    (tag,) = code.types
    uniform = tuple(i in node_values for i in range(len(graph.nodes)))
    compiled = program.compile_graph(graph, uniform, tag)
    if tag == "bool":
        tag = next((t for t in _WANTED if dev.provides(f"map_{t}")), tag)
    staging.check_there(dev, "map", tag, _WANTED)
    fits = {*code.cell_types} or {tag}
    if len(fits) > 1:
        what = f"it has numbers of {' and '.join(sorted(fits))}"
        graph.fail(None, f"{what}, but {dev.uri} takes numbers of one type", check.NotThere)
    (fit,) = fits
    return tag, compiled, fit


def _fill(dev: Device, graph: Graph, named: Named, out: Any) -> Any:
    """Fills `out` with the one value of an expression without arrays, and returns `out`."""
    if out is None:
        raise TypeError("map: expected at least one array, or out=")
    like = staging.operand("out", out, dev)
    tag = check.dtype("map", "out", like.dtype, check.TYPES)
    last = len(graph.nodes) - 1
    value = scalars.values(graph, named)[last]
    kind = promote.kind_of(value)
    if kind not in (*promote.WEAK, tag):
        raise TypeError(
            f"out: expected {promote.dtype_name(kind)}, the result's dtype, got {like.dtype}"
        )
    value = promote.fitted(graph, last, value, tag)
    return staging.Stage(dev, {}, out).copy(np.full(like.shape, value, like.dtype))


def run(
    stage: staging.Stage, code: program.MapProgram, tag: str, y: Any,
    inputs: list[Any], constants: list[Any],
) -> None:  # fmt: skip
    """Launches `code`, in pieces if the number of elements does not fit into a u32."""
    total = math.prod(y.shape)
    if not total:
        return
    kernel = _kernel(stage.dev, code, tag, total)
    absent = [None] * (program.INPUTS - len(inputs))
    words = fused.words(stage, code)
    consts = stage.constant(np.array(constants, y.dtype)) if constants else None
    for start in range(0, total, PIECE):
        n = min(PIECE, total - start)
        pointers = [x if n == total else _piece(x, start, n) for x in (y, *inputs)]
        stage.launch(kernel, *pointers, *absent, words, consts, code.words.size, len(constants), n)


def _kernel(dev: Device, code: program.MapProgram, tag: str, n: int) -> Any:
    """Returns the kernel that interprets programs, or a kernel made for this program.

    The tile model chooses between them.
    """
    plan = tiles_gpu.map(dev.info, tuple(code.words.tolist()), n)
    if plan is None:
        return staging.kernel(dev, f"map_{tag}")
    return staging.kept(
        dev, "ops expressions", (tag, plan), fused.PROGRAMS,
        lambda: dev.kernel(f"map_{tag}", plan=plan),
    )  # fmt: skip


def _piece(x: Any, start: int, n: int) -> Any:
    if isinstance(x, Array):
        size = x.dtype.itemsize
        return x.buffer.view(start * size, n * size)
    return x.reshape(-1)[start : start + n]
