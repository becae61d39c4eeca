"""Arrays of every type: what a kernel gets, what the reference sees, what 16 bits cannot hold.

When this fails, a user's kernel gets other values than its reference.
"""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
from _bench.jobs import user_kernel
from _bench.jobs.job import TYPES, Operand
from _bench.measure import engine
from _bench.measure.engine import Settings
from _console.problems import UsageError

import sparkle_drv as sp

C = """
#include <stdint.h>
#include <string.h>
typedef _Float16 f16; typedef float f32; typedef double f64;
typedef int8_t i8; typedef int16_t i16; typedef int32_t i32; typedef int64_t i64;
typedef uint8_t u8; typedef uint16_t u16; typedef uint32_t u32; typedef uint64_t u64;
#define KERNEL(name, T) void name(const void *v, const uint32_t g[3], const uint32_t s[3]) \\
    { const struct { T *y; const T *x; } *p = v; (void)g; (void)s; for (int i = 0; i < 64; i++)
#define THRICE(T) KERNEL(thrice_##T, T) p->y[i] = p->x[i] * 3; } \\
    void plus_##T(const void *v, const uint32_t g[3], const uint32_t s[3]) \\
    { const struct { T *y; const T *x; T a; } *p = v; (void)g; (void)s; \\
      for (int i = 0; i < 64; i++) p->y[i] = p->x[i] + p->a; }
THRICE(f16) THRICE(f32) THRICE(f64)
THRICE(i8) THRICE(i16) THRICE(i32) THRICE(i64) THRICE(u8) THRICE(u16) THRICE(u32) THRICE(u64)
KERNEL(thrice_bf16, u16) {
    uint32_t bits = (uint32_t)p->x[i] << 16;
    float value;
    memcpy(&value, &bits, 4);
    value *= 3;
    memcpy(&bits, &value, 4);
    p->y[i] = (uint16_t)((bits + 0x8000) >> 16);
} }
KERNEL(squares, f16) p->y[i] = p->x[i] * p->x[i]; }
KERNEL(off, f16) p->y[i] = p->x[i] * 3 + (i == 5 ? (f16)0.25 : 0); }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("types")
    (folder / "k.c").write_text(C)
    (folder / "ref.py").write_text(
        "import numpy as np\n"
        "def thrice(x):\n"
        "    assert x.dtype.kind in 'iu' or x.dtype == np.float64\n"
        "    return 3 * x\n"
        "def plus(x, a):\n    return x + a\n"
        "def square(x):\n    return x * x\n"
    )
    made = folder / "k.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", made, folder / "k.c"], check=True)
    return made


@pytest.fixture(scope="module")
def cpu():
    with sp.open("cpu") as device:
        yield device


def job(library, entry, *args, ref="thrice", tolerance=None):
    reference = f"{library.parent / 'ref.py'}:{ref}"
    spec = user_kernel.Spec(
        library, entry, args, "1", "64", reference=reference, tolerance=tolerance
    )
    return user_kernel.make(spec, {})


def row(cpu, *args, **how):
    return engine.run(job(*args, **how), cpu, "hot", Settings(1, timeout_s=0.01, least=5), None)


@pytest.mark.parametrize("kind", TYPES)
def test_every_type(cpu, library, kind):
    found = row(cpu, library, f"thrice_{kind}", f"out:{kind}[64]", f"in:{kind}[64]")
    assert found.verified, found.reason
    assert found.measured
    tolerances = {"f16": 4 * 2**-10, "bf16": 4 * 2**-7, "f32": 100 * 2**-23, "f64": 100 * 2**-52}
    assert found.error["tolerance"] == tolerances.get(kind, 0.0)


def test_sixteen_bits_that_are_wrong(cpu, library):
    found = row(cpu, library, "off", "out:f16[64]", "in:f16[64]")
    assert "wrong result: arg0[5]" in found.reason
    found = row(cpu, library, "thrice_f16", "out:bf16[64]", "in:bf16[64]")
    assert "wrong result: arg0" in found.reason


def test_a_reference_that_overflows_the_type(cpu, library, tmp_path):
    """The kernel is as right as 16 bits can be: the check says what happened."""
    values = np.full(64, 2.0, np.float16)
    values[7] = 300.0
    np.save(tmp_path / "x.npy", values)
    args = ("out:f16[64]", f"@{tmp_path / 'x.npy'}")
    found = row(cpu, library, "squares", *args, ref="square")
    said = "the reference overflows the output's type: arg0[7] expected 90000.0 got inf"
    assert said in found.reason


def test_bf16_from_files(cpu, library, tmp_path):
    """As numpy's uint16, or as the two bytes that other packages' bfloat16 becomes in a file."""
    bits = (np.linspace(1, 2, 64, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    np.save(tmp_path / "u.npy", bits)
    np.save(tmp_path / "v.npy", bits.view("V2"))
    for name in "uv":
        args = ("out:bf16[64]", f"bf16@{tmp_path / name}.npy")
        found = row(cpu, library, "thrice_bf16", *args)
        assert found.verified, found.reason
    np.save(tmp_path / "f.npy", np.ones(3, np.float32))
    with pytest.raises(UsageError, match="expected a non-empty array of uint16, got float32"):
        job(library, "thrice_bf16", "out:bf16[3]", f"bf16@{tmp_path / 'f.npy'}")


def test_bf16_is_rounded_to_nearest_even():
    ones = np.float32([1.0, 1.0 + 2**-8, 1.0 + 3 * 2**-8, 1.0 + 2**-8 + 2**-20, -3.0])
    operand = Operand("x", "bf16", "r", (5,), lambda *_: ones)
    stored = operand.content(np.random.default_rng(0), 0)
    assert stored.dtype == np.uint16
    assert operand.numbers(stored).tolist() == [1.0, 1.0, 1.015625, 1.0078125, -3.0]
    assert np.isnan(operand.numbers(operand.poison(np.random.default_rng(0)))).all()


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind != "bf16"])
def test_values_of_every_type(cpu, library, kind):
    args = (f"out:{kind}[64]", f"in:{kind}[64]", f"{kind}=5")
    found = row(cpu, library, f"plus_{kind}", *args, ref="plus")
    assert found.verified, found.reason


def test_values_that_no_kernel_takes(library):
    with pytest.raises(UsageError, match="bf16 is for arrays only"):
        job(library, "thrice_bf16", "out:bf16[64]", "bf16=1")
    with pytest.raises(UsageError, match="70000 does not fit f16"):
        job(library, "thrice_f16", "out:f16[64]", "f16=70000")


def test_the_roof_of_flops(library):
    """16 bits may run at a multiple of the f32 roof: no share of it is told."""
    types = {"f32": "f32", "f64": "f64", "f16": None, "bf16": None, "i8": None}
    for kind, roof in types.items():
        assert job(library, "k", f"out:{kind}[64]").flop_type == roof
