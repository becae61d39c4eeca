"""map_f32 and map_i32: y[i] = a postfix program (native/include/sp_map.h) over x0[i] .. x7[i].

Without a program in the plan, the program is data that the shader interprets. The top of the stack
is in a register, the rest in an array. With a program in the plan, the shader contains that program
as text. Such a shader is many times faster, and valid only for launches with exactly this program.

The host checks programs. In the shader an invalid program gives wrong numbers, but no access
outside the arrays.
"""

from __future__ import annotations

from sparkle_drv._native import lib
from sparkle_drv.types import DeviceInfo, TilePlan

from .kit import ELEMENTS, Kit, Shader, linear
from .tile import group_threads

NAMES = ("map_f32", "map_i32")

# Operation -> GLSL expression of its value. The operands are a and b of a binary operation, b of a
# unary one, and c, a, b of "where".
_BINARY = {
    "ADD": "a + b", "SUB": "a - b", "MUL": "a * b", "DIV": "a / b", "MIN": "sp_min(a, b)",
    "MAX": "sp_max(a, b)", "POW": "sp_pow(a, b)", "LT": "float(a < b)", "LE": "float(a <= b)",
    "GT": "float(a > b)", "GE": "float(a >= b)", "EQ": "float(a == b)", "NE": "float(a != b)",
}  # fmt: skip
_WHERE = {"f32": "c != 0.0 ? a : b", "i32": "c != 0 ? a : b"}
_UNARY = {
    "NEG": "-b", "ABS": "abs(b)", "RELU": "sp_relu(b)", "EXP": "sp_exp(b)", "LOG": "sp_log(b)",
    "SQRT": "sqrt(b)", "TANH": "sp_tanh(b)", "SIGMOID": "sp_sigmoid(b)", "SIN": "sp_sin(b)",
    "COS": "sp_cos(b)", "FLOOR": "floor(b)", "SQUARE": "b * b",
}  # fmt: skip
_I32 = {
    "ADD": "a + b", "SUB": "a - b", "MUL": "a * b", "MIN": "min(a, b)", "MAX": "max(a, b)",
    "NEG": "-b", "ABS": "abs(b)", "RELU": "max(b, 0)", "SQUARE": "b * b",
    "LT": "int(a < b)", "LE": "int(a <= b)", "GT": "int(a > b)", "GE": "int(a >= b)",
    "EQ": "int(a == b)", "NE": "int(a != b)",
}  # fmt: skip


def generate(name: str, plan: TilePlan, info: DeviceInfo) -> Shader:
    dtype = name.removeprefix("map_")
    size = group_threads(plan, info, default=256)
    kit = Kit(name, info, (size, 1, 1))
    if plan.algo not in ("auto", "naive"):
        raise ValueError(f"plan: algo: expected auto for map on egl, got {plan.algo!r}")
    body = _written_out(kit, dtype, plan.program) if plan.program else _interpreter(kit, dtype)
    return kit.finish(f"{linear(size)}\nif (i >= n)\n    return;\n{body}", (f"n/{size}",))


def _steps(dtype: str) -> dict[int, tuple[str, int]]:
    """Returns a dict: number of an operation -> (its GLSL expression, number of operands)."""
    known = _I32 if dtype == "i32" else {**_BINARY, **_UNARY}
    steps = {
        getattr(lib, f"SP_MAP_{op}"): (text, 1 + (op in _BINARY)) for op, text in known.items()
    }
    return {**steps, lib.SP_MAP_WHERE: (_WHERE[dtype], 3)}


def _use(kit: Kit, text: str) -> None:
    if text.startswith("sp_"):
        kit.uses.append(text[3 : text.index("(")])


def _interpreter(kit: Kit, dtype: str) -> str:
    number = ELEMENTS[dtype]
    cases = []
    for op, (text, takes) in _steps(dtype).items():
        _use(kit, text)
        down = ("", "depth--; ", "depth -= 2u; ")[takes - 1]
        cases.append(f"case {op}u: {down}top = {text}; break;")
    inputs = "\n".join(f"    case {at}u: top = x{at}[i]; break;" for at in range(lib.SP_MAP_INPUTS))
    lines = f"""\
{number} stack[{lib.SP_MAP_STACK}];
{number} top = {number}(0);
uint depth = 0u; /* values below the top, and one that was there before the first */
for (uint s = 0u; s < nops; s++) {{
    uint op = program[s] & 0xffu, slot = program[s] >> 8;
    if (op == {lib.SP_MAP_INPUT}u || op == {lib.SP_MAP_CONST}u) {{
        stack[min(depth, {lib.SP_MAP_STACK - 1}u)] = top;
        depth++;
    }}
    {number} a = stack[clamp(depth, 1u, {lib.SP_MAP_STACK}u) - 1u], b = top;
    {number} c = stack[clamp(depth, 2u, {lib.SP_MAP_STACK}u) - 2u];
    switch (op) {{
    case {lib.SP_MAP_INPUT}u:
        switch (slot) {{
{{inputs}}
        }}
        break;
    case {lib.SP_MAP_CONST}u: top = consts[slot]; break;
{{cases}}
    }}
}}
y[i] = top;"""
    spaced = "\n".join("    " + line for line in cases)
    deeper = "\n".join("    " + line for line in inputs.split("\n"))
    return lines.replace("{inputs}", deeper).replace("{cases}", spaced)


def _written_out(kit: Kit, dtype: str, program: tuple[int, ...]) -> str:
    number = ELEMENTS[dtype]
    steps = _steps(dtype)
    lines: list[str] = []
    stack: list[str] = []
    words = ",".join(f"{word:x}" for word in program)
    wrong = ValueError(f"plan: {words!r} is no program for map_{dtype} (sp_map.h)")
    for at, word in enumerate(program):
        op, slot = word & 0xFF, word >> 8
        if op == lib.SP_MAP_INPUT and slot < lib.SP_MAP_INPUTS:
            value = f"x{slot}[i]"
        elif op == lib.SP_MAP_CONST:
            value = f"consts[{slot}u]"
        else:
            text, takes = steps.get(op, ("", 1))
            if not text or len(stack) < takes:
                raise wrong
            _use(kit, text)
            # The operands are names of variables, so the text needs no parentheses around them.
            operands = dict(zip("bac", reversed(stack[-takes:]), strict=False))
            del stack[-takes:]
            value = _filled(text, operands)
        lines.append(f"{number} v{at} = {value};")
        stack.append(f"v{at}")
    if len(stack) != 1:
        raise wrong
    return "\n".join([*lines, f"y[i] = {stack[0]};"])


def _filled(text: str, operands: dict[str, str]) -> str:
    """Returns `text` with the variables a, b and c replaced by `operands`.

    Letters within longer names stay. No function is named a, b or c.
    """
    out = []
    for at, letter in enumerate(text):
        alone = not (text[at - 1 : at].isalnum() or text[at - 1 : at] == "_") and not (
            text[at + 1 : at + 2].isalnum() or text[at + 1 : at + 2] == "_"
        )
        out.append(operands.get(letter, letter) if alone else letter)
    return "".join(out)
