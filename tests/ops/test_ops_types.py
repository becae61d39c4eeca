"""Types that arrays store beside float32, float64 and int32: int64, uint8, bool, float16, bfloat16.

numpy judges, and ml_dtypes where it is installed.

When this fails, somebody who stores small types gets numbers that differ from numpy's.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.ops import gemm, layout, map, reduce
from sparkle_drv.ops.map import fused
from sparkle_drv.ops.map.operation import convert

BF16 = importlib.util.find_spec("ml_dtypes") is not None
STORED = ["int64", "uint8", "bool", "float16"]
ALL = [*STORED, "float32", "float64", "int32"]
pytestmark = pytest.mark.devices("cpu")


def bfloat16():
    if not BF16:
        pytest.skip("the package ml_dtypes is not installed")
    return np.dtype(importlib.import_module("ml_dtypes").bfloat16)


def numbers(dtype, shape, seed=7):
    values = np.random.default_rng(seed).integers(-9, 10, shape)
    if dtype == "bool":
        return values > 0
    return (np.abs(values) if dtype == "uint8" else values).astype(dtype)


def same(got, want):
    got = np.asarray(got)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(got, want)


JUDGED = {
    "x + y": lambda x, y: x + y, "x * y + x": lambda x, y: x * y + x, "x < y": lambda x, y: x < y,
    "max(x, y)": np.maximum, "-x * abs(y)": lambda x, y: -x * abs(y), "x / y": lambda x, y: x / y,
    "(x < y) * x + (x == y)": lambda x, y: (x < y) * x + (x == y),
    "where(x > y, x, y)": lambda x, y: np.where(x > y, x, y), "2*x + 3": lambda x, y: 2 * x + 3,
    "0.1 * x + y": lambda x, y: 0.1 * x + y, "x**2 - y": lambda x, y: x**2 - y,
    "sqrt(abs(x))": lambda x, y: np.sqrt(np.abs(x)), "floor(x)": lambda x, y: np.floor(x),
}  # fmt: skip


@pytest.mark.parametrize("text", JUDGED)
def test_maps_are_numpys_step_by_step(fresh, text):
    """float16 is rounded at each step: a result does not depend on what one kernel computes."""
    for a, b in itertools.product(ALL, ALL):
        if {a, b}.isdisjoint(STORED) or (a == "bool" and "**" in text):
            continue
        x, y = numbers(a, 70), numbers(b, 70, 8)
        try:
            with np.errstate(all="ignore"):
                want = np.asarray(JUDGED[text](x, y))
        except TypeError:  # -x of bool
            with pytest.raises(TypeError, match="no neg of bool"):
                map(fresh, text, x=x, y=y)
            continue
        if want.dtype == np.float64 or "0.1" in text:  # a product and a sum may be rounded as one
            got = map(fresh, text, x=x, **({"y": y} if "y" in text else {}))
            assert got.dtype == want.dtype
            eps = float(np.finfo(want.dtype).eps)
            np.testing.assert_allclose(got, want, 2 * eps, 20 * eps, err_msg=f"{a} {b}")
        else:
            same(map(fresh, text, x=x, **({"y": y} if "y" in text else {})), want)


@pytest.mark.parametrize("isa", ["avx512", "avx2", "ref", "neon"])
def test_16_bits_are_rounded_to_nearest_even(fresh, isa, monkeypatch):
    """Every number of 16 bits, and the floats around it, by each instruction set."""
    if isa not in fresh.info.features:
        pytest.skip(f"this machine has no {isa}")
    monkeypatch.setenv("SPARKLE_CPU_ISA", isa)
    bits = np.arange(1 << 16, dtype=np.uint16)
    halves = bits.view(np.float16)
    with sp.open("cpu") as cpu, np.errstate(all="ignore"):
        wide = convert(cpu, halves, "f32")
        same(wide.view("u4"), halves.astype("f4").view("u4"))
        middle = wide.view("u4")[:, None] + np.array([0, 1, 0xFFF, 0x1000, 0x1001], "u4")
        floats = np.concatenate([middle.ravel(), np.arange(0, 1 << 32, 65521).astype("u4")])
        for kind in ("f16", "bf16")[: 1 + BF16]:
            want = floats.view("f4").astype(np.float16 if kind == "f16" else bfloat16())
            got = convert(cpu, floats.view("f4"), kind)
            number = ~np.isnan(floats.view("f4"))
            same(got.view("u2")[number], want.view("u2")[number])
            assert np.isnan(got.astype("f4")[~number]).all()
        if BF16:
            narrow = bits.view(bfloat16())
            same(convert(cpu, narrow, "f32").view("u4"), bits.astype("u4") << 16)


@pytest.mark.parametrize("dtype", STORED)
def test_strides_and_rows_of_small_elements(fresh, dtype):
    x = numbers(dtype, (6, 7, 40))
    row, column = x[0, 0], x[:1, :, :1]
    for part in (x[::-1, ::2], x[:, :, 3:38:5], x.transpose(2, 0, 1), x[..., 1:34], x[1:4, 2:]):
        same(map(fresh, "max(a, a)", part), part)
        same(map(fresh, "a == a", part), part == part)
    same(map(fresh, "a * b", x, row), x * row)
    same(map(fresh, "max(a, b)", x, column), np.maximum(x, column))
    out = np.zeros_like(x)[:, ::-1, ::2]
    map(fresh, "min(a, b)", x[:, :, ::2], x[:1, :, ::2], out=out)
    same(out, np.minimum(x[:, :, ::2], x[:1, :, ::2]))


@pytest.mark.parametrize("dtype", STORED)
def test_results_past_the_caches(fresh, dtype, monkeypatch):
    """Large results are stored by whole lines, whose ends lie anywhere."""
    monkeypatch.setattr(fused, "last_cache", lambda dev: 0)
    room = np.zeros(9000, dtype)
    for start, n in ((0, 9000), (3, 8191), (64, 257), (1, 5)):
        x, y = numbers(dtype, n), numbers(dtype, n, 8)
        room[:] = 1
        map(fresh, "x * y", x, y, out=room[start : start + n])
        same(room[start : start + n], x * y)
        assert (room[:start] == 1).all()
        assert (room[start + n :] == 1).all()
        same(map(fresh, "x < y", x, y), x < y)


@pytest.mark.parametrize("dtype", [*STORED, "bf16"])
def test_reductions_have_numpys_types(fresh, dtype):
    kind = bfloat16() if dtype == "bf16" else np.dtype(dtype)
    host = numbers("float32" if dtype == "bf16" else dtype, (5, 6, 300)).astype(kind)
    x = fresh.array(host)
    wide = host.astype("f8") if kind.kind in "fV" else host
    for op, axis, keep in itertools.product(
        ("sum", "max", "min", "mean"), (None, 1, (0, 2)), (0, 1)
    ):
        want = getattr(wide, op)(axis=axis, keepdims=bool(keep))
        if kind.kind in "fV":
            want = np.asarray(want).astype(kind)  # accumulated wider, rounded once
        got = getattr(x, op)(axis=axis, keepdims=bool(keep))
        np.testing.assert_allclose(got.numpy().astype("f8"), np.asarray(want).astype("f8"), 1e-12)
        assert (got.dtype, got.shape, got.explain()) == (want.dtype, want.shape, "")
        if op != "mean" or kind.kind == "f":
            turned = np.moveaxis(host, 0, 1)
            again = reduce(fresh, turned, op, {None: None, 1: 0, (0, 2): (1, 2)}[axis])
            same(again, np.asarray(want).reshape(again.shape))
    ragged = np.stack([host] * 2).reshape(2, 5, 2, 3, 3, 5, 2, 5, 2)[None]  # too many rows of rows
    axes = (1, 3, 5, 7, 9)
    got, wide = reduce(fresh, fresh.array(ragged), "sum", axes), ragged.astype("f8").sum(axes)
    np.testing.assert_array_equal(got.numpy().astype("f8"), wide)
    if dtype == "int64":
        same(fresh.array(np.full(3, 2**62)).sum(), np.array(-(2**62)))


def test_products_add_up_in_float32(fresh):
    """In float16, 2048 + 1 is 2048 and 70000 infinite before it comes back."""
    ones = np.ones((1, 4096), np.float16)
    same(gemm(fresh, ones, ones.T.copy()), np.full((1, 1), 4096, np.float16))
    row = np.array([[60000, 10000, -49984]], np.float16)
    same(gemm(fresh, row, np.ones((3, 1), np.float16)), np.full((1, 1), 20016, np.float16))
    with np.errstate(over="ignore"):
        same(gemm(fresh, row, row.T.copy()), np.full((1, 1), np.inf, np.float16))


@pytest.mark.parametrize("dtype", ["float16", "bool", "uint8", "bf16"])
def test_products_of_what_is_converted(fresh, dtype):
    kind = bfloat16() if dtype == "bf16" else np.dtype(dtype)
    a, b, bias = (
        numbers("float32" if dtype == "bf16" else dtype, shape, seed).astype(kind)
        for shape, seed in (((7, 300), 1), ((300, 5), 2), (5, 3))
    )
    with np.errstate(all="ignore"):
        want = (a.astype("i8") @ b.astype("i8") + bias.astype("i8")).astype(kind)
    same(gemm(fresh, a, b, bias=bias), want)
    out = fresh.empty(want.shape, kind)
    made = gemm(fresh, fresh.array(a), sp.ops.constant(fresh, b), out, bias=bias)
    assert made is out
    assert "its maps converted" in made.explain()
    same(out, want)
    stack = fresh.array(np.stack([a, a])) @ fresh.array(b)
    assert stack.shape == (2, 7, 5)
    before = fresh.default_queue.submitted
    with pytest.raises(ValueError, match="out: expected shape"):
        gemm(fresh, fresh.array(a), fresh.array(b), fresh.empty((5, 7), kind))
    with pytest.raises(TypeError, match=r"out: expected .*, the dtype of the result"):
        gemm(fresh, fresh.array(a), fresh.array(b), fresh.empty(want.shape, "f8"))
    assert fresh.default_queue.submitted == before


@pytest.mark.devices("egl:0", "emu:gfx1100")
def test_devices_of_one_type_have_elements_converted(fresh):
    """What rounds twice in float16 would differ from numpy's, so it is refused."""
    pixels, scale = numbers("uint8", (5, 9)), numbers("float32", (5, 9), 8)
    mask, half = pixels > 4, numbers("float16", (5, 9))
    x, y, h = fresh.array(pixels), fresh.array(scale), fresh.array(half)
    made = map(fresh, "x * y", x, y)
    same(made, pixels * scale)
    assert made.explain() == f"map of float32 on {fresh.uri}; the host converted uint8"
    same(map(fresh, "where(m, y, 2*y)", fresh.array(mask), y), np.where(mask, scale, 2 * scale))
    same(map(fresh, "x < y", scale, 2 * scale), scale < 2 * scale)
    out = fresh.empty((5, 9), bool)
    assert map(fresh, "h < 0.1", h, out=out) is out
    same(out, half < np.float16(0.1))
    same(map(fresh, "h * 0.1", h), half * np.float16(0.1))
    same(map(fresh, "x * s", half, s=fresh.array(np.float16(3)[None])[0]), half * np.float16(3))
    for text, given in (("h * h + h", h), ("x + x", x), ("y + y", fresh.array(np.arange(3)))):
        with pytest.raises(TypeError, match=r"one type throughout|computes"):
            map(fresh, text, given)


