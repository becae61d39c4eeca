"""Tile plans: a model of the device chooses the algorithm and the blocks of an operation.

The model consists of functions of DeviceInfo and sizes. They use no device, kernel or clock.
`gemm`, `reduce` and `map` make plans. `packs_b` decides whether the right operand b of a product is
packed. `reduce_parts` decides in how many parts a row is reduced. The other names are parts of the
model.

    blocking.py       products: loop blocking, packing, pieces for threads
    conv2d.py         convolutions: direct, im2col or Winograd, and their blocks
    winograd.py       costs of Winograd convolutions, and their groups of tiles
    gpu.py            products, convolutions, reductions and maps on devices with groups of threads
    cores.py          vector units and rates of CPU cores
    caches.py         one core's part of each cache level
    tuned_plans.py    plans that `bench.py tune` found, SPARKLE_HOME/tuned.json
"""

from .blocking import (
    ALONG_NBYTES,
    FEW_ROWS,
    MAX_PACKED,
    blocks,
    gemm,
    packs_b,
)
from .cores import (
    CORES,
    core_of,
    micro_tile,
)
from .gpu import map, reduce, reduce_parts

__all__ = [
    "ALONG_NBYTES", "CORES", "FEW_ROWS", "MAX_PACKED", "blocks", "core_of", "gemm", "map",
    "micro_tile", "packs_b", "reduce", "reduce_parts",
]  # fmt: skip
