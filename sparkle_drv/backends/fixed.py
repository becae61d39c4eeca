"""Plans for kernels that are compiled beforehand: one form of each, whose tiles nobody can change.

A plan's levels, vectors and layouts are then the model's guess of what it costs, and as good as any
other; what would need another kernel is refused. Called by the loaders of cuda and amdgpu.
"""

from __future__ import annotations

from sparkle_drv.backends.base import KernelSpec

_ALGOS = {
    "gemm": ("auto", "naive", "blocked", "shared"),
    "conv2d": ("auto", "naive", "direct", "im2col"),
}
_OTHERS = ("auto", "naive")


def check_plan(spec: KernelSpec, backend: str) -> None:
    """ValueError for a plan of a manifest kernel that its one form cannot honour."""
    plan = spec.plan
    if plan is None or spec.manifest is None:
        return
    known = _ALGOS.get(spec.name.partition("_")[0], _OTHERS)
    if plan.algo not in known:
        algo = plan.algo if len(plan.algo) <= 40 else f"{plan.algo[:37]}..."
        raise ValueError(
            f"plan: algo {algo!r} is not there for {spec.name} on {backend}; known: "
            f"{', '.join(known)}"
        )
    if plan.program and spec.made is None:
        raise ValueError(
            f"plan: program is for kernels that are made when they are loaded, {spec.name} on "
            f"{backend} reads its program at each launch"
        )
    if plan.pack:
        raise ValueError(f"plan: pack is for the cpu, {spec.name} on {backend} takes plain weights")
    if plan.threads:
        raise ValueError(
            f"plan: threads is for the cpu, {spec.name} on {backend} takes the whole device, "
            f"got {plan.threads}"
        )
