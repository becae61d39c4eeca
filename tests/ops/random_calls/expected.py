"""What numpy says of a call, in float64, and the most by which rounding may differ from it.

Written without the package's references. The bounds grow with the sums of magnitudes, so an element
that is missing, stale or of another place is far outside.
"""

from __future__ import annotations

from typing import Any

import numpy as np

EPS = {"float32": 2.0**-23, "float64": 2.0**-52}


def activated(x: np.ndarray, activation: str | None) -> np.ndarray:
    if activation == "relu":
        return np.maximum(x, 0)
    if activation == "tanh":
        return np.tanh(x)
    if activation == "sigmoid":
        return np.exp(-np.logaddexp(0, -x))
    return x


def product(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None, activation: str | None):
    """(value, bound) of activation(a @ b + bias)."""
    eps = EPS[a.dtype.name]
    a, b = a.astype(np.float64), b.astype(np.float64)
    total, size = a @ b, np.abs(a) @ np.abs(b)
    if bias is not None:
        total, size = total + bias, size + np.abs(bias)
    return activated(total, activation), eps * (a.shape[1] + 8) * size + 8 * eps


def pairs(given: Any) -> tuple[Any, Any]:
    return given if isinstance(given, tuple) else (given, given)


def padding_of(padding: Any, extent, kernel, stride, dilation) -> list[tuple[int, int]]:
    """(before, after) for the vertical and the horizontal direction."""
    if padding == "valid":
        return [(0, 0), (0, 0)]
    if padding == "same":
        whole = [
            max(0, (-(-e // s) - 1) * s + (k - 1) * d + 1 - e)
            for e, k, s, d in zip(extent, kernel, stride, dilation, strict=True)
        ]
        return [(p // 2, p - p // 2) for p in whole]
    return [pairs(p) for p in pairs(padding)]


def convolution(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, *, stride: Any, padding: Any,
    dilation: Any, groups: int, activation: str | None, layout: str,
):  # fmt: skip
    """(value, bound) of conv2d."""
    if layout == "NHWC":
        x = x.transpose(0, 3, 1, 2)
    stride, dilation, kernel = pairs(stride), pairs(dilation), w.shape[2:]
    around = padding_of(padding, x.shape[2:], kernel, stride, dilation)
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *around])
    w = w.astype(np.float64)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(x, reach, axis=(2, 3))
    seen = seen[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    n, c, oh, ow = seen.shape[:4]
    oc, each = w.shape[0], c // groups
    seen = seen.reshape(n, groups, each, oh, ow, *kernel)
    w = w.reshape(groups, oc // groups, each, *kernel)
    how = "ngchwij,gocij->ngohw"
    total = np.einsum(how, seen, w, optimize=True).reshape(n, oc, oh, ow)
    size = np.einsum(how, np.abs(seen), np.abs(w), optimize=True).reshape(n, oc, oh, ow)
    # Winograd's algorithms err by up to 7e-5 of the output's root mean square, also where a patch
    # of zeros leaves no magnitude.
    spread = float(np.sqrt(np.mean(total**2))) if total.size else 0.0
    bound = 2e-5 * size + 3e-4 * spread + 1e-6
    if bias is not None:
        total = total + bias[:, None, None]
        bound = bound + 1e-6 * np.abs(bias)[:, None, None]
    total = activated(total, activation)
    if layout == "NHWC":
        return total.transpose(0, 2, 3, 1), bound.transpose(0, 2, 3, 1)
    return total, bound


def reduced(a: np.ndarray, op: str, axis: Any, keepdims: bool):
    """(value, bound) of reduce; `a` may be a wider type than the one that is computed in."""
    exact = a.dtype.kind == "i" or op in ("max", "min")
    value = getattr(np, op)(a, axis=axis, keepdims=keepdims)
    if exact:
        return value, 0.0
    size = np.abs(a.astype(np.float64)).sum(axis=axis, keepdims=keepdims)
    eps = EPS[a.dtype.name]
    wide = getattr(np, op)(a.astype(np.float64), axis=axis, keepdims=keepdims)
    return wide, 64 * eps * size + eps


def block_of(layout: str) -> int:
    return int(layout[4:-1]) if layout.endswith("c") and layout != "NHWC" else 0


def to_layout(a: np.ndarray, source: str, target: str, channels: int | None) -> np.ndarray:
    """Images of one layout in another."""
    if source == "NHWC":
        a = a.transpose(0, 3, 1, 2)
    elif block_of(source):
        n, blocks, h, w, block = a.shape
        a = a.transpose(0, 1, 4, 2, 3).reshape(n, blocks * block, h, w)[:, :channels]
    if target == "NHWC":
        return a.transpose(0, 2, 3, 1)
    block = block_of(target)
    if not block:
        return a
    n, c, h, w = a.shape
    blocks = -(-c // block)
    whole = np.zeros((n, blocks * block, h, w), a.dtype)
    whole[:, :c] = a
    return whole.reshape(n, blocks, block, h, w).transpose(0, 1, 3, 4, 2)
