"""The parser of a tool's command line. Wrong usage prints one line on stderr and exits with 2.
`--version` prints the version.

Every installed tool uses this parser and adds its own subcommands.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

_SCRIPTS = ("sparkle", "sparkle-bench", "sparkle-bringup", "sparkle-pm4")  # names in pyproject.toml


def called(script: str) -> str:
    """Returns the name under which the tool was started: the name of an installed console script,
    otherwise `script`.
    """
    name = os.path.basename(sys.argv[0])
    return name if name in _SCRIPTS else script


class CommandLine(argparse.ArgumentParser):
    """The parser class of a tool and of its subcommands."""

    def error(self, message: str) -> NoReturn:
        """Prints one line on stderr and exits 2."""
        said = " ".join(message.split())
        self.exit(2, f"{self.prog}: {said} (see {self.prog} --help)\n")


class _Version(argparse.Action):
    """The option --version, which prints the version and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        # The package is imported late, so that each tool can report a failure to load it.
        from sparkle_drv.version import VERSION

        print(f"{parser.prog} {VERSION}")
        parser.exit()


class _Top(CommandLine):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        given: Sequence[str] = sys.argv[1:] if args is None else list(args)
        if "--version" in given[:1] and given[1:]:
            self.error(f"--version takes nothing beside it, got {given[1]!r}")
        return super().parse_known_args(given, namespace)


def top(prog: str, doc: str | None, epilog: str) -> CommandLine:
    """Makes the parser of the tool `prog`. Its description is the first line of `doc`."""
    made = _Top(prog=prog, description=(doc or "").partition("\n")[0], epilog=epilog)
    made.add_argument(
        "--version", action=_Version, nargs=0, help="print the version of the package and exit"
    )
    return made


def commands(parser: CommandLine, required: bool = True) -> Any:
    """Returns the group to which subcommands are added."""
    return parser.add_subparsers(
        title="commands", metavar="COMMAND", required=required, parser_class=CommandLine
    )
