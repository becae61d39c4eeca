"""noop, busy_u32 and peak_fma: kernels that exist for what they cost."""

from __future__ import annotations

from sparkle_drv.types import DeviceInfo, TilePlan

from .kit import Kit, Shader
from .tile import group_threads

NAMES = ("noop", "busy_u32", "peak_fma_f32", "peak_fma_f64")

# Independent chains a thread, and links of each a round: enough to cover an FMA's latency on any
# machine with several subgroups a core, few enough for its registers.
_CHAINS, _STEPS, _LANES = 4, 8, 4
_GROUPS_A_UNIT = 8


def generate(name: str, plan: TilePlan, info: DeviceInfo) -> Shader:
    if name == "noop":
        return Kit(name, info, (1, 1, 1)).finish("", ("1",))
    if name == "busy_u32":
        return Kit(name, info, (1, 1, 1)).finish(_BUSY, ("1",))
    return _peak(name, plan, info)


# Each step needs the one before it: nothing to skip. Every group does the whole chain.
_BUSY = """\
uint x = 1u;
for (uint step = 0u; step < iters; step++)
    x = 1664525u * x + 1013904223u;
y[0] = x;
"""


def _peak(name: str, plan: TilePlan, info: DeviceInfo) -> Shader:
    """Counted, not guessed: threads that ran * iters * steps * chains * lanes * 2, in 64 bits.

    The chains converge (no infinity, no denormal) to a value that is never 0, which the compiler
    cannot know: the store after the loop keeps all of them alive and never happens.
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
for (uint round = 0u; round < iters; round++) {{
{links}
}}
{vector} sum = {" + ".join(chains)};
if (sum.x + sum.y + sum.z + sum.w == 0.0)
    flops[0] = uvec2(1u);
if (me == 0u && gl_WorkGroupID + group_offset == uvec3(0u)) {{
    uint threads = gl_NumWorkGroups.x * gl_NumWorkGroups.y * gl_NumWorkGroups.z * {size}u;
    uvec2 rounds, all;
    umulExtended(threads, iters, rounds.y, rounds.x);
    umulExtended(rounds.x, {_STEPS * _CHAINS * _LANES * 2}u, all.y, all.x);
    all.y += rounds.y * {_STEPS * _CHAINS * _LANES * 2}u;
    flops[0] = all;
}}"""
    if number == "double":
        body = body.replace("0.999", "0.999lf").replace("1e-6", "1e-6lf")
    return Kit(name, info, (size, 1, 1)).finish(body, (str(groups),))
