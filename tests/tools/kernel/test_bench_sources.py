"""Sources of users' kernels: every compiler, macros, and what a compiler may do wrong.

When this fails, a user's source is compiled with other options or macros.
"""

from __future__ import annotations

import json
import os
import shutil
import time

import fakecuda
import packages
import pytest
from _bench.jobs import compilers
from _console.problems import UsageError

import sparkle_drv as sp

C = """
#include <stdint.h>
struct args { float *y; const float *x; };
void scale(const void *v, const uint32_t g[3], const uint32_t s[3])
{
    const struct args *p = v;
    (void)g;
    for (uint32_t i = 0; i < SPARKLE_GROUP_SIZE_X && s[0] == SPARKLE_GROUP_SIZE_X; i++)
        p->y[i] = (FACTOR) * p->x[i];
}
"""
CL = """
kernel void scale(global float *y, global const float *x)
{
    local float kept[64];
    kept[get_local_id(0)] = fma((float)(FACTOR), x[get_global_id(0)], 0.0f);
    barrier(CLK_LOCAL_MEM_FENCE);
    y[get_group_id(0) * get_local_size(0) + get_local_id(0)] = kept[get_local_id(0)];
}
"""
HIP = """
#include <hip/hip_runtime.h>
extern "C" __global__ void halves(_Float16 *y, const _Float16 *x, _Float16 a, short n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
extern "C" __global__ void scale(float *y, const float *x)
{
    __shared__ float kept[64];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    kept[threadIdx.x] = x[i];
    __syncthreads();
    y[i] = i < gridDim.x * blockDim.x ? fmaf(FACTOR, kept[threadIdx.x], 0.0f) : 0.0f;
}
"""
CUDA = """
extern "C" __global__ void saxpy_f32(float *y, const float *x, float a, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
"""
ARGS = ("--arg", "out:f32[256]", "--arg", "in:f32[256]", "--group-size", "64", "--groups", "4")
ONE = ("--arg", "out:f32[256]", "--arg", "in:f32[256]", "--group-size", "256")
QUICK = ("--quick", "--timeout", "0.02")


