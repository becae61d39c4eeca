"""The generated shaders on egl:0 against sparkle_drv.ops.ref, for every plan there is a shader for.

When this fails, a generated shader is wrong on OpenGL devices for some size or plan.

Random gemms and convolutions, odd sizes and strides, NaN, infinities and denormals, and
reductions of every shape of group. llvmpipe's limit on loops must not turn into a wrong number.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from agree import agree

from sparkle_drv import TilePlan, assets
from sparkle_drv.codegen import glsl
from sparkle_drv.ops import ref
from sparkle_drv.ops.expression import program

TYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "u32": np.uint32}
KERNELS = assets.manifest()["kernels"]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40]
ELEMENTWISE = sorted(
    name
    for name in glsl.NAMES
    if KERNELS[name].get("dims") == 1 and name not in ("noop", "busy_u32")
)
LAYOUTS = sorted(name for name in glsl.NAMES if "_to_" in name)
REDUCTIONS = sorted(name for name in glsl.NAMES if name.startswith("reduce_"))

GEMM_PLANS = [
    None,
    TilePlan(algo="naive"),
    TilePlan(algo="blocked", vector=1),
    TilePlan(algo="blocked", vector=4, levels=((4, 32, 4), (4, 4, 1))),
    TilePlan(algo="blocked", vector=4, levels=((32, 64, 8), (8, 8, 1))),
    TilePlan(algo="shared"),
    TilePlan(algo="shared", vector=1, levels=((32, 16, 8), (4, 2, 1))),
]
CONV_PLANS = [
    None,
    TilePlan(algo="naive"),
    TilePlan(algo="direct", vector=1, levels=((8, 32, 4), (4, 2, 1))),
    TilePlan(algo="direct", vector=4, levels=((8, 32, 4), (8, 4, 1))),
    TilePlan(algo="im2col"),
    TilePlan(algo="im2col", vector=1, levels=((16, 32, 8), (2, 4, 1))),
]


@pytest.fixture(scope="module")
def egl(opened):
    return opened("egl:0")


class Runner:
    """Kernels by (name, plan), each loaded once; `run` gives what the first pointer holds after."""

    def __init__(self, dev):
        self.dev, self.kernels = dev, {}

    def run(self, name, args, plan=None):
        if not glsl.provides(name, self.dev.info):
            with pytest.raises(ValueError, match=name):
                self.dev.kernel(name, plan=plan)
            pytest.skip(f"{name}: {self.dev.info.isa} has no doubles")
        key = name, plan
        if key not in self.kernels:
            self.kernels[key] = self.dev.kernel(name, plan=plan)
        arrays = {i: self.dev.array(a) for i, a in enumerate(args) if isinstance(a, np.ndarray)}
        given = [arrays.get(i, a) for i, a in enumerate(args)]
        self.dev.default_queue.launch(self.kernels[key], *given).wait()
        found = np.array(arrays[0].numpy())
        for array in arrays.values():
            array.close()
        return found

    def close(self):
        for kernel in self.kernels.values():
            kernel.close()


@pytest.fixture(scope="module")
def on(egl):
    runner = Runner(egl)
    yield runner
    runner.close()


def check(on, name, args, plan=None, terms=1, rms=None):
    want = ref.kernel(name)(*args)
    got = on.run(name, args, plan)[: want.size]
    scalars = [a for a in args if not isinstance(a, np.ndarray)]
    tolerance = ref.tolerance(name, k=terms)
    agree(got, np.ravel(want), tolerance, rms, f"{name} {scalars} {plan}")


def numbers(rng, n, dtype):
    if dtype == "i32":
        return rng.integers(-(2**31), 2**31, n).astype(np.int32)
    return rng.standard_normal(n).astype(TYPES[dtype])


def sprinkle(rng, x):
    """Special numbers at random places of an array of floats."""
    if x.dtype.kind == "f" and x.size > len(SPECIAL):
        x[rng.permutation(x.size)[: len(SPECIAL)]] = SPECIAL
    return x


@pytest.mark.parametrize(
    "plan", [None, TilePlan(vector=4), TilePlan(levels=((64, 1, 1),))], ids=["one", "four", "64"]
)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(on, name, plan):
    rng = np.random.default_rng(1)
    op, dtype = name.split("_")
    for n in (1, 3, 4, 17, 256, 1025, 5003):
        x, y = numbers(rng, n, dtype), numbers(rng, n, dtype)
        if op in ("copy", "relu", "abs", "neg"):
            x = sprinkle(rng, x)
        if op in ("exp", "tanh"):
            x *= x.dtype.type(20)
        a = -7 if dtype == "i32" else 1.25
        values = {"x": x, "y": y, "z": np.zeros(n, TYPES[dtype]), "a": a, "b": -0.75, "n": n}
        check(on, name, [values[arg["name"]] for arg in KERNELS[name]["args"]], plan)


@pytest.mark.parametrize("name", ["copy_f32", "copy_f64"])
def test_copies_keep_every_bit(on, name):
    words = np.array([0x7FA00001, 0xFFC12345, 0x00000001, 0x80000000] * 4, np.uint32)
    x = words.view(TYPES[name[-3:]])
    got = on.run(name, [np.zeros_like(x), x, x.size], TilePlan(vector=4))
    assert (got.view(np.uint32) == words).all()


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(on, name):
    rng = np.random.default_rng(2)
    for n, c, h, w, block in ((1, 1, 1, 1, 1), (2, 3, 5, 7, 8), (3, 17, 4, 4, 16), (2, 5, 3, 1, 3)):
        padded = -(-c // block) * block
        x = rng.standard_normal(n * (padded if name.startswith("blocked") else c) * h * w)
        y = np.full(n * (padded if "to_blocked" in name else c) * h * w, 5.0, np.float32)
        extra = [block] if "blocked" in name else []
        check(on, name, [y, sprinkle(rng, x.astype(np.float32)), n, c, h, w, *extra])


@pytest.mark.parametrize(
    "plan",
    [
        TilePlan(),
        TilePlan(vector=1),
        TilePlan(levels=((1000, 1, 1),)),
        TilePlan(levels=((48, 1, 1),)),
    ],
    ids=["default", "scalar", "1000", "48"],
)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(on, name, plan):
    rng = np.random.default_rng(3)
    _, op, dtype = name.split("_")
    shapes = [(1, 1, 1), (1, 1000, 1), (1, 40003, 1), (7, 13, 1), (1000, 8, 1), (3, 100, 5)]
    shapes += [(2, 31, 300), (1, 5, 1000), (513, 40, 3), (5, 17, 255), (5, 17, 256), (5, 17, 257)]
    shapes += [(300, 16, 1), (300, 15, 1), (70, 64, 2), (2, 300, 129), (1, 4, 1), (2, 3000, 127)]
    if plan != TilePlan():
        shapes = shapes[::3]
    for outer, n, inner in shapes:
        x = numbers(rng, outer * n * inner, dtype)
        if op != "sum":
            x = sprinkle(rng, x)
        wide = np.int64 if (op, dtype) == ("sum", "i32") else TYPES[dtype]
        args = [np.zeros(outer * inner, wide), x, outer, n, inner]
        check(on, name, args, plan, n, n**0.5 if op == "sum" else None)


def test_i32_sums_carry_into_the_second_word(on):
    for value in (2**31 - 1, -(2**31)):
        x = np.full(1000, value, np.int32)
        got = on.run("reduce_sum_i32", [np.zeros(1, np.int64), x, 1, 1000, 1])
        assert got[0] == 1000 * value


EXPRESSIONS = ["a*x+y", "relu(x)-abs(y)", "min(x,y)*max(x,2)", "square(x)+(-y)", "x", "3"]
FLOAT_EXPRESSIONS = [
    "exp(x)", "log(abs(x))", "sqrt(abs(x))", "tanh(x)", "sigmoid(y)", "sin(x*4)", "cos(x*4)",
    "floor(x*3)", "pow(abs(x),y)", "x/y", "pow(x,3)", "pow(x,2.5)",
]  # fmt: skip
CHOICES = [
    "where(x < y, x, y + 1)", "where(x*y, x, 2) + where(x >= a, y, x)", "x*(x != y) + (y <= x)",
    "where(x == x, where(x > y, 1, y), x)",
]  # fmt: skip
CASES = [(t, text) for t in ("f32", "i32") for text in CHOICES]
CASES += [("f32", text) for text in EXPRESSIONS + FLOAT_EXPRESSIONS]
CASES += [("i32", text) for text in EXPRESSIONS]


def map_args(text, dtype, values, n):
    compiled = program.compile_map(text, frozenset({"a"}), dtype)
    inputs = [values[name] for name in compiled.inputs]
    constants = [values[c] if isinstance(c, str) else c for c in compiled.constants]
    return [
        np.zeros(n, TYPES[dtype]), *inputs, *[None] * (8 - len(inputs)), np.array(compiled.words),
        np.array(constants, TYPES[dtype]) if constants else None,
        len(compiled.words), len(constants), n,
    ]  # fmt: skip


def written_out(args):
    return TilePlan(program=tuple(args[9].tolist()))


@pytest.mark.parametrize(("dtype", "text"), CASES)
def test_map_interpreted(on, dtype, text):
    rng = np.random.default_rng(4)
    x, y = numbers(rng, 1003, dtype), numbers(rng, 1003, dtype)
    if dtype == "f32" and "/" not in text:
        x[5] = np.nan
    check(on, f"map_{dtype}", map_args(text, dtype, {"x": x, "y": y, "a": 3}, 1003))


@pytest.mark.parametrize(("dtype", "text"), CASES[:12] + CASES[15:17])
def test_map_written_out(on, dtype, text):
    rng = np.random.default_rng(5)
    values = {"x": numbers(rng, 999, dtype), "y": numbers(rng, 999, dtype), "a": 3}
    args = map_args(text, dtype, values, 999)
    check(on, f"map_{dtype}", args, written_out(args))


@pytest.mark.parametrize(
    ("text", "low", "high", "ulps"),
    [
        ("exp(x)", -87, 88, 2),
        ("log(x)", 1e-30, 1e30, 2),
        ("sin(x)", -1e5, 1e5, 4),
        ("cos(x)", -1e5, 1e5, 4),
        ("tanh(x)", -12, 12, 3),
    ],
)
def test_functions_are_good_to_a_few_ulp(on, text, low, high, ulps):
    x = np.random.default_rng(6).uniform(low, high, 4000).astype(np.float32)
    if text == "log(x)":
        x = np.geomspace(low, high, 4000, dtype=np.float32)
    args = map_args(text, "f32", {"x": x}, x.size)
    got, want = on.run("map_f32", args).astype(np.float64), ref.kernel("map_f32")(*args)
    # Beside a zero of the function an ulp of its argument is more than one of its value.
    unit = np.maximum(np.abs(want), 2.0**-10) * 2.0**-23
    assert (np.abs(got - want) <= ulps * unit).all()


@pytest.mark.parametrize("text", ["sin(x)", "cos(x)"])
def test_sines_of_the_largest_numbers(on, text):
    """They were infinite."""
    x = np.geomspace(1e2, 3.4e38, 4000, dtype=np.float32) * np.float32([1, -1] * 2000)
    x[:2] = np.finfo(np.float32).max, 2.0**127
    args = map_args(text, "f32", {"x": x}, x.size)
    got, want = on.run("map_f32", args).astype(np.float64), ref.kernel("map_f32")(*args)
    assert (np.abs(got - want) <= 4 * np.maximum(np.abs(want), 2.0**-10) * 2.0**-23).all()


def test_pow_has_the_special_cases_of_c(on):
    some = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2, -2, 0.5, -0.5, 3, -3, 1e9]
    x, y = (a.reshape(-1).astype(np.float32) for a in np.meshgrid(some, some))
    got = on.run("map_f32", map_args("pow(x,y)", "f32", {"x": x, "y": y}, x.size))
    with np.errstate(all="ignore"):
        want = np.power(x, y)
    same = np.isclose(got, want, rtol=1e-5) | (got == want) | (np.isnan(got) & np.isnan(want))
    assert same.all(), [(x[i], y[i], got[i], want[i]) for i in np.flatnonzero(~same)]


def random_gemm(rng, dtype):
    sizes = [1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 24, 31, 32, 33, 47, 64, 68, 70]
    m, n, k = (int(v) for v in rng.choice(sizes, 3))
    if rng.integers(2):
        n = -(-n // 4) * 4  # whole vectors

    def operand(rows, columns):
        pad = int(rng.choice([0, 0, 0, 1, 4]))
        if rng.integers(4) == 0:  # transposed
            step = rows + pad
            return rng.standard_normal((columns - 1) * step + rows), 1, step
        apart = int(rng.choice([1, 2])) if pad == 1 else 1
        step = columns * apart + pad
        return rng.standard_normal((rows - 1) * step + (columns - 1) * apart + 1), step, apart

    (a, rsa, csa), (b, rsb, csb) = operand(m, k), operand(k, n)
    rsc = n + int(rng.choice([0, 0, 1, 4]))
    c = rng.standard_normal((m - 1) * rsc + n)
    a, b, c = (array.astype(TYPES[dtype]) for array in (a, b, c))
    bias = rng.standard_normal(n).astype(TYPES[dtype]) if rng.integers(2) else None
    return [c, a, b, bias, m, n, k, rsa, csa, rsb, csb, rsc, int(rng.integers(4))]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_random_gemms(on, dtype):
    rng = np.random.default_rng(7)
    for at in range(80):
        args = random_gemm(rng, dtype)
        check(on, f"gemm_{dtype}", args, GEMM_PLANS[at % len(GEMM_PLANS)], args[6], args[6] ** 0.5)


@pytest.mark.parametrize("algo", ["naive", "blocked", "shared"])
def test_gemm_of_no_terms_is_bias_and_activation(on, algo):
    bias = np.array([-1, 2, 3, -4], np.float32)
    one = np.ones(4, np.float32)
    args = [np.full(12, 9, np.float32), one, one, bias, 3, 4, 0, 1, 1, 4, 1, 4, 1]
    got = on.run("gemm_f32", args, TilePlan(algo=algo))
    assert (got.reshape(3, 4) == np.maximum(bias, 0)).all()


@pytest.mark.parametrize("algo", ["naive", "blocked", "shared"])
def test_gemm_never_returns_half_a_sum(on, algo):
    """llvmpipe ends a shader's loops after 65535 rounds all told: a right sum or NaN."""
    rng = np.random.default_rng(8)
    k, n = 70001, 4
    a, b = rng.standard_normal(k).astype(np.float32), rng.standard_normal((k, n), np.float32)
    args = [np.zeros(n, np.float32), a, b, None, 1, n, k, k, 1, n, 1, n, 0]
    got = on.run("gemm_f32", args, TilePlan(algo=algo))
    near = np.abs(got - ref.kernel("gemm_f32")(*args)) < 0.05
    assert (near | np.isnan(got)).all()


