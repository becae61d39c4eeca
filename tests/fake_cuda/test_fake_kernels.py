"""Kernels that are more than a loop, against numpy.

When this fails, tests on the fake CUDA driver judge results against wrong kernels.
"""

from ctypes import c_uint, c_uint64

import numpy as np


def ptx(name: str, pointers: int, numbers: int) -> str:
    kinds = [".u64"] * pointers + [".u32"] * numbers
    params = ", ".join(f".param {kind} p{i}" for i, kind in enumerate(kinds))
    return f".version 8.0\n.target sm_80\n.visible .entry {name}({params}) {{ ret; }}\n"


def run(fake, name: str, pointers, numbers) -> None:
    module = fake.module(ptx(name, len(pointers), len(numbers)))
    args = [*pointers, *(c_uint(n) for n in numbers)]
    assert fake.launch(fake.function(name, module), 64, *args) == 0
    fake.ok("cuCtxSynchronize")


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def test_gemm(fake):
    a, b, bias = random(5, 7), random(7, 9), random(9)
    c = fake.alloc(4 * 45)
    at = [c, fake.upload(a), fake.upload(b), fake.upload(bias)]
    run(fake, "gemm_f32", at, (5, 9, 7, 7, 1, 9, 1, 9, 1))
    expected = np.maximum(a @ b + bias, 0).ravel()
    np.testing.assert_allclose(fake.download(c, 45), expected, rtol=1e-5, atol=1e-5)


def test_reduce(fake):
    x = random(3, 4, 5)
    y = fake.alloc(4 * 15)
    run(fake, "reduce_max_f32", (y, fake.upload(x)), (3, 4, 5))
    assert (fake.download(y, 15) == x.max(axis=1).ravel()).all()


def test_layout(fake):
    x = random(2, 3, 4, 5)
    y = fake.alloc(x.nbytes)
    run(fake, "nchw_to_nhwc_f32", (y, fake.upload(x)), x.shape)
    assert (fake.download(y, x.size) == x.transpose(0, 2, 3, 1).ravel()).all()


def test_conv2d(fake):
    x, w = random(1, 2, 5, 5), random(3, 2, 3, 3)
    y = fake.alloc(4 * 27)
    shape = (1, 2, 5, 5, 3, 3, 3, 3, 3, 1, 1, 0, 0, 1, 1, 1, 0, 0)
    run(fake, "conv2d_f32", (y, fake.upload(x), fake.upload(w), c_uint64(0)), shape)
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), axis=(1, 2))
    expected = np.einsum("cyxij,ocij->oyx", windows, w).ravel()
    np.testing.assert_allclose(fake.download(y, 27), expected, rtol=1e-4, atol=1e-5)
