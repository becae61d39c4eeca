"""Operations: checked arguments, a tile plan, a kernel of the manifest.

numpy arrays in: synchronous, numpy arrays out. core.Array in: asynchronous on dev.default_queue, an
Array out with `.fence` set. Arrays of other libraries (DLPack) count as numpy's in host memory, and
as an Array in the device's (memory/foreign.py). Every call reads its operands
anew; weights that never change are best made a `constant`. `ref` holds the float64 references,
`tiles` the tile plans, `recycled` the memory of results. `gemm` and `conv2d` are objects, so that
they can have a `plan`. Their calls:
`sparkle_drv.ops.gemm.operation.Gemm.__call__`
`sparkle_drv.ops.conv2d.operation.Conv2d.__call__`

gemm/, conv2d/, map/, reduce/, layout/ and strided/ have one operation each. Below are calls/
(choice of a plan), tiles/ (plans), memory/ (staging, constants), expression/ (the language of
maps), deferred/ (operators of Arrays), shapes/, arguments/ (checks) and ref/. functions.py has the
functions of traced maps.

Imported by `sparkle_drv` only when somebody first says `sparkle_drv.ops`: this layer needs numpy.
"""

from . import functions, ref, tiles
from .conv2d.operation import conv2d
from .expression.trace import traced
from .gemm.operation import gemm
from .layout.operation import layout
from .map.operation import map
from .memory import recycled
from .memory.constant import Constant
from .memory.weights import constant
from .reduce.fold import lazy
from .reduce.operation import reduce
from .strided.operation import strided_copy

__all__ = ["Constant", "constant", "conv2d", "functions", "gemm", "layout", "lazy"]
__all__ += ["map", "recycled", "reduce", "ref", "strided_copy", "tiles", "traced"]
