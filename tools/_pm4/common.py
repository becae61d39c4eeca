"""Input files and options that the subcommands share."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from _console.problems import UsageError

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import Ib, TextError

EXIT_CODES = "exit codes: 0 well, 1 wrong input, findings or differences, 2 usage"
MOST = 32 << 20  # largest size of an input in bytes; a devcoredump has some 6 MiB
INPUT = "FILE, FILE@ADDRESS for bytes of that address, or - for stdin"
Command = Callable[[argparse.Namespace], int]
Subcommands = Any  # argparse has no public type for what add_subparsers returns


class InputError(Exception):
    """An input is wrong. The tool prints one line on stderr that names the place, and
    exits with 1.
    """


def command(sub: Subcommands, name: str, function: Command, text: str) -> argparse.ArgumentParser:
    """Adds a subcommand that `function` runs."""
    made: argparse.ArgumentParser = sub.add_parser(
        name, help=text, description=text, epilog=EXIT_CODES
    )
    made.set_defaults(command=function)
    return made


def add_inputs(to: argparse.ArgumentParser) -> None:
    """Adds options for reading inputs. Each command declares its files itself."""
    to.add_argument(
        "--from",
        dest="form",
        choices=lowlevel.FORMS,
        default="auto",
        help="form of the input (default: found from its contents)",
    )
    to.add_argument(
        "--gfx",
        type=gfx,
        metavar="GFX",
        help="9, 10.3, 11, 12 or a chip such as gfx1036, gfx1100, if the input does not say",
    )
    to.add_argument(
        "--ip",
        choices=lowlevel.IPS,
        default="compute",
        help="queue, if the input does not say (default compute)",
    )


def gfx(text: str) -> int:
    try:
        return lowlevel.read_gfx(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def read(args: argparse.Namespace, name: str) -> list[Ib]:
    """Returns the IBs of one input. Raises InputError, which names file, line and column, or
    UsageError if the gfx level is unknown.
    """
    path, at, address = name.rpartition("@")
    va = None
    if at and not Path(name).exists():
        try:
            va = int(address, 16)
        except ValueError:
            raise UsageError(f"{name}: expected an address in hex, got {address!r}") from None
        if not 0 <= va < 1 << 64:
            raise UsageError(f"{name}: expected an address of at most 64 bits")
        name = path
    if name == "-":
        data = bounded(sys.stdin.buffer, name)
    else:
        with Path(name).open("rb") as file:
            data = bounded(file, name)
    try:
        ibs = lowlevel.read_ibs(data, args.gfx, args.ip, va, args.form)
    except TextError as error:
        raise InputError(f"{name}:{error.line}:{error.column}: {error.reason}") from None
    except ValueError as error:
        wanted = UsageError if args.gfx is None else InputError
        raise wanted(f"{name}: cannot read the IBs: {error}") from None
    if not ibs:
        raise InputError(f"{name}: expected an IB, got none")
    return ibs


def bounded(file: BinaryIO, name: str) -> bytes:
    """Reads all of a file. Raises InputError beyond MOST bytes, because a device file
    may have no end.
    """
    data = file.read(MOST + 1)
    if len(data) > MOST:
        raise InputError(f"{name}: expected at most {MOST >> 20} MiB, got more")
    return data


def read_all(args: argparse.Namespace, names: list[str]) -> list[Ib]:
    return [ib for name in names for ib in read(args, name)]


def write_json(document: dict[str, Any]) -> None:
    print(json.dumps({"schema": 1, **document}, indent=1))