def test_gemm_never_leaves_out_its_activation(on):
    """The sums take nearly all rounds there are, the loop of the activation has too few left."""
    k, n = 65_500, 96
    args = [np.zeros(33 * n, np.float32), -np.ones(33 * k, np.float32), np.ones(k * n, np.float32)]
    levels = ((16, 96, 4), (16, 12, 1))
    plan = TilePlan(algo="blocked", levels=levels, vector=1)
    got = on.run("gemm_f32", [*args, None, 33, n, k, k, 1, n, 1, n, 1], plan).reshape(33, n)
    assert (got == 0).all() or np.isnan(got).any()


def random_conv2d(rng):
    groups = int(rng.choice([1, 1, 1, 2, 3]))
    inputs, outputs = int(rng.choice([1, 2, 3, 4, 8])), int(rng.choice([1, 2, 3, 5, 8, 17]))
    n, c, oc = int(rng.integers(1, 4)), groups * inputs, groups * outputs
    (kh, kw), (ph, pw) = rng.integers(1, 5, 2).tolist(), rng.integers(0, 3, 2).tolist()
    sh, sw, dh, dw = rng.choice([1, 1, 2, 3], 4).tolist()
    reach_h, reach_w = (kh - 1) * dh, (kw - 1) * dw
    h = int(rng.integers(max(1, reach_h + 1 - 2 * ph), 14 + reach_h))
    w = int(rng.integers(max(1, reach_w + 1 - 2 * pw), 14 + reach_w))
    oh, ow = (h + 2 * ph - reach_h - 1) // sh + 1, (w + 2 * pw - reach_w - 1) // sw + 1
    x = rng.standard_normal(n * c * h * w).astype(np.float32)
    weights = rng.standard_normal(oc * inputs * kh * kw).astype(np.float32)
    bias = rng.standard_normal(oc).astype(np.float32) if rng.integers(2) else None
    y = np.full(n * oc * oh * ow, 9, np.float32)
    layout, act = rng.integers(2), rng.integers(4)
    scalars = [n, c, h, w, oc, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, groups, layout, act]
    return [y, x, weights, bias, *map(int, scalars)], inputs * kh * kw


