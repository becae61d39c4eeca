"""From postfix steps to the program that the map_* kernels run (native/include/sp_map.h).

Decides which input or constant slot each name gets, and refuses what the kernel cannot do: a type
without that operation, more inputs or more stack than there is. Pure: no device, no arrays. Called
by map; ref reads programs back with `decode`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkle_drv.ops.arguments.words import shown

from .grammar import ARITY, COMPARISONS, Expression, fail, parse
from .graph import OF_TRUTHS, Graph, steps

# The i32 kernel has these and no others; quotients and powers of whole numbers need not be whole.
I32_OPS = frozenset(
    {"add", "sub", "mul", "neg", "abs", "relu", "min", "max", "square", "where"}
    | set(COMPARISONS.values())
)


@dataclass(frozen=True)
class Limits:
    """What sp_map.h allows, and the number that it gives each operation."""

    inputs: int
    stack: int
    opcodes: dict[str, int]


@lru_cache(maxsize=1)
def limits() -> Limits:
    from sparkle_drv._native import lib  # the enums of sp_map.h, the one place with the numbers

    opcodes = {op: getattr(lib, f"SP_MAP_{op.upper()}") for op in (*ARITY, "input", "const")}
    return Limits(inputs=lib.SP_MAP_INPUTS, stack=lib.SP_MAP_STACK, opcodes=opcodes)


@dataclass(frozen=True, eq=False)
class Program:
    """`words` (u32, read-only) is what the kernel runs.

    Slot i of its inputs is the array called `inputs[i]`; constant i is the number `constants[i]`,
    or the value of the scalar of that name when it is a str.
    """

    expression: Expression
    words: npt.NDArray[np.uint32]
    inputs: tuple[str, ...]
    constants: tuple[str | int | float, ...]


@dataclass(frozen=True, eq=False)
class Portable:
    """The program of a graph: slot i of its inputs is the array called `inputs[i]`, constant i the
    scalar at node `constants[i]`.
    """

    words: npt.NDArray[np.uint32]
    inputs: tuple[str, ...]
    constants: tuple[int, ...]


@lru_cache(maxsize=512)
def compile_graph(graph: Graph, uniform: tuple[bool, ...], dtype: str) -> Portable:
    """The program of `graph`, the nodes in `uniform` being scalars, for one dtype throughout.

    ValueError: too many arrays, too deep. TypeError: an operation that i32 lacks.
    """
    limit = limits()
    inputs: dict[str, int] = {}
    constants: dict[int, int] = {}
    words: list[int] = []
    depth = deepest = 0
    truths = {i: {"add": "max", "mul": "min"} for i in _truths(graph)}
    for i, leaf in steps(graph, uniform):
        node = graph.nodes[i]
        depth += 1 if leaf else 1 - len(node.args)
        deepest = max(deepest, depth)
        if uniform[i]:
            words.append(limit.opcodes["const"] | constants.setdefault(i, len(constants)) << 8)
        elif leaf:
            slot = inputs.setdefault(str(node.value), len(inputs))
            if slot >= limit.inputs:
                graph.fail(node, f"it has more arrays than the {limit.inputs} that are possible")
            words.append(limit.opcodes["input"] | slot << 8)
        elif node.op == "pow" and _is_two(graph, node.args[1]):
            words[-1] = limit.opcodes["square"]  # in the place of the number
        elif dtype == "i32" and node.op not in I32_OPS:
            known = " ".join(sorted(I32_OPS))
            graph.fail(node, f"i32 has no {node.op}; it has {known}", TypeError)
        else:
            words.append(limit.opcodes[truths.get(i, {}).get(node.op, node.op)])
    if deepest > limit.stack:
        what = f"it keeps {deepest} values waiting, and {limit.stack} are possible on this device"
        graph.fail(graph.nodes[-1] if not graph.text else None, what)
    packed = np.array(words, np.uint32)
    packed.flags.writeable = False
    return Portable(packed, tuple(inputs), tuple(constants))


def _is_two(graph: Graph, i: int) -> bool:
    return graph.nodes[i].op == "number" and graph.nodes[i].value == 2


def _truths(graph: Graph) -> set[int]:
    """The nodes that are 0 or 1: there a sum is "or" and a product "and", as numpy has it."""
    found: set[int] = set()
    for i, node in enumerate(graph.nodes):
        args = node.args[1:] if node.op == "where" else node.args
        of_truths = bool(args) and all(a in found for a in args)
        if node.op in COMPARISONS.values() or (of_truths and node.op in OF_TRUTHS):
            found.add(i)
    return found


@lru_cache(maxsize=512)
def compile_map(text: str, scalars: frozenset[str], dtype: str) -> Program:
    """The program of `text` for a dtype ("f32" "f64" "i32").

    The names in `scalars` are scalars, all others arrays.

    ValueError: not an expression, too many arrays, too deep. TypeError: an operation or a number
    that i32 lacks.
    """
    expression, limit = parse(text), limits()
    inputs = tuple(name for name in expression.names if name not in scalars)
    if len(inputs) > limit.inputs:
        at = next(step.at for step in expression.steps if step.value == inputs[limit.inputs])
        fail(text, at, f"it has {len(inputs)} arrays, and at most {limit.inputs} are possible")
    if expression.depth > limit.stack:
        fail(text, 0, f"it keeps {expression.depth} values waiting, and {limit.stack} are possible")
    constants: dict[tuple[type, str | int | float], int] = {}
    words = []
    for step in expression.steps:
        op, slot = step.op, 0
        if op == "name" and step.value not in scalars:
            op, slot = "input", inputs.index(str(step.value))
        elif op in ("name", "number"):
            if op == "number":
                _check_number(text, step.value, step.at, dtype)
            # The type is part of the key: the scalar x and the numbers 1 and 1.0 are three things.
            slot = constants.setdefault((type(step.value), step.value), len(constants))
            op = "const"
        elif dtype == "i32" and op not in I32_OPS:
            known = " ".join(sorted(I32_OPS))
            raise TypeError(_said(text, step.at, f"i32 has no {op}; it has {known}"))
        words.append(limit.opcodes[op] | slot << 8)
    packed = np.array(words, np.uint32)
    packed.flags.writeable = False
    return Program(expression, packed, inputs, tuple(value for _, value in constants))


def _check_number(text: str, value: str | int | float, at: int, dtype: str) -> None:
    assert not isinstance(value, str)
    if dtype == "i32":
        if not isinstance(value, int):
            what = f"{shown(value)} is not a whole number, and the arrays are i32"
            raise TypeError(_said(text, at, what))
        if not -(2**31) <= value < 2**31:
            fail(text, at, f"{shown(value)} does not fit i32")
    elif dtype == "f32" and abs(value) > float(np.finfo(np.float32).max):
        fail(text, at, f"{shown(value)} does not fit f32")


def _said(text: str, at: int, what: str) -> str:
    """The same words as `fail`, for an error of another type."""
    try:
        fail(text, at, what)
    except ValueError as error:
        return str(error)


def decode(words: npt.NDArray[Any]) -> list[tuple[str, int]]:
    """The (operation, slot) pairs of a program, for the oracle.

    ValueError for a number that is no operation.
    """
    names = {number: op for op, number in limits().opcodes.items()}
    steps = []
    for word in words.tolist():
        if word & 0xFF not in names:
            raise ValueError(f"map program: {word:#x} is no operation")
        steps.append((names[word & 0xFF], word >> 8))
    return steps
