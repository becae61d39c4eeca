"""Options that several subcommands share, and what they mean.

Each subcommand is a module of this folder with `add(sub)`, which declares its options and names the
function that runs it. bench.py lists the modules. Nothing is measured here.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from _console.problems import UsageError

from _bench.machine import env
from _bench.measure import devices
from _bench.measure.engine import Settings
from _bench.report.writers import Outputs
from _bench.rows import results
from _bench.rows.results import Report

from . import resume, runner
from .runner import Session

Command = Callable[[argparse.Namespace], int]
Subcommands = Any  # argparse has no public type for what add_subparsers returns
EXIT_CODES = "exit codes: 0 well, 1 something failed, 2 usage, 3 no such device or regression found"
QUICK = {"precision": 0.05, "timeout_s": 1.0, "least": 10}


def command(sub: Subcommands, name: str, function: Command, text: str) -> argparse.ArgumentParser:
    """Adds a subcommand that `function` runs."""
    made: argparse.ArgumentParser = sub.add_parser(
        name, help=text, description=text, epilog=EXIT_CODES
    )
    made.set_defaults(command=function, subcommand=name)
    return made


def add_axes(to: argparse.ArgumentParser, text: str = "n=1M,4M  m=256..1024*2") -> None:
    to.add_argument(
        "-a",
        "--axis",
        action="append",
        default=[],
        dest="axes",
        metavar="AXIS=SPEC",
        help=text,
    )


def add_modes(to: argparse.ArgumentParser) -> None:
    to.add_argument("--mode", default="hot", help=f"of {','.join(results.MODES)} (default hot)")


def add_device(to: argparse.ArgumentParser) -> None:
    to.add_argument(
        "-d",
        "--device",
        default="cpu",
        metavar="DEV",
        help="URIs such as cpu,egl:0, or all (default cpu)",
    )


def add_seed(to: argparse.ArgumentParser) -> None:
    to.add_argument("--seed", type=int, help="repeat the inputs of a run that printed this seed")


def add_file(to: argparse.ArgumentParser, kind: str) -> None:
    to.add_argument(
        f"--{kind}", type=Path, metavar="FILE", help=f"write the results as {kind.upper()}"
    )


def add_measuring(
    to: argparse.ArgumentParser, timeout_s: float = 5.0, quick_s: float = QUICK["timeout_s"]
) -> None:
    """Adds options for devices, time and results. A row takes at most `timeout_s` seconds by
    default, or `quick_s` seconds with --quick.
    """
    add_device(to)
    to.add_argument(
        "--quick",
        action="store_true",
        help=f"5 %% precision and {quick_s:g} s per row, unless set by other options",
    )
    to.add_argument(
        "--precision",
        type=positive,
        metavar="PCT",
        help="stop a row at this half-width of its median's interval, in %%",
    )
    to.add_argument(
        "--timeout",
        type=positive,
        metavar="S",
        help=f"seconds per row at most (default {timeout_s:g})",
    )
    add_seed(to)
    for kind in ("json", "csv", "md"):
        add_file(to, kind)


def add_resume(to: argparse.ArgumentParser) -> None:
    to.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="go on with this JSON file of an earlier run; without --json it is written to",
    )


def add_drawing(to: argparse.ArgumentParser) -> None:
    to.add_argument(
        "--svg", type=Path, metavar="DIR", help="draw the verified rows into this folder"
    )


def positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"expected a positive number, got {text}")
    return value


def seed(args: argparse.Namespace) -> int:
    """Returns --seed, or a new random seed. Raises UsageError if --seed is out of range."""
    given: int = runner.fresh_seed() if args.seed is None else args.seed
    if not 0 <= given < 1 << 64:
        raise UsageError(f"--seed: expected a number from 0 to 2**64 - 1, got {given}")
    return given


def settings(
    args: argparse.Namespace, unverified: bool = False, quick: Mapping[str, float] = QUICK
) -> Settings:
    """Returns how to measure, according to --quick, --precision, --timeout and --seed."""
    made: dict[str, float | int] = dict(quick) if args.quick else {}
    if args.precision:
        made["precision"] = args.precision / 100
    if args.timeout:
        made["timeout_s"] = args.timeout
    if getattr(args, "launch_timeout", None):
        made["launch_s"] = args.launch_timeout
    return Settings(seed(args), unverified=unverified, **made)  # type: ignore[arg-type]


def session(
    args: argparse.Namespace, unverified: bool = False, quick: Mapping[str, float] = QUICK
) -> Session:
    earlier = None
    if path := getattr(args, "resume", None):
        earlier = resume.read_file(path, unverified)
        if args.seed not in (None, earlier.seed):
            raise UsageError(f"--resume {path}: expected seed {earlier.seed}, got {args.seed}")
        args.seed = earlier.seed
    return Session(
        devices.resolve(args.device),
        settings(args, unverified, quick),
        Outputs(args.json or path, args.csv, args.md, getattr(args, "svg", None)),
        Report(env.describe(), command=args.subcommand, extra={"request": resume.request(args)}),
        earlier=earlier,
    )


def modes(text: str) -> list[str]:
    """Returns ["hot", "cold"] for "hot,cold". Raises UsageError for an unknown mode."""
    chosen = list(dict.fromkeys(mode.strip() for mode in text.split(",")))
    for mode in chosen:
        if mode not in results.MODES:
            raise UsageError(f"--mode: expected some of {', '.join(results.MODES)}, got {mode!r}")
    return chosen
