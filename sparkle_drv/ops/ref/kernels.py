"""An oracle for every kernel of shaders/manifest.json, called with the arguments of the launch.

An oracle computes the expected output of a launch. It translates flat memory, strides and sizes
into calls of operations.py. The public name is `ref.kernel`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sparkle_drv.ops.expression import program
from sparkle_drv.ops.expression.elementwise import ARITY, Array, apply

from .operations import conv2d, f64, gemm, layout, reduce

ACTIVATIONS = (None, "relu", "tanh", "sigmoid")  # in the order of enum sp_activation

Oracle = Callable[..., "Array | None"]


def kernel(name: str) -> Oracle:
    """Returns the oracle of a manifest kernel, a function of the launch's arguments in their order.

    Pointers are numpy arrays of any shape, or None for an absent optional pointer. The array of an
    output argument has the contents before the launch. The oracle returns the contents expected
    after the launch: flat, float64 for f32 and f64, otherwise exact integers. It returns None for
    noop and peak_fma, which have no defined result. Raises KeyError for a kernel without an oracle,
    such as pack_*, whose output only the cpu's kernels read.

    >>> fill = ref.kernel("fill_f32")
    >>> fill(np.zeros(3, np.float32), 2.0, 3)
    array([2., 2., 2.])
    """
    if name not in _KERNELS:
        raise KeyError(f"ref.kernel: there is no oracle for {name!r}")
    return _KERNELS[name]


def _flat(x: Array) -> Array:
    x = np.asarray(x).reshape(-1)
    return f64(x) if x.dtype.kind == "f" else x


def _elementwise(op: str) -> Oracle:
    return lambda y, x, n: apply(op, _flat(x)[:n])


def _axpby(y: Array, x: Array, a: float, b: float, n: int) -> Array:
    # The kernel gets a and b rounded to the element type.
    a, b = _flat(np.array([a, b], np.asarray(y).dtype))
    return np.asarray(a * _flat(x)[:n] + b * _flat(y)[:n])


def _busy(y: Array, iters: int) -> Array:
    x = 1
    for _ in range(iters):
        x = (1664525 * x + 1013904223) & 0xFFFFFFFF
    return np.array([x], dtype=np.uint32)


def _map(y: Array, *rest: Any) -> Array:
    *inputs, words, consts, nops, _nconsts, n = rest
    stack: list[Array] = []
    for op, slot in program.decode(np.asarray(words).reshape(-1)[:nops]):
        if op == "input":
            stack.append(_flat(inputs[slot])[:n])
        elif op == "const":
            stack.append(_flat(consts)[slot])
        else:
            operands = stack[-ARITY[op] :]
            stack[-ARITY[op] :] = [apply(op, *operands)]
    return np.array(np.broadcast_to(stack.pop(), (n,)))


def _at(rows: int, columns: int, row: int, column: int) -> Array:
    """Returns the positions in flat memory of the elements of a strided matrix."""
    return np.add.outer(np.arange(rows) * row, np.arange(columns) * column)


def _gemm(c: Array, a: Array, b: Array, bias: Array | None, *sizes: int) -> Array:
    m, n, k, rsa, csa, rsb, csb, rsc, act = sizes
    want = gemm(
        _flat(a)[_at(m, k, rsa, csa)],
        _flat(b)[_at(k, n, rsb, csb)],
        None if bias is None else _flat(bias)[:n],
        ACTIVATIONS[act],
    )
    span = (m - 1) * rsc + n if m and n else 0
    after = np.array(_flat(c)[:span])  # elements between the rows do not change
    after[_at(m, n, rsc, 1)] = want
    return after


def _conv2d(y: Array, x: Array, w: Array, bias: Array | None, *sizes: int) -> Array:
    n, c, h, w_in, oc, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, groups, nhwc, act = sizes
    # The filters of the last outputs may reach beyond the image, below it and to its right. So pad
    # the image by as many pixels as they reach beyond it.
    below = max(0, (oh - 1) * sh + (kh - 1) * dh + 1 - ph - h)
    right = max(0, (ow - 1) * sw + (kw - 1) * dw + 1 - pw - w_in)
    out = conv2d(
        _shaped(x, n, h, w_in, c) if nhwc else _shaped(x, n, c, h, w_in),
        _shaped(w, oc, c // groups, kh, kw),
        None if bias is None else _flat(bias)[:oc],
        stride=(sh, sw),
        padding=((ph, below), (pw, right)),
        dilation=(dh, dw),
        groups=groups,
        activation=ACTIVATIONS[act],
        layout="NHWC" if nhwc else "NCHW",
    )
    return (out[:, :oh, :ow] if nhwc else out[:, :, :oh, :ow]).reshape(-1)


def _reduction(op: str) -> Oracle:
    return lambda y, x, *cube: reduce(_shaped(x, *cube), op, 1).reshape(-1)


def _blocked(y: Array, x: Array, *sizes: int) -> Array:
    *nchw, block = sizes
    return _flat(layout(_shaped(x, *nchw), "NCHW", f"NCHW{block}c"))


def _unblocked(y: Array, x: Array, n: int, c: int, h: int, w: int, block: int) -> Array:
    blocks = _shaped(x, n, -(-c // block), h, w, block)
    return _flat(layout(blocks, f"NCHW{block}c", "NCHW", c))


def _strided(dst: Array, src: Array, *sizes: int) -> Array:
    shape, dst_strides, src_strides = sizes[:4], sizes[4:8], sizes[8:12]
    dst_offset, src_offset, dst_n, _src_n = sizes[12:]
    after: Array = _flat(dst)[:dst_n].copy()  # other elements do not change
    after[_places(shape, dst_strides, dst_offset)] = _flat(src)[
        _places(shape, src_strides, src_offset)
    ]
    return after


def _places(shape: Sequence[int], strides: Sequence[int], offset: int) -> Array:
    """Returns the positions in flat memory of the elements of a strided array."""
    found = np.full(shape, offset, np.int64)
    for axis, (n, stride) in enumerate(zip(shape, strides, strict=True)):
        found += (np.arange(n) * stride).reshape(-1, *(1,) * (len(shape) - axis - 1))
    return found


def _shaped(x: Array, *shape: int) -> Array:
    return np.asarray(x).reshape(-1)[: math.prod(shape)].reshape(shape)


_TYPED: dict[str, Oracle] = {
    "copy": lambda y, x, n: _flat(x)[:n],
    "fill": lambda y, a, n: _flat(np.full(n, a, np.asarray(y).dtype)),
    "vecadd": lambda z, x, y, n: _flat(x)[:n] + _flat(y)[:n],
    "saxpy": lambda y, x, a, n: _axpby(y, x, a, 1.0, n),
    "axpby": _axpby,
    **{op: _elementwise(op) for op in ("relu", "abs", "neg", "exp", "tanh")},
    "peak_fma": lambda flops, iters: None,
    "map": _map,
    "gemm": _gemm,
    "conv2d": _conv2d,
    **{f"reduce_{op}": _reduction(op) for op in ("sum", "max", "min")},
    "nchw_to_nhwc": lambda y, x, *nchw: _flat(layout(_shaped(x, *nchw), "NCHW", "NHWC")),
    "nhwc_to_nchw": lambda y, x, n, c, h, w: _flat(layout(_shaped(x, n, h, w, c), "NHWC", "NCHW")),
    "nchw_to_blocked": _blocked,
    "blocked_to_nchw": _unblocked,
}
_KERNELS = {f"{base}_{tag}": _TYPED[base] for base in _TYPED for tag in ("f32", "f64", "i32")} | {
    "noop": lambda: None,
    "busy_u32": _busy,
    **{f"strided_u{bits}": _strided for bits in (8, 16, 32, 64)},
}


def arguments(signature: Sequence[Mapping[str, Any]], **values: Any) -> list[Any]:
    """Returns `values` in the order of a manifest signature, None for absent optional pointers.

    Raises KeyError if another argument is missing.

    >>> signature = [{"name": "x"}, {"name": "n"}]
    >>> ref.arguments(signature, n=4, x=1.5)
    [1.5, 4]
    """
    return [
        values.get(arg["name"]) if arg.get("optional") else values[arg["name"]] for arg in signature
    ]
