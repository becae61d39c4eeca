"""The compare command: compares two results files, or a run with this device's baseline."""

from __future__ import annotations

import argparse
from pathlib import Path

from _console.problems import FAILED, OK, REGRESSION, UsageError

from _bench.rows import compare, results, shift

from . import baseline, options, runner


def add(sub: options.Subcommands) -> None:
    comp = options.command(
        sub, "compare", compare_command, "two results files: each row FAST SLOW SAME or AMBIGUOUS"
    )
    comp.add_argument("files", nargs="*", metavar="OLD NEW", help="two files written by --json")
    comp.add_argument(
        "--baseline",
        type=Path,
        metavar="DIR",
        help="instead of files: run now and compare with this device's file",
    )
    comp.add_argument(
        "--threshold",
        type=options.positive,
        default=shift.THRESHOLD,
        help="the shift that counts as a change (default 0.05)",
    )
    comp.add_argument("--force", action="store_true", help="compare different devices, too")
    comp.add_argument(
        "--names",
        nargs="*",
        default=[],
        metavar="NAME",
        help="with --baseline: kernels (as for run)",
    )
    options.add_axes(comp)
    options.add_modes(comp)
    options.add_measuring(comp)


def compare_command(args: argparse.Namespace) -> int:
    if args.baseline is not None:
        if args.files or args.force:
            raise UsageError("compare --baseline: expected no files and no --force")
        args.quick = True
        made = options.session(args)
        tasks = runner.manifest_tasks(
            args.names, args.axes, options.modes(args.mode), made.settings.seed
        )
        return baseline.gate(args.baseline, made, tasks, args.threshold)
    if len(args.files) != 2:
        raise UsageError("compare: expected two files, OLD and NEW, or --baseline DIR")
    old, new = (results.load(Path(name)) for name in args.files)
    pairs = compare.compare(old, new, args.threshold, args.force)
    for which, document in (("old", old), ("new", new)):
        print(f"# {which}: {compare.conditions(document)}")
    compare.show(pairs, args.threshold)
    if any(pair.is_broken for pair in pairs):
        return FAILED
    return REGRESSION if any(pair.is_regression for pair in pairs) else OK
