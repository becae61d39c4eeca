"""Makes the jobs of one device from the names and axes that a person typed.

Called by the run and list commands. Pure, except that the module reads the manifest. Of the device
it reads only the description.
"""

from __future__ import annotations

import fnmatch
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from _console.problems import UsageError

from . import arith, cache_reach, plans
from .axes import Point, Value, assignments, label, points
from .fills import Array
from .job import TYPES, Absent, Arg, Job, Operand, Scalar, Values, rounded
from .workloads import EMULATED_AXES, EMULATED_LENGTH, LENGTH, Scalars, Workload, table

if TYPE_CHECKING:
    import sparkle_drv as sp


def select(
    names: Sequence[str], manifest: Mapping[str, Any], backend: str | None = None
) -> list[str]:
    """Returns the kernels that `names` mean: exact names, names without the dtype ("gemm"), or
    globs.

    With `backend`, only the kernels of that backend count. Raises UsageError for a name without a
    kernel.
    """
    has = [
        k
        for k in manifest
        if k in table() and (backend is None or backend in manifest[k]["backends"])
    ]
    chosen: dict[str, None] = {}
    for name in names:
        if not name.strip():
            raise UsageError("expected a kernel's name, got an empty one")
        base = [k for k in has if k.rpartition("_")[0] == name]
        found = [name] if name in has else base or fnmatch.filter(has, name)
        if not found:
            close = [k for k in has if name.lower() in k] or has
            raise UsageError(f"no kernel is called {name!r}; expected one of {', '.join(close)}")
        chosen |= dict.fromkeys(found)
    return list(chosen)


def given_axes(kernels: Iterable[str], specs: Sequence[str]) -> dict[str, dict[str, str]]:
    """Returns the -a specs of each kernel. An axis applies to those kernels that have it. For an
    axis that no kernel has, raises UsageError, which names the known axes.
    """
    found = assignments(specs)
    kernels = list(kernels)
    known = {axis.name for kernel in kernels for axis in table()[kernel].axes}
    for name in found:
        if name not in known:
            raise UsageError(
                f"-a {name}: unknown axis; {', '.join(kernels)} know {', '.join(sorted(known))}"
            )
    return {k: {a.name: found[a.name] for a in table()[k].axes if a.name in found} for k in kernels}


def expand(kernel: str, given: Mapping[str, str], info: sp.DeviceInfo) -> list[Point]:
    """Returns the points of a kernel's axes on a device. Numbers replace the values "auto" and
    "size" of axes. Raises UsageError if a spec in `given` cannot be read.
    """
    row = table()[kernel]
    axes = row.axes
    if info.emulated:
        axes = tuple(replace(a, default=(EMULATED_AXES.get(a.name, *a.default[:1]),)) for a in axes)
    if row.square and all(name in given for name in "mnk"):
        axes = tuple(
            replace(a, default=(1,)) if a.name == "size" and "size" not in given else a
            for a in axes
        )
    found = []
    for point in points(axes, given):
        if row.square:
            size = point.pop("size")
            point = {k: size if v == "size" else v for k, v in point.items()}
        if point.get("n") == "auto":
            point["n"] = _auto_length(kernel, point, info)
        if point not in found:
            found.append(point)
    return found


def _auto_length(kernel: str, point: Point, info: sp.DeviceInfo) -> int:
    """Returns the length of operands from memory: in a cache, the rate of a memory-bound kernel
    would not be that of memory. It is shorter for an emulated device, whose rates mean nothing.
    """
    if info.emulated:
        return EMULATED_LENGTH

    def nbytes(n: int) -> list[int]:
        _, args = _arguments(kernel, {**point, "n": n}, manifest()[kernel], 0)
        return [arg.nbytes for arg in args if isinstance(arg, Operand)]

    return cache_reach.auto_length(nbytes, info)


def cost(kernel: str, point: Point) -> tuple[float, float]:
    """Returns (flops, bytes) of one launch at a point whose axes are all numbers or
    allowed words.
    """
    row = table()[kernel]
    names = _names(row, point)
    return float(arith.evaluate(row.flops, names)), float(arith.evaluate(row.nbytes, names))


def _names(row: Workload, point: Point) -> dict[str, int | float]:
    numbers = {k: v for k, v in point.items() if isinstance(v, int)}
    return {**numbers, **row.scalars(point), "size": np.dtype(TYPES[row.type]).itemsize}


