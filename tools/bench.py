"""Benchmarks that verify before they time: run kernel peak launch transfer tune compare list env.

Only the frame of the command line is here. Every subcommand is a module _bench/cli_*.py; the
engine is the rest of tools/_bench. `bench.py` alone is `bench.py run`.
"""

from __future__ import annotations

from _hop import hop

hop()

import argparse  # noqa: E402
import logging  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402

import _output  # noqa: E402
from _bench import (  # noqa: E402
    cli,
    cli_compare,
    cli_facts,
    cli_kernel,
    cli_run,
    cli_transfer,
    cli_tune,
)
from _bench.engine import Stuck  # noqa: E402
from _bench.problems import (  # noqa: E402
    FAILED,
    NO_DEVICE,
    USAGE,
    NoSuchDevice,
    NotComparable,
    UsageError,
)

from sparkle_drv.errors import SparkleError  # noqa: E402

# In the order of --help; a new subcommand is one line here.
COMMANDS = (
    cli_run.add,
    cli_kernel.add,
    cli_run.add_peak,
    cli_run.add_launch,
    cli_transfer.add,
    cli_tune.add,
    cli_compare.add,
    cli_facts.add,
)


def parser() -> argparse.ArgumentParser:
    """The command line; every subcommand sets `command` to the function that runs it."""
    top = argparse.ArgumentParser(
        prog="bench.py", description=(__doc__ or "").partition("\n")[0], epilog=cli.EXIT_CODES
    )
    top.add_argument(
        "--log",
        default="warning",
        choices=("debug", "info", "warning"),
        help="what to log to stderr",
    )
    top.set_defaults(command=None)
    sub = top.add_subparsers(title="commands", metavar="COMMAND")
    for add in COMMANDS:
        add(sub)
    return top


def main(argv: Sequence[str]) -> int:
    """Runs one command; what is wrong with it is one line on stderr and an exit code, never a
    traceback.
    """
    return _output.guarded("bench.py", lambda: _main(argv))


def _main(argv: Sequence[str]) -> int:
    top = parser()
    args = top.parse_args(argv or ["run"])
    logging.basicConfig(level=args.log.upper(), format="%(levelname)s %(name)s: %(message)s")
    if args.command is None:
        top.print_usage(sys.stderr)
        return USAGE
    try:
        code: int = args.command(args)
        return code
    except (UsageError, SparkleError, OSError, ValueError, TypeError, ImportError) as error:
        print(f"bench.py: {_line(error)}", file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else FAILED
    except (NotComparable, Stuck) as error:
        print(f"bench.py: {_line(error)}", file=sys.stderr)
        return FAILED
    except NoSuchDevice as error:
        print(f"bench.py: {_line(error)}", file=sys.stderr)
        return NO_DEVICE
    except KeyboardInterrupt:
        print("bench.py: interrupted", file=sys.stderr)
        return FAILED


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
