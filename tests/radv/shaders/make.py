"""Compiles the shaders here to SPIR-V (glslangValidator) and writes down from what.

`python tests/radv/shaders/make.py`; only whoever changes a shader runs it. The .spv files are
committed; a test compares the sources with SHA256SUMS.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent


def sums() -> str:
    """A line for each file, as sha256sum(1) writes it."""
    files = sorted([*HERE.glob("*.comp"), *HERE.glob("*.spv")])
    return "".join(f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}\n" for f in files)


def main() -> None:
    compiler = ("glslangValidator", "-V", "--target-env", "vulkan1.1", "--quiet")
    for source in sorted(HERE.glob("*.comp")):
        subprocess.run((*compiler, "-o", source.with_suffix(".spv"), source), check=True)
    (HERE / "SHA256SUMS").write_text(sums())


if __name__ == "__main__":
    main()
