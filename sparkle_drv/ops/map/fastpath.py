"""Maps that were called before: `find` runs one without the checks that it has passed already.

A call is known by its expression, its names and how many values come by position. The C code in
native/hot/calls/map.c then looks whether arrays and numbers have the types that the first call had,
and whether the arrays are plain and of one shape; if not, it does nothing and map goes its whole
way. Called by map.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from sparkle_drv._hot import MapCall, map_call
from sparkle_drv.core import numpy_layout
from sparkle_drv.core.device import Device
from sparkle_drv.ops.expression import lower
from sparkle_drv.ops.expression.graph import Graph
from sparkle_drv.ops.expression.typed import TYPES
from sparkle_drv.ops.memory import recycled, staging

from . import fused

MOST_KEPT = 1024
NOTHING = object()
"""What `find` returns when the call has to be made the whole way."""
_Key = tuple[Any, ...]


def key(expression: Any, args: tuple[Any, ...], names: dict[str, Any]) -> _Key:
    """What a call is known by."""
    return (expression, len(args), *names)


def find(
    dev: Device, expression: Any, args: tuple[Any, ...], names: dict[str, Any], out: Any
) -> Any:
    """The result, or NOTHING."""
    calls: dict[_Key, MapCall] | None = dev.kept.get("ops map calls")
    if calls is None:
        return NOTHING
    call = calls.get((expression, len(args), *names))
    if call is None:
        return NOTHING
    found = call.run(args, names, out)
    return NOTHING if found is None else found


def keep(
    stage: staging.Stage, expression: Any, args: tuple[Any, ...], names: dict[str, Any],
    graph: Graph, code: lower.Lowered, values: dict[str, Any],
) -> None:  # fmt: skip
    """Remembers a call that has just been made with numpy arrays, if it is a plain one."""
    dev = stage.dev
    if stage.on_device or not stage.unified or not numpy_layout.known() or len(code.filled) > 48:
        return
    if any(graph.nodes[node].op != "name" for _, node, _ in code.filled):
        return  # a scalar that is computed from others
    used = {*code.inputs, *(str(graph.nodes[node].value) for _, node, _ in code.filled)}
    if len(used) != len(graph.names):  # a name that the result does not need, or a 0-d array
        return
    left = [name for name in graph.names if name not in names]
    order = tuple(names)
    source = {name: i for i, name in enumerate(left)}
    source |= {name: len(left) + i for i, name in enumerate(order)}
    places: list[int] = []
    takes: list[Any] = []
    for slot, (name, kind) in enumerate(zip(code.inputs, code.input_types, strict=True)):
        places += [0, source[name], slot, TYPES[kind]]
        takes.append(fused.DTYPES[kind])
    for cell, node, kind in code.filled:
        value = values[str(graph.nodes[node].value)]
        if isinstance(value, np.ndarray):
            return
        places += [1, source[str(graph.nodes[node].value)], cell, TYPES[kind]]
        takes.append(type(value))
    recycled.begin()
    kernel = staging.kernel(dev, "fused_map")
    queue = dev.default_queue
    head = kernel._head((), None, None, 0)
    plan = struct.pack(
        f"=6IQ{len(places)}I", len(args), len(order), len(takes), len(code.inputs),
        code.cells.size, TYPES[code.result], fused.last_cache(dev), *places,
    )  # fmt: skip
    kept = (
        queue, kernel, fused.words(stage, code), head, code.cells.tobytes(), order, tuple(takes),
        fused.DTYPES[code.result], np.empty,
    )  # fmt: skip
    calls: dict[_Key, MapCall] = dev.kept.setdefault("ops map calls", {})
    if len(calls) >= MOST_KEPT:
        calls.clear()
    calls[key(expression, args, names)] = map_call(plan, kept)
