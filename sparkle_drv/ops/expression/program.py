"""From a graph to the program that the map_* kernels run (native/include/sp_map.h).

Decides which input or constant slot each name gets, and refuses what the kernel cannot do: a type
without that operation, more inputs or more stack than there is. Pure: no device, no arrays. Called
by map; ref reads programs back with `decode`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkle_drv._native import lib

from .elementwise import ARITY
from .grammar import parse
from .graph import OF_TRUTHS, Graph, steps
from .promote import REAL

# The i32 kernel has these and no others; quotients and powers of whole numbers need not be whole.
I32_OPS = frozenset(ARITY) - REAL - {"div", "pow", "floor"}


# What sp_map.h allows, and the number that it gives each operation.
INPUTS: int = lib.SP_MAP_INPUTS
OPCODES = {op: getattr(lib, f"SP_MAP_{op.upper()}") for op in (*ARITY, "input", "const")}


@dataclass(frozen=True, eq=False)
class Program:
    """`words` (u32, read-only) is what the kernel runs: slot i of its inputs is the array called
    `inputs[i]`, constant i the scalar at node `constants[i]`.
    """

    words: npt.NDArray[np.uint32]
    inputs: tuple[str, ...]
    constants: tuple[Any, ...]


@lru_cache(maxsize=512)
def compile_graph(graph: Graph, uniform: tuple[bool, ...], dtype: str) -> Program:
    """The program of `graph`, the nodes in `uniform` being scalars, for one dtype throughout.

    ValueError: too many arrays, too deep. TypeError: an operation that i32 lacks.
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
        elif op == "pow" and graph.nodes[node.args[1]].value == 2:
            words.pop()  # the number's
            op = "square"
        elif dtype == "i32" and op not in I32_OPS:
            known = " ".join(sorted(I32_OPS))
            graph.fail(node, f"i32 has no {op}; it has {known}", TypeError)
        elif node.truth:
            op = OF_TRUTHS.get(op, op)
        words.append(OPCODES[op] | slot << 8)
    check_inputs(graph, tuple(inputs))
    most = lib.SP_MAP_STACK
    if deepest > most:
        what = f"it keeps {deepest} values waiting, and {most} are possible on this device"
        graph.fail(graph.nodes[-1] if not graph.text else None, what)
    packed = np.array(words, np.uint32)
    packed.flags.writeable = False
    return Program(packed, tuple(inputs), tuple(constants))


def check_inputs(graph: Graph, inputs: tuple[str, ...]) -> None:
    """ValueError when there are more arrays than kernels take."""
    if len(inputs) > INPUTS:
        node = next(n for n in graph.nodes if n.op == "name" and n.value == inputs[INPUTS])
        graph.fail(node, f"it has {len(inputs)} arrays, and at most {INPUTS} are possible")


@lru_cache(maxsize=512)
def compile_map(text: str, scalars: frozenset[str], dtype: str) -> Program:
    """The program of `text` as it is written, for reduce and tools. Constant i is the number
    `constants[i]`, or the value of the scalar of that name, one of `scalars`, when it is a str.

    ValueError: not an expression; and as `compile_graph`.
    """
    graph = parse(text)
    leaves = tuple(n.op == "number" or n.value in scalars for n in graph.nodes)
    made = compile_graph(graph, leaves, dtype)
    return replace(made, constants=tuple(graph.nodes[i].value for i in made.constants))


def decode(words: npt.NDArray[Any]) -> list[tuple[str, int]]:
    """The (operation, slot) pairs of a program, for the oracle.

    ValueError for a number that is no operation.
    """
    names = {number: op for op, number in OPCODES.items()}
    strange = [word for word in words.tolist() if word & 0xFF not in names]
    if strange:
        raise ValueError(f"map program: {strange[0]:#x} is no operation")
    return [(names[word & 0xFF], word >> 8) for word in words.tolist()]
