"""Skips a test that needs a Debian package which is not here. Not a test.

tools/_packages.py says how the presence of each package is judged. `make test` installs them all.
"""

from __future__ import annotations

import pytest
from _packages import PACKAGES


def needed(*names: str) -> None:
    """Skips the test, naming what is missing of these; KeyError for one the table does not have."""
    present = {package.name: package.present for package in PACKAGES}
    absent = [name for name in names if not present[name]()]
    if absent:
        pytest.skip(f"not installed: {' '.join(absent)}")