def needs(command: str) -> None:
    if shutil.which(command) is None:
        pytest.skip(f"not installed: {command}")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Files with spaces in their names."""
    place = tmp_path / "my kernels"
    place.mkdir()
    (place / "the ref.py").write_text("def f(x):\n    return 3 * x\n")
    for name, text in (("a.c", C), ("a.cl", CL), ("a.hip", HIP), ("a.cu", CUDA)):
        (place / f"the {name}").write_text(text)
    monkeypatch.chdir(place)
    return place


@pytest.mark.usefixtures("in_this_process")
def test_c_is_compiled_for_each_set_of_macros(bench, folder, tmp_path, capsys):
    """A point whose compile fails is a failed row; the others are kept."""
    out = tmp_path / "o.json"
    words = ("-D", "FACTOR=1:3:+1", "--where", "FACTOR != 2", "--ref", "the ref.py:f")
    assert bench("kernel", "the a.c:scale", *ONE, *words, *QUICK, "--json", out) == 1
    rows = json.loads(out.read_text())["results"]
    assert [(row["axes"]["FACTOR"], row["verified"]) for row in rows] == [(1, False), (3, True)]
    assert {row["kernel"] for row in rows} == {"the a.c:scale"}
    capsys.readouterr()
    (folder / "b.c").write_text("#if FACTOR == 1\n#error one is none\n#endif\n" + C)
    words = ("-D", "FACTOR=1,3", "--ref", "the ref.py:f", "--json", out)
    assert bench("kernel", "b.c:scale", *ONE, *words, *QUICK) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("FAILED b.c:scale FACTOR=1 hot: ImageError: b.c: cc failed: ")
    assert "#error one is none" in line
    rows = json.loads(out.read_text())["results"]
    assert [row["verified"] for row in rows] == [False, True]


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("suffix", ["cl", "hip"])
def test_opencl_and_hip_on_an_emulated_gpu(bench, folder, capsys, suffix):
    packages.needed("clang-19", "lld-19")
    words = ("-d", "emu:gfx1036", "-D", "FACTOR=3", "--ref", "the ref.py:f", *QUICK)
    code = bench("kernel", f"the a.{suffix}:scale", *ARGS, *words)
    assert code == 0, capsys.readouterr().err


@pytest.mark.usefixtures("in_this_process")
def test_values_of_16_bits_on_an_emulated_gpu(bench, folder, capsys):
    packages.needed("clang-19", "lld-19")
    (folder / "h.py").write_text("def f(x, a, n):\n    return a * x\n")
    words = ("--arg", "out:f16[64]", "--arg", "in:f16[64]", "--arg", "f16=2.5", "--arg", "i16=64")
    words = ("-D", "FACTOR=3", *words)
    code = bench("kernel", "the a.hip:halves", "-d", "emu:gfx1036", *words, "--group-size", "64",
                 "--ref", "h.py:f", *QUICK)  # fmt: skip
    assert code == 0, capsys.readouterr().err


def test_cuda_c_on_the_fake_driver(bench, folder, monkeypatch, capsys):
    needs("nvcc")
    monkeypatch.setenv("SPARKLE_LIBCUDA", fakecuda.library())
    (folder / "s.py").write_text("def f(y, x, a, n):\n    return a * x + y\n")
    args = ("inout:f32[256]", "in:f32[256]", "f32=2", "u32=256")
    words = [word for arg in args for word in ("--arg", arg)]
    code = bench("kernel", "the a.cu:saxpy_f32", *words, "-d", "cuda:0", "--ref", "s.py:f", *QUICK)
    assert code == 0, capsys.readouterr().err


def test_a_macro_that_a_source_does_not_have_costs_no_compile(folder):
    with sp.open("cpu") as device:
        info = device.info
    macros = {"FACTOR": 3, "N": 1, "SPARKLE_GROUP_SIZE_X": 4}
    first = compilers.compiled(folder / "the a.c", info, macros)
    assert compilers.compiled(folder / "the a.c", info, {**macros, "N": 2}) == first
    assert compilers.compiled(folder / "the a.c", info, {**macros, "FACTOR": 4}) != first
    (folder / "h.h").write_text("")
    (folder / "the a.c").write_text('#include "h.h"\n' + C)  # who knows what is in it
    first = compilers.compiled(folder / "the a.c", info, macros)
    assert compilers.compiled(folder / "the a.c", info, {**macros, "N": 2}) != first


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_compiler_that_hangs(folder, monkeypatch, tmp_path):
    """It is ended with all that it started, within its limit."""
    note = tmp_path / "pid"
    slow = script(tmp_path / "cc", f"sleep 1000 & echo $! > {note}; wait")
    monkeypatch.setenv("CC", str(slow))
    monkeypatch.setattr(compilers, "LIMIT_S", 0.5)
    with sp.open("cpu") as device, pytest.raises(sp.ImageError, match=r"more than 0\.5 s"):
        compilers.compiled(folder / "the a.c", device.info, {"FACTOR": 9})
    begun = time.monotonic()
    while os.path.exists(f"/proc/{note.read_text().strip()}"):
        assert time.monotonic() - begun < 10
        time.sleep(0.01)


def test_a_compiler_that_writes_nothing(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("CC", f"{script(tmp_path / 'cc', 'exit 0')} -x")
    with sp.open("cpu") as device, pytest.raises(sp.ImageError, match="status 0"):
        compilers.compiled(folder / "the a.c", device.info, {"FACTOR": 10})


@pytest.mark.usefixtures("in_this_process")
def test_bad_words(bench, folder, monkeypatch, capsys):
    """Each is one line; the compiler that is missing is named once, not for each row."""
    sweep = ("-D", "FACTOR=1,2,3", "--unverified", *QUICK)
    monkeypatch.setenv("CC", "no-such-compiler")
    for words, code, said in (
        (("the a.c:scale",), 1, "no compiler found; looked for CC=no-such-compiler"),
        (("the a.cl:scale",), 2, ".cl is for amdgpu; sources for cpu: .c, .cc, .cpp, .cxx"),
        (("the a.c:scale", "-d", "egl:0"), 2, "sources for egl:0: none of these"),
        (("no.c:scale",), 2, "no such file: no.c"),
    ):
        assert bench("kernel", *words, *ARGS, *sweep) == code, words
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line


def test_what_was_looked_for(folder, monkeypatch):
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CC", raising=False)
    language = compilers.language(folder / "a.c")
    assert language is not None
    with pytest.raises(sp.ImageError, match=r"looked for cc, gcc, clang$"):
        language.compiler(folder / "a.c")
    script(folder / "gcc", "")
    assert language.compiler(folder / "a.c") == ["gcc"]
    monkeypatch.setenv("CC", f"'{script(folder / 'my cc', '')}' -O1")
    assert language.compiler(folder / "a.c") == [str(folder / "my cc"), "-O1"]


def test_sources_of_other_devices(folder):
    with sp.open("cpu") as device, pytest.raises(UsageError, match=r"\.cu is for cuda"):
        compilers.check(folder / "the a.cu", device.info)
