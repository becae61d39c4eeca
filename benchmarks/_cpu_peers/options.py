"""Options, exit codes and the folder of results, for scripts that time the cases of cases.py."""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from _bench.report.writers import Outputs
from _console import output
from _console.problems import FAILED, OK, REGRESSION, USAGE, UsageError

from . import cases, report

RESULTS = Path(__file__).resolve().parents[1] / "results"


def add_options(top: argparse.ArgumentParser, budget_s: float) -> None:
    top.add_argument("--only", default="", metavar="REGEX", help="cases whose names match")
    top.add_argument("--budget-s", type=float, default=budget_s, help="default: %(default)g")
    top.add_argument("--seed", type=int, default=1, help="of the operands and of the order")
    top.add_argument("--label", default="", help="a remark for the report, as 'a quiet machine'")
    top.add_argument("--json", type=Path, help="write everything there")
    top.add_argument("--md", type=Path, help="write the tables there")
    top.add_argument("--check", action="store_true", help="exit 3 when a line does not hold")


def words(text: str, known: Sequence[str], option: str) -> list[str]:
    """Returns the items of a comma-separated list. Raises UsageError for an item that is not in
    `known`.
    """
    given = text.split(",")
    if strange := [word for word in given if word not in known]:
        raise UsageError(f"{option}: {strange[0]!r} is none of {', '.join(known)}")
    return given


def select(pattern: str) -> list[cases.Case]:
    """Returns the cases that --only selects. Raises UsageError for a malformed pattern, or if no
    case matches.
    """
    try:
        chosen = cases.select(pattern)
    except re.error as error:
        raise UsageError(
            f"--only: expected a regular expression, got {pattern!r}: {error}"
        ) from None
    if not chosen:
        raise UsageError(f"--only: no case has a name that matches {pattern!r}")
    return chosen


def guarded(args: argparse.Namespace, prog: str, run: Callable[[argparse.Namespace], int]) -> int:
    """Runs `run` and returns its exit code. SIGTERM interrupts `run` as Ctrl-C does. Wrong usage
    prints one line.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        Outputs(json=args.json, md=args.md).check()
        return run(args)
    except UsageError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return USAGE


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt  # the results so far are written, and the child processes end


def is_whole(
    args: argparse.Namespace, parser: argparse.ArgumentParser, also: Sequence[str]
) -> bool:
    """True if the run is complete: --only and the options named in `also` have their defaults."""
    return all(getattr(args, name) == parser.get_default(name) for name in ("only", *also))


def keep(
    args: argparse.Namespace, prog: str, told: Mapping[str, Any], text: str, name: str
) -> bool:
    """Prints the text and writes the files that were requested. `name`, if not empty, is the name
    of the files under results/.

    If a file cannot be written, prints a line on stderr and returns False.
    """
    print(text)
    folder = RESULTS / report.machine(told["env"])
    if name:
        with contextlib.suppress(OSError):  # the write below reports the error
            folder.mkdir(parents=True, exist_ok=True)
    texts = (
        (args.json or (folder / f"{name}.json" if name else None), report.rows_a_line(told)),
        (args.md or (folder / f"{name}.md" if name else None), text),
    )
    return all([output.save(prog, path, content) for path, content in texts if path is not None])


def exit_code(args: argparse.Namespace, well: bool, shows: Sequence[Mapping[str, Any]]) -> int:
    """Returns the exit code. `well`: the run is complete and has no errors. `shows`: a JSON object
    for each target of speed, with the figure that was reached.
    """
    if not well:
        return FAILED
    return REGRESSION if args.check and any(x["holds"] is False for x in shows) else OK