def test_random_convolutions(on):
    rng = np.random.default_rng(9)
    for at in range(80):
        args, terms = random_conv2d(rng)
        check(on, "conv2d_f32", args, CONV_PLANS[at % len(CONV_PLANS)], terms, terms**0.5)


@pytest.mark.parametrize("iters", [0, 1, 1000, 1024, 100_000, 70_000_000])
def test_busy_takes_every_step(on, iters):
    """70 million steps are more than llvmpipe's loops allow one vector of threads."""
    x, a, c, left = 1, 1664525, 1013904223, iters
    while left:  # x -> a x + c composed with itself, by squaring
        if left & 1:
            x = (a * x + c) % 2**32
        a, c, left = a * a % 2**32, (a * c + c) % 2**32, left >> 1
    assert on.run("busy_u32", [np.zeros(1, np.uint32), iters])[0] == x


@pytest.mark.parametrize("name", ["peak_fma_f32", "peak_fma_f64"])
def test_peak_counts_what_it_did(on, name):
    once, twice = (int(on.run(name, [np.zeros(1, np.uint64), n])[0]) for n in (100, 200))
    assert 0 < once == twice // 2


def test_every_kernel_of_the_manifest_loads(egl):
    for name in sorted(glsl.NAMES):
        if not glsl.provides(name, egl.info):
            continue
        with egl.kernel(name) as kernel:
            assert kernel.group_size != (0, 0, 0)


@pytest.mark.skipif("MESA_GL_VERSION_OVERRIDE" in os.environ, reason="this is that test")
def test_the_same_on_opengl_es(egl):
    """Mesa that claims an old GL: the device is OpenGL ES 3.1 then."""
    if "llvmpipe" not in egl.info.name:
        pytest.skip("only Mesa can be told to be old")
    chosen = "random or (reductions and default) or interpreted or layouts or special or never"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, __file__],
        env={**os.environ, "MESA_GL_VERSION_OVERRIDE": "3.3"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert "skipped" in done.stdout  # the kernels of doubles: it was OpenGL ES
