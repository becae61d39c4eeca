"""Compiles the shaders here to SPIR-V (glslangValidator) and writes down from what.

`python tests/radv/shaders/make.py`; only whoever changes a shader runs it. The .spv files are
committed; a test compares the sources with SHA256SUMS.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent


# image.comp, once for each kind of image: its type in GLSL, and the coordinates of a point p.
IMAGES = {
    **{"1d": ("image1D", "p.x"), "1d_array": ("image1DArray", "ivec2(p.x, p.z)")},
    **{"2d": ("image2D", "p.xy"), "2d_array": ("image2DArray", "p"), "3d": ("image3D", "p")},
    **{"cube": ("imageCube", "p"), "buffer": ("imageBuffer", "p.x")},
}


def variants() -> dict[str, tuple[str, ...]]:
    """What defines each module that image.comp becomes."""
    made = {}
    for name, (kind, coord) in IMAGES.items():
        one = (f"-DIMAGE={kind}", "-DVEC=vec4", f"-DCOORD(p)={coord}")
        made[f"image_{name}"] = one
        made[f"image_{name}_u"] = (f"-DIMAGE=u{kind}", "-DVEC=uvec4", one[2])
    return made


def sums() -> str:
    """A line for each file, as sha256sum(1) writes it."""
    files = sorted([*HERE.glob("*.comp"), *HERE.glob("*.spv")])
    return "".join(f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}\n" for f in files)


def main() -> None:
    compiler = ("glslangValidator", "-V", "--target-env", "vulkan1.1", "--quiet")
    for source in sorted(HERE.glob("*.comp")):
        modules = variants() if source.name == "image.comp" else {source.stem: ()}
        for name, defines in modules.items():
            made = HERE / f"{name}.spv"
            subprocess.run((*compiler, *defines, "-o", made, source), check=True)
    (HERE / "SHA256SUMS").write_text(sums())


if __name__ == "__main__":
    main()
