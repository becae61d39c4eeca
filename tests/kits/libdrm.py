"""libdrm's headers in two versions, for the comparison with our own declarations.

"system" is what is installed. "backports" is the newer version of Debian's backports, unpacked
below build/libdrm (debian.py) and never installed. Not a test.
"""

from __future__ import annotations

from pathlib import Path

import debian
import packages
import pytest
from where import ROOT

BACKPORTS = ROOT / "build" / "libdrm" / "backports"
INSTALLED = Path("/usr/include/libdrm")
PACKAGE = "libdrm-dev"


def include(version: str) -> Path:
    """The folder that holds amdgpu_drm.h and drm.h; skips the test when there is no way to it."""
    if version == "system":
        packages.needed(PACKAGE)
        return INSTALLED
    headers = BACKPORTS / "root" / "usr" / "include" / "libdrm"
    if not headers.exists():
        try:
            debian.unpack(BACKPORTS, [PACKAGE], "-backports")
        except debian.Absent as absent:
            pytest.skip(f"no {PACKAGE}: {absent}")
    return headers
