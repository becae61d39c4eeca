"""reduce_{sum,max,min}: y[o, i] over r of x[o, r, i], one dispatch, no atomics.

The threads of a group form `cols` x `rows` x `outs`. `cols` counts neighbouring values of i, 256 at
most. `rows` threads together reduce the n elements of one result y[o, i], at most 16 elements each
if the group has enough threads. If `cols` x `rows` threads are fewer than the group has, the group
computes results for several neighbouring o: `outs` of them. The results of the `rows` threads
are combined in shared memory, pair by pair. `_groups` repeats this arithmetic in the language of
core/abi/extent.py, so change both together.

Sums of i32 are i64, stored as pairs of words, low word first. max and min are NaN if an element is
NaN.
"""

from __future__ import annotations

from sparkle_drv.types import DeviceInfo, TilePlan

from . import vmath
from .kit import ELEMENTS, Kit, Shader, is_es
from .tile import group_threads

NAMES = tuple(
    f"reduce_{op}_{dtype}" for op in ("sum", "max", "min") for dtype in ("f32", "f64", "i32")
)
_COLUMNS = 256
_EACH = 16

# The result of an empty reduction: the neutral element.
_START = {
    ("sum", "f32"): "0.0",
    ("sum", "f64"): "0.0lf",
    ("sum", "i32"): "uvec2(0u)",
    ("max", "f32"): "uintBitsToFloat(0xff800000u)",
    ("min", "f32"): "uintBitsToFloat(0x7f800000u)",
    ("max", "f64"): "packDouble2x32(uvec2(0u, 0xfff00000u))",
    ("min", "f64"): "packDouble2x32(uvec2(0u, 0x7ff00000u))",
    ("max", "i32"): "int(0x80000000u)",
    ("min", "i32"): "0x7fffffff",
}


def generate(name: str, plan: TilePlan, info: DeviceInfo) -> Shader:
    _, op, dtype = name.split("_")
    # One group reduces a whole column. On hardware, a larger group has more loads in flight.
    threads = group_threads(plan, info, default=256 if info.software else 1024)
    kit = Kit(name, info, (threads, 1, 1))
    total = "uvec2" if (op, dtype) == ("sum", "i32") else ELEMENTS[dtype]
    functions = _functions(op, dtype, total)
    if op != "sum" and dtype != "i32":
        kit.uses.append(vmath.use(op, dtype))
    kit.shared.append(f"{total} partial[{threads}]")
    # If a column is contiguous, a thread loads vectors and keeps four sums. Vectors take fewer
    # loads, and each of the four sums adds up the rounding errors of fewer terms.
    vector = plan.vector != 1 and dtype != "f64" and not is_es(info)
    if vector:
        kit.views.append(("x", "vec4" if dtype == "f32" else "ivec4"))
    start = _START[op, dtype]
    fast = _FAST.replace("VECTOR", kit.views[0][1]) if vector else ""
    columns = min(_COLUMNS, threads)
    body = _BODY.format(total=total, start=start, fast=fast, threads=threads, columns=columns)
    return kit.finish(body, (f"inner/{columns}", _groups(threads, columns)), functions)


def _functions(op: str, dtype: str, total: str) -> str:
    if total == "uvec2":
        return """\
uvec2 sp_wide(int v) { return uvec2(uint(v), v < 0 ? 0xffffffffu : 0u); }
uvec2 sp_both(uvec2 a, uvec2 b)
{
    uint low = a.x + b.x;
    return uvec2(low, a.y + b.y + (low < a.x ? 1u : 0u));
}
"""
    both = "a + b" if op == "sum" else f"{op}(a, b)" if dtype == "i32" else f"sp_{op}(a, b)"
    return f"""\
{total} sp_wide({total} v) {{ return v; }}
{total} sp_both({total} a, {total} b) {{ return {both}; }}
"""


# An iteration takes eight elements, because Mesa's llvmpipe ends the loops of a shader after 65535
# iterations in all. For llvmpipe's largest storage block, 128 MiB, a thread needs at most half of
# these iterations.
_FAST = """\
    if (inner == 1u && (n & 3u) == 0u) {
        uint quads = n / 4u, from = o * quads;
        for (; r < quads; r += 2u * rows) {
            VECTOR u = x_v[from + r];
            acc = sp_both(acc, sp_wide(u.x));
            acc1 = sp_both(acc1, sp_wide(u.y));
            acc2 = sp_both(acc2, sp_wide(u.z));
            acc3 = sp_both(acc3, sp_wide(u.w));
            if (r + rows < quads) {
                VECTOR v = x_v[from + r + rows];
                acc = sp_both(acc, sp_wide(v.x));
                acc1 = sp_both(acc1, sp_wide(v.y));
                acc2 = sp_both(acc2, sp_wide(v.z));
                acc3 = sp_both(acc3, sp_wide(v.w));
            }
        }
        r = n;
    }
"""

_BODY = """\
uvec3 group = gl_WorkGroupID + sp_group_offset;
uint lid = gl_LocalInvocationIndex;
uint cols = 1u + min(inner - 1u, {columns}u - 1u);
uint per = {threads}u / cols;
uint rows = min((n + 16u) / 16u, per);
uint outs = per / rows;
uint col = lid % cols, row = lid / cols % rows, out_at = lid / (cols * rows);
uint o = group.y * outs + out_at, i = group.x * {columns}u + col;
bool live = out_at < outs && o < outer && i < inner;
{total} acc = {start}, acc1 = {start}, acc2 = {start}, acc3 = {start};
if (live) {{
    uint r = row;
{fast}\
    for (; r + 7u * rows < n; r += 8u * rows) {{
        uint from = (o * n + r) * inner + i, next = rows * inner;
        acc = sp_both(acc, sp_wide(x[from]));
        acc1 = sp_both(acc1, sp_wide(x[from + next]));
        acc2 = sp_both(acc2, sp_wide(x[from + 2u * next]));
        acc3 = sp_both(acc3, sp_wide(x[from + 3u * next]));
        from += 4u * next;
        acc = sp_both(acc, sp_wide(x[from]));
        acc1 = sp_both(acc1, sp_wide(x[from + next]));
        acc2 = sp_both(acc2, sp_wide(x[from + 2u * next]));
        acc3 = sp_both(acc3, sp_wide(x[from + 3u * next]));
    }}
    for (; r < n; r += rows)
        acc = sp_both(acc, sp_wide(x[(o * n + r) * inner + i]));
}}
partial[lid] = sp_both(sp_both(acc, acc1), sp_both(acc2, acc3));
barrier();
for (uint left = rows; left > 1u;) {{
    uint upper = (left + 1u) / 2u; /* row + upper joins row; an odd one in the middle waits */
    if (row + upper < left && out_at < outs)
        partial[lid] = sp_both(partial[lid], partial[lid + upper * cols]);
    barrier();
    left = upper;
}}
if (live && row == 0u)
    y[o * inner + i] = partial[lid];
"""


def _least(a: str, b: str) -> str:
    """Returns min(a, b) as an expression of core/abi/extent.py, where subtraction stops at zero."""
    return f"({a}-({a}-{b}))"


def _floor(a: str, b: str) -> str:
    """Returns a / b rounded down, for a >= b, as an expression of core/abi/extent.py.

    In these expressions / rounds up, so the formula first adds 1 - b to a.
    """
    return f"(({a}+1-{b})/{b})"


def _groups(threads: int, columns: int) -> str:
    cols = f"(1+{_least('(inner-1)', str(columns - 1))})"
    per = _floor(str(threads), cols)
    rows = _least(f"((n+1)/{_EACH})", per)
    return f"outer/{_floor(per, rows)}"