@pytest.mark.devices("cpu", "egl:0", "emu:gfx1100")
@pytest.mark.parametrize("dtype", [*STORED, "float64"])
def test_layouts_move_elements_of_any_size(fresh, dtype):
    """Blocks that are not full end in zeros."""
    x = numbers(dtype, (2, 11, 3, 5))
    blocked = np.zeros((2, 3, 3, 5, 4), dtype)
    for c in range(11):
        blocked[:, c // 4, ..., c % 4] = x[:, c]
    given = fresh.array(x)
    made = layout(fresh, given, "NCHW4c")
    same(made, blocked)
    same(layout(fresh, made, "NCHW", channels=11), x)
    same(layout(fresh, x, "NHWC"), x.transpose(0, 2, 3, 1))
    out = fresh.empty((2, 3, 5, 11), dtype)
    assert layout(fresh, made, "NHWC", channels=11, out=out) is out
    assert out.layout == "NHWC"
    same(out, x.transpose(0, 2, 3, 1))
    assert layout(fresh, fresh.array(x[:0]), "NHWC").shape == (0, 3, 5, 11)


def test_conversions_on_the_device_are_numpys(fresh):
    for before, after in itertools.product(ALL, ALL):
        host = numbers(before, (9, 31))
        made = fresh.array(host).astype(after)
        same(made, host.astype(after))
        real = np.dtype(before).kind == "f" and np.dtype(after).kind in "iu"
        twice = (before, after) == ("float64", "float16")
        assert bool(made.explain()) == (real or twice), (before, after)
    whole = np.array([2**40 + 3, -1, 300])
    same(fresh.array(whole).astype("u1"), whole.astype("u1"))
    same(fresh.array(whole).astype("i4"), whole.astype("i4"))


TABLE = re.compile(r"^\| `(\w+)` \| ([\w ()]+) \| ([\w ()]+) \| ([\w ()]+) \| ([\w ()]+) \|$", re.M)
COLUMNS = ("cpu", "egl", "cuda", "emu")
CALLS = {
    "gemm": lambda d, x: gemm(d, x, x), "map": lambda d, x: map(d, "x + y", x, x),
    "conv2d": lambda d, x: sp.ops.conv2d(d, x.reshape(1, 1, 4, 4), x.reshape(1, 1, 4, 4)),
    "reduce": lambda d, x: reduce(d, x, axis=1),
    "layout": lambda d, x: layout(d, x.reshape(1, 4, 2, 2), "NHWC"),
}  # fmt: skip


@pytest.mark.devices("cpu", "egl:0", "cuda:0", "emu:gfx1100")
def test_the_table_of_types_is_true(fresh):
    """The page promises what each device takes, and what is converted for it."""
    page = (Path(__file__).parents[2] / "docs/getting-started.md").read_text()
    rows = {row[0]: row[1:] for row in TABLE.findall(page)}
    assert rows.keys() == CALLS.keys()
    column = COLUMNS.index(fresh.uri.partition(":")[0])
    for op, dtype in itertools.product(rows, [*ALL, "bfloat16"]):
        own, _, converted = rows[op][column].partition("(")
        if dtype == "bfloat16" and not BF16:
            continue
        if dtype == "float64" and not fresh.provides("gemm_f64"):
            continue
        with fresh.array(np.ones((4, 4), bfloat16() if dtype == "bfloat16" else dtype)) as x:
            if dtype in own.split() or dtype in converted.strip(")").split():
                made = CALLS[op](fresh, x)
                assert ("converted" in made.explain()) == (dtype not in own.split()), (op, dtype)
                assert np.asarray(made).astype("f8").min() in (1, 2, 4, 16), (op, dtype)
            else:
                with pytest.raises(TypeError, match=r"got|computes"):
                    CALLS[op](fresh, x)


def test_another_number_is_another_result(fresh):
    """A call that comes again is a record: its number has to be rounded to float16, too."""
    x = np.ones(5, np.float16)
    for number in (0.1, 0.2, 0.1, 3):
        same(map(fresh, "x * s", x, s=number), x * np.float16(number))
    y = fresh.array(np.arange(4))
    for number in (2**40, -3):
        same(map(fresh, "y * s", y, s=number), np.arange(4) * number)


def test_truths_are_written_in_place(fresh):
    host = numbers("bool", 40)
    x, other = fresh.array(host), fresh.array(~host[::-1])
    x &= other
    x |= ~(other ^ x)
    host &= ~host[::-1].copy()
    same(x, host | ~(other.numpy() ^ host))


@pytest.mark.devices("cpu", "egl:0")
def test_bfloat16_is_named_bf16(fresh):
    kind = bfloat16()
    x = fresh.array(np.arange(6, dtype="f4")).astype("bf16")
    assert x.dtype == kind == fresh.empty(3, "bf16").dtype
    assert x.buffer.array("bf16", (2, 3)).dtype == np.asarray(x).dtype == kind
    host = np.arange(6).astype(kind)
    same(x * 3 + x, host * 3 + host)
    same(x + 0.1, host + 0.1)
    same(x < np.float32(2), host < np.float32(2))
    assert gemm(fresh, x.reshape(2, 3), x.reshape(3, 2)).dtype == kind


def test_bfloat16_without_its_package_is_refused_in_one_line(fresh, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    x = fresh.array(np.ones(3, "f4"))
    for call in (lambda: x.astype("bf16"), lambda: fresh.empty(3, "bf16")):
        with pytest.raises(TypeError, match=r"^dtype: bfloat16 needs the package ml_dtypes$"):
            call()
