"""The file of tuned tile plans: SPARKLE_HOME/tuned.json, written by `bench.py tune`, read once per
open device.

An entry is valid for exactly one device, driver, instruction set, number of threads, package
version, kernel and shape. The file has the form of saved_files.DeviceFile; an invalid entry counts
as absent. calls/plans.py chooses between a tuned plan and the plan of the model.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkle_drv.backends.rates import identity
from sparkle_drv.ops.shapes.geometry import Geometry
from sparkle_drv.saved_files import DeviceFile
from sparkle_drv.types import DeviceInfo, TilePlan

log = logging.getLogger("sparkle_drv.ops")
_FIELDS = ("algo", "levels", "vector", "threads", "layout_in", "layout_out")


def gemm_shape(m: int, n: int, k: int) -> str:
    """Returns the name of a matrix product's shape in tuned.json."""
    return f"m={m} n={n} k={k}"


def conv2d_shape(shape: Geometry) -> str:
    """Returns the name of a convolution's shape in tuned.json.

    The name has the layout, then the other scalar arguments of a launch in their order.
    """
    return f"{shape.layout} " + ",".join(str(v) for v in shape.arguments()[:-1])


def reduce_shape(outer: int, n: int, inner: int) -> str:
    """Returns the name of a reduction's shape in tuned.json.

    The operand has the axes (outer, n, inner), of which the middle one is reduced.
    """
    return f"outer={outer} n={n} inner={inner}"


@dataclass(frozen=True)
class TunedPlan:
    """A tuned plan, with the median seconds of this plan and of the model's choice."""

    plan: TilePlan
    best_s: float = 0.0
    model_s: float = 0.0


class Tuned:
    """The file tuned.json of tuned plans in the folder `home` (SPARKLE_HOME).

    If `home` is "", there is no file: nothing is found, and nothing is written.
    """

    def __init__(self, home: str) -> None:
        self.path = Path(home, "tuned.json") if home else None
        self._file = DeviceFile(self.path, log) if self.path else None

    def entries(self, info: DeviceInfo) -> dict[tuple[str, str], TunedPlan]:
        """Returns (kernel, shape) -> TunedPlan for this device; {} if the file cannot be read."""
        entries = {}
        kernels = self._file.read().get(identity(info)) if self._file else None
        for kernel, shapes in kernels.items() if isinstance(kernels, dict) else ():
            for shape, entry in shapes.items() if isinstance(shapes, dict) else ():
                with contextlib.suppress(KeyError, TypeError, ValueError):
                    entries[kernel, shape] = _entry(entry)
        return entries

    def put(self, info: DeviceInfo, kernel: str, shape: str, entry: TunedPlan) -> None:
        """Writes an entry, which replaces an older entry. Raises OSError if the write fails."""
        if self._file is None:
            return
        written = {"best_s": entry.best_s, "model_s": entry.model_s, "plan": _plan(entry.plan)}

        def change(known: Any) -> dict[str, Any]:
            kernels = dict(known) if isinstance(known, dict) else {}
            shapes = kernels.get(kernel)
            kernels[kernel] = {**(shapes if isinstance(shapes, dict) else {}), shape: written}
            return kernels

        self._file.update(identity(info), change)


def _plan(plan: TilePlan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in _FIELDS}


def _entry(record: Mapping[str, Any]) -> TunedPlan:
    """Returns a TunedPlan from JSON. Raises KeyError, TypeError or ValueError for invalid JSON."""
    fields = {name: record["plan"][name] for name in _FIELDS if name in record["plan"]}
    levels = [(m, n, k) for m, n, k in fields.pop("levels", ())]
    sizes = [size for level in levels for size in level]
    for name, value in fields.items():
        if name in ("vector", "threads"):
            sizes.append(value)
        elif not isinstance(value, str):
            raise TypeError(f"{name}: expected text, got {value!r}")
    if len(levels) > 2 or not all(type(size) is int and 0 <= size < 1 << 31 for size in sizes):
        raise ValueError(
            "plan: expected at most 2 levels, and sizes, vector and threads from 0 to 2**31 - 1, "
            f"got {len(levels)} levels and {sizes}"
        )
    best = float(record["best_s"])
    plan = TilePlan(**fields, levels=tuple(levels), source="tuned")
    return TunedPlan(plan, best, float(record["model_s"]))
