"""libdrm's headers in two versions, for the comparison with our own declarations.

"system" is what is installed, else the distribution's own package; "backports" is the newer one of
Debian's backports. Packages are unpacked below build/libdrm (debian.py), never installed. Not a
test.
"""

from __future__ import annotations

from pathlib import Path

import debian
import pytest

CACHE = Path(__file__).resolve().parents[1] / "build" / "libdrm"
INSTALLED = Path("/usr/include/libdrm")
PACKAGE = "libdrm-dev"


def include(version: str) -> Path:
    """The folder that holds amdgpu_drm.h and drm.h; skips the test when there is no way to it."""
    if version == "system" and (INSTALLED / "amdgpu_drm.h").exists():
        return INSTALLED
    place = CACHE / version
    headers = place / "root" / "usr" / "include" / "libdrm"
    if not headers.exists():
        try:
            debian.unpack(place, [PACKAGE], "-backports" if version == "backports" else "")
        except debian.Absent as absent:
            pytest.skip(f"no {PACKAGE}: {absent}")
    return headers
