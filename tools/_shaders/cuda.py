"""CUDA C for NVIDIA GPUs: nvcc 13.0.88 makes PTX for each target. This module then edits the PTX,
so that older drivers can load it.

nvcc 13.0 writes `.version 9.0`, which a driver older than 13.0 refuses. These kernels only need PTX
ISA 8.0 (CUDA 12.0, the first that knows sm_90a), so the version is lowered to 8.0. Removing
comments and indentation, and shortening names of parameters, saves 8 KB of the wheel. ptxas checks
that the file still assembles.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from . import Failed

NAME, SUFFIX, EXTENSION = "cuda", ".cu", ".ptx"
RELEASE, ISA = "V13.0.88", "8.0"
# sm_80 PTX runs on compute capability 8.0 and everything later, sm_90a PTX only on 9.0.
TARGETS = ("sm_80", "sm_90a")
# The architectures for which drivers compile each target's PTX. ptxas must be able to assemble for
# each.
ASSEMBLED_FOR = {"sm_80": ("sm_80", "sm_90a"), "sm_90a": ("sm_90a",)}
# No fused multiply-adds except those in the source, as in the other backends' kernels.
FLAGS = ("-ptx", "-std=c++17", "-O3", "-fmad=false", "--Werror", "all-warnings")
# These packages of the Python package index also contain nvcc. They work without the CUDA toolkit,
# but need g++.
PACKAGES = (
    "nvidia-cuda-nvcc==13.0.88", "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88", "nvidia-cuda-runtime==13.0.96",
)  # fmt: skip
FOLDER = Path(__file__).resolve().parents[2] / "build" / "nvcc"
_VERSION = re.compile(r"^\.version \d+\.\d+$", re.M)
_SAID = re.compile(
    r"Compiling entry function '(\w+)'.*?"
    r"(\d+) bytes stack frame, (\d+) bytes spill stores.*?"
    r"Used (\d+) registers([^\n]*)",
    re.S,
)
_SHARED = re.compile(r"(\d+) bytes smem")
_tools: dict[str, str] = {}


@dataclass(frozen=True)
class Usage:
    """A kernel's resources on one architecture: registers per thread, everything else in bytes."""

    kernel: str
    registers: int
    shared: int
    stack: int
    spills: int


def prepare() -> None:
    """Finds nvcc and ptxas of version RELEASE, or installs PACKAGES under build/.

    Raises Failed if the installation fails or brings no such compiler.
    """
    folders = [None, _inside(FOLDER)]
    if not any(_usable(folder) for folder in folders):
        _install()
        if not _usable(_inside(FOLDER)):
            raise Failed(
                f"no nvcc {RELEASE} on PATH, and installing {' '.join(PACKAGES)} brought none"
            )


def _inside(folder: Path) -> str:
    return str(folder / "nvidia" / "cu13" / "bin")


def _usable(path: str | None) -> bool:
    found = {tool: shutil.which(tool, path=path) for tool in ("nvcc", "ptxas")}
    if not all(found.values()):
        return False
    tools = {tool: str(where) for tool, where in found.items()}
    said = subprocess.run([tools["nvcc"], "--version"], capture_output=True, text=True, timeout=60)
    if RELEASE not in said.stdout:
        return False
    _tools.update(tools)
    return True


def _install() -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(FOLDER)]
    done = subprocess.run([*pip, *PACKAGES], capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise Failed(
            f"no nvcc {RELEASE} with its ptxas on PATH, and it cannot be installed: "
            f"{done.stderr.strip()[-500:]}"
        )


def compile(source: Path, target: str, out: Path) -> None:
    """Compiles a source to PTX. Raises Failed with the messages if nvcc or ptxas fails. A warning
    of nvcc counts as a failure.
    """
    # The compiler runs in the source's folder, so that the PTX does not contain the checkout's
    # path.
    done = subprocess.run(
        [_tools["nvcc"], *FLAGS, f"-arch={target}", "-o", str(out), source.name],
        cwd=source.parent, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if done.returncode:
        raise Failed(f"{source.name} for {target}: nvcc failed:\n{done.stderr or done.stdout}")
    text, count = _VERSION.subn(f".version {ISA}", out.read_text())
    if count != 1:
        raise Failed(
            f"{source.name} for {target}: expected one .version line from nvcc, got {count}"
        )
    out.write_text(compact(text))
    try:
        for arch in ASSEMBLED_FOR[target]:
            usage(out, arch)
    except Failed:
        out.unlink()
        raise


def compact(text: str) -> str:
    """Returns PTX without comments, indentation and empty lines, with short names of parameters:
    `saxpy_f32_param_2` becomes `p2`. The short names are unambiguous, because names of parameters
    belong to their entry (PTX ISA 8.0, sections 4.2 and 5.2.1).
    """
    lines = (re.sub(r"//.*", "", line).strip() for line in text.splitlines())
    whole = "".join(f"{line}\n" for line in lines if line)
    return re.sub(r"\b\w+_param_(\d+)\b", r"p\1", whole)


def usage(ptx: Path, arch: str) -> list[Usage]:
    """Returns the resources of each kernel of a file, as ptxas reports them. Raises Failed if the
    file does not assemble. Call `prepare` first.
    """
    command = [_tools["ptxas"], "-v", f"-arch={arch}", str(ptx), "-o", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise Failed(f"{ptx.name} does not assemble for {arch}:\n{done.stdout}{done.stderr}")
    found = []
    for kernel, stack, spills, registers, rest in _SAID.findall(done.stdout + done.stderr):
        shared = _SHARED.search(rest)
        smem = int(shared[1]) if shared else 0
        found.append(Usage(kernel, int(registers), smem, int(stack), int(spills)))
    return sorted(found, key=lambda used: used.kernel)
