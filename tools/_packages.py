"""The Debian packages that `make bench` and `make test` need, one row each.

A package is present when its purpose is met, however that came about: dpkg is not asked.
setup_env.py installs what is missing, or prints one line that names it. A test that needs a package
asks tests/kits/packages.py, which reads this table and skips with the package's name.
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
STAMP = ROOT / ".venv" / "sparkle-stamp"  # exists when .venv is complete
# Resolved: the same answer when somebody runs make inside .venv, which must not delete itself.
PYTHON = Path(sys.executable).resolve()
VERSION = "python{}.{}".format(*sys.version_info)


class Package(NamedTuple):
    name: str
    use: str  # the first step that needs it: "build", "bench" or "test"
    present: "Callable[[], bool]"


def command(name: str) -> "Callable[[], bool]":
    """Present when this command is on PATH."""
    return lambda: shutil.which(name) is not None


def file(pattern: str) -> "Callable[[], bool]":
    """Present when a file matches this pattern."""
    return lambda: bool(glob.glob(pattern))


def library(name: str) -> "Callable[[], bool]":
    """Present when the dynamic linker finds this library."""

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
    """Can this Python make an environment with pip? A complete .venv needs no second one."""
    look = (str(PYTHON), "-c", "import ensurepip, venv")
    return STAMP.exists() or subprocess.run(look, capture_output=True, check=False).returncode == 0


def has_gl() -> bool:
    """Does any device initialise? libEGL alone is no driver. A child looks: a driver may crash."""
    look = (str(PYTHON), str(Path(__file__).resolve().parent / "_egl_look.py"))
    try:
        return subprocess.run(look, capture_output=True, timeout=60).returncode == 0
    except subprocess.TimeoutExpired:
        return False


PACKAGES = (
    Package("gcc", "build", has_compiler),
    Package("libc6-dev", "build", file("/usr/include/stdio.h")),
    Package(f"{VERSION}-dev", "build", file(f"{sysconfig.get_path('include')}/Python.h")),
    Package(f"{VERSION}-venv", "build", has_venv),
    # Mesa's software OpenGL, where no device of the machine gives a context.
    Package("libegl1", "bench", library("libEGL.so.1")),
    Package("libgl1-mesa-dri", "bench", has_gl),
    # moderngl finds libGL, which the egl backend does not need.
    Package("libgl1", "test", library("libGL.so.1")),
    # shaders/cuda, compiled for the host (tests/cuda).
    Package("g++", "test", command("g++")),
    # What judges the emulated AMD GPU: the kernel's own declarations, RADV (tests/radv), Clover.
    Package("libdrm-dev", "test", file("/usr/include/libdrm/amdgpu_drm.h")),
    Package("libvulkan-dev", "test", file("/usr/include/vulkan/vulkan.h")),
    Package("mesa-vulkan-drivers", "test", file("/usr/share/vulkan/icd.d/radeon_icd*.json")),
    Package("mesa-opencl-icd", "test", file("/usr/lib/*/libMesaOpenCL.so.1")),
    Package("vulkan-tools", "test", command("vulkaninfo")),
    # The cpu device's kernels for another machine (tests/cpu_kernels).
    Package("gcc-aarch64-linux-gnu", "test", command("aarch64-linux-gnu-gcc")),
    Package("libc6-dev-arm64-cross", "test", file("/usr/aarch64-linux-gnu/include/stdio.h")),
    Package("qemu-user", "test", command("qemu-aarch64")),
    # Slow and cut links between nodes, in network namespaces (tests/cluster).
    Package("iproute2", "test", command("ip")),
    # OpenCL C and HIP for the emulated AMD GPU (tests/tools/kernel).
    Package("clang-19", "test", command("clang-19")),
    Package("lld-19", "test", command("ld.lld-19")),
    # OpenCL on the CPU, for examples/plugin_opencl.
    Package("pocl-opencl-icd", "test", file("/etc/OpenCL/vendors/pocl*.icd")),
)


def missing(*uses: str) -> "list[Package]":
    """The packages of these steps that are not here, in the order of the table."""
    return [package for package in PACKAGES if package.use in uses and not package.present()]
