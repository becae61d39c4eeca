"""The replay command: decides a journal again, unchanged or with other devices."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

from _console.problems import FAILED, OK, UsageError

from .common import Subcommands, seconds

MOST = 10
"""Largest number of decisions that are printed one by one."""


def add(sub: Subcommands, epilog: str) -> None:
    """Adds the subcommand `replay` and its options to sparkle.py."""
    made = sub.add_parser(
        "replay",
        help="decide again what a trace recorded; or with other devices",
        description="Makes the decisions in a journal again, from the knowledge at that time: "
        "every plan must be the same, byte for byte (else exit 1). With --without or "
        "--rate: what would have been decided? Nothing is run, and the recorded measurements "
        "count unchanged.",
        epilog=epilog,
    )
    made.add_argument(
        "file", type=Path, metavar="FILE", help="of Context.save_trace, or its FILE.journal"
    )
    made.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="URI",
        help="as if this device were absent",
    )
    made.add_argument(
        "--rate", action="append", default=[], type=factor, metavar="URI=FACTOR",
        help="as if this device were FACTOR times as fast",
    )  # fmt: skip
    made.add_argument("--json", action="store_true", help="every decision, as JSON")
    made.set_defaults(command=replay)


def factor(text: str) -> tuple[str, float]:
    """Returns ("cuda:0", 2.0) for "cuda:0=2". argparse calls it to read --rate."""
    uri, _, value = text.rpartition("=")
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not uri or not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"expected URI=FACTOR, such as cuda:0=2, got {text!r}")
    return uri, found


def replay(args: argparse.Namespace) -> int:
    """Decides the journal again and prints the result. Returns 1 when a plan differs although no
    option changed the devices.
    """
    import sparkle_drv as sp

    try:
        found = sp.replay(args.file, without=args.without, rate=dict(args.rate))
    except sp.DeviceNotFound as error:
        raise UsageError(f"wrong device of --without or --rate: {error}") from error
    asked = bool(args.without or args.rate)
    if args.json:
        print(json.dumps([dataclasses.asdict(one) for one in found], indent=1))
    elif asked:
        print("\n".join(what_if(found)))
    else:
        print("\n".join(verified(found)))
    return OK if asked or all(one.same for one in found) else FAILED


def verified(found: list[Any]) -> list[str]:
    """Returns lines of text: whether all decisions of the replay are the same as the recorded ones,
    and which differ.
    """
    other = [(number, one) for number, one in enumerate(found, 1) if not one.same]
    if not other:
        return [f"{len(found)} decisions, all are the same"]
    lines = [f"{len(other)} of {len(found)} decisions differ"]
    lines += [f"    {number}: {_changed(one)}" for number, one in other[:MOST]]
    return lines + [f"    and {len(other) - MOST} more"] * (len(other) > MOST)


def what_if(found: list[Any]) -> list[str]:
    """Returns lines of text: how many recorded calls a new decision sends to another device than
    the recorded one, and the predicted time before and after.
    """
    moved = Counter((one.op, one.device, one.now_device) for one in found
                    if one.device != one.now_device)  # fmt: skip
    lines = [f"{moved.total()} of {len(found)} decisions go elsewhere"]
    lines += [f"    {op}: {n} from {a} to {b or 'nowhere'}" for (op, a, b), n in
              moved.most_common()]  # fmt: skip
    able = [one for one in found if one.now_device]
    before, after = (sum(s) for s in zip(*((d.predicted_s, d.now_predicted_s) for d in able),
                                         strict=True)) if able else (0.0, 0.0)  # fmt: skip
    if before:
        lines.append(
            f"predicted for one call of each: {seconds(before)} then, {seconds(after)} now, "
            f"{after / before:.2f} times as long"
        )
    return lines + list(dict.fromkeys(f"    {one.why}" for one in found if one.why))[:MOST]


def _changed(one: Any) -> str:
    before = f"{one.device} in {seconds(one.predicted_s)}"
    after = f"{one.now_device} in {seconds(one.now_predicted_s)}" if one.now_device else one.why
    return f"{one.op}, size {one.size:.4g}: recorded {before}, now {after}"
