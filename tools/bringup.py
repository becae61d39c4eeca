"""Hardware bring-up, from the render node up to a matrix product. Subcommands: ladder mem info.

This file only builds the command line; each subcommand is a module of _bringup/commands.
`bringup.py` without a subcommand is `bringup.py ladder`. docs/bringup.md explains the tool.
`python -m sparkle_drv bringup` runs it, too.
"""

from __future__ import annotations

from _reexec import reexec

reexec()

import argparse  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402

from _bringup.commands import info, ladder, mem, options  # noqa: E402
from _bringup.results.rung import Wrong  # noqa: E402
from _console import command_line, output  # noqa: E402
from _console.problems import FAILED, NO_DEVICE, USAGE, NoSuchDevice, UsageError  # noqa: E402

from sparkle_drv.errors import DeviceNotFound, SparkleError  # noqa: E402

PROG = command_line.called("bringup.py")
# The subcommands in the order of --help. A new subcommand is one line here.
COMMANDS = (ladder.add, mem.add, info.add)
NAMES = ("ladder", "mem", "info")


def parser() -> argparse.ArgumentParser:
    """Returns the parser. Each subcommand sets `command` to the function that runs it."""
    top = command_line.top(PROG, __doc__, options.EXIT_CODES)
    sub = command_line.commands(top)
    for add in COMMANDS:
        add(sub)
    return top


def main(argv: Sequence[str]) -> int:
    """Runs one command and returns its exit code. An error becomes one line on stderr, never a
    traceback.
    """
    return output.guarded(PROG, lambda: _main(argv))


def _main(argv: Sequence[str]) -> int:
    plain = bool(argv) and (argv[0] in NAMES or argv[0] in ("-h", "--help", "--version"))
    args = parser().parse_args(argv if plain else ["ladder", *argv])
    try:
        code: int = args.command(args)
        return code
    except UsageError as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return USAGE
    except (NoSuchDevice, DeviceNotFound) as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return NO_DEVICE
    except (Wrong, SparkleError, OSError, ValueError, ImportError) as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print(f"{PROG}: interrupted", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
