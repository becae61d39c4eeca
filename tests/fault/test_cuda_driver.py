"""Drivers that are not there, too old, or refuse: what cuda says then. Each in a process of its own
on the fake driver.

When this fails, a user with an old or missing NVIDIA driver does not learn what to install.
"""

from __future__ import annotations

import pytest
from fakecuda import installed, run

REFUSED = """
with pytest.raises(sp.DeviceNotFound) as caught:
    sp.open("cuda:0")
(found,) = (f for f in sp.discover() if f.backend == "cuda")
print(caught.value, "|", found.reason, "|", found.advice)
"""


def test_no_driver_library_names_every_path_tried():
    if installed():
        pytest.skip("needs a machine without libcuda")
    said = run(REFUSED, SPARKLE_LIBCUDA="/no/such/libcuda.so.1")
    for path in ("/no/such/libcuda.so.1", "libcuda.so.1", "/usr/lib/wsl/", "/usr/local/nvidia/"):
        assert said.count(path) >= 2, said
    assert "install its driver" in said


def test_a_driver_without_a_device():
    said = run(REFUSED, "devices 0")
    assert "CUDA_ERROR_NO_DEVICE" in said
    assert "libcuda.so.1" in said


def test_a_driver_that_does_not_start():
    assert "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" in run(REFUSED, "fail cuInit 803 times=9")


def test_there_is_no_such_device():
    said = run(
        "for uri in ('cuda:2', 'cuda:x'):\n"
        "    with pytest.raises(sp.DeviceNotFound) as caught: sp.open(uri)\n"
        "    print(caught.value)\n"
    )
    assert "there are 2 device(s)" in said
    assert "expected 'cuda:0', 'cuda:1', ..., got this name" in said


def test_a_required_function_that_is_missing_is_named():
    said = run(REFUSED, FAKE_CUDA_MISSING="cuLaunchKernel")
    assert "has no symbol cuLaunchKernel" in said


def test_a_missing_optional_function_is_named_where_it_is_used():
    said = run(
        "dev = sp.open('cuda:0')\n"
        "with pytest.raises(sp.SparkleError) as caught:\n"
        "    dev._backend.adopt(4096, 16, None)\n"
        "print(caught.value)",
        FAKE_CUDA_MISSING="cuPointerGetAttribute",
    )
    assert "cuPointerGetAttribute: the driver supports CUDA 13.0" in said
    assert "the function needs CUDA 4.0" in said


COMPUTES = """
with sp.open("cuda:0") as dev:
    x, y = dev.array(np.arange(1000, dtype=np.float32)), dev.array(np.ones(1000, np.float32))
    k = dev.kernel(image=SAXPY.encode(), entry="saxpy_f32", args="f32* y, f32* x, f32 a, u32 n")
    c = sp.Commands()
    for _ in range(20):
        c.dispatch(k, y, x, 1.0, 1000, groups=4, group_size=256)
    for _ in range(3):
        dev.default_queue.submit(c).wait()
    assert (np.asarray(y) == 60 * np.arange(1000) + 1).all()
    big = np.arange(1 << 16)
    with dev.buffer(big.nbytes) as b:
        b.write(big)
        assert (b.read(np.int64, big.shape) == big).all()
    print(dev.info.driver, dev.info.features)
"""


def test_a_driver_of_11_0_does_without_what_came_later():
    """No pool, no argument sizes, no graphs of one call: the same results."""
    assert "CUDA 11.0 ('ipc',)" in run(COMPUTES, "driver 11000")


@pytest.mark.parametrize(
    ("driver", "features"), [("11.4", "('pools', 'ipc')"), ("12.2", "('pools', 'graphs', 'ipc')")]
)
def test_what_came_when(driver, features):
    version = int(driver.replace(".", "0")) * 10
    assert f"CUDA {driver} {features}" in run(COMPUTES, f"driver {version}")


@pytest.mark.parametrize("missing", ["cuGetProcAddress_v2", "cuGetProcAddress_v2,cuGetProcAddress"])
def test_functions_are_found_without_the_newest_look_up(missing):
    assert "CUDA 13.0" in run(COMPUTES, FAKE_CUDA_MISSING=missing)


def test_functions_of_another_abi_are_never_taken():
    """cuGetProcAddress is asked for each name at the version of its own ABI."""
    run(COMPUTES + "assert tell('calls cuEventRecord') and not tell('calls cuEventElapsedTime_v2')")


LOAD = """
dev = sp.open("cuda:0")
with pytest.raises(sp.ImageError) as caught:
    dev.kernel(image=b'''{ptx}''', entry="f", args="{args}")
print(caught.value)
dev.buffer(64).close()
"""
PTX = (
    ".version {} .target {} .address_size 64 "
    ".visible .entry f(.param .u64 a, .param .u32 b) {{ ret; }}"
)


def load(version="8.0", target="sm_80", args="f32* u32", settings=()):
    return run(LOAD.format(ptx=PTX.format(version, target), args=args), *settings)


def test_ptx_newer_than_the_driver_shows_the_log():
    said = load("9.0", settings=["driver 12040"])
    assert "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" in said
    assert "Unsupported .version 9.0; current version is '8.4'" in said
    assert "CUDA 12.4" in said


def test_ptx_for_another_architecture():
    assert "sm_90" in load(target="sm_100a")
    assert "CUDA_ERROR" in load(target="sm_80a")


def test_a_manifest_kernel_needs_code_for_the_gpu():
    said = run(
        "dev = sp.open('cuda:0')\n"
        "with pytest.raises(ValueError) as caught: dev.kernel('saxpy_f32')\n"
        "print(caught.value)",
        "cc 7.5",
    )
    assert "expected code for sm_75" in said


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("f32*", "expected more than the 1 arguments given"),
        ("f32* u32 u32", "expected 2 arguments, got 3"),
        ("f32* f64", "argument 1: expected 4 bytes at offset 8, got 8 at 8"),
        ("u32 u32", "argument 0: expected 8 bytes at offset 0, got 4 at 0"),
    ],
)
def test_arguments_that_the_driver_knows_otherwise(args, words):
    assert words in load(args=args)


def test_an_entry_that_is_not_there():
    other = PTX.format("8.0", "sm_80").replace(" f(", " g(")
    assert "has no entry 'f'" in run(LOAD.format(ptx=other, args="f32* u32"))
