"""Reference results of every operation and every kernel of the manifest, in float64 numpy.

The references are independent of the C code on purpose. They are slow, and no operation computes
its result with them. The tests use them. The scheduler validates results with them
(sched/operations/verify.py). `tools/bench.py` shows no time before a result agrees with its
reference. Users may check a device with them.

tolerances.py has tolerances and the comparison. kernels.py has an oracle for each kernel of the
manifest. operations.py has gemm, conv2d and the others.

    want = ref.kernel("saxpy_f32")(y, x, a, n)  # arguments of the launch -> the expected output
    miss = ref.mismatch(got, want, ref.tolerance("saxpy_f32"))
    if miss.index is not None: ...  # the first wrong element

The operations themselves: ref.gemm, ref.conv2d, ref.map, ref.reduce, ref.layout, ref.activate.
"""

from .kernels import arguments, kernel
from .operations import activate, conv2d, gemm, layout, map, reduce
from .tolerances import Mismatch, mismatch, tolerance

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
