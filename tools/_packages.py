"""The Debian packages that `make bench` and `make test` need, one row each.

A package counts as present when the command, file or library that it is needed for is found; dpkg
is not asked. setup_env.py installs the missing packages, or prints one line that names them. A test
that needs a package calls tests/kits/packages.py, which reads this table and skips with the
package's name.
"""

import ctypes
import glob
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
STAMP = ROOT / ".venv" / "sparkle-stamp"  # a file that exists when .venv is complete
# The Python that makes .venv. Links are followed, so that under .venv's own Python this is the
# machine's Python. setup_env.py replaces a .venv that was made by another Python than this one.
PYTHON = Path(sys.executable).resolve()
VERSION = "python{}.{}".format(*sys.version_info)


class Package(NamedTuple):
    name: str
    use: str  # the first step that needs the package: "build", "bench" or "test"
    present: "Callable[[], bool]"


def command(name: str) -> "Callable[[], bool]":
    """Returns a check whether this command is on PATH."""
    return lambda: shutil.which(name) is not None


def file(pattern: str) -> "Callable[[], bool]":
    """Returns a check whether a file matches this pattern."""
    return lambda: bool(glob.glob(pattern))


def library(name: str) -> "Callable[[], bool]":
    """Returns a check whether the dynamic linker finds this library."""

    def found() -> bool:
        try:
            ctypes.CDLL(name)
        except OSError:
            return False
        return True

    return found


def has_compiler() -> bool:
    return shutil.which((os.environ.get("CC") or "gcc").split()[0]) is not None


def has_venv() -> bool:
    """Returns whether this Python can make an environment with pip, or .venv is complete."""
    look = (str(PYTHON), "-c", "import ensurepip, venv")
    return STAMP.exists() or subprocess.run(look, capture_output=True, check=False).returncode == 0


def has_gl() -> bool:
    """True if EGL initialises a device; libEGL alone is not a driver. A child process tries it,
    because a driver may crash.
    """
    look = (str(PYTHON), str(Path(__file__).resolve().parent / "_egl_check.py"))
    try:
        return subprocess.run(look, capture_output=True, timeout=60).returncode == 0
    except subprocess.TimeoutExpired:
        return False


PACKAGES = (
    Package("gcc", "build", has_compiler),
    Package("libc6-dev", "build", file("/usr/include/stdio.h")),
    Package(f"{VERSION}-dev", "build", file(f"{sysconfig.get_path('include')}/Python.h")),
    Package(f"{VERSION}-venv", "build", has_venv),
    # Mesa's software OpenGL, for machines on which no device gives a context.
    Package("libegl1", "bench", library("libEGL.so.1")),
    Package("libgl1-mesa-dri", "bench", has_gl),
    # moderngl loads libGL, which the egl backend does not need.
    Package("libgl1", "test", library("libGL.so.1")),
    # g++ compiles shaders/cuda for the host (tests/cuda).
    Package("g++", "test", command("g++")),
    # Tests compare the emulated AMD GPU with these: the kernel driver's headers, RADV, Clover.
    Package("libdrm-dev", "test", file("/usr/include/libdrm/amdgpu_drm.h")),
    Package("libvulkan-dev", "test", file("/usr/include/vulkan/vulkan.h")),
    Package("mesa-vulkan-drivers", "test", file("/usr/share/vulkan/icd.d/radeon_icd*.json")),
    Package("mesa-opencl-icd", "test", file("/usr/lib/*/libMesaOpenCL.so.1")),
    Package("vulkan-tools", "test", command("vulkaninfo")),
    # These compile the cpu device's kernels for aarch64 and run them in QEMU (tests/cpu_kernels).
    Package("gcc-aarch64-linux-gnu", "test", command("aarch64-linux-gnu-gcc")),
    Package("libc6-dev-arm64-cross", "test", file("/usr/aarch64-linux-gnu/include/stdio.h")),
    Package("qemu-user", "test", command("qemu-aarch64")),
    # To slow and cut links between nodes, in network namespaces (tests/cluster).
    Package("iproute2", "test", command("ip")),
    # To compile OpenCL C and HIP for the emulated AMD GPU (tests/tools/kernel).
    Package("clang-19", "test", command("clang-19")),
    Package("lld-19", "test", command("ld.lld-19")),
    # OpenCL on the CPU, for examples/plugin_opencl.
    Package("pocl-opencl-icd", "test", file("/etc/OpenCL/vendors/pocl*.icd")),
)


def missing(*uses: str) -> "list[Package]":
    """Returns the missing packages of the steps `uses` ("build", "bench" or "test"), in the order
    of the table.
    """
    return [package for package in PACKAGES if package.use in uses and not package.present()]
