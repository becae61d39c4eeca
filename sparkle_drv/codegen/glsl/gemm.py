"""gemm_f32 and gemm_f64: c = act(a @ b + bias) for any strides of a and b.

    naive    one output per thread, scalar loads: the oracle's shader
    blocked  a tile of outputs per thread, operands straight from memory
    shared   a tile of outputs per thread, operands staged in shared memory (gemm_shared.py)

plan.levels[0] = (bm, bn, bk) is the tile of a group, levels[1] = (tm, tn, 1) that of a thread.
plan.vector = 4 asks for 16-byte loads. The shader uses them if rows are contiguous and 16-byte
aligned. It tests the strides for this at run time, so all threads of a launch agree. For other
strides the same shader has a loop with scalar loads.
"""

from __future__ import annotations

from itertools import product

from sparkle_drv.types import DeviceInfo, TilePlan

from . import defaults, gemm_shared, lanes
from .kit import Kit, Shader, is_es
from .registers import LANES, Registers, activation, indented
from .tile import Tile, checked

NAMES = ("gemm_f32", "gemm_f64")
ALGOS = ("naive", "blocked", "shared")
# Concerns the loop with scalar loads. If the tile's size bk is above this limit, an iteration of
# the loop adds bk products to each sum; otherwise it adds one product.
_MOST_FAST = 8


def generate(name: str, plan: TilePlan, info: DeviceInfo) -> Shader:
    dtype = name.removeprefix("gemm_")
    itemsize = 4 if dtype == "f32" else 8
    tile = checked(defaults.gemm(plan, info), info, ALGOS, itemsize)
    number = "float" if dtype == "f32" else "double"
    # Elements of a 16-byte load: four f32 or two f64.
    width = 1 if tile.vector == 1 or is_es(info) else 16 // itemsize
    if width > 1 and (tile.tm % width or tile.tn % width) and tile.algo != "naive":
        width = 1
    kit = Kit(name, info, tile.group_size)
    groups = (f"n/{tile.bn}", f"m/{tile.bm}")
    uses, function = activation(dtype)
    kit.uses += uses
    if tile.algo == "naive":
        return kit.finish(_NAIVE.format(number=number), groups, function)
    registers = Registers(number, width, tile.tm, tile.tn)
    if width > 1:
        kit.views += [(operand, registers.vector) for operand in ("a", "b", "c")]
    body = origin(tile, registers)
    if tile.algo == "shared":
        body += gemm_shared.loop(kit, tile, registers)
    else:
        body += lanes.either(kit, tile, registers, lambda way: _blocked(tile, registers, way))
    return kit.finish(body + store(tile, registers), groups, function)


_NAIVE = """\
uvec3 group = gl_WorkGroupID + sp_group_offset;
uint i = group.y * gl_WorkGroupSize.y + gl_LocalInvocationID.y;
uint j = group.x * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
if (i < m && j < n) {{
    {number} sum = {number}(0);
    uint p = 0u;
    for (; p < k; p++)
        sum += a[i * rsa + p * csa] * b[p * rsb + j * csb];
    if (p != k) /* a driver that leaves long loops: see registers.py */
        sum = {number}(uintBitsToFloat(0x7fc00000u));
    if ((sp_null & 8u) == 0u)
        sum += bias[j];
    c[i * rsc + j] = sp_act(sum, act);
}}
"""


def origin(tile: Tile, registers: Registers) -> str:
    """Returns text that computes the position of this thread's outputs.

    The rows are row .. row + tm - 1. The columns form vectors of `width`. Between two vectors of a
    thread lie those of the other threads, so that neighbouring threads load neighbouring elements.
    """
    width = registers.width
    # With one row of threads, `row` depends only on the group, so compilers know it is uniform.
    local = f" + gl_LocalInvocationID.y * {tile.tm}u" if tile.rows > 1 else ""
    lines = [
        "uvec3 group = gl_WorkGroupID + sp_group_offset;",
        f"uint row = group.y * {tile.bm}u{local};",
        f"uint column = group.x * {tile.bn}u + gl_LocalInvocationID.x * {width}u;",
    ]
    if width > 1:
        # `wide`: the rows of b consist of whole vectors. `fast`: the rows of both a and b do.
        lines.append(f"bool wide = csb == 1u && ((rsb | n) & {width - 1}u) == 0u;")
        lines.append(f"bool fast = wide && csa == 1u && (rsa & {width - 1}u) == 0u;")
    return "\n".join([*lines, registers.zeros(), ""])


def _blocked(tile: Tile, registers: Registers, way: lanes.Rows) -> str:
    width, apart = registers.width, tile.columns * registers.width
    # Threads beyond the edge of a matrix load its last row or column and store nothing.
    lines = ["uint p = 0u;"]
    lines += way.each("uint {row}_at = min(row + {offset}, m - 1u) * rsa;")
    if width > 1:
        lines += ["if (fast) {", indented(_fast_loop(tile, registers, way)), "}"]
    for j in range(registers.vectors):
        for lane in range(width):
            at = f"min(column + {j * apart + lane}u, n - 1u)"
            lines.append(f"uint b{j}{LANES[lane]}_at = {at} * csb;")
    # For a large bk, one iteration of the loop takes bk terms, so that a long sum needs fewer
    # iterations: llvmpipe ends a shader's loops after 65535.
    if tile.bk > _MOST_FAST:
        lines.append(f"for (; p + {tile.bk}u <= k; p += {tile.bk}u) {{")
        for term in range(tile.bk):
            lines += ["    {", indented(_term(registers, way, f"(p + {term}u)"), 8), "    }"]
        lines.append("}")
    lines += ["for (; p < k; p++) {", indented(_term(registers, way, "p")), "}"]
    return "\n".join([*lines, registers.poison("p == k")])


