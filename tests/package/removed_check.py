"""A copy of the package from which one check has been taken away.

The copy is a folder of links. The file with the check is changed, and what is made of it: one
object is compiled as the build did it, and its extension linked anew.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import marked
from where import ROOT

OBJECTS = ROOT / "build/obj"


@dataclass(frozen=True)
class Plant:
    """In the copy, `new` stands for the statement of `path` that is marked `fault: {mark}`."""

    path: str
    mark: str
    new: str
    unit: str
    """The C file that is compiled."""

    def text(self) -> str:
        """The changed text of the file."""
        return marked.replaced(ROOT / self.path, self.mark, self.new)


def package(plant: Plant, room: Path) -> Path:
    """The folder for PYTHONPATH."""
    for name in ("sparkle_drv", "shaders", "tools"):
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, room / name, copy_function=os.symlink, ignore=skipped)
    if plant.path.endswith(".py"):
        (room / plant.path).unlink()
        (room / plant.path).write_text(plant.text())
    else:
        _compiled(plant, room)
    return room


def _compiled(plant: Plant, room: Path) -> None:
    unit = Path(plant.unit)
    name = "_hot" if unit.parts[1] == "hot" else "_native"
    for folder in {unit.parent, Path(plant.path).parent}:  # bare includes are found in their folder
        shutil.copytree(ROOT / folder, room / folder, copy_function=os.symlink)
    (room / plant.path).unlink()
    (room / plant.path).write_text(plant.text())
    command = shlex.split((OBJECTS / unit.with_suffix(".cmd")).read_text())
    made = room / unit.with_suffix(".o").name
    at = command.index("-MMD")
    command[at:] = ["-c", str(room / unit), "-o", str(made)]
    subprocess.run([command[0], f"-I{room / 'native'}", *command[1:]], cwd=ROOT, check=True)
    link = shlex.split((OBJECTS / f"sparkle_drv.{name}.link").read_text())
    (target,) = (room / "sparkle_drv").glob(f"{name}.*so")
    target.unlink()
    link[link.index("-o") + 1] = str(target)
    link[link.index(str((OBJECTS / unit.with_suffix(".o")).relative_to(ROOT)))] = str(made)
    subprocess.run(link, cwd=ROOT, check=True)
