"""Finds shaders/ and tools/: inside an installed package, or beside the package in a checkout.

Paths are used because importlib.resources takes 15 ms to import and fails in editable installs.
"""

from __future__ import annotations

import errno
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """Returns the folder `name` ("shaders" or "tools"); raises FileNotFoundError without it."""
    for base in (_PACKAGE, _PACKAGE.parent):
        if (base / name).is_dir():
            return base / name
    raise FileNotFoundError(
        f"{name}/ is neither in {_PACKAGE} nor beside it: the installation is incomplete"
    )


@lru_cache(maxsize=1)
def manifest() -> dict[str, Any]:
    """Returns shaders/manifest.json, which has one signature per kernel for all backends.

    Callers must not change the returned dict.
    """
    parsed: dict[str, Any] = json.loads((folder("shaders") / "manifest.json").read_text())
    return parsed


def entry(name: str) -> dict[str, Any] | None:
    """Returns the manifest's entry of a kernel, or None if the manifest has no such kernel.

    The section "kernels" has the kernels of all backends. The section "packing" has kernels of the
    cpu only, which pack weights or run fused maps.
    """
    found: dict[str, Any] | None = manifest()["kernels"].get(name)
    return found or manifest()["packing"].get(name)


def image(file: str) -> bytes:
    """Returns the bytes of a kernel image, named as in the manifest.

    An example of `file` is "rdna/gemm.gfx11-generic.hsaco". A checkout has this file; a wheel has
    it compressed as .xz (setup.py). Raises OSError if neither exists or the .xz is not readable.
    """
    path = folder("shaders") / file
    if path.is_file():
        return path.read_bytes()
    packed = path.with_name(f"{path.name}.xz")
    if not packed.is_file():
        raise FileNotFoundError(
            errno.ENOENT, "the installation is incomplete: no such image", str(path)
        )
    try:
        from lzma import LZMAError, decompress
    except ImportError:
        lacks = "this Python was built without lzma, which unpacks it"
        raise OSError(errno.ENOSYS, lacks, str(packed)) from None
    try:
        return decompress(packed.read_bytes())
    except LZMAError as error:
        raise OSError(errno.EIO, f"the image cannot be unpacked: {error}", str(packed)) from None
