"""Finds shaders/ and tools/ by path: inside the installed package, else beside it in a checkout.

It does not use importlib.resources, which takes 15 ms to import and fails in editable installs.
"""

from __future__ import annotations

import errno
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder `name` ("shaders" or "tools"); FileNotFoundError if it is missing."""
    for base in (_PACKAGE, _PACKAGE.parent):
        if (base / name).is_dir():
            return base / name
    raise FileNotFoundError(
        f"{name}/ is neither in {_PACKAGE} nor beside it: the installation is incomplete"
    )


@lru_cache(maxsize=1)
def manifest() -> dict[str, Any]:
    """shaders/manifest.json: one signature per kernel for every backend. Treat it as read-only."""
    parsed: dict[str, Any] = json.loads((folder("shaders") / "manifest.json").read_text())
    return parsed


def entry(name: str) -> dict[str, Any] | None:
    """The manifest's entry of a kernel, or None.

    "kernels" has the kernels of all backends. "packing" has those of the cpu only, which pack
    weights and run fused maps.
    """
    found: dict[str, Any] | None = manifest()["kernels"].get(name)
    return found or manifest()["packing"].get(name)


def image(file: str) -> bytes:
    """A kernel image by its name in the manifest ("rdna/gemm.gfx11-generic.hsaco").

    A checkout has the file, a wheel has it as .xz (setup.py). Raises OSError if neither exists, or
    if the .xz cannot be unpacked.
    """
    path = folder("shaders") / file
    if path.is_file():
        return path.read_bytes()
    packed = path.with_name(f"{path.name}.xz")
    if not packed.is_file():
        raise FileNotFoundError(errno.ENOENT, "the installation is incomplete", str(path))
    try:
        from lzma import LZMAError, decompress
    except ImportError:
        lacks = "this Python was built without lzma, which unpacks it"
        raise OSError(errno.ENOSYS, lacks, str(packed)) from None
    try:
        return decompress(packed.read_bytes())
    except LZMAError as error:
        raise OSError(errno.EIO, f"not readable: {error}", str(packed)) from None
