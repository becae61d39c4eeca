"""Exit codes, sizes as people read them, and devices by name, for all commands."""

from __future__ import annotations

import argparse
import importlib
import os
import re
from typing import Any

EXIT_CODES = (
    "exit codes: 0 well, 1 a device does not work, or a file is wrong, 2 usage, 3 no usable device"
)
_TEST_SCHEMES = ("emu:", "sim:")  # only the import of sparkle_drv.testing registers these schemes
Subcommands = Any


def shape(text: str) -> tuple[int, ...]:
    """Returns (2, 3) for "2x3". argparse calls it to read an argument."""
    if not re.fullmatch(r"[1-9][0-9]*(x[1-9][0-9]*)*", text):
        raise argparse.ArgumentTypeError(f"expected sizes such as 256x256, got {text!r}")
    return tuple(int(size) for size in text.split("x"))


def of(dims: int, what: str) -> Any:
    """Returns a parser for argparse that reads `dims` sizes: (2, 3) for "2x3" if `dims` is 2. If
    their number is another, its error says that `what` was expected.
    """

    def exactly(text: str) -> tuple[int, ...]:
        found = shape(text)
        if len(found) != dims:
            raise argparse.ArgumentTypeError(f"expected {what}, got {text!r}")
        return found

    return exactly


def devices(text: str) -> str | list[str]:
    """Returns the argument of `sparkle_drv.init` for "all" or "cpu,egl:0". Registers test devices
    if one is named.
    """
    if text == "all":
        return text
    uris = [uri.strip() for uri in text.split(",")]
    if not all(uris):
        raise argparse.ArgumentTypeError(f"expected all, or URIs such as cpu,egl:0, got {text!r}")
    if any(uri.startswith(_TEST_SCHEMES) for uri in uris):
        importlib.import_module("sparkle_drv.testing")
    return uris


def home() -> str:
    """Returns the folder SPARKLE_HOME, by the same rule as sparkle_drv/core/settings.py."""
    return os.environ.get("SPARKLE_HOME") or os.path.join(os.path.expanduser("~"), ".sparkle")


def printable(text: str) -> str:
    """Returns the text of a file without characters that no output can encode."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def seconds(value: float) -> str:
    """Returns seconds as people read them, such as "12.3 us"."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"