def _term(registers: Registers, way: lanes.Rows, p: str) -> str:
    """Returns text that adds a[row, p] * b[p, column] to each sum of the thread.

    The loads are scalar, so a and b may have any strides.
    """
    lines = []
    for j in range(registers.vectors):
        values = ", ".join(f"b[b{j}{lane}_at + {p} * rsb]" for lane in LANES[: registers.width])
        lines.append(f"{registers.vector} b{j} = {registers.vector}({values});")
    lines.append(way.load(registers.number, f"a[{{row}}_at + {p} * csa]"))
    lines.append(registers.step(way.values, [f"b{j}" for j in range(registers.vectors)]))
    return "\n".join(lines)


def _fast_loop(tile: Tile, registers: Registers, way: lanes.Rows) -> str:
    """Returns the loop that loads vectors along k from a and along n from b.

    One iteration adds several products to each sum. The loop ends when fewer products are left than
    an iteration adds.
    """
    width, apart = registers.width, tile.columns * registers.width
    step = max(width, tile.bk // width * width)
    lines = [
        f"uint b{j}_at = min(column + {j * apart}u, n - {width}u) / {width}u;"
        for j in range(registers.vectors)
    ]
    lines.append(f"uint next = rsb / {width}u;")
    lines.append(f"for (; p + {step}u <= k; p += {step}u) {{")
    # All loads come first, then all terms of each sum. So a sum that does not fit into registers is
    # spilled once, not once per term.
    for block in range(step // width):
        at = f"a_v[({{row}}_at + p) / {width}u + {block}u]"
        lines += ["    {", indented(way.load(registers.vector, at), 8)]
        for j, lane in product(range(registers.vectors), range(width)):
            term = f"(p + {block * width + lane}u) * next"
            lines.append(f"        {registers.vector} b{j}_{lane} = b_v[b{j}_at + {term}];")
        terms = [
            (
                [f"{v}.{LANES[lane]}" for v in way.values],
                [f"b{j}_{lane}" for j in range(registers.vectors)],
            )
            for lane in range(width)
        ]
        lines += [indented(registers.steps(terms), 8), "    }"]
    return "\n".join([*lines, "}"])


def store(tile: Tile, registers: Registers) -> str:
    """Returns text that adds the bias, stores the sums, then applies the activation to them.

    The activation is a loop over the results that this thread has stored. Code that applies it to
    each sum before the store would be unrolled, and would be most of the shader.
    """
    width, apart = registers.width, tile.columns * registers.width
    lines = ["if ((sp_null & 8u) == 0u) {"]
    for j in range(registers.vectors):
        for lane in range(width):
            value = f"bias[min(column + {j * apart + lane}u, n - 1u)]"
            lines.append(f"    {registers.number} bias{j}_{lane} = {value};")
            for r in range(tile.tm):
                lines.append(f"    {registers.lane(r, j * width + lane)} += bias{j}_{lane};")
    lines.append("}")
    scalar = []
    for r in range(tile.tm):
        scalar.append(f"if (row + {r}u < m) {{")
        for j in range(registers.vectors):
            for lane in range(width):
                at = f"column + {j * apart + lane}u"
                scalar.append(
                    f"    if ({at} < n) c[(row + {r}u) * rsc + {at}] = "
                    f"{registers.lane(r, j * width + lane)};"
                )
        scalar.append("}")
    if width > 1:
        lines.append(f"if (((rsc | n) & {width - 1}u) == 0u) {{")
        for r in range(tile.tm):
            lines.append(f"    if (row + {r}u < m) {{")
            for j in range(registers.vectors):
                at = f"column + {j * apart}u"
                index = f"((row + {r}u) * rsc + {at}) / {width}u"
                lines.append(f"        if ({at} < n) c_v[{index}] = s{r}_{j};")
            lines.append("    }")
        lines += ["} else {", indented("\n".join(scalar)), "}"]
    else:
        lines += scalar
    # llvmpipe may end the loop early. So the shader counts the elements whose activation is done.
    # It does not compare the loop variables instead, because compilers assume that a loop runs to
    # its end.
    columns = registers.clipped("column", "n", apart)
    lines.append(f"""\
if (act != 0u) {{
    uint acted = 0u, end = min(row + {tile.tm}u, m); /* all of it? see registers.py */
    for (uint i = row; i < end; i++)
        for (uint v = 0u; v < {registers.vectors}u; v++) {{
            uint j = column + v * {apart}u;
            for (uint stop = min(j + {width}u, n); j < stop; j++) {{
                c[i * rsc + j] = sp_act(c[i * rsc + j], act);
                acted++;
            }}
        }}
    if (row < m && column < n && acted != (end - row) * ({columns}))
        c[row * rsc + column] = {registers.number}(uintBitsToFloat(0x7fc00000u));
}}
""")
    return "\n".join(lines)
