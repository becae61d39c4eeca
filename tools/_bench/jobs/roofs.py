"""A device's best rates by kind of roof, and the kernels that measure them. Plain data.

peak.py and interleaved_roofs.py measure the roofs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

KERNELS: Mapping[str, tuple[str, ...]] = {
    "peak_fma_f32": ("f32",),
    "peak_fma_f64": ("f64",),
    "copy_f32": ("copy", "read"),
    "saxpy_f32": ("copy", "read"),
    "reduce_max_f32": ("read",),
}


@dataclass(frozen=True)
class Roof:
    """A device's best rates: GFLOPS by type ("f32", "f64"), and GB/s of memory beyond the caches.

    "copy": the kernel reads and writes. "read": the kernel reads and does little else.
    """

    gflops: Mapping[str, float] = field(default_factory=dict)
    gbytes_per_s: Mapping[str, float] = field(default_factory=dict)

    def raised_to(self, other: Roof) -> Roof:
        """Returns the higher of two measurements of each rate, because a rate that was reached once
        is possible.
        """
        return Roof(
            _higher(self.gflops, other.gflops), _higher(self.gbytes_per_s, other.gbytes_per_s)
        )


def _higher(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    return {key: max(a.get(key, 0.0), b.get(key, 0.0)) for key in {**a, **b}}
