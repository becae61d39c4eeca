"""The folders that tests and their children need by path, wherever the file that asks lies."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = next(up for up in Path(__file__).resolve().parents if (up / "pyproject.toml").is_file())
KITS = Path(__file__).resolve().parent
CODE_OBJECTS = ROOT / "tests/kits/codeobjects"


def kits(*more: object) -> str:
    """PYTHONPATH for a child that imports the kits: what is on it now comes next, `more` last."""
    folders = (str(KITS), os.environ.get("PYTHONPATH", ""), *map(str, more))
    return os.pathsep.join(filter(None, folders))
