"""The trace command: checks a saved trace, and sums it up."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from _console.problems import FAILED, OK

from .common import Subcommands, printable, seconds

TRANSFERS = ("h2d", "d2h")
MOST = 20
"""Largest number of problems that are printed."""


def add(sub: Subcommands, epilog: str) -> None:
    """Adds the subcommand `trace` and its options to sparkle.py."""
    made = sub.add_parser(
        "trace",
        help="check a trace that Context.save_trace wrote, and sum it up",
        description="Checks trace-event JSON in its object form: spans of a track nest, flows are "
        "paired. Then prints the time of each track, transfers, and decisions.",
        epilog=epilog,
    )
    made.add_argument("file", type=Path, metavar="FILE")
    made.add_argument("--json", action="store_true", help="the summary as JSON")
    made.set_defaults(command=trace)


def trace(args: argparse.Namespace) -> int:
    """Checks the file and prints its summary. Returns 1 when the file is wrong; stderr says why."""
    from sparkle_drv.telemetry import chrome

    try:
        given = json.loads(args.file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # the file is not JSON, or not text
        print(f"sparkle.py: {args.file}: expected JSON: {error}", file=sys.stderr)
        return FAILED
    found = chrome.problems(given)
    for problem in found[:MOST]:
        print(printable(f"sparkle.py: {args.file}: {problem}"), file=sys.stderr)
    if len(found) > MOST:
        print(f"sparkle.py: {args.file}: and {len(found) - MOST} more", file=sys.stderr)
    if found:
        return FAILED
    summed = summary(given)
    print(json.dumps(summed, indent=1) if args.json else printable("\n".join(told(summed))))
    return OK


def summary(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the numbers that sum up a trace. `given` is the JSON document of a trace in which
    `chrome.problems` finds no error. Times are in seconds.
    """
    events = given["traceEvents"]
    nodes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    rows = {
        (e["pid"], e["tid"]): f"{nodes.get(e['pid'], e['pid'])} {e['args']['name']}"
        for e in events
        if e["name"] == "thread_name"
    }
    spans: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            at = event["pid"], event["tid"]
            spans[rows.get(at, "{} {}".format(*at))].append(event)
    every = [span for track in spans.values() for span in track]
    begin = min((s["ts"] for s in every), default=0.0)
    end = max((s["ts"] + s["dur"] for s in every), default=0.0)
    decisions: Counter[tuple[str, str]] = Counter(
        (s["name"], s["args"]["device"])
        for s in every
        if {"device", "predicted_s"} <= s.get("args", {}).keys()
    )
    moved = [(name, track) for name, track in spans.items() if name.split()[-1] in TRANSFERS]
    return {
        "wall_s": (end - begin) / 1e6,
        "covered": {name: about.get("covered") for name, about in _about(given)},
        "tracks": {
            name: {"spans": len(track), "busy_s": busy_us(track) / 1e6}
            for name, track in spans.items()
        },
        "transfers": {
            name: {
                "count": len(track),
                "nbytes": sum(s.get("args", {}).get("nbytes", 0) for s in track),
                "seconds": busy_us(track) / 1e6,
            }
            for name, track in moved
        },
        "flows": sum(1 for e in events if e["ph"] == "s"),
        "decisions": [
            {"op": op, "device": device, "count": n} for (op, device), n in decisions.most_common()
        ],
    }


def _about(given: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    other = given.get("otherData")
    items = other.items() if isinstance(other, dict) else ()
    return [(name, about) for name, about in items if isinstance(about, dict)]


def busy_us(track: list[dict[str, Any]]) -> float:
    """Returns the us during which at least one of the spans ran."""
    total, until = 0.0, float("-inf")
    for span in sorted(track, key=lambda s: float(s["ts"])):
        end = span["ts"] + span["dur"]
        total += max(0.0, end - max(span["ts"], until))
        until = max(until, end)
    return total


def told(summed: dict[str, Any]) -> list[str]:
    """Returns the summary of a trace as lines of text."""
    wall = summed["wall_s"]
    lines = [f"{seconds(wall)} of wall time, {summed['flows']} flows"]
    for name, covered in summed["covered"].items():
        if isinstance(covered, (int, float)):
            lines.append(f"    {name}: {covered:.1%} of it covered by spans")
    lines.append("tracks")
    for name, track in summed["tracks"].items():
        share = track["busy_s"] / wall if wall else 0.0
        busy = seconds(track["busy_s"])
        lines.append(f"    {name}: busy {busy}, {share:.1%}, {track['spans']} spans")
    lines += ["transfers"] * bool(summed["transfers"])
    for name, moved in summed["transfers"].items():
        rate = moved["nbytes"] / moved["seconds"] / 1e9 if moved["seconds"] else 0.0
        took = f"{moved['nbytes']} bytes in {seconds(moved['seconds'])}, {rate:.2f} GB/s"
        lines.append(f"    {name}: {moved['count']} of {took}")
    lines += ["decisions"] * bool(summed["decisions"])
    lines += [f"    {d['op']}: {d['count']} to {d['device']}" for d in summed["decisions"]]
    return lines
