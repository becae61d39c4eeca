"""Options that subcommands share, and the meaning of the exit codes."""

from __future__ import annotations

import argparse
import errno
import json
import math
import os
from pathlib import Path
from typing import Any

from _console import output

PROG = "bringup.py"
EXIT_CODES = (
    "exit codes: 0 no rung failed, 1 a rung failed (also when no such device can be opened: the "
    "first rung says why), 2 usage, 3 no device has that name"
)
Subcommands = Any  # argparse has no public type for what add_subparsers returns


def command(sub: Subcommands, name: str, function: Any, text: str) -> argparse.ArgumentParser:
    """Adds a subcommand that `function` runs."""
    made: argparse.ArgumentParser = sub.add_parser(
        name, help=text, description=text, epilog=EXIT_CODES
    )
    made.set_defaults(command=function)
    made.add_argument(
        "-d", "--device", default="amdgpu:0", metavar="DEV",
        help="amdgpu:N, the path of a render node, emu:gfx1100, emu:gfx1103:kms-3.42, cpu ... "
        "(default: the first node that amdgpu drives)",
    )  # fmt: skip
    made.add_argument("--json", metavar="FILE", help="write the report there, - for stdout")
    return made


def seconds(text: str) -> float:
    """Parses a positive number of seconds."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, got {text!r}") from None
    if not (math.isfinite(value) and 0 < value <= 86400):
        raise argparse.ArgumentTypeError("expected a number of seconds above 0 and at most 86400")
    return value


def size(text: str) -> int:
    """Parses a number of bytes: 4096, 64K, 16M, 1G."""
    units = {"K": 10, "M": 20, "G": 30}
    number, shift = (
        (text[:-1], units[text[-1].upper()]) if text[-1:].upper() in units else (text, 0)
    )
    if not (number.isascii() and number.isdigit() and int(number)):
        raise argparse.ArgumentTypeError(
            f"expected a size such as 4096, 64K, 16M, 1G, got {text!r}"
        )
    return int(number) << shift


def check_writable(name: str | None) -> None:
    """Raises OSError when a file that will be written at the end cannot be written, so that the
    error comes before the climb. Nothing is opened, because the file may be a pipe.
    """
    if not name or name == "-":
        return
    path = Path(name)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    there = path if path.exists() else path.parent
    if not os.access(there, os.W_OK):
        code = errno.EACCES if there.exists() else errno.ENOENT
        raise OSError(code, os.strerror(code), name)


def write_json(name: str, document: dict[str, Any]) -> bool:
    """Writes a document as JSON. If the file cannot be written, prints a line on stderr and returns
    False.
    """
    text = json.dumps(document, indent=1, default=str) + "\n"
    if name == "-":
        print(text, end="")
        return True
    return output.save(PROG, name, text)
