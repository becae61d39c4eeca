"""copy, fill, vecadd, saxpy, axpby, relu, abs, neg, exp, tanh: thread i handles element i.

With plan.vector = 4 a thread of f32 or i32 handles four neighbours as one vec4, if all four exist.
plan.levels[0][0] is the size of a group.
"""

from __future__ import annotations

from sparkle_drv.types import DeviceInfo, TilePlan

from . import vmath
from .kit import ELEMENTS, Kit, Shader, is_es, kernels, linear
from .tile import group_threads

# operation -> text of the value to store; x and y are elements of arrays, a and b are scalars.
_VALUES = {
    "copy": "{x}",
    "fill": "{a}",
    "vecadd": "{x} + {y}",
    "saxpy": "{a} * {x} + {y}",
    "axpby": "{a} * {x} + {b} * {y}",
    "abs": "abs({x})",
    "neg": "-{x}",
}
_FUNCTIONS = ("relu", "exp", "tanh")  # functions of vmath.py, for one element
NAMES = tuple(
    f"{op}_{dtype}"
    for op, dtypes in {
        **dict.fromkeys(("copy", "fill", "vecadd", "relu", "abs", "neg"), ("f32", "f64", "i32")),
        **dict.fromkeys(("axpby", "exp", "tanh"), ("f32", "f64")),
        "saxpy": ("f32",),
    }.items()
    for dtype in dtypes
)
_VECTORS = {"float": "vec4", "int": "ivec4", "uint": "uvec4"}


def generate(name: str, plan: TilePlan, info: DeviceInfo) -> Shader:
    op, dtype = name.split("_")
    size = group_threads(plan, info, default=256)
    pointers = [arg["name"] for arg in kernels()[name]["args"] if arg["type"].endswith("*")]
    element, types = ELEMENTS[dtype], {}
    if op == "copy":  # copies uints: as floats, NaN payloads and denormals may get lost
        element = "uvec2" if dtype == "f64" else "uint"
        types = dict.fromkeys(pointers, element)
    kit = Kit(name, info, (size, 1, 1), types)
    if op in _FUNCTIONS and dtype != "i32":
        kit.uses.append(vmath.use(op, dtype))
    out = pointers[0]
    statement = f"{out}[i] = {_value(op, dtype, '[i]', '')};"
    if plan.vector != 4 or element not in _VECTORS or is_es(info):
        return kit.finish(f"{linear(size)}\nif (i < n)\n    {statement}", (f"n/{size}",))

    vector = _VECTORS[element]
    kit.views += [(pointer, vector) for pointer in pointers]
    body = f"""\
{linear(size)}
if (i < n / 4u) {{
    {out}_v[i] = {_value(op, dtype, "_v[i]", vector)};
}} else if (i == n / 4u) {{
    for (i = i * 4u; i < n; i++)
        {statement}
}}"""
    return kit.finish(body, (f"n/{4 * size}",))


def _value(op: str, dtype: str, index: str, vector: str) -> str:
    """Returns the GLSL expression of the value that `op` stores.

    `vector` is the vector type if four elements are stored, or "" for one element.
    """
    if op in _VALUES:
        scalars = {name: f"{vector}({name})" if vector else name for name in "ab"}
        return _VALUES[op].format(x=f"x{index}", y=f"y{index}", **scalars)
    if dtype == "i32":
        return f"max(x{index}, {vector or 'int'}(0))"
    if not vector:
        return f"sp_{op}(x{index})"
    return f"{vector}({', '.join(f'sp_{op}(x{index}.{lane})' for lane in 'xyzw')})"