def make(
    kernel: str, point: Point, info: sp.DeviceInfo, manifest: Mapping[str, Any], seed: int
) -> Job:
    """Returns the job of a manifest kernel at a point (from `expand`). Raises UsageError for axes
    that contradict each other.
    """
    row = table()[kernel]
    entry = manifest[kernel]
    scalars, args = _arguments(kernel, point, entry, seed)
    flops, nbytes = cost(kernel, point)
    grid = entry["backends"][info.backend]["form"] == "grid"
    group_size = tuple(entry["group_size"]) if grid else None
    size = group_size[0] if group_size else 1
    length = scalars.get("n", 1) if group_size and group_size != (1, 1, 1) else 1
    shown: dict[str, Value] = {a.name: a.neutral for a in row.axes if a.neutral is not None}
    plan = plans.plan(kernel, scalars, info)
    executed = plans.executed(scalars, plan)
    notes = [row.note] if row.note else []
    if plan and executed:
        share = f"{executed / flops:.0%} of the problem's flops"
        notes.append(f"% of roof counts the products of {plan.algo}, {share}")
    if LENGTH in row.axes and not info.emulated and point["n"] == _auto_length(kernel, point, info):
        notes += cache_reach.doubts(sum(x.nbytes for x in args if isinstance(x, Operand)), info)
    return Job(
        kernel,
        point,
        label(point, shown),
        args,
        partial(plans.load, kernel, plan),
        tolerance(kernel, scalars, plan),
        groups=(-(-int(length) // size),) if grid else None,
        group_size=group_size,
        flops=flops,
        executed=executed,
        nbytes=nbytes,
        flop_type="f64" if kernel.endswith("f64") else "f32" if kernel.endswith("f32") else None,
        flops_output=row.flops_output,
        oracle=None if row.invariant else partial(_oracle, kernel, args),
        invariant=row.invariant,
        notes=tuple(notes),
        extra={"plan": asdict(plan)} if plan else {},
    )


def _arguments(
    kernel: str, point: Point, entry: Mapping[str, Any], seed: int
) -> tuple[dict[str, Any], tuple[Arg, ...]]:
    """Returns the kernel's scalars by name, and its arguments. `entry` is the manifest's."""
    row = table()[kernel]
    scalars = {**row.scalars(point), **_drawn(row, kernel, seed)}
    constants = row.variant(point) if row.variant else {}
    if "program" in constants:
        scalars |= {"nops": constants["program"].size, "nconsts": constants["consts"].size}
    return scalars, tuple(_arg(spec, row, point, scalars, constants) for spec in entry["args"])


def _drawn(row: Workload, kernel: str, seed: int) -> Scalars:
    """Returns values for scalars that are not sizes: random, but the same for every
    launch of a row.
    """
    rng = np.random.default_rng([seed, zlib.crc32(kernel.encode())])
    drawn = {name: float(rng.uniform(low, high)) for name, (low, high) in row.drawn.items()}
    if row.type.startswith(("i", "u")):
        return {name: int(rng.integers(1 << 8, 1 << 20)) for name in drawn}
    return {name: rounded(value, row.type) for name, value in drawn.items()}


def _arg(
    spec: Mapping[str, Any], row: Workload, point: Point, s: Scalars, constants: Mapping[str, Array]
) -> Arg:
    name, kind = spec["name"], spec["type"].rstrip("*")
    if not spec["type"].endswith("*"):
        return Scalar(name, kind, rounded(s[name], kind))
    if name in constants:
        values = constants[name]
        return Operand(name, kind, "r", values.shape, lambda rng, shape, dtype, phase: values)
    in_map = row.variant is not None and name in ("x0", "x1")
    if spec.get("optional") and not in_map and name not in row.present(point):
        return Absent(name)
    count = arith.integer(spec["extent"], s)
    shape = row.shape(s) if row.shape and spec["access"] == "r" else (count,)
    return Operand(name, kind, spec["access"], shape, row.fills.get(name, row.fill))


def tolerance(kernel: str, s: Scalars, plan: sp.TilePlan | None) -> float:
    """Returns the tolerance for a result that was computed by this plan. Algorithms differ in their
    rounding.
    """
    from sparkle_drv.ops import ref

    row = table()[kernel]
    if row.invariant or row.type not in ("f32", "f64"):
        return 0.0
    if row.tolerance:
        return row.tolerance(s) * float(np.finfo(np.dtype(TYPES[row.type])).eps)
    terms = arith.integer(row.inner, s) if row.inner else 1
    if plan is not None and plan.algo.startswith("winograd"):
        return float(ref.tolerance(plan.algo, TYPES[row.type], terms))
    return float(ref.tolerance(kernel, k=terms))


def _oracle(kernel: str, args: tuple[Arg, ...], values: Values) -> Mapping[str, Array]:
    from sparkle_drv.ops import ref

    want = ref.kernel(kernel)(*(values.get(arg.name) for arg in args))
    outputs = [arg.name for arg in args if isinstance(arg, Operand) and arg.access != "r"]
    return {} if want is None else {outputs[0]: want}


def manifest(device: sp.Device | None = None) -> dict[str, Any]:
    """Returns the kernels of shaders/manifest.json by name; with a device, only those that the
    device provides.

    The manifest does not name the backends of plug-ins. For such a backend, a kernel with a group
    size counts as a grid of such groups, any other kernel as a routine.
    """
    from sparkle_drv import assets

    kernels: dict[str, Any] = assets.manifest()["kernels"]
    if device is None:
        return kernels
    backend = device.info.backend
    found = {}
    for name, entry in kernels.items():
        if device.provides(name):
            form = "grid" if "group_size" in entry else "routine"
            found[name] = {**entry, "backends": {backend: {"form": form}, **entry["backends"]}}
    return found
