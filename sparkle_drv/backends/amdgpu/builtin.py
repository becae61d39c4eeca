"""The package's own kernels for AMD GPUs: from an entry of the manifest to the code object.

    blob, path = image(spec.manifest, targets.accepted("gfx1036"))
    code = codeobject.load(blob, spec.entry, mach=..., args=spec.args, name=path)

The manifest's entry ("backends": {"amdgpu": ...}) also has `groups`, the grid as formulas of the
kernel's integer arguments (Loaded.groups), and `group_size`. peak_fma_* runs with any number of
groups; a multiple of the device's compute units is best.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from sparkle_drv import assets
from sparkle_drv.errors import ImageError


def image(entry: Mapping[str, Any], mach: Sequence[str]) -> tuple[bytes, str]:
    """Returns the code object, and its path, for the first target of `mach` that the manifest's
    `entry` has.

    Raises ImageError if the entry has none of these targets, or if the file's SHA-256 is not the
    one in the manifest.
    """
    name = entry["image"]
    blobs = assets.manifest()["images"][name]["blobs"]
    row = next((blobs[target] for target in mach if target in blobs), None)
    if row is None:
        raise ImageError(f"{name}: expected code for {' or '.join(mach)}, got {', '.join(blobs)}")
    path = str(assets.folder("shaders") / row["file"])
    try:
        blob = assets.image(row["file"])
    except OSError as error:
        raise ImageError(f"{error.filename}: {error.strerror}") from None
    if hashlib.sha256(blob).hexdigest() != row["sha256"]:
        raise ImageError(f"{path}: expected a file with the SHA-256 in the manifest, got another")
    return blob, path
