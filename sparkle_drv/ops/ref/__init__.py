"""What every operation and every kernel of the manifest should have computed: float64 numpy.

Independent of the C code on purpose, slow, and never part of a result. Called by the tests, by
the scheduler where results are to be validated (sched/check/validate.py), by
`tools/bench.py` (which shows no time before the answer agreed) and by users who check a device.

close.py has the tolerances and the comparison, kernels.py an oracle for each kernel of the
manifest, operations.py gemm, conv2d and the others.

    want = ref.kernel("saxpy_f32")(y, x, a, n)  # the arguments of the launch -> its output after it
    miss = ref.mismatch(got, want, ref.tolerance("saxpy_f32"))
    if miss.index is not None: ...  # the first wrong element

The operations themselves: ref.gemm, ref.conv2d, ref.map, ref.reduce, ref.layout, ref.activate.
"""

from .close import Mismatch, mismatch, tolerance
from .kernels import arguments, kernel
from .operations import activate, conv2d, gemm, layout, map, reduce

__all__ = [
    "Mismatch",
    "activate",
    "arguments",
    "conv2d",
    "gemm",
    "kernel",
    "layout",
    "map",
    "mismatch",
    "reduce",
    "tolerance",
]
