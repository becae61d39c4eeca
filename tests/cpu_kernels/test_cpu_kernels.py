"""The cpu device's kernels for aarch64, cross-compiled and run by qemu-user: NEON and portable C.

When this fails, the package computes wrong results on ARM machines.

The same program runs natively under the sanitizers in `make asan`.
"""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import packages
import pytest

HERE = Path(__file__).resolve().parent
QEMU = "qemu-aarch64"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
]  # half a minute of compiling, on a machine that is busy


def _builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_cpu_kernels", HERE / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def builder():
    """build.py, where a compiler and an emulator for aarch64 are."""
    packages.needed("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user")
    return _builder()


def run(program: Path, *args: object) -> subprocess.CompletedProcess[str]:
    command = [QEMU, str(program), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def program(builder):
    try:
        return builder.build("aarch64")
    except subprocess.CalledProcessError as error:
        pytest.fail(error.stderr)


@pytest.mark.parametrize(("isa", "cases"), [("neon", 60), ("ref", 20)])
def test_every_kernel_on_aarch64(program, isa, cases):
    done = run(program, isa, cases)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    checked = [line.split()[1].rstrip(":") for line in lines[:-1]]
    assert {"gemm_f32", "gemm_f64", "conv2d", "map", "spans", "reduce", "layout", "strided"} <= {
        *checked
    }
    assert all(line.endswith(f": {cases} cases") for line in lines[:-1])
    assert lines[-1] == "0 failures"


def test_the_checks_can_fail_and_say_how_to_repeat_it(builder):
    """With a tolerance that no float32 meets; a case that fails alone fails again."""
    strict = builder.build("aarch64", name="strict", defines=("-DTOLERANCE_DIRECT=1e-12",))
    done = run(strict, "neon", 20, 3)
    assert done.returncode == 1
    failed = [line for line in done.stdout.splitlines() if ", seed 3, case " in line]
    assert any(line.startswith("gemm_f32, seed 3, case ") for line in failed)
    assert any(line.startswith("conv2d, seed 3, case ") for line in failed)
    again = run(strict, "neon", 20, 3, "conv2d")
    assert [line for line in failed if line.startswith("conv2d")] == [
        line for line in again.stdout.splitlines() if ", seed 3, case " in line
    ]


def test_an_instruction_set_of_another_machine(program):
    assert run(program, "avx2").returncode == 77
    assert run(program, "sse9").returncode == 2
