"""Checks plans for precompiled kernels. The tiles of such a kernel are fixed when it is compiled.

So the levels, vectors and layouts of a plan do not change the kernel: only the cost model uses
them, and any values are accepted. A plan that would need another kernel is refused. The loaders of
cuda and amdgpu call this module.
"""

from __future__ import annotations

from sparkle_drv.backends.base import KernelSpec

_ALGOS = {
    "gemm": ("auto", "naive", "blocked", "shared"),
    "conv2d": ("auto", "naive", "direct", "im2col"),
}
_OTHERS = ("auto", "naive")


def check_plan(spec: KernelSpec, backend: str) -> None:
    """Raises ValueError for a plan that a precompiled kernel of the manifest cannot follow."""
    plan = spec.plan
    if plan is None or spec.manifest is None:
        return
    known = _ALGOS.get(spec.name.partition("_")[0], _OTHERS)
    if plan.algo not in known:
        algo = plan.algo if len(plan.algo) <= 40 else f"{plan.algo[:37]}..."
        raise ValueError(
            f"plan: expected algo {' or '.join(known)} for {spec.name} on {backend}, got {algo!r}"
        )
    if plan.program and spec.made is None:
        raise ValueError(
            f"plan: expected no program, since {spec.name} on {backend} reads it at each launch"
        )
    if plan.pack:
        raise ValueError(f"plan: expected no pack for {spec.name} on {backend}, got pack=True")
    if plan.threads:
        raise ValueError(
            f"plan: expected no threads, since {spec.name} on {backend} takes the whole device, "
            f"got {plan.threads}"
        )
