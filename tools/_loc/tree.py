"""The source files of a checkout, and how many lines each has."""

from __future__ import annotations

import os
from pathlib import Path

TOPS = ("sparkle_drv", "native", "tools", "tests", "benchmarks", "examples", "shaders")
ENDINGS = (".py", ".pyi", ".c", ".h", ".inc", ".def", ".isa", ".sh", ".comp", ".cu", ".cl")

GENERATED = "enerated by tools/gen.py"  # stands in the first line of what that tool writes


def sources(root: Path) -> list[str]:
    """Paths of all source files below the top folders, relative to `root`, sorted."""
    found = []
    for top in TOPS:
        for folder, inside, files in os.walk(root / top):
            inside[:] = [name for name in inside if name != "__pycache__"]
            here = Path(folder).relative_to(root).as_posix()
            found += [f"{here}/{name}" for name in files if name.endswith(ENDINGS)]
    return sorted(found)


def read(root: Path, path: str) -> str:
    """The text of one source file."""
    return (root / path).read_text(encoding="utf-8")


def written_by_hand(text: str) -> bool:
    """True unless the first line says that tools/gen.py wrote the file."""
    return GENERATED not in text.partition("\n")[0]
