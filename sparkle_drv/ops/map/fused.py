"""Maps on the cpu device: any types, shapes and strides in one pass of the kernel fused_map.

`program` compiles an expression for the types of its values, and `launch` launches the program once
over all elements. staging.py moves the operands, as for every operation. map and reduce call this.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.ops.expression import lower, promote, scalars, typed
from sparkle_drv.ops.expression.graph import Graph
from sparkle_drv.ops.expression.program import check_inputs
from sparkle_drv.ops.memory import staging
from sparkle_drv.ops.shapes import space

PROGRAMS = 256  # the most programs that a device keeps


@lru_cache(maxsize=1024)
def lowered(
    graph: Graph, arrays: tuple[tuple[str, str], ...], numbers: tuple[tuple[int, str], ...],
    wide: bool,
) -> lower.Lowered:  # fmt: skip
    """Returns the program of `graph`.

    `arrays` has (name, kind) of each array, `numbers` has (node, kind) of each scalar.
    """
    return lower.lower(graph, typed.typed(graph, dict(arrays), dict(numbers), wide=wide))


@lru_cache(maxsize=64)
def conversion(graph: Graph, before: str, after: str) -> lower.Lowered:
    """Returns the program that converts the one array of `graph` to another element type.

    `before` and `after` are the tags of the old and the new type.
    """
    made = typed.ProgramTyper(graph)
    made.converted(made.add("input", before, (), graph.names[0]), after)
    return lower.lower(graph, made.values)


def program(
    graph: Graph, arrays: dict[str, str], values: dict[str, Any], *, wide: bool = False
) -> tuple[lower.Lowered, dict[int, Any]]:
    """Returns the program of `graph`, and a dict: node -> value of a scalar.

    `arrays` has the kinds of arrays by name, `values` the scalars by name. With `wide`
    the result keeps the type that it is computed in (float32 for float16), for a later reduction.
    Raises ValueError or TypeError if the graph has no program.
    """
    scalar_values = scalars.values(graph, values)
    kinds = tuple((i, promote.kind_of(value)) for i, value in scalar_values.items())
    code = lowered(graph, tuple(sorted(arrays.items())), kinds, wide)
    check_inputs(graph, code.inputs)
    return code, scalar_values


def placed(stage: staging.Stage, inputs: list[Any]) -> list[Any]:
    """Returns `inputs` in memory that the kernel can read.

    If host and device share memory, host arrays are not copied.
    """
    return [x if stage.in_place or isinstance(x, Array) else stage.moved(x) for x in inputs]


def place(y: Any, inputs: list[Any], shape: tuple[int, ...]) -> space.Space:
    """Returns the Space of a program over `shape`, to which the inputs are broadcast."""
    strides = [space.broadcast(x, shape) for x in (y, *inputs)]
    return space.Space(shape, strides).ordered(space.order_of(strides[0])).joined()


def whole(stage: staging.Stage, inputs: list[Any], shape: tuple[int, ...], dtype: Any) -> list[Any]:
    """Returns `inputs` as row-major arrays of `shape` and `dtype`.

    If `dtype` is None, each input keeps its dtype.
    """
    pointers = []
    for x in inputs:
        if tuple(x.shape) != shape or x.dtype != (dtype or x.dtype):
            host = x._host() if isinstance(x, Array) else x
            x = np.broadcast_to(host.astype(dtype or x.dtype, copy=False), shape)
        pointers.append(stage.pointer(x))
    return pointers


def launch(
    stage: staging.Stage, code: lower.Lowered, cells: Any, place: space.Space,
    y: Any, inputs: list[Any], kind: str, *, fold: str = "", cube: Any = (0, 0, 0),
) -> None:  # fmt: skip
    """Launches the program once over `place`, which has the strides of y and of the inputs.

    y and the inputs are already in the device's memory. `kind` is the element type of y.
    `fold` is the name of a reduction, "" for none. `cube` is the shape (outer, n, inner) of the
    reduction's input: its middle axis of n values is reduced.
    """
    dev = stage.dev
    spans = ((x, 0) if isinstance(x, Array) else staging.span(dev, x) for x in (y, *inputs))
    pointers, offsets = zip(*spans, strict=True)
    sizes = [x.nbytes for x in pointers]
    stream = not fold and sum(sizes) > last_cache(dev)
    types = (kind, *code.input_types)
    geometry = place.geometry(types, offsets, fold=fold, cube=cube, stream=stream)
    absent = space.INPUTS - len(inputs)
    stage.launch(
        staging.kernel(dev, "fused_map"),
        *pointers, *[None] * absent,
        words(stage, code), stage.constant(cells) if cells.size else None,
        stage.constant(geometry),
        *sizes, *[0] * absent,
        code.words.size, cells.size, geometry.size,
    )  # fmt: skip


def words(stage: staging.Stage, code: Any) -> Any:
    """Returns the device's copy of `code`, a program for the kernel fused_map as u32 words.

    The first launch of a program makes the copy. A device keeps PROGRAMS such copies at most.
    """
    return staging.kept(stage.dev, "ops programs", code, PROGRAMS, lambda: stage.moved(code.words))


def last_cache(dev: Device) -> int:
    """Returns the bytes of the device's largest cache; 32 MiB if its caches are unknown."""
    return max((c.nbytes for c in dev.info.caches), default=0) or 32 << 20
