"""PM4 and SDMA command streams of AMD GPUs. Subcommands: decode encode lint diff reg.

This file only builds the command line. The subcommands are _pm4/*.py; their knowledge of packets is
in sparkle_drv.lowlevel. `python -m sparkle_drv pm4` runs the tool, too.
"""

from __future__ import annotations

from _reexec import reexec

reexec()

import argparse  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402

from _console import command_line, output  # noqa: E402
from _console.problems import FAILED, USAGE, UsageError  # noqa: E402
from _pm4 import common, decode, diff, lint, reg  # noqa: E402
from _pm4.common import InputError  # noqa: E402

PROG = command_line.called("pm4.py")
# The subcommands in the order of --help. A new subcommand is one line here.
COMMANDS = (
    decode.add_decode,
    decode.add_encode,
    lint.add,
    diff.add,
    reg.add,
)


def parser() -> argparse.ArgumentParser:
    """Returns the parser. Each subcommand sets `command` to the function that runs it."""
    top = command_line.top(PROG, __doc__, common.EXIT_CODES)
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
    args = parser().parse_args(argv)
    try:
        code: int = args.command(args)
        return code
    except UsageError as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return USAGE
    except (InputError, OSError, ValueError) as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print(f"{PROG}: interrupted", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
