"""OpenCL C for AMD GPUs: clang-19 and lld-19 make a code object for each generic target."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from . import Failed

NAME, SUFFIX, EXTENSION = "rdna", ".cl", ".hsaco"
COMPILER, LINKER = "clang-19", "ld.lld-19"
TARGETS = ("gfx10-3-generic", "gfx11-generic")
# No library is linked, so ROCm's device library is not needed. There are no fused multiply-adds
# except those in the source. Quotients and roots follow IEEE. Generic targets need code object v6.
FLAGS = (
    *("-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-mcode-object-version=6"),
    *("-O2", "-nogpulib", "-ffp-contract=off", "-cl-fp32-correctly-rounded-divide-sqrt"),
    *("-Wall", "-Wextra", "-Wl,--strip-all"),  # strips .symtab: the loader only reads .dynsym
)
_EXPECTED = "code object v6 is still in development"


def prepare() -> None:
    """Raises Failed when clang or lld is missing."""
    missing = [tool for tool in (COMPILER, LINKER) if not shutil.which(tool)]
    if missing:
        raise Failed(
            f"{' and '.join(missing)} not found: apt install clang-19 lld-19 (Debian; "
            "needed only to change a kernel)"
        )


def compile(source: Path, target: str, out: Path) -> None:
    """Compiles a source to a code object. Raises Failed with the compiler's messages if it fails or
    warns.
    """
    command = [COMPILER, *FLAGS, f"--ld-path={shutil.which(LINKER)}", f"-mcpu={target}"]
    # The compiler runs in the source's folder, so that the blob does not contain the checkout's
    # path.
    done = subprocess.run(
        [*command, "-o", str(out), source.name],
        cwd=source.parent, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if _EXPECTED not in line]
    if done.returncode or said:
        raise Failed("\n".join([f"{source.name} for {target}: clang failed or warned:", *said]))
