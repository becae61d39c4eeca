"""Every manifest kernel as a benchmark: the one table of axes, inputs, costs and tolerances.

Sizes of operands come from the extents in shaders/manifest.json, oracles from sparkle_drv.ops.ref.
A row of the table adds only what a benchmark needs beyond them. flops and nbytes are expressions
(arith.py) over the kernel's scalars, the axes and `size`, the bytes of one element. catalog.py
makes jobs of rows. A test checks that every manifest kernel has a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from _console.problems import UsageError

from . import fills
from .axes import Axis, Point
from .fills import Array, Fill
from .job import TYPES, Invariant, Values

Scalars = Mapping[str, int | float]
ACTIVATIONS = ("none", "relu", "tanh", "sigmoid")  # in the order of enum sp_activation


@dataclass(frozen=True)
class Workload:
    """One row of TABLE: what bench.py must know to run a kernel. The row is for one or several
    dtypes ("{t}" in `kernel`).
    """

    kernel: str
    axes: tuple[Axis, ...] = ()
    types: tuple[str, ...] = ("f32",)
    flops: str = "0"
    nbytes: str = "0"
    scalars: Callable[[Point], Scalars] = lambda point: {
        k: v for k, v in point.items() if isinstance(v, int)
    }
    present: Callable[[Point], tuple[str, ...]] = lambda point: ()
    fill: Fill = fills.signed
    fills: Mapping[str, Fill] = field(default_factory=dict)
    shape: Callable[[Scalars], tuple[int, ...]] | None = None
    tolerance: Callable[[Scalars], float] | None = None
    inner: str | None = None
    drawn: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    invariant: Invariant | None = None
    flops_output: str | None = None
    variant: Callable[[Point], Mapping[str, Array]] | None = None
    square: bool = False
    note: str = ""

    @property
    def type(self) -> str:
        return self.types[0]


LENGTH = Axis("n", ("auto",))


def _elementwise(kernel: str, types: str, words: int, **more: Any) -> Workload:
    """Returns the row of a kernel over n elements that moves `words` values for each element."""
    return Workload(kernel, (LENGTH,), tuple(types.split()), nbytes=f"{words}*n*size", **more)


def _int(point: Point, axis: str) -> int:
    value = point[axis]
    if not isinstance(value, int):
        raise UsageError(f"{axis}: expected a whole number, got {value!r}")
    return value


def _gemm_scalars(p: Point) -> Scalars:
    m, n, k = (_int(p, axis) for axis in "mnk")
    strides_a = (1, m) if p["ta"] else (k, 1)
    strides_b = (1, k) if p["tb"] else (n, 1)
    names = ("rsa", "csa", "rsb", "csb")
    return {
        **{"m": m, "n": n, "k": k, "rsc": n, "act": ACTIVATIONS.index(str(p["act"]))},
        **dict(zip(names, (*strides_a, *strides_b), strict=True)),
    }


def _conv_scalars(p: Point) -> Scalars:
    g = {
        name: _int(p, name)
        for name in ["n", "c", "h", "w", "oc", "kh", "kw", "stride", "pad", "dil", "groups"]
    }
    if g["c"] % g["groups"] or g["oc"] % g["groups"]:
        raise UsageError(
            f"conv2d: groups={g['groups']} does not divide c={g['c']} and oc={g['oc']}"
        )
    out = {}
    for axis, extent, taps in (("oh", "h", "kh"), ("ow", "w", "kw")):
        reach = (g[taps] - 1) * g["dil"] + 1
        if g[extent] + 2 * g["pad"] < reach:
            raise UsageError(
                f"conv2d: {taps}={g[taps]} dil={g['dil']} exceeds the padded {extent}={g[extent]}"
            )
        out[axis] = (g[extent] + 2 * g["pad"] - reach) // g["stride"] + 1
    same = {k: g[k] for k in ("n", "c", "h", "oc", "kh", "kw", "groups")}
    doubled = {f"{k[0]}{axis}": g[k] for k in ("stride", "pad", "dil") for axis in "hw"}
    act = ACTIVATIONS.index(str(p["act"]))
    return {
        **same,
        "w_in": g["w"],
        **out,
        **doubled,
        "nhwc": int(p["layout"] == "NHWC"),
        "act": act,
    }


def _strided_scalars(p: Point) -> Scalars:
    """Returns the scalars of a copy into a packed m x n matrix: from its transpose, or from the
    middle columns of a matrix that is twice as wide.
    """
    m, n = _int(p, "m"), _int(p, "n")
    turned = p["way"] == "transpose"
    row, column, offset = (1, m, 0) if turned else (2 * n, 1, n // 2)
    sizes = {"n0": 1, "n1": 1, "n2": m, "n3": n, "dst_n": m * n}
    strides = {"dst_stride2": n, "dst_stride3": 1, "src_stride2": row, "src_stride3": column}
    unused = {f"{side}_stride{d}": 0 for side in ("dst", "src") for d in (0, 1)}
    src_n = m * n if turned else 2 * m * n
    return {**sizes, **strides, **unused, "dst_offset": 0, "src_offset": offset, "src_n": src_n}


def _bias(p: Point) -> tuple[str, ...]:
    return ("bias",) if p["bias"] else ()


def _cube(s: Scalars) -> tuple[int, ...]:
    return int(s["outer"]), int(s["n"]), int(s["inner"])


def _peak(values: Values, outputs: Mapping[str, Array]) -> str | None:
    flops, iters = int(outputs["flops"][0]), int(values["iters"])
    if flops <= 0 or flops % iters:
        return f"flops[0]: expected a positive multiple of iters={iters}, got {flops}"
    return None


_MAP = "relu(a*x + y)"


def _map_program(kind: str) -> Callable[[Point], Mapping[str, Array]]:
    def program(p: Point) -> Mapping[str, Array]:
        from sparkle_drv.ops.expression.program import compile_map

        made = compile_map(_MAP, frozenset({"a"}), kind)
        consts = [3 if c == "a" else c for c in made.constants]
        return {
            "program": np.asarray(made.words, np.uint32),
            "consts": np.asarray(consts, np.dtype(TYPES[kind])),
        }

    return program


_FLAG = partial(Axis, default=(0,), least=0, neutral=0)
_ACT = Axis("act", ("none",), words=ACTIVATIONS, neutral="none")
_SIZE = Axis("size", (256, 1024))
_IMAGE = (Axis("n", (1,), neutral=1), Axis("c", (64,)), Axis("h", (56,)), Axis("w", (56,)))
_REDUCE = (Axis("outer", (1,), neutral=1), LENGTH, Axis("inner", (1,), neutral=1))
_CONV = (
    *_IMAGE,
    *(Axis("oc", (64,)), Axis("kh", (3,)), Axis("kw", (3,)), Axis("stride", (1,), neutral=1)),
    *(_FLAG("pad", default=(1,)), Axis("dil", (1,), neutral=1), Axis("groups", (1,), neutral=1)),
    *(Axis("layout", ("NCHW",), words=("NCHW", "NHWC"), neutral="NCHW"), _FLAG("bias"), _ACT),
)
_WAY = Axis("way", ("transpose",), words=("transpose", "columns"))
_ALL = "f32 f64 i32"
_IMAGES = "2*n*c*h*w*size"

TABLE: tuple[Workload, ...] = (
    Workload("noop", note="no outputs"),
    Workload("busy_{t}", (Axis("iters", (100_000,)),), ("u32",)),
    _elementwise("copy_{t}", _ALL, 2),
    _elementwise("fill_{t}", _ALL, 1, drawn={"a": (0.5, 1.5)}),
    _elementwise("vecadd_{t}", _ALL, 3, flops="n"),
    _elementwise("saxpy_{t}", "f32", 3, flops="2*n", drawn={"a": (0.5, 1.5)}),
    # axpby computes y = a*x + b*y. b is well below 1, so that y stays near a*x / (1 - b) after any
    # number of launches.
    _elementwise(
        "axpby_{t}", "f32 f64", 3, flops="3*n", drawn={"a": (0.5, 1.5), "b": (0.25, 0.75)}
    ),
    *(_elementwise(f"{op}_{{t}}", _ALL, 2) for op in ("relu", "abs", "neg")),
    *(
        _elementwise(f"{op}_{{t}}", "f32 f64", 2, fill=fills.between(-4, 4))
        for op in ("exp", "tanh")
    ),
    *(
        _elementwise(f"map_{kind}", kind, 3, flops="3*n", variant=_map_program(kind), note=_MAP)
        for kind in _ALL.split()
    ),
    Workload(
        "gemm_{t}",
        (
            _SIZE,
            *(Axis(x, ("size",)) for x in "mnk"),
            _FLAG("ta"),
            _FLAG("tb"),
            _FLAG("bias"),
            _ACT,
        ),
        ("f32", "f64"),
        flops="2*m*n*k",
        nbytes="size*(m*k + k*n + m*n)",
        scalars=_gemm_scalars,
        present=_bias,
        inner="k",
        square=True,
    ),
    Workload(
        "conv2d_{t}",
        _CONV,
        flops="2*n*oc*oh*ow*(c//groups)*kh*kw",
        nbytes="size*(n*c*h*w_in + oc*(c//groups)*kh*kw + n*oc*oh*ow)",
        scalars=_conv_scalars,
        present=_bias,
        inner="(c//groups)*kh*kw",
    ),
    Workload(
        "reduce_sum_{t}",
        _REDUCE,
        ("f32", "f64", "i32"),
        flops="outer*n*inner",
        nbytes="size*outer*inner*(n + 1)",
        fill=fills.summable,
        shape=_cube,
        # The inputs add up exactly in any order (fills.summable), so only rounding the sum makes an
        # error.
        tolerance=lambda s: 2.0,
    ),
    *(
        Workload(
            f"reduce_{op}_{{t}}",
            _REDUCE,
            ("f32", "f64", "i32"),
            nbytes="size*outer*inner*(n + 1)",
            fill=fills.peaked(sign),
            shape=_cube,
        )
        for op, sign in (("max", 1), ("min", -1))
    ),
    *(
        Workload(f"{a}_to_{b}_{{t}}", _IMAGE, nbytes=_IMAGES)
        for a, b in (("nchw", "nhwc"), ("nhwc", "nchw"))
    ),
    *(
        Workload(f"{a}_to_{b}_{{t}}", (*_IMAGE, Axis("block", (16,))), nbytes=_IMAGES)
        for a, b in (("nchw", "blocked"), ("blocked", "nchw"))
    ),
    Workload(
        "strided_{t}",
        (Axis("m", (2048,)), Axis("n", (2048,)), _WAY),
        ("u8", "u16", "u32", "u64"),
        nbytes="2*m*n*size",
        scalars=_strided_scalars,
    ),
    *(
        Workload(
            f"peak_fma_{kind}",
            (Axis("iters", (1 << 16,)),),
            ("u64",),
            flops_output="flops",
            invariant=_peak,
        )
        for kind in ("f32", "f64")
    ),
)

DEFAULT = ("saxpy_f32", "copy_f32", "gemm_f32", "gemm_f64", "conv2d_f32", "reduce_sum_f32")
DEFAULT_AXES: Mapping[str, Mapping[str, str]] = {"gemm_f64": {"size": "512"}}
# EMULATED_AXES: default sizes on a device that interprets kernels. EMULATED_LENGTH: the value there
# of a length given as "auto". Rates of such a device mean nothing, so a launch should end within
# milliseconds.
EMULATED_AXES = {"size": 64, "c": 16, "oc": 16, "h": 14, "w": 14, "iters": 256}
EMULATED_LENGTH = 1 << 14


@lru_cache(maxsize=1)
def table() -> Mapping[str, Workload]:
    """Returns the rows of TABLE by kernel name. A row for several types becomes one per type."""
    rows = {}
    for row in TABLE:
        for kind in row.types:
            rows[row.kernel.replace("{t}", kind)] = replace(row, types=(kind,))
    return rows
