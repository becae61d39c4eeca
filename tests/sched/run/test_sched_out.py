"""Calls of one shape whose `out` is absent, of numpy or of the Context, in random order.

When this fails, a call that is correct raises TypeError, or writes a wrong result, because of the
calls before it.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.sched.run.arrays import ContextArray

pytestmark = [pytest.mark.devices("cpu", "egl:0"), pytest.mark.usefixtures("short_probes")]
F32 = np.float32
X = np.arange(256, dtype=F32).reshape(16, 16) % 7
IMAGE, FILTERS = X.reshape(1, 4, 8, 8), np.ones((2, 4, 1, 1), F32)
CALLS = {
    "map": (lambda c, x, out: c.map("x + 1", x=x, out=out), X, X + 1),
    "gemm": (lambda c, x, out: c.gemm(x, x, out=out), X, X @ X),
    "layout": (
        lambda c, x, out: c.layout(x, "NHWC", source="NCHW", out=out),
        IMAGE,
        IMAGE.transpose(0, 2, 3, 1),
    ),
    "conv2d": (
        lambda c, x, out: c.conv2d(x, FILTERS, out=out),
        IMAGE,
        IMAGE.sum(1, keepdims=True).repeat(2, 1),
    ),
    "reduce": (lambda c, x, out: c.reduce(x, "sum", 1), X, X.sum(1)),
}


def operand(ctx, kind, host):
    if kind == "context":
        return ctx.array(host.shape, host.dtype).fill(host)
    if kind == "constant":
        return ctx.constant(host)
    if kind == "strided":
        return np.repeat(host, 2, axis=-1)[..., ::2]
    return host.tolist() if kind == "list" else host.copy()


def target(ctx, kind, expected):
    """Returns (out, whether a call must refuse it)."""
    shape = expected.shape
    wrong = {"short": shape[1:], "wide": (*shape[:-1], shape[-1] + 1)}
    if kind == "read-only":
        out = np.zeros(shape, F32)
        out.flags.writeable = False
        return out, True
    if kind.startswith("context"):
        dtype = np.float64 if kind == "context of f64" else F32
        return ctx.array(wrong["wide"] if kind == "context, wide" else shape, dtype), kind != (
            "context"
        )
    if kind == "strided":
        return np.zeros((*shape[:-1], 2 * shape[-1]), F32)[..., ::2], False
    if kind in wrong:
        return np.zeros(wrong[kind], F32), True
    if kind == "f64":
        return np.zeros(shape), True
    return (None, False) if kind == "none" else (np.zeros(shape, F32), False)


OPERANDS = ("numpy", "numpy", "numpy", "context", "constant", "strided", "list")
TARGETS = ("none", "none", "numpy", "context", "context", "strided", "short", "wide", "f64")
TARGETS += ("read-only", "context of f64", "context, wide")


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("uris", [["cpu"], ["egl:0"], ["cpu", "egl:0"]], ids=",".join)
def test_random_outs(uris, name):
    call, host, expected = CALLS[name]
    seed = f"{uris} {name}"
    draw = random.Random(seed)
    with sp.init(uris, profile=False) as ctx:
        for step in range(40):
            kinds = draw.choice(OPERANDS), "none" if name == "reduce" else draw.choice(TARGETS)
            said = f"{seed}, step {step}: {kinds}"
            x = operand(ctx, kinds[0], host)
            out, refused = target(ctx, kinds[1], expected)
            refused = refused or kinds[0] == "list"
            if kinds[0] == "context" and isinstance(out, np.ndarray):
                refused = True
            if refused:
                with pytest.raises((TypeError, ValueError)):
                    call(ctx, x, out)
                continue
            made = call(ctx, x, out)
            assert out is None or made is out, said
            on_device = isinstance(made, ContextArray)
            assert on_device == (kinds[0] == "context" or "context" in kinds[1]), said
            np.testing.assert_allclose(np.asarray(made), expected, 1e-5, err_msg=said)
