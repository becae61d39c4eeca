"""Type annotations for arguments of operations: options, operands, arrays of other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

Activation: TypeAlias = Literal["relu", "tanh", "sigmoid"] | None
GemmAlgo: TypeAlias = Literal["auto", "naive", "blocked"]
ConvAlgo: TypeAlias = Literal[
    "auto", "naive", "direct", "im2col", "winograd", "winograd2", "winograd6"
]
ImageLayout: TypeAlias = Literal["NCHW", "NHWC"]
"""The layouts of conv2d. The operation `layout` also takes blocked layouts, as str."""
ReduceOp: TypeAlias = Literal["sum", "max", "min", "mean"]
Axis: TypeAlias = int | Sequence[int] | None
Topology: TypeAlias = Literal["mesh", "single"]
Shards: TypeAlias = "Literal['auto', 'each'] | dict[str, float]"
SumOrNone: TypeAlias = Literal["none", "sum"]

Host: TypeAlias = npt.NDArray[Any]
Number: TypeAlias = "float | np.number[Any] | np.bool_"
S = TypeVar("S", bound=np.generic)
F = TypeVar("F", np.float32, np.float64)


class Exporter(Protocol):
    """An array of another library that exports by DLPack."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, int]: ...


class DivideOptions(TypedDict, total=False):
    """Options of a Context's call: which devices may do the call, and how the call is divided."""

    devices: Sequence[str] | None
    topology: Topology | None
    shards: Shards
    max_vram_gb: float | None
    prefer_p2p: bool


class GemmOptions(DivideOptions, total=False):
    """Keyword options of `Context.gemm`."""

    bias: Any
    activation: Activation
    algo: GemmAlgo
    reduce: SumOrNone


class ConvOptions(DivideOptions, total=False):
    """Keyword options of `Context.conv2d`."""

    stride: int | tuple[int, int]
    padding: Any
    dilation: int | tuple[int, int]
    groups: int
    activation: Activation
    layout: ImageLayout
    algo: ConvAlgo


class ReduceOptions(DivideOptions, total=False):
    """Keyword options of `Context.reduce`."""

    keepdims: bool
