"""Launches for every kernel of the manifest: the scalars, the contents of the inputs, and the
number of terms that are summed into an output.

Sizes are awkward (0, 1, primes, one beyond a group) and small, because emulated devices are slow.
kernels.py calls `problems`. A kernel family without an entry here fails its check.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from sparkle_drv._native import lib
from sparkle_drv.testing.checks.base import Array

TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "i32": np.int32,
    "i64": np.int64,
    "u32": np.uint32,
    "u64": np.uint64,
    "u16": np.uint16,
    "u8": np.uint8,
}

Filler = Callable[[np.random.Generator, int], Array]


@dataclass(frozen=True)
class KernelProblem:
    """One launch of a kernel. `scalars` maps argument names to values. `fill` maps the name of an
    input to a function that makes its contents; other inputs are random. Optional pointers that are
    not in `given` are null.

    The tolerance depends on `terms`, the number of terms that are summed into an output. With
    `each`, the error of each output element is relative to that element. This is for outputs that
    differ by orders of magnitude.
    """

    scalars: Mapping[str, float]
    fill: Mapping[str, Filler] = field(default_factory=dict)
    given: frozenset[str] = frozenset()
    terms: int = 1
    each: bool = False


def extent(text: str, scalars: Mapping[str, float]) -> int:
    """Evaluates the manifest's formula for the number of elements behind a pointer, independently
    of core.
    """
    return int(_value(ast.parse(text, mode="eval").body, scalars))


def _value(node: ast.AST, scalars: Mapping[str, float]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return int(scalars[name])
        case ast.Call(func=ast.Name(id="span"), args=args):
            n1, s1, n2, s2 = (_value(a, scalars) for a in args)
            return (n1 - 1) * s1 + (n2 - 1) * s2 + 1 if n1 and n2 else 0
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _value(left, scalars), _value(right, scalars)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return max(a - b, 0)
                case ast.Mult():
                    return a * b
                case ast.Div():
                    return -(-a // b)
    raise ValueError(
        f"extent: expected names, numbers, arithmetic and span(), got {ast.dump(node)}"
    )


def _special(rng: np.random.Generator, n: int) -> Array:
    """Returns ordinary numbers with NaN, infinities, both zeros and a denormal among them."""
    x = rng.standard_normal(n)
    rare = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40]
    x[: len(rare)] = rare[:n]
    return rng.permutation(x)


def _wide(rng: np.random.Generator, n: int) -> Array:
    return rng.uniform(-80, 80, n)


SIZES = (0, 1, 255, 257, 1009)


def _elementwise(
    fill: Mapping[str, Filler] | None = None,
    terms: int = 1,
    each: bool = False,
    **scalars: float,
) -> list[KernelProblem]:
    return [KernelProblem({"n": n, **scalars}, fill or {}, terms=terms, each=each) for n in SIZES]


def _map() -> list[KernelProblem]:
    """Returns launches of the map program relu(x0 * 1.5 + x1) in postfix. Two of its eight inputs
    are given.
    """
    steps = [
        (lib.SP_MAP_INPUT, 0),
        (lib.SP_MAP_CONST, 0),
        (lib.SP_MAP_MUL, 0),
        (lib.SP_MAP_INPUT, 1),
        (lib.SP_MAP_ADD, 0),
        (lib.SP_MAP_RELU, 0),
    ]
    words = np.array([op | operand << 8 for op, operand in steps], np.uint32)
    fill: dict[str, Filler] = {
        "program": lambda rng, n: words,
        "consts": lambda rng, n: np.array([3]),
    }
    given = frozenset({"x0", "x1", "consts"})
    return [
        KernelProblem({"nops": len(words), "nconsts": 1, "n": n}, fill, given, terms=2)
        for n in (0, 1, 257, 1009)
    ]


def _gemm() -> list[KernelProblem]:
    problems = []
    for (m, n, k), act, bias in (
        ((1, 1, 1), 0, False),
        ((17, 19, 23), 1, True),
        ((5, 33, 64), 2, False),
        ((64, 3, 7), 3, True),
        ((3, 4, 0), 0, True),
        ((0, 4, 3), 0, False),
    ):
        operands = frozenset({"bias"} if bias else ())
        plain = {"rsa": k, "csa": 1, "rsb": n, "csb": 1, "rsc": n}
        turned = {"rsa": 1, "csa": m + 1, "rsb": 1, "csb": k + 2, "rsc": n + 3}
        for strides in (plain, turned):
            scalars = {"m": m, "n": n, "k": k, **strides, "act": act}
            problems.append(KernelProblem(scalars, given=operands, terms=max(k, 1)))
    return problems


def _conv2d() -> list[KernelProblem]:
    """Returns launches of conv2d. Each row of the table in this function is one launch: (n c h w oc
    kh kw), (stride), (padding: top, left), (dilation), groups, nhwc, act, bias.
    """
    problems = []
    for shape, stride, pad, dilation, groups, nhwc, act, bias in (
        ((1, 1, 1, 1, 1, 1, 1), (1, 1), (0, 0), (1, 1), 1, 0, 0, False),
        ((2, 3, 7, 9, 5, 3, 3), (1, 1), (1, 1), (1, 1), 1, 0, 1, True),
        ((2, 3, 7, 9, 5, 3, 3), (1, 1), (1, 1), (1, 1), 1, 1, 1, True),
        ((1, 4, 11, 8, 6, 3, 2), (2, 3), (1, 0), (1, 2), 2, 0, 0, True),
        ((1, 6, 5, 5, 6, 3, 3), (1, 2), (2, 2), (2, 1), 6, 1, 3, False),
    ):
        n, c, h, w, oc, kh, kw = shape
        oh = (h + 2 * pad[0] - (kh - 1) * dilation[0] - 1) // stride[0] + 1
        ow = (w + 2 * pad[1] - (kw - 1) * dilation[1] - 1) // stride[1] + 1
        scalars = dict(n=n, c=c, h=h, w_in=w, oc=oc, kh=kh, kw=kw, oh=oh, ow=ow)
        scalars |= dict(sh=stride[0], sw=stride[1], ph=pad[0], pw=pad[1])
        scalars |= dict(dh=dilation[0], dw=dilation[1], groups=groups, nhwc=nhwc, act=act)
        given = frozenset({"bias"} if bias else ())
        problems.append(KernelProblem(scalars, given=given, terms=c // groups * kh * kw))
    return problems


def _reduce(fill: Mapping[str, Filler] | None = None) -> list[KernelProblem]:
    shapes = ((1, 1, 1), (1, 1009, 1), (3, 7, 5), (4, 1, 6), (5, 64, 1), (1, 33, 129))
    return [
        KernelProblem({"outer": o, "n": n, "inner": i}, fill or {}, terms=n) for o, n, i in shapes
    ]


def _layout(*blocks: int) -> list[KernelProblem]:
    images = ((2, 5, 3, 4), (1, 1, 1, 1), (1, 16, 5, 7), (0, 3, 2, 2))
    return [
        KernelProblem({"n": n, "c": c, "h": h, "w": w, **({"block": block} if block else {})})
        for n, c, h, w in images
        for block in blocks or (0,)
    ]


def _strided() -> list[KernelProblem]:
    """Returns launches of a strided copy. Each row of the table in this function is one launch:
    (shape), (strides of dst), (strides of src), (offsets of dst, src), (elements of dst, src).
    """
    problems = []
    for shape, dst_strides, src_strides, offsets, sizes in (
        ((1, 1, 1, 1), (0, 0, 0, 0), (0, 0, 0, 0), (0, 0), (1, 1)),
        ((0, 3, 1, 5), (0, 5, 5, 1), (0, 5, 5, 1), (0, 0), (0, 0)),
        (
            (1, 1, 1, 1009),
            (0, 0, 0, 2),
            (0, 0, 0, -1),
            (1, 1008),
            (2018, 1009),
        ),  # copies a row in reverse to every other element
        # copies the transpose of a matrix
        ((1, 1, 17, 19), (0, 0, 19, 1), (0, 0, 1, 17), (0, 0), (323, 323)),
        # copies columns of a matrix into a packed array
        ((1, 1, 37, 5), (0, 0, 5, 1), (0, 0, 11, 1), (0, 3), (185, 407)),
        # copies a packed array into columns of a matrix
        ((1, 1, 37, 5), (0, 0, 11, 1), (0, 0, 5, 1), (6, 0), (407, 185)),
        # copies an array with its four axes in reverse order, 3 2 1 0
        ((3, 5, 2, 7), (70, 14, 7, 1), (1, 3, 105, 15), (0, 0), (210, 210)),
        ((2, 3, 4, 5), (-120, 40, -10, 2), (0, 0, -5, 1), (150, 15), (280, 20)),  # broadcast
        ((4, 3, 33, 31), (3069, 1023, 31, -1), (3069, 1, 93, 3), (30, 0), (12276, 12276)),
    ):
        scalars = dict(
            zip(("dst_offset", "src_offset", "dst_n", "src_n"), (*offsets, *sizes), strict=True)
        )
        for name, values in (
            ("n", shape),
            ("dst_stride", dst_strides),
            ("src_stride", src_strides),
        ):
            scalars |= {f"{name}{d}": value for d, value in enumerate(values)}
        problems.append(KernelProblem(scalars))
    return problems


FAMILIES: dict[str, list[KernelProblem]] = {
    "noop": [KernelProblem({})],
    "busy": [KernelProblem({"iters": iters}) for iters in (0, 1, 1000)],
    "copy": _elementwise({"x": _special}),
    "fill": _elementwise(a=-7),
    "vecadd": _elementwise(),
    "saxpy": _elementwise(a=0.1, terms=2),
    "axpby": _elementwise(a=0.1, b=-1.75, terms=2),
    "relu": _elementwise({"x": _special}),
    "abs": _elementwise({"x": _special}),
    "neg": _elementwise({"x": _special}),
    "exp": _elementwise({"x": _wide}, each=True),
    "tanh": _elementwise({"x": _wide}) + _elementwise(),
    "map": _map(),
    "gemm": _gemm(),
    "conv2d": _conv2d(),
    "reduce_sum": _reduce(),
    "reduce_max": _reduce() + _reduce({"x": _special}),
    "reduce_min": _reduce() + _reduce({"x": _special}),
    "nchw_to_nhwc": _layout(),
    "nhwc_to_nchw": _layout(),
    "nchw_to_blocked": _layout(4, 8),
    "blocked_to_nchw": _layout(4, 8),
    "strided": _strided(),
    "peak_fma": [KernelProblem({"iters": iters}) for iters in (1, 9)],
}


def problems(name: str) -> list[KernelProblem]:
    """Returns the launches that check a kernel of the manifest. Raises KeyError if the suite has
    none for the kernel.
    """
    family = name if name in FAMILIES else name.rpartition("_")[0]
    if family not in FAMILIES:
        raise KeyError(f"the suite has no launches for the kernel {name!r}")
    return FAMILIES[family]
