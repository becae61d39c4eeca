"""Random plans of gemm and conv2d, random graphs, and the choice among all kinds of calls."""

from __future__ import annotations

import expected
import numpy as np
import operands
from drawing import ACTIVATIONS, FORMS, KINDS, Call, Place, extent, image, of_images

import sparkle_drv as sp
from sparkle_drv import ops


def plan(form, rng, place: Place) -> Call:
    """A plan of gemm or conv2d, whose operands are row-major and of the device, or of numpy."""
    dev: sp.Device = place.dev

    def plain(shape, dtype=np.float32):
        if dev.info.unified and rng.random() < 0.5:
            return operands.host(rng, shape, dtype, "plain")
        return operands.of_device(rng, dev, shape, dtype)

    if form.random() < 0.3:
        drawn = image(form, place) | {"n": 1}
        x, w, bias = of_images(rng, place, drawn, form.random() < 0.5)
        x = plain(x.given.shape)
        kept_w, kept_bias = w.value, bias and bias.value
        made = ops.conv2d.plan(dev, x.given.shape, w.given, bias and bias.given, **drawn["options"])
        out = plain(made.out_shape)

        def run():
            made(x.given, out.given).wait()
            return operands.on_host(out.given)

        def expect():
            return expected.convolution(x.value, kept_w, kept_bias, **drawn["options"])

        return Call(f"plan conv2d {x.given.shape} {drawn}", [x], run, expect)
    m, n, k = (extent(form, place, False) for _ in range(3))
    dtype = np.float64 if place.everything and form.random() < 0.25 else np.float32
    activation = ACTIVATIONS[form.integers(len(ACTIVATIONS))]
    a, b, out = plain((m, k), dtype), plain((k, n), dtype), plain((m, n), dtype)
    bias = plain((n,), dtype) if form.random() < 0.4 else None
    held, bound = form.random() < 0.4, form.random() < 0.3
    kept = b.value if held else None
    made = ops.gemm.plan(dev, m, n, k, dtype, activation=activation, b=b.given if held else None)
    right = None if held else b.given
    arrays = all(x.kind != "host" for x in (a, b, out, *([] if bias is None else [bias])))
    go = made.bind(a.given, right, out.given, bias and bias.given) if bound and arrays else None

    def run():
        if go is not None:
            made.queue.fence(go()).wait()
        else:
            made(a.given, right, out.given, bias and bias.given).wait()
        return operands.on_host(out.given)

    def expect():
        return expected.product(a.value, kept if held else b.value, bias and bias.value, activation)

    given = [x for x in (a, None if held else b, bias) if x is not None]
    return Call(f"plan gemm {m}x{n}x{k} {activation} {held} {go is not None}", given, run, expect)


def graph(form, rng, place: Place) -> Call:
    """Two or three operations of a graph, some of whose arrays are inputs."""
    m, n, k = (extent(form, place, False) for _ in range(3))
    a, b = place.operand(rng, (m, k)), place.operand(rng, (k, n), constant=True)
    last = [place.operand(rng, (m, n)), place.operand(rng, (n, 5), constant=True), None][
        form.integers(3)
    ]
    way = 2 if last is None else int(last.given.shape != (m, n) or (m, n) == (n, 5))
    bound_a = form.random() < 0.5 and a.kind != "constant"
    activation = ACTIVATIONS[form.integers(len(ACTIVATIONS))]
    with place.ctx.graph() as g:
        node = g.input((m, k)) if bound_a else a.given
        c = g.gemm(node, b.given, activation=activation)
        if way == 0:
            g.map("relu(c*2 + z)", c=c, z=last.given)
        elif way == 1:
            g.gemm(c, last.given)
        else:
            g.reduce(c, "sum", 1)

    def make():
        return operands.on_host(g.run({node: a.given} if bound_a else None))

    def expect():
        value, bound = expected.product(a.value, b.value, None, activation)
        if way == 0:
            z = last.value
            return np.maximum(value * 2 + z, 0), bound * 4 + 1e-6 * (np.abs(value) + np.abs(z))
        if way == 1:
            made = value.astype(np.float32)
            more = expected.product(made, last.value, None, None)[1]
            return value @ last.value.astype(float), more + 2 * (bound + 1e-7) @ np.abs(last.value)
        size = np.abs(value).sum(1)
        return value.sum(1), 2 * bound.sum(1) + 1e-5 * size

    given = [x for x in (a, b, last) if x is not None]
    return Call(f"graph {m}x{n}x{k} {way} {activation} {bound_a}", given, make, expect, closes=[g])


def drawn(seed: int, index: int, place: Place) -> tuple[str, Call, np.random.Generator]:
    """Call `index` of a run: its kind, itself, and the randomness left for its contents."""
    rng = np.random.default_rng((seed, index))
    number = int(rng.integers(FORMS))
    form = np.random.default_rng((seed, 10**9, number))
    kinds = {**KINDS, **({"plan": plan} if place.dev is not None else {"graph": graph})}
    kind = str(form.choice(list(kinds)))
    return kind, kinds[kind](form, rng, place), rng
