"""What type checkers are asked of operations (test_types.py): each line ends in the answer."""

import numpy as np
import numpy.typing as npt
from typing_extensions import reveal_type

import sparkle_drv as sp
from sparkle_drv.sched.run.arrays import ContextArray

f32 = npt.NDArray[np.float32]


def operations(dev: sp.Device, a: f32, d: npt.NDArray[np.float64], x: sp.Array) -> None:
    reveal_type(sp.ops.gemm(dev, a, a))  # f32
    reveal_type(sp.ops.gemm(dev, d, d, bias=d, activation="relu", algo="blocked"))  # f64
    reveal_type(sp.ops.gemm(dev, x, a))  # Array
    reveal_type(sp.ops.gemm(dev, a, x))  # Array
    reveal_type(sp.ops.gemm(dev, a, sp.ops.constant(dev, a)))  # f32
    reveal_type(sp.ops.conv2d(dev, a, a, stride=2, layout="NHWC"))  # f32
    reveal_type(sp.ops.conv2d(dev, x, a))  # Array
    reveal_type(sp.ops.map(dev, "x + y", a, 2.0))  # ndarray
    reveal_type(sp.ops.map(dev, "x + y", x=x, y=a))  # Array
    reveal_type(sp.ops.reduce(dev, a, "max", axis=(0, 1)))  # f32
    reveal_type(sp.ops.reduce(dev, x))  # Array
    reveal_type(sp.ops.layout(dev, a, "NHWC"))  # f32
    reveal_type(sp.ops.layout(dev, x, "NCHW8c"))  # Array
    reveal_type((2 * x + a).sum(axis=0))  # Array
    reveal_type(x[1:].T @ a)  # Array


def of_a_context(ctx: sp.Context, a: f32, x: ContextArray, y: sp.Array) -> None:
    reveal_type(ctx.gemm(a, a, topology="mesh", shards="each", reduce="sum"))  # f32
    reveal_type(ctx.gemm(x, a))  # ContextArray
    reveal_type(ctx.gemm(a, x))  # ContextArray
    reveal_type(ctx.gemm(y, a))  # Array
    reveal_type(ctx.conv2d(a, a, padding="same"))  # f32
    reveal_type(ctx.map("x + y", a, y=1.0))  # ndarray
    reveal_type(ctx.map("x + y", x, y=a))  # ContextArray
    reveal_type(ctx.reduce(a, "min"))  # f32
    reveal_type(ctx.reduce(x))  # ContextArray
    reveal_type(ctx.layout(x, "NHWC"))  # ContextArray
    reveal_type((2 * x + a).sum(axis=0))  # ContextArray
    reveal_type(x[1:].T @ a)  # ContextArray


def misspelled(dev: sp.Device, ctx: sp.Context, a: f32) -> None:
    sp.ops.gemm(dev, a, a, activation="rely")  # error
    sp.ops.conv2d(dev, a, a, layout="NHCW")  # error
    sp.ops.reduce(dev, a, "total")  # error
    ctx.gemm(a, a, algo="fast")  # error
    ctx.gemm(a, a, topology="ring")  # error
