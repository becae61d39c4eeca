"""The preload library for the tests that need it: as `make preload` built it, and not stale.

SPARKLE_PRELOAD names another one, as `make asan` does. Not a test.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from where import ROOT

LIBRARY = ROOT / os.environ.get("SPARKLE_PRELOAD", "build/preload/libsparkle_amdgpu.so")
SOURCES = (
    *("native/emu/**/*.[ch]", "native/emu/**/*.inc", "native/include/sp_emu*.h"),
    *("native/kmd/record*.[ch]", "native/kmd/ioctl.c", "native/include/sp_record.h"),
)


def library() -> Path:
    """Its path; skips the test when it is missing or older than a file that it is made from."""
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY.relative_to(ROOT)} is missing: make preload")
    made = LIBRARY.stat().st_mtime_ns
    for source in (path for pattern in SOURCES for path in ROOT.glob(pattern)):
        if source.stat().st_mtime_ns > made:
            changed = source.relative_to(ROOT)
            pytest.skip(f"{LIBRARY.relative_to(ROOT)} is older than {changed}: make preload")
    return LIBRARY
