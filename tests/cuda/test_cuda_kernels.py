"""The manifest's CUDA kernels against their references, by their own source, without a GPU.

When this fails, a prebuilt CUDA kernel is wrong.
"""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
from cudahost import KERNELS, SHADERS, Host, Memory, check, compiled, run

from sparkle_drv import assets
from sparkle_drv.testing.checks.problems import KernelProblem, problems

IMAGES = {n: i for n, i in assets.manifest()["images"].items() if n.startswith("cuda/")}
PTX_TYPES = {"f32": "f32", "f64": "f64", "i32": "u32", "u32": "u32"}


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    return Host(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def rng(request):
    seed = sum(request.node.name.encode())
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def test_there_are_all_kernels_of_the_manifest():
    assert [n for n, k in KERNELS.items() if "cuda" not in k["backends"]] == []


@pytest.mark.parametrize("name", [n for n in KERNELS if not n.startswith("peak")])
def test_kernel_equals_its_reference(host, rng, name):
    for problem in problems(name):
        check(host, name, problem, rng)


@pytest.mark.parametrize("name", [n for n, k in KERNELS.items() if k.get("dims") == 1])
def test_more_groups_than_needed_do_nothing(host, rng, name):
    check(host, name, problems(name)[-1], rng, groups=(9,))


@pytest.mark.parametrize(("name", "chains"), [("peak_fma_f32", 16), ("peak_fma_f64", 8)])
def test_peak_counts_what_it_did(host, name, chains):
    flops = Memory(np.zeros(1, np.uint64), "w")
    host.launch(name, {"flops": flops}, {"iters": 2}, 1, groups=(3,))
    assert flops.values()[0] == 3 * 256 * 2 * chains * 8 * 2


@pytest.mark.parametrize("name", ["gemm_f32", "gemm_f64"])
def test_gemm_of_any_size_and_strides(host, rng, name):
    for _ in range(12):
        m, n = (int(v) for v in rng.integers(1, 200, 2))
        k, act, gap, bias = (int(rng.integers(high)) for high in (70, 4, 4, 2))
        rows, columns = (k + gap, 1), (1, m + gap)
        rsa, csa = rows if rng.integers(2) else columns
        rsb, csb = (n + gap, 1) if rng.integers(2) else (1, k + gap)
        scalars = dict(m=m, n=n, k=k, rsa=rsa, csa=csa, rsb=rsb, csb=csb, rsc=n + gap, act=act)
        given = frozenset({"bias"} if bias else ())
        check(host, name, KernelProblem(scalars, given=given, terms=max(k, 1)), rng)


def test_conv2d_of_any_shape(host, rng):
    for _ in range(25):
        groups = int(rng.choice([1, 1, 2, 3]))
        cg, og = int(rng.integers(1, 7)), int(rng.choice([1, 3, 8, 9, 20, 70]))
        n, h, w = (int(v) for v in rng.integers(1, 12, 3))
        kh, kw, sh, sw, dh, dw = (int(v) for v in rng.integers(1, 4, 6))
        ph, pw = ((k - 1) * d for k, d in ((kh, dh), (kw, dw)))  # a window always fits
        oh, ow = (h + ph - 1) // sh + 1, (w + pw - 1) // sw + 1
        scalars = dict(n=n, c=cg * groups, h=h, w_in=w, oc=og * groups, kh=kh, kw=kw, oh=oh, ow=ow)
        scalars |= dict(sh=sh, sw=sw, ph=ph, pw=pw, dh=dh, dw=dw, groups=groups)
        scalars |= dict(nhwc=int(rng.integers(2)), act=int(rng.integers(4)))
        given = frozenset({"bias"} if rng.integers(2) else ())
        check(host, "conv2d_f32", KernelProblem(scalars, given=given, terms=cg * kh * kw), rng)


@pytest.mark.parametrize("name", [n for n in KERNELS if n.startswith("reduce")])
def test_reduce_of_any_shape_by_any_grid(host, rng, name):
    for _ in range(3):
        outer, n, inner = (int(v) for v in rng.integers(1, (9, 300, 20)))
        problem = KernelProblem({"outer": outer, "n": n, "inner": inner}, terms=n)
        check(host, name, problem, rng, groups=(int(rng.integers(1, 9)),))


def test_shared_memory_and_barriers_are_judged(tmp_path):
    """Sources that are wrong in a way that a GPU might forgive; the check must not."""
    head = f'#include "{SHADERS / "cuda" / "kernel.h"}"\nKERNEL(64) bad(OUT(u32) y)\n'
    for body, said in (
        ("{ if (threadIdx.x) __syncthreads(); y[threadIdx.x] = 1; }", "reach a barrier"),
        ("{ y[threadIdx.x + 1] = 1; }", "an access to"),
    ):
        source = tmp_path / "bad.cu"
        source.write_text(head + body)
        library = compiled(source, ["bad"], tmp_path / f"bad{len(body)}.so")
        y = Memory(np.zeros(64, np.uint32), "w")
        with pytest.raises(AssertionError, match=said):
            run(library, "bad", [ctypes.c_void_p(y.address)], (1, 1, 1), (64, 1, 1), 1)


def test_a_missing_barrier_is_seen(tmp_path):
    source = tmp_path / "race.cu"
    source.write_text(
        f'#include "{SHADERS / "cuda" / "kernel.h"}"\nKERNEL(64) race(OUT(u32) y)\n'
        "{ __shared__ u32 s[64]; s[threadIdx.x] = 7; y[threadIdx.x] = s[63 - threadIdx.x]; }"
    )
    library = compiled(source, ["race"], tmp_path / "race.so")
    y = Memory(np.zeros(64, np.uint32), "w")
    run(library, "race", [ctypes.c_void_p(y.address)], (1, 1, 1), (64, 1, 1), 1)
    assert 0 < np.count_nonzero(y.values() == 0xFFFFFFFF) < 64


@pytest.mark.parametrize("name", IMAGES)
def test_ptx_declares_the_arguments_of_the_manifest(name):
    for target, blob in IMAGES[name]["blobs"].items():
        text = (SHADERS / blob["file"]).read_text()
        assert re.search(r"^\.version 8\.0\n\.target (\w+)$", text, re.M)[1] == target
        declared = {
            entry: re.findall(r"\.param \.(\w+)", args)
            for entry, args in re.findall(r"\.visible \.entry (\w+)\((.*?)\)", text, re.S)
        }
        wanted = {
            kernel: [
                "u64" if a["type"].endswith("*") else PTX_TYPES[a["type"]] for a in entry["args"]
            ]
            for kernel, entry in KERNELS.items()
            if entry["backends"]["cuda"]["image"] == name
        }
        assert declared == wanted


@pytest.mark.parametrize("name", KERNELS)
def test_entry_agrees_with_its_ptx(name):
    entry = KERNELS[name]["backends"]["cuda"]
    assert entry["form"] == KERNELS[name]["backends"]["cpu"]["form"]
    for target, blob in IMAGES[entry["image"]]["blobs"].items():
        assert target in entry["variants"]
        text = (SHADERS / blob["file"]).read_text()
        body = text[text.index(f".entry {name}(") :]
        most = re.search(r"\.maxntid (\d+)", body)
        assert int(most[1]) == np.prod(entry["group_size"])
