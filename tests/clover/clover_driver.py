"""Mesa's OpenCL driver Clover, made to find its built-in functions for the emulated chips.

Debian's libclc has one file of them for all AMD GPUs, under the names of old ones alone. Clover
takes them from a fixed folder, so a copy of its library is made that looks in the working folder.
"""

from __future__ import annotations

from pathlib import Path

LIBRARIES = Path("/usr/lib")
CLC = Path("/usr/lib/clc")
# Below the working folder; its name is not longer than that of CLC, in whose place it is put.
HERE = "clc"
TARGET = "-amdgcn-mesa-mesa3d.bc"
ANY_AMD = "tahiti"
# Mesa 22.3 compiles for gfx1030 where it has a gfx1036.
CHIPS = ("gfx1030", "gfx1033", "gfx1035", "gfx1036", "gfx1100", "gfx1102", "gfx1103")


class Absent(Exception):
    """Clover cannot be had here; the text says why."""


def clover(folder: Path) -> dict[str, str]:
    """Prepares `folder`, in which programs are to run; returns the environment that they need."""
    library = next(LIBRARIES.glob("*/libMesaOpenCL.so.1"), None)
    if library is None:
        raise Absent("Clover is missing: apt-get install mesa-opencl-icd")
    if not (CLC / f"{ANY_AMD}{TARGET}").exists():
        raise Absent(f"{CLC} has no built-in functions for AMD: apt-get install libclc-15")
    fixed = f"{CLC}/".encode()
    data = library.read_bytes()
    if fixed not in data:
        raise Absent(f"{library} does not look for built-in functions in {CLC}")
    here = f"./{HERE}".encode()
    (folder / library.name).write_bytes(data.replace(fixed, here + b"/" * (len(fixed) - len(here))))
    (folder / HERE).mkdir()
    for chip in CHIPS:
        own = CLC / f"{chip}{TARGET}"
        (folder / HERE / own.name).symlink_to(own if own.exists() else CLC / f"{ANY_AMD}{TARGET}")
    icd = folder / "clover.icd"
    icd.write_text(f"{folder / library.name}\n")
    # The first is what ocl-icd reads, the second what Khronos' own loader does.
    return {"OCL_ICD_VENDORS": str(icd), "OCL_ICD_FILENAMES": str(icd)}
