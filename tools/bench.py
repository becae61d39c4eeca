"""Verifies, then times kernels. Subcommands: run kernel peak launch transfer tune compare list env.

This file only builds the command line. Each subcommand is a module of _bench/commands; the engine
is the rest of tools/_bench. `bench.py` without a subcommand is `bench.py run`.
"""

from __future__ import annotations

from _reexec import reexec

reexec()

import argparse  # noqa: E402
import logging  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402

from _bench.commands import compare, facts, kernel, options, run, transfer, tune  # noqa: E402
from _bench.measure.engine import Stuck  # noqa: E402
from _console import command_line, output  # noqa: E402
from _console.problems import FAILED, NO_DEVICE, USAGE, NoSuchDevice, NotComparable, UsageError  # noqa: E402

from sparkle_drv.errors import SparkleError  # noqa: E402

PROG = command_line.called("bench.py")
# The subcommands in the order of --help. A new subcommand is one line here.
COMMANDS = (
    run.add,
    kernel.add,
    run.add_peak,
    run.add_launch,
    transfer.add,
    tune.add,
    compare.add,
    facts.add,
)


def parser() -> argparse.ArgumentParser:
    """Returns the parser. Each subcommand sets `command` to the function that runs it."""
    top = command_line.top(PROG, __doc__, options.EXIT_CODES)
    top.add_argument(
        "--log",
        default="warning",
        choices=("debug", "info", "warning"),
        help="what to log to stderr",
    )
    top.set_defaults(command=None)
    sub = command_line.commands(top, required=False)
    for add in COMMANDS:
        add(sub)
    return top


def main(argv: Sequence[str]) -> int:
    """Runs one command and returns its exit code. An error becomes one line on stderr, never a
    traceback.
    """
    return output.guarded(PROG, lambda: _main(argv))


def _main(argv: Sequence[str]) -> int:
    top = parser()
    args = top.parse_args(argv or ["run"])
    logging.basicConfig(level=args.log.upper(), format="%(levelname)s %(name)s: %(message)s")
    if args.command is None:
        top.error("expected a COMMAND")
    try:
        code: int = args.command(args)
        return code
    except (UsageError, SparkleError, OSError, ValueError, TypeError, ImportError) as error:
        print(f"{PROG}: {_line(error)}", file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else FAILED
    except (NotComparable, Stuck) as error:
        print(f"{PROG}: {_line(error)}", file=sys.stderr)
        return FAILED
    except NoSuchDevice as error:
        print(f"{PROG}: {_line(error)}", file=sys.stderr)
        return NO_DEVICE
    except KeyboardInterrupt:
        print(f"{PROG}: interrupted", file=sys.stderr)
        return FAILED


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
