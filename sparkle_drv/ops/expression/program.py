"""Compiles a graph to the program that the map_* kernels run (native/include/sp_map.h).

Each name gets an input slot or a constant slot. A graph raises an error if the kernel cannot run
it. The reason is an operation that the type lacks, too many inputs, or too deep a stack. This file
uses no device and no arrays. map calls it; ref reads programs back with `decode`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkle_drv._native import lib
from sparkle_drv.ops.arguments.check import NotThere, TooLong

from .elementwise import ARITY
from .grammar import parse
from .graph import OF_TRUTHS, Graph, steps
from .promote import REAL

# The operations of the i32 kernel. It has no quotients and powers, because those of whole numbers
# may not be whole.
I32_OPS = frozenset(ARITY) - REAL - {"div", "pow", "floor"}
POWERS: dict[object, str] = {2: "square", 0.5: "sqrt"}
"""Written exponents, and the operations by which numpy computes these powers."""

# INPUTS: the most inputs of a map kernel. OPCODES: the number of each operation (sp_map.h).
INPUTS: int = lib.SP_MAP_INPUTS
OPCODES = {op: getattr(lib, f"SP_MAP_{op.upper()}") for op in (*ARITY, "input", "const")}


@dataclass(frozen=True, eq=False)
class MapProgram:
    """A program of a map_* kernel: `words` (u32, read-only).

    Input slot i is the array named `inputs[i]`; constant i is the scalar at node `constants[i]`.
    """

    words: npt.NDArray[np.uint32]
    inputs: tuple[str, ...]
    constants: tuple[Any, ...]


@lru_cache(maxsize=512)
def compile_graph(graph: Graph, uniform: tuple[bool, ...], dtype: str) -> MapProgram:
    """Returns the program of `graph` for one dtype; `uniform` says which nodes are scalars.

    The program of "bool" computes with 0 and 1, which a kernel of any type can do.
    Raises ValueError (too many arrays), TooLong (too deep a stack, too many steps) and NotThere (an
    operation that i32 lacks).
    """
    inputs: dict[str, int] = {}
    constants: dict[int, int] = {}
    words: list[int] = []
    depth = deepest = 0
    for i, leaf in steps(graph, uniform):
        node = graph.nodes[i]
        op, slot = node.op, 0
        depth += 1 if leaf else 1 - len(node.args)
        deepest = max(deepest, depth)
        if uniform[i]:
            op, slot = "const", constants.setdefault(i, len(constants))
        elif leaf:
            op, slot = "input", inputs.setdefault(str(node.value), len(inputs))
        else:
            if op == "pow" and graph.nodes[node.args[1]].value in POWERS:
                words.pop()  # these operations do not need the exponent, which the last word loads
                op = POWERS[graph.nodes[node.args[1]].value]
            if dtype == "i32" and op not in I32_OPS:
                known = " ".join(sorted(I32_OPS))
                graph.fail(node, f"i32 has no {node.op}; it has {known}", NotThere)
            if node.truth or dtype == "bool":
                op = OF_TRUTHS.get(op, op)
        words.append(OPCODES[op] | slot << 8)
    check_inputs(graph, tuple(inputs))
    most = lib.SP_MAP_STACK
    if deepest > most:
        what = f"expected at most {most} values on this device's stack, got {deepest}"
        graph.fail(graph.nodes[-1] if not graph.text else None, what, TooLong)
    packed = np.array(words, np.uint32)
    packed.flags.writeable = False
    return MapProgram(packed, tuple(inputs), tuple(constants))


def check_inputs(graph: Graph, inputs: tuple[str, ...]) -> None:
    """Raises ValueError if `inputs` has more arrays than kernels take."""
    if len(inputs) > INPUTS:
        node = next(n for n in graph.nodes if n.op == "name" and n.value == inputs[INPUTS])
        graph.fail(node, f"expected at most {INPUTS} arrays, got {len(inputs)}")


@lru_cache(maxsize=512)
def compile_map(text: str, scalars: frozenset[str], dtype: str) -> MapProgram:
    """Returns the program of the expression `text`, for reduce and tools; `scalars` are names.

    Constant i is the number `constants[i]`, or, if that is a str, the value of the scalar with this
    name. Raises ValueError if `text` is not an expression, and the errors of `compile_graph`.
    """
    graph = parse(text)
    leaves = tuple(n.op == "number" or n.value in scalars for n in graph.nodes)
    made = compile_graph(graph, leaves, dtype)
    return replace(made, constants=tuple(graph.nodes[i].value for i in made.constants))


def decode(words: npt.NDArray[Any]) -> list[tuple[str, int]]:
    """Returns the (operation, slot) pairs of a program, for the oracle.

    Raises ValueError for an unknown operation.
    """
    names = {number: op for op, number in OPCODES.items()}
    strange = [word for word in words.tolist() if word & 0xFF not in names]
    if strange:
        raise ValueError(f"map program: unknown operation {strange[0]:#x}")
    return [(names[word & 0xFF], word >> 8) for word in words.tolist()]
