"""Shared by the children that trace calls: use of other extensions, and the Python files of a call.

`use` comes before the first import of the package, so that these extensions are the ones in use.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "sparkle_drv"


def use(folder: str, names: Iterable[str]) -> None:
    """Imports extensions of the package from `folder`, where they were built for this."""
    for name in names:
        (path,) = Path(folder).glob(f"{name}.*so")
        loader = importlib.machinery.ExtensionFileLoader(f"sparkle_drv.{name}", str(path))
        spec = importlib.util.spec_from_file_location(loader.name, path, loader=loader)
        module = importlib.util.module_from_spec(spec)
        sys.modules[loader.name] = module
        loader.exec_module(module)


def python_files(call: Callable[[], object]) -> list[str]:
    """Files of the package whose functions `call` runs, in the order of their first one."""
    seen: dict[str, None] = {}

    def look(frame, event, arg):
        if event == "call":
            seen[frame.f_code.co_filename] = None

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    inside = (Path(name) for name in seen)
    return [path.relative_to(PACKAGE).as_posix() for path in inside if PACKAGE in path.parents]
