"""The cpu kernels of every instruction set this machine has, launched directly: what neither the
conformance suite nor the tests of sparkle_drv.ops reach. Odd tile plans, poisoned outputs with
guards around them, any geometry, exact map programs, error bounds, refusals.

When this fails, a cpu kernel writes outside its output, or is wrong with a tuned plan.
"""

import itertools
import os

import isas
import numpy as np
import pytest
from sparkle_drv._native import lib

from sparkle_drv.types import TilePlan

pytestmark = pytest.mark.opens(*isas.HERE)

SEED = int(os.environ.get("SPARKLE_TEST_SEED", "20260"))
DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32}
ONE_CALL = 65536  # a group size that makes most grids here one group


@pytest.fixture
def rng():
    print("seed", SEED)
    return np.random.default_rng(SEED)


def run(dev, name, *args, plan=None):
    """One launch of a routine, waited for."""
    with dev.kernel(name, plan=plan) as kernel:
        dev.default_queue.launch(kernel, *args).wait()


def run_grid(dev, name, n, *args):
    with dev.kernel(name) as kernel:
        groups = -(-n // ONE_CALL)
        dev.default_queue.launch(kernel, *args, groups=groups, group_size=ONE_CALL).wait()


def activated(z, act):
    with np.errstate(over="ignore"):
        return [
            lambda: z,
            lambda: np.maximum(z, 0),
            lambda: np.tanh(z),
            lambda: 1 / (1 + np.exp(-z)),
        ][act]()


def tile_plan(rng, algos):
    """A plan as silly as a tuner's first guess may be."""
    mc, nc, kc = (int(rng.choice(choice)) for choice in ([0, 5, 30], [0, 7, 40], [0, 1, 13]))
    return TilePlan(algo=str(rng.choice(algos)), levels=((mc, nc, kc),))


def strided(rng, rows, columns, dtype):
    """A matrix in a buffer, its strides, its values: either order, gaps everywhere."""
    step, gap = int(rng.integers(1, 3)), int(rng.integers(0, 4))
    by_rows = bool(rng.integers(2))
    inner, outer = (columns, rows) if by_rows else (rows, columns)
    pitch = inner * step + gap
    buffer = rng.standard_normal(outer * pitch + 1).astype(dtype)
    values = buffer[: outer * pitch].reshape(outer, pitch)[:, : inner * step : step]
    return (buffer, pitch, step, values) if by_rows else (buffer, step, pitch, values.T)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_gemm_of_any_strides_and_tiles(dev, rng, dtype):
    """c is poisoned with NaN: what is read before it is written shows, and so does what is written
    beyond the matrix."""
    t = DTYPES[dtype]
    for case in range(80):
        m, n, k = (int(v) for v in rng.integers(0, 200 if case % 8 == 0 else 50, 3))
        k = case // 10 % 3 if case % 10 == 0 else k
        a, rsa, csa, a_values = strided(rng, m, k, t)
        b, rsb, csb, b_values = strided(rng, k, n, t)
        bias = rng.standard_normal(n).astype(t) if case % 2 and n else None
        act, pitch = case % 4, n + int(rng.integers(0, 4))
        c = np.full((m + 1, pitch + 1), np.nan, t)
        plan = tile_plan(rng, ["auto", "blocked", "naive"])
        scalars = (m, n, k, rsa, csa, rsb, csb, pitch + 1, act)
        run(dev, f"gemm_{dtype}", c, a, b, bias, *scalars, plan=plan)
        sums = a_values.astype(np.float64) @ b_values.astype(np.float64)
        want = activated(sums + (0 if bias is None else bias), act)
        # Operands have variance 1, sums an rms of sqrt(k), errors add up like a random walk.
        limit = np.finfo(t).eps * (4 * k + 8)
        assert np.abs(c[:m, :n] - want).max(initial=0) <= limit, (scalars, plan)
        assert np.isnan(c[:, n:]).all(), (scalars, plan)
        assert np.isnan(c[m:]).all(), (scalars, plan)


@pytest.mark.parametrize("shape", [(300, 70, 90), (70, 300, 90), (17, 1000, 40), (1000, 5, 300)])
def test_gemm_gives_the_same_bits_for_any_number_of_threads(dev, rng, shape):
    m, n, k = shape
    a, b = (rng.standard_normal(size).astype(np.float32) for size in [(m, k), (k, n)])
    results = []
    for threads in (1, dev.info.compute_units):
        c = np.full((m, n), np.nan, np.float32)
        scalars = (m, n, k, k, 1, n, 1, n, 2)
        run(dev, "gemm_f32", c, a, b, None, *scalars, plan=TilePlan("blocked", threads=threads))
        results.append(c.tobytes())
    assert results[0] == results[1]


def convolved(x, w, bias, oh, ow, stride, pad, dilation, groups):
    """float64 NCHW, one shifted product a tap; rows and columns beyond the padding read zeros."""
    n, c, h, width = x.shape
    oc, cg, kh, kw = w.shape
    (sh, sw), (ph, pw), (dh, dw) = stride, pad, dilation
    rows = max(ph + h, (oh - 1) * sh + (kh - 1) * dh + 1)
    columns = max(pw + width, (ow - 1) * sw + (kw - 1) * dw + 1)
    padded = np.zeros((n, c, rows, columns))
    padded[:, :, ph : ph + h, pw : pw + width] = x
    y = np.zeros((n, groups, oc // groups, oh, ow))
    by_group = w.astype(np.float64).reshape(groups, oc // groups, cg, kh, kw)
    for ky, kx in itertools.product(range(kh), range(kw)):
        window = padded[:, :, ky * dh :, kx * dw :][:, :, : (oh - 1) * sh + 1 : sh]
        window = window[:, :, :, : (ow - 1) * sw + 1 : sw].reshape(n, groups, cg, oh * ow)
        y += np.matmul(by_group[:, :, :, ky, kx], window).reshape(y.shape)
    y = y.reshape(n, oc, oh, ow)
    return y if bias is None else y + bias[:, None, None]


def test_conv2d_of_any_geometry(dev, rng):
    """oh and ow need not be what the padding implies: what lies beyond the image reads as zeros."""
    for case in range(80):
        groups = int(rng.choice([1, 1, 2, 3]))
        cg, ocg = (int(v) for v in rng.integers(1, 8, 2))
        if case % 5 == 0:
            cg, ocg, groups = 1, 1, int(rng.choice([1, 7, 16, 67]))
        if case % 11 == 0:
            cg, ocg = int(rng.integers(1, 40)), int(rng.integers(1, 50))
        n, c, oc = int(rng.integers(1, 4)), cg * groups, ocg * groups
        kh, kw = (1, 1) if case % 4 == 0 else (int(v) for v in rng.integers(1, 6, 2))
        h, w = (int(v) for v in rng.integers(1, 20, 2))
        w = int(rng.integers(40, 120)) if case % 7 == 0 else w
        (sh, sw), (dh, dw) = rng.choice([1, 1, 2, 3], (2, 2)).tolist()
        ph, pw = rng.integers(0, 4, 2).tolist()
        if case % 8 == 0:
            sh = sw = 1
            ph = pw = 0
        oh = max(1, (h + 2 * ph - (kh - 1) * dh - 1) // sh + 1)
        ow = max(1, (w + 2 * pw - (kw - 1) * dw - 1) // sw + int(rng.integers(1, 3)))
        nhwc, act = case // 2 % 2, case % 4
        x = rng.standard_normal((n, c, h, w)).astype(np.float32)
        weights = rng.standard_normal((oc, cg, kh, kw)).astype(np.float32)
        bias = rng.standard_normal(oc).astype(np.float32) if case % 3 else None
        laid = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if nhwc else x
        guarded = np.full(n * oc * oh * ow + 32, np.nan, np.float32)
        y = guarded[16:-16]
        plan = tile_plan(rng, ["auto", "auto", "naive", "direct", "im2col"])
        shape = (n, c, h, w, oc, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, groups, nhwc, act)
        run(dev, "conv2d_f32", y, laid, weights, bias, *shape, plan=plan)
        got = y.reshape(n, oh, ow, oc).transpose(0, 3, 1, 2) if nhwc else y.reshape(n, oc, oh, ow)
        sums = convolved(x, weights, bias, oh, ow, (sh, sw), (ph, pw), (dh, dw), groups)
        limit = np.finfo(np.float32).eps * (4 * cg * kh * kw + 8)
        assert np.abs(got - activated(sums, act)).max() <= limit, (shape, plan)
        assert np.isnan(guarded[:16]).all(), (shape, plan)
        assert np.isnan(guarded[-16:]).all(), (shape, plan)


def special(rng, n, dtype):
    """Values with every kind of trouble first."""
    if dtype == "i32":
        x = rng.integers(-(2**31), 2**31, n).astype(np.int32)
        odd = [-(2**31), 2**31 - 1, 0, -1]
    else:
        x = (3 * rng.standard_normal(n)).astype(DTYPES[dtype])
        odd = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 88.8, -103.9, 200.0, -200.0]
    x[: min(n, len(odd))] = odd[: min(n, len(odd))]
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 31, 257, 4097])
def test_elementwise_touches_n_elements_only(dev, rng, dtype, n):
    x, y = special(rng, n, dtype), special(rng, n, dtype)[::-1].copy()
    with np.errstate(all="ignore"):
        wanted = {
            "copy": (x, (x,)),
            "fill": (np.full(n, 5, x.dtype), (5,)),
            "vecadd": (x + y, (x, y)),
            "relu": (np.maximum(x, x.dtype.type(0)), (x,)),
            "abs": (np.abs(x), (x,)),
            "neg": (-x, (x,)),
        }
    for name, (want, args) in wanted.items():
        out = np.full(n + 64, 77, x.dtype)
        run_grid(dev, f"{name}_{dtype}", n, out[1:-63], *args, n)
        np.testing.assert_array_equal(out[1:-63], want, name)
        assert (out[-63:] == 77).all(), name


@pytest.mark.parametrize(("name", "ulps"), [("exp", 1), ("tanh", 1.3)])
def test_errors_of_exp_and_tanh(dev, name, ulps):
    """One float in 4099, of both signs, from denormals through infinities to NaN. The reference is
    the C library, whose tanhf is less exact than ours."""
    x = np.arange(0, 2**32, 4099, dtype=np.uint64).astype(np.uint32).view(np.float32)
    y = np.empty_like(x)
    run_grid(dev, f"{name}_f32", x.size, y, x, x.size)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x.astype(np.float64))
        rounded = want.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(x))
    np.testing.assert_array_equal(np.isinf(y), np.isinf(rounded))
    finite = np.isfinite(rounded)
    exponents = np.frexp(np.maximum(np.abs(want[finite]), 2.0**-126))[1]
    miss = np.abs(y[finite] - want[finite]) / np.ldexp(1.0, exponents - 24)
    assert miss.max() <= (2.5 if dev.info.isa == "ref" else ulps), x[finite][miss.argmax()]


SHAPES = [(1, 1, 1), (3, 5, 1), (1, 300001, 1), (2, 70000, 3), (5, 999, 7), (4, 33, 300)]
SHAPES += [(1, 130, 2500), (3000, 3, 1), (700, 3, 5), (9, 8, 64), (0, 5, 5), (5, 5, 0), (3, 0, 2)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_are_right_and_the_same_for_any_number_of_threads(dev, rng, dtype):
    for outer, n, inner in SHAPES:
        x = special(rng, outer * n * inner, dtype).reshape(outer, n, inner)
        if dtype != "i32" and n > 5:
            x = rng.standard_normal(x.shape).astype(x.dtype)
            x[-1:, n // 2, -1:] = np.nan  # one column of many
        for op in ["sum", "max", "min"] if n else ["sum"]:
            results = []
            for threads in (1, 2):
                y = np.full(
                    (outer, inner), 99, np.int64 if (op, dtype) == ("sum", "i32") else x.dtype
                )
                scalars = (outer, n, inner)
                run(dev, f"reduce_{op}_{dtype}", y, x, *scalars, plan=TilePlan(threads=threads))
                results.append(y)
            assert results[0].tobytes() == results[1].tobytes(), (op, outer, n, inner)
            with np.errstate(all="ignore"):
                if op == "sum" and dtype != "i32":
                    want = x.astype(np.longdouble).sum(axis=1)
                    size = np.abs(x.astype(np.longdouble)).sum(axis=1)
                else:
                    want = getattr(x, op)(axis=1, **({"dtype": np.int64} if op == "sum" else {}))
                    size = np.zeros(want.shape)
                np.testing.assert_array_equal(np.isnan(y), np.isnan(want))
                off = np.abs(y - want)
            # f32 is accumulated in double; f64 in lanes of double, n/8 additions deep at most.
            share = 1e-8 * size if dtype == "f32" else (n / 8 + 2) * np.finfo(np.float64).eps * size
            eps = 0 if dtype == "i32" else np.finfo(x.dtype).eps
            fine = (y == want) | np.isnan(want) | (off <= eps * np.abs(want) + share)
            assert fine.all(), (op, outer, n, inner)


NUMPY_OPS = {
    lib.SP_MAP_ADD: np.add,
    lib.SP_MAP_SUB: np.subtract,
    lib.SP_MAP_MUL: np.multiply,
    lib.SP_MAP_NEG: np.negative,
    lib.SP_MAP_ABS: np.abs,
    lib.SP_MAP_RELU: lambda a: np.maximum(a, a.dtype.type(0)),
    lib.SP_MAP_MIN: np.minimum,
    lib.SP_MAP_MAX: np.maximum,
    lib.SP_MAP_SQUARE: np.square,
}
BINARY = {lib.SP_MAP_ADD, lib.SP_MAP_SUB, lib.SP_MAP_MUL, lib.SP_MAP_MIN, lib.SP_MAP_MAX}


def random_program(rng, inputs, consts, depth):
    if depth == 0 or rng.random() < 0.15:
        if consts and rng.random() < 0.3:
            return [lib.SP_MAP_CONST | int(rng.integers(consts)) << 8]
        return [lib.SP_MAP_INPUT | int(rng.integers(inputs)) << 8]
    op = int(rng.choice(list(NUMPY_OPS)))
    parts = [
        random_program(rng, inputs, consts, depth - 1) for _ in range(2 if op in BINARY else 1)
    ]
    return [*itertools.chain(*parts), op]


def evaluated(program, xs, consts):
    stack = []
    for step in program:
        op, operand = step & 255, step >> 8
        if op == lib.SP_MAP_INPUT:
            stack.append(xs[operand].copy())
        elif op == lib.SP_MAP_CONST:
            stack.append(np.full_like(xs[0], consts[operand]))
        else:
            taken = [stack.pop() for _ in range(2 if op in BINARY else 1)]
            stack.append(NUMPY_OPS[op](*reversed(taken)))
    return stack.pop()


@pytest.mark.parametrize("dtype", DTYPES)
def test_map_programs_are_exact(dev, rng, dtype):
    """Operations that numpy rounds (or wraps) as the kernel does, NaN and infinities among the
    values; y is one of the inputs every other time."""
    for case in range(80):
        n = int(rng.choice([0, 1, 511, 512, 513, 40000]))
        xs = [special(rng, n, dtype) for _ in range(int(rng.integers(1, 9)))]
        consts = special(rng, 9, dtype)[5:8] if case % 3 else None
        program = random_program(rng, len(xs), 0 if consts is None else 3, case % 6)
        with np.errstate(all="ignore"):
            want = evaluated(program, xs, consts)
        y = xs[int(rng.integers(len(xs)))] if case % 2 else np.full(n, 7, xs[0].dtype)
        padded = xs + [None] * (8 - len(xs))
        code = np.array(program, np.uint32)
        counts = (len(program), 0 if consts is None else 3, n)
        run(dev, f"map_{dtype}", y, *padded, code, consts, *counts)
        np.testing.assert_array_equal(y, want, str(program))


def test_map_refuses_programs_that_make_no_sense(dev):
    x, consts = np.zeros(4, np.float32), np.zeros(2, np.float32)
    read, add = lib.SP_MAP_INPUT, lib.SP_MAP_ADD

    def attempt(program, name="map_f32", values=x):
        code = np.array(program, np.uint32)
        rest = (code, consts.view(values.dtype), code.size, 2, 4)
        run(dev, name, values.copy(), values, *[None] * 7, *rest)

    deepest = lib.SP_MAP_STACK
    attempt([read] * deepest + [add] * (deepest - 1))
    bad = {
        "empty": [],
        "stack runs dry": [read, add],
        "two values left": [read, read],
        "an x that is not there": [read | 1 << 8],
        "a ninth x": [read | 8 << 8],
        "a third constant": [lib.SP_MAP_CONST | 2 << 8],
        "no such op": [read, lib.SP_MAP_OPS],
        "too deep": [read] * (deepest + 1) + [add] * deepest,
    }
    for what, program in bad.items():
        print(what)  # shown when it is the one that passed
        with pytest.raises(ValueError, match="map_f32"):
            attempt(program)
    with pytest.raises(ValueError, match="map_i32"):
        attempt([read, lib.SP_MAP_EXP], "map_i32", x.view(np.int32))


@pytest.mark.opens(isas.HERE[-1])  # there is one variant
def test_layouts_are_numpys_transposes(dev, rng):
    for case in range(60):
        n, c, h, w = (64, 50, 9, 70) if case == 0 else rng.integers(case > 5, 40, 4).tolist()
        block = int(rng.choice([1, 3, 8, 16]))
        blocks = -(-c // block)
        x = rng.standard_normal((n, c, h, w)).astype(np.float32)
        channels_last, blocked, back = (
            np.full(shape, np.nan, np.float32)
            for shape in [(n, h, w, c), (n, blocks, h, w, block), (n, c, h, w)]
        )
        run(dev, "nchw_to_nhwc_f32", channels_last, x, n, c, h, w)
        np.testing.assert_array_equal(channels_last, x.transpose(0, 2, 3, 1))
        run(dev, "nhwc_to_nchw_f32", back, channels_last, n, c, h, w)
        np.testing.assert_array_equal(back, x)
        run(dev, "nchw_to_blocked_f32", blocked, x, n, c, h, w, block)
        padded = np.zeros((n, blocks * block, h, w), np.float32)
        padded[:, :c] = x
        by_block = padded.reshape(n, blocks, block, h, w).transpose(0, 1, 3, 4, 2)
        np.testing.assert_array_equal(blocked, by_block)
        back[:] = np.nan
        run(dev, "blocked_to_nchw_f32", back, blocked, n, c, h, w, block)
        np.testing.assert_array_equal(back, x)


def test_arguments_that_make_no_sense_are_refused(dev):
    x = np.zeros(64, np.float32)
    y = np.full(64, 7, np.float32)
    gemm = (2, 2, 2, 2, 1, 2, 1, 2)
    #       n  c  h  w oc kh kw oh ow sh sw ph pw dh dw groups nhwc act
    conv = (1, 4, 2, 2, 4, 1, 1, 2, 2, 1, 1, 0, 0, 1, 1, 1, 0, 0)
    changed = {5: 0, 9: 0, 10: 0, 13: 0, 14: 0, 15: 3, 16: 2, 17: 4}
    attempts = [("gemm_f32", (y, x, x, None, *gemm, 4))]
    attempts += [("reduce_max_f32", (y, x, 1, 0, 1)), ("reduce_min_f32", (y, x, 2, 0, 3))]
    for at, value in changed.items():
        odd = [value if i == at else v for i, v in enumerate(conv)]
        attempts.append(("conv2d_f32", (y, x, x, None, *odd)))
    for name, args in attempts:
        print(name, args[-18:])  # shown when it is the one that passed
        with pytest.raises(ValueError, match=name):
            run(dev, name, *args)
    assert (y == 7).all()


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_peak_counts_what_it_ran(dev, dtype):
    counts = []
    for iters, threads in [(0, 1), (1000, 1), (3000, 1), (1000, 0)]:
        flops = np.full(1, 7, np.uint64)
        run(dev, f"peak_fma_{dtype}", flops, iters, plan=TilePlan(threads=threads))
        counts.append(int(flops[0]))
    assert counts[0] == 0
    assert counts[1] > 1000
    assert counts[2] == 3 * counts[1]
    assert counts[3] == dev.info.compute_units * counts[1]
