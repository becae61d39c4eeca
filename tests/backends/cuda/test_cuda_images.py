"""Users' images on a cuda device: PTX, cubins by nvcc 13.0 (tests/cuda/user.cu), broken ones. The
fake driver reads what a driver must of them, and knows kernels by their names.

When this fails, a user's PTX or cubin loads wrongly, or is refused without a reason.
"""

from __future__ import annotations

import numpy as np
import pytest
from fakecuda import SAXPY, run
from where import ROOT

import sparkle_drv as sp

CUBINS = ROOT / "tests/cuda"
ARGS = "f32* y, f32* x, f32 a, u32 n"


def test_an_image_of_ones_own(cuda, tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(SAXPY)
    with (
        cuda.kernel(
            image=path, entry="saxpy_f32", args="f32* y, f32* x, f32 a, u32 n", group_size=128
        ) as k,
        cuda.array(np.ones(300, np.float32)) as x,
        cuda.empty(300, np.float32) as y,
    ):
        cuda.default_queue.launch(k, y, x, 2.5, 300, groups=3).wait()
        assert (np.asarray(y) == 2.5).all()
        assert k.resources.registers > 0
    with pytest.raises(sp.ImageError, match="got a zero byte"):
        cuda.kernel(image=SAXPY.encode() + b"\0 ;", entry="saxpy_f32", args="u32")
    with pytest.raises(sp.ImageError, match="expected PTX"):
        cuda.kernel(image=b"void f() {}", entry="f", args="")
    with pytest.raises(sp.ImageError, match="expected a readable cubin"):
        cuda.kernel(image=b"\x7fELF and no more", entry="f", args="")


def test_a_binary_image_that_is_cut_short_never_reaches_the_driver(cuda, userlib):
    """It is told no length."""
    with pytest.raises(
        sp.ImageError, match="expected a cubin, got an ELF file of machine EM_X86_64"
    ):
        cuda.kernel(image=userlib.spin().read_bytes(), entry="f", args="")
    whole = (CUBINS / "user.sm_90.cubin").read_bytes()
    for nbytes in (20, 64, len(whole) // 2, len(whole) - 1):
        with pytest.raises(sp.ImageError, match=r"truncated|expected a readable"):
            cuda.kernel(image=whole[:nbytes], entry="f", args="")
    fatbin = b"\x50\xed\x55\xba\x01\x00\x10\x00" + (64).to_bytes(8, "little") + bytes(63)
    for nbytes, end in ((4, 16), (16, 80), (79, 80)):
        with pytest.raises(sp.ImageError, match=f"truncated: expected {end} bytes, got {nbytes}$"):
            cuda.kernel(image=fatbin[:nbytes], entry="f", args="")


def computes(k, dev):
    with dev.array(np.ones(300, np.float32)) as x, dev.empty(300, np.float32) as y:
        dev.default_queue.launch(k, y, x, 2.5, 300, groups=3, group_size=128).wait()
        return (np.asarray(y) == 2.5).all()


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_cubin(cuda, as_bytes):
    if not cuda.info.isa.startswith("sm_9"):
        pytest.skip("the cubin is for sm_90")
    image = CUBINS / "user.sm_90.cubin"
    with cuda.kernel(
        image=image.read_bytes() if as_bytes else image, entry="saxpy_f32", args=ARGS
    ) as k:
        assert k.resources.isa == "sm_90"
        assert k.resources.registers > 0
        assert computes(k, cuda)


@pytest.mark.parametrize(
    ("entry", "args", "words"),
    [
        ("saxpy_f32", "f32* f32* f32", "expected more than the 3 arguments given"),
        ("saxpy_f32", "f32* f32* f32 u32 u32", "expected 4 arguments, got 5"),
        ("saxpy_f32", "f32* f32* f64 u32", "2: expected 4 bytes at offset 16, got 8 at 16"),
        ("saxpy_f32", "f32* f32 f32 u32", "argument 1: expected 8 bytes at offset 8, got 4 at 8"),
        ("weighed", "f32* f64 u32", "argument 1: expected 12 bytes at offset 8, got 8 at 8"),
        ("sxpy", ARGS, "has no entry 'sxpy'"),
    ],
)
def test_arguments_that_the_cubin_knows_otherwise(cuda, entry, args, words):
    with pytest.raises(sp.ImageError, match=words):
        cuda.kernel(image=CUBINS / "user.sm_90.cubin", entry=entry, args=args)


def test_kernels_of_one_image_share_its_module():
    run(f"""
from concurrent.futures import ThreadPoolExecutor
dev = sp.open("cuda:0")
tell("delay cuModuleLoadDataEx 20000")
own = SAXPY.encode()
def load(i): return dev.kernel(image=own, entry="saxpy_f32", args="{ARGS}")
with ThreadPoolExecutor(4) as pool: kernels = list(pool.map(load, range(8)))
assert (tell("calls cuModuleLoadDataEx"), tell("live modules")) == (1, 1)
other = dev.kernel(image=own + b" ", entry="saxpy_f32", args="{ARGS}")
assert (tell("calls cuModuleLoadDataEx"), tell("live modules")) == (2, 2)
with pytest.raises(sp.ImageError): dev.kernel(image=own, entry="none", args="")
with pytest.raises(sp.ImageError): dev.kernel(image=own, entry="saxpy_f32", args="f32*")
tell("fail cuModuleLoadDataEx 218")
with pytest.raises(sp.ImageError): dev.kernel(image=own + b"  ", entry="saxpy_f32", args="{ARGS}")
assert tell("live modules") == 2
x, y = dev.array(np.ones(256, np.float32)), dev.array(np.zeros(256, np.float32))
for k in kernels:
    dev.default_queue.launch(k, y, x, 1.0, 256, groups=1, group_size=256).wait()
    k.close()
assert (y.numpy() == 8).all()
assert tell("live modules") == 1
other.close()
assert tell("live modules") == 0
load(0).close()
assert tell("calls cuModuleLoadDataEx") == 4
""")


def test_a_cubin_of_another_architecture_names_both(cuda):
    with pytest.raises(sp.ImageError, match="CUDA_ERROR_NO_BINARY_FOR_GPU") as caught:
        cuda.kernel(image=CUBINS / "user.sm_80.cubin", entry="saxpy_f32", args=ARGS)
    assert "a cubin for sm_80, on " in str(caught.value)
    assert cuda.info.isa in str(caught.value)
    assert "user.sm_80.cubin" in str(caught.value)


def test_the_other_way_round():
    said = run(f"""
dev = sp.open("cuda:0")
dev.kernel(image="{CUBINS}/user.sm_80.cubin", entry="saxpy_f32", args="{ARGS}").close()
with pytest.raises(sp.ImageError) as caught:
    dev.kernel(image="{CUBINS}/user.sm_90.cubin", entry="saxpy_f32", args="{ARGS}")
print(caught.value)
""", "cc 8.6")  # fmt: skip
    assert "a cubin for sm_90, on Fake H200, sm_86" in said


def test_ptx_that_is_newer_or_for_another_gpu_names_both():
    said = run("""
dev = sp.open("cuda:0")
for version, target in (("9.0", "sm_80"), ("8.0", "sm_100")):
    ptx = f".version {version} .target {target} .address_size 64 .visible .entry f() {{ ret; }}"
    with pytest.raises(sp.ImageError) as caught:
        dev.kernel(image=ptx.encode(), entry="f", args="")
    print(caught.value)
""", "driver 12040")  # fmt: skip
    assert "PTX 9.0 for sm_80, on Fake H200, sm_90, CUDA 12.4" in said
    assert "Unsupported .version 9.0" in said
    assert "PTX 8.0 for sm_100, on Fake H200, sm_90" in said


BROKEN = {
    "no_name": SAXPY.replace("saxpy_f32", ""),
    "no_end": SAXPY[: SAXPY.index("{")],
    "bad_version": SAXPY.replace("6.4", "six"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_ptx_shows_the_compilers_log(cuda, name):
    with pytest.raises(sp.ImageError, match="CUDA_ERROR_INVALID_PTX") as caught:
        cuda.kernel(image=BROKEN[name].encode(), entry="saxpy_f32", args=ARGS)
    assert len(str(caught.value).splitlines()) > 1, "no log"


@pytest.mark.parametrize(
    ("name", "plan", "said"),
    [
        ("gemm_f32", sp.TilePlan(algo="winograd"), "for gemm_f32 on cuda, got 'winograd'"),
        ("conv2d_f32", sp.TilePlan(algo="winograd2"), "auto or naive or direct or im2col for"),
        ("reduce_sum_f32", sp.TilePlan(algo="blocked"), "expected algo auto or naive for"),
        ("map_f32", sp.TilePlan(algo="x" * 99), r"got 'x*\.\.\.'"),
        (
            "map_f32",
            sp.TilePlan(program=(1,)),
            "expected no program, since map_f32 on cuda reads it at each launch",
        ),
        ("gemm_f32", sp.TilePlan(pack=True), "expected no pack for gemm_f32"),
        ("gemm_f32", sp.TilePlan(threads=2), "expected no threads, .* got 2"),
    ],
)
def test_a_plan_that_needs_another_kernel_is_refused(cuda, name, plan, said):
    with pytest.raises(ValueError, match=said):
        cuda.kernel(name, plan=plan)


def test_a_plan_of_the_model_is_a_kernel(cuda):
    for name, algo in (("gemm_f32", "shared"), ("conv2d_f32", "im2col"), ("map_f32", "auto")):
        plan = sp.TilePlan(algo=algo, levels=((64, 64, 16), (4, 4, 1)), vector=4)
        with cuda.kernel(name, plan=plan) as kernel:
            assert kernel.name == name
