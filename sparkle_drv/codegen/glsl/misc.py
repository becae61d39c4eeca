"""noop, busy_u32 and peak_fma: kernels for measurements of time and rate."""

from __future__ import annotations

from sparkle_drv.types import DeviceInfo, TilePlan

from .kit import Kit, Shader
from .registers import indented
from .tile import group_threads

NAMES = ("noop", "busy_u32", "peak_fma_f32", "peak_fma_f64")

# A thread of the kernels peak_fma_* computes _CHAINS independent chains of FMAs. An iteration of
# its loop adds _STEPS FMAs to each chain. Each FMA works on vectors of _LANES elements. This many
# chains hide the latency of an FMA if a core runs several subgroups, and fit into the registers.
_CHAINS, _STEPS, _LANES = 4, 8, 4
_GROUPS_A_UNIT = 8
_ROUND = 1024  # steps of busy_u32 per loop iteration, on a software device


def generate(name: str, plan: TilePlan, info: DeviceInfo) -> Shader:
    if name == "noop":
        return Kit(name, info, (1, 1, 1)).finish("", ("1",))
    if name == "busy_u32":
        return _busy(name, info)
    return _peak(name, plan, info)


def _busy(name: str, info: DeviceInfo) -> Shader:
    """Returns the shader of busy_u32: a chain of steps, each of which needs the previous one.

    The factor of a step contains a uniform that the host sets. So the compiler does not know the
    factor and cannot skip steps. Every group computes the whole chain.

    Mesa's llvmpipe ends the loops of a shader after 65535 iterations in all, counted per vector of
    threads. So on software devices an iteration has 1024 steps, and one vector passes the value of
    the chain to the next vector.
    """
    steps = """\
for (; step + {size}u <= last; step += {size}u) {{
{links}
}}
for (; step < last; step++)
    x = factor * x + 1013904223u;"""
    start = "uint factor = 1664525u + sp_group_offset.z, x = 1u, step = 0u, last = iters;\n"
    if not info.software:
        body = steps.format(size=64, links=_links(64))
        return Kit(name, info, (1, 1, 1)).finish(f"{start}{body}\ny[0] = x;", ("1",))
    # `lanes`: the threads in llvmpipe's largest vector, 256 bits.
    size, lanes = min(1024, info.max_group_size), 8
    part = 60000 * _ROUND
    body = f"""\
{start}\
for (uint at = 0u; at <= iters / {part}u; at++) {{
    step = at * {part}u;
    last = min(iters - step, {part}u) + step;
    if (gl_LocalInvocationIndex == at * {lanes}u) {{
        x = at == 0u ? 1u : handed;
{indented(steps.format(size=_ROUND, links=_links(_ROUND)), 8)}
        handed = x;
        taken = step - at * {part}u + (at == 0u ? 0u : taken);
        if (taken == iters)
            y[0] = x;
    }}
    barrier();
}}"""
    kit = Kit(name, info, (size, 1, 1), shared=["uint handed", "uint taken"])
    return kit.finish(body, ("1",))


def _links(count: int) -> str:
    return "\n".join(["    x = factor * x + 1013904223u;"] * count)


def _peak(name: str, plan: TilePlan, info: DeviceInfo) -> Shader:
    """Returns the shader of peak_fma: chains of FMAs, and a count of the operations.

    The count is threads that ran * rounds * steps * chains * lanes * 2, in 64 bits. The chains
    converge, without infinities or denormals, to a value that is never 0. After the loop, the
    shader stores a number if the sum of the chains is 0. The sum is never 0. The compiler cannot
    know that, so it keeps all chains.
    """
    vector, number = ("vec4", "float") if name.endswith("f32") else ("dvec4", "double")
    size = group_threads(plan, info, default=64 if info.software else 256)
    groups = max(1, info.compute_units) * _GROUPS_A_UNIT
    chains = [f"c{i}" for i in range(_CHAINS)]
    start = "\n".join(f"{vector} {c} = {vector}({i + 1}.5);" for i, c in enumerate(chains))
    links = "\n".join(f"    {c} = {c} * factor + offset;" for c in chains * _STEPS)
    body = f"""\
uint me = gl_LocalInvocationID.x + gl_WorkGroupID.x * {size}u;
{vector} factor = {vector}(0.999 - {number}(me & 1023u) * 1e-6);
{vector} offset = {vector}(0.5);
{start}
uint done = 0u; /* counted, for llvmpipe leaves loops after 65535 rounds */
for (; done < iters; done++) {{
{links}
}}
{vector} sum = {" + ".join(chains)};
if (sum.x + sum.y + sum.z + sum.w == 0.0)
    flops[0] = uvec2(1u);
if (me == 0u && gl_WorkGroupID + sp_group_offset == uvec3(0u)) {{
    uint threads = gl_NumWorkGroups.x * gl_NumWorkGroups.y * gl_NumWorkGroups.z * {size}u;
    uvec2 rounds, all;
    umulExtended(threads, done, rounds.y, rounds.x);
    umulExtended(rounds.x, {_STEPS * _CHAINS * _LANES * 2}u, all.y, all.x);
    all.y += rounds.y * {_STEPS * _CHAINS * _LANES * 2}u;
    flops[0] = all;
}}"""
    if number == "double":
        body = body.replace("0.999", "0.999lf").replace("1e-6", "1e-6lf")
    return Kit(name, info, (size, 1, 1)).finish(body, (str(groups),))
