"""Compiles a user's sources with an installed compiler: C and C++ for the cpu, OpenCL C and HIP for
AMD GPUs, CUDA C for NVIDIA GPUs. The driver compiles GLSL (images.py).

Images are kept in a temporary folder of this process, one for each set of macros. Called by
images.py.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from _console.problems import UsageError

from . import device_headers

if TYPE_CHECKING:
    import sparkle_drv as sp

LIMIT_S = 120.0
MOST_LINES = 3  # largest number of lines shown of the compiler's messages


@dataclass(frozen=True)
class Language:
    """How sources with one suffix are compiled. The environment variable `variable` names a
    compiler to prefer.
    """

    backend: str
    variable: str
    commands: tuple[str, ...]
    suffix: str
    flags: tuple[str, ...]
    header: str = ""  # text to include before the source
    header_name: str = "first.h"

    def compiler(self, source: Path) -> list[str]:
        """Returns the compiler's command. Raises ImageError, which names the commands that were
        looked for.
        """
        import sparkle_drv as sp

        given = os.environ.get(self.variable)
        for text in [given] if given else self.commands:
            words = shlex.split(text or "")
            if words and shutil.which(words[0]):
                return words
        looked = f"{self.variable}={given}" if given else ", ".join(self.commands)
        raise sp.ImageError(f"{source}: no compiler found; looked for {looked}")


_CPU = ("-O3", "-march=native", "-shared", "-fPIC")
_AMD = ("-O3", "-nogpulib", "-mcode-object-version=5")
_CLANG = ("clang-19", "clang-20", "clang-21", "clang")
_C = Language("cpu", "CC", ("cc", "gcc", "clang"), ".so", _CPU)
_CXX = Language("cpu", "CXX", ("c++", "g++", "clang++"), ".so", _CPU)
_NVCC = ("nvcc", "/usr/local/cuda/bin/nvcc")
LANGUAGES = {
    ".c": _C,
    **dict.fromkeys((".cc", ".cpp", ".cxx"), _CXX),
    ".cl": Language(
        "amdgpu", "CLANG", _CLANG, ".hsaco",
        ("-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", *_AMD),
        device_headers.OPENCL,
    ),
    ".hip": Language(
        "amdgpu", "CLANG", _CLANG, ".hsaco",
        ("-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", *_AMD),
        device_headers.HIP, "hip/hip_runtime.h",
    ),
    ".cu": Language("cuda", "NVCC", _NVCC, ".ptx", ("-ptx", "-O3", "-std=c++17")),
}  # fmt: skip
_LOCAL_INCLUDE = re.compile(rb'^\s*#\s*include\s*"', re.M)
_folder: tempfile.TemporaryDirectory[str] | None = None
_made: dict[tuple[object, ...], Path] = {}


def language(source: Path) -> Language | None:
    """Returns the language of a source. None if the file is no source, or if a driver
    compiles it.
    """
    return LANGUAGES.get(source.suffix.lower())


def check(source: Path, info: sp.DeviceInfo) -> None:
    """Raises UsageError when sources of this language are for other devices, ImageError when no
    compiler is installed.
    """
    spoken = language(source)
    if spoken is None:
        return
    if spoken.backend != info.backend:
        taken = [suffix for suffix, one in LANGUAGES.items() if one.backend == info.backend]
        known = ", ".join(taken) or "none of these"
        raise UsageError(
            f"{source}: {source.suffix} is for {spoken.backend}; sources for {info.uri}: {known}"
        )
    spoken.compiler(source)


def compiled(source: Path, info: sp.DeviceInfo, macros: Mapping[str, int]) -> Path:
    """Returns the image of a source for a device. Raises ImageError with the compiler's first
    messages.
    """
    global _folder
    spoken = LANGUAGES[source.suffix.lower()]
    text = source.read_bytes()
    used = _used(text, macros)
    key = (os.path.realpath(source), text, info.isa, *used.items())
    if key not in _made:
        if _folder is None:
            _folder = tempfile.TemporaryDirectory(prefix="sparkle-bench-")
        out = Path(_folder.name, f"{len(_made)}{spoken.suffix}")
        _run(source, [*_command(spoken, source, info, Path(_folder.name)), *_words(used)], out)
        _made[key] = out
    return _made[key]


def _used(text: bytes, macros: Mapping[str, int]) -> dict[str, int]:
    """Returns the macros that the source may depend on: those named in it, or all if it includes a
    file of the user's.

    If only sizes of arguments depend on a macro, another value of it needs no new compilation.
    """
    if _LOCAL_INCLUDE.search(text):
        return dict(macros)
    return {k: v for k, v in macros.items() if re.search(rf"\b{k}\b".encode(), text)}


def _words(macros: Mapping[str, int]) -> list[str]:
    return [f"-D{k}=({v})" if v < 0 else f"-D{k}={v}" for k, v in macros.items()]


def _command(spoken: Language, source: Path, info: sp.DeviceInfo, folder: Path) -> list[str]:
    words = [*spoken.compiler(source), *spoken.flags]
    if spoken.backend == "cuda":
        return [*words, f"-arch={info.isa}"]
    if spoken.backend == "cpu":
        return words
    header = folder / spoken.header_name
    header.parent.mkdir(exist_ok=True)
    header.write_text(spoken.header)
    linker = next(filter(None, map(shutil.which, _linkers(words[0]))), None)
    to_link = [f"--ld-path={linker}"] if linker else []
    chip = f"--offload-arch={info.isa}" if "hip" in words else f"-mcpu={info.isa}"
    return [*words, chip, *to_link, f"-I{folder}", "-include", str(header)]


def _linkers(clang: str) -> Sequence[str]:
    """Returns the names of linkers to look for, the best first: clang-19 needs ld.lld-19."""
    version = clang.rpartition("-")[2]
    return (f"ld.lld-{version}", "ld.lld") if version.isdigit() else ("ld.lld", "ld.lld-19")


def _run(source: Path, command: Sequence[str], out: Path) -> None:
    import sparkle_drv as sp

    last = ["-lm"] if out.suffix == ".so" else []
    # With an absolute path, a source named "-x.c" is not read as an option. The compiler gets its
    # own process group, so that its child processes end with it.
    words = [*command, "-o", str(out), os.path.abspath(source), *last]
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=LIMIT_S)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            what = f"{source}: {command[0]} took more than {LIMIT_S:g} s"
            raise sp.ImageError(what) from None
        raise
    if process.returncode or not out.is_file():
        what = _first_lines(said.decode(errors="replace")) or f"status {process.returncode}"
        raise sp.ImageError(f"{source}: {command[0]} failed: {what}")


def _first_lines(said: str) -> str:
    """Returns the lines that contain "error", or the first lines if there are none."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return "; ".join((errors or lines)[:MOST_LINES])
