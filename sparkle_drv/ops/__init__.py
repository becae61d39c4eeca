"""Operations: each checks its arguments, chooses a tile plan and launches a kernel of the manifest.

With numpy arrays a call is synchronous and returns numpy arrays. If an operand is a core.Array, the
call runs asynchronously on dev.default_queue and returns an Array with `.fence` set. An array of
another library (DLPack) counts as a numpy array if it is in host memory. It counts as an Array if
it is in the device's memory (memory/foreign.py).

Every call reads its operands again; use `constant` for weights that never change. `ref` holds the
float64 references, `tiles` the tile plans, `recycled` the memory of results. `gemm` and `conv2d`
are objects, because they have a method `plan`. Their calls:
`sparkle_drv.ops.gemm.operation.Gemm.__call__`
`sparkle_drv.ops.conv2d.operation.Conv2d.__call__`

The folders gemm/, conv2d/, map/, reduce/, layout/ and strided/ have one operation each. They use
calls/ (choice of a plan), tiles/ (plans), memory/ (staging, constants), expression/ (the language
of maps), deferred/ (operators of Arrays), shapes/, arguments/ (checks) and ref/. functions.py has
the functions of traced maps.

`sparkle_drv` imports this folder at the first use of `sparkle_drv.ops`, because it needs numpy.
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
