"""The diff command: compares two command streams by the registers that their dispatches see and the
packets that run.
"""

from __future__ import annotations

import argparse
from typing import Any

from _console.problems import FAILED, OK, UsageError

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import Change, Difference, Step

from . import common


def add(sub: common.Subcommands) -> None:
    made = common.command(
        sub,
        "diff",
        diff,
        "two inputs compared by the registers that their dispatches see and the packets that run; "
        "padding and the order of register writes make no difference",
    )
    made.add_argument("a", metavar="A", help=common.INPUT)
    made.add_argument("b", metavar="B")
    common.add_inputs(made)
    made.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="PATTERN",
        help="registers or fields, such as 'COMPUTE_PGM_*' or DMA_DATA.src",
    )
    made.add_argument("--json", action="store_true", help="the differences as JSON")


def diff(args: argparse.Namespace) -> int:
    if args.a == args.b == "-":
        raise UsageError("diff: expected at most one input from stdin")
    found = lowlevel.diff(common.read(args, args.a), common.read(args, args.b), args.ignore)
    if args.json:
        common.write_json({"same": not found, "differences": [plain(one) for one in found]})
    elif not found:
        print(f"{args.a} and {args.b} mean the same")
    else:
        show(found, args.a, args.b)
    return FAILED if found else OK


def show(found: list[Difference], a: str, b: str) -> None:
    print(f"A: {a}\nB: {b}")
    told: set[Change] = set()
    for one in found:
        fresh = [change for change in one.changes if change not in told]
        if one.kind == "end" and not fresh:
            continue
        places = [f"{side} {step.where}" for side, step in (("A", one.a), ("B", one.b)) if step]
        lead = f"{one.kind}: " if one.kind.startswith("only") else ""
        print(f"\n{lead}{one.what}" + (f"  [{'; '.join(places)}]" if places else ""))
        for change in fresh:
            print(f"  {change.name}: {change.old} -> {change.new}")
            for name, old, new in change.parts:
                print(f"    {name}: {old} -> {new}")
        if len(fresh) < len(one.changes):
            print(f"  and {len(one.changes) - len(fresh)} as above")
        if one.kind in ("dispatch", "end"):
            told |= set(fresh)


def plain(one: Difference) -> dict[str, Any]:
    def place(step: Step | None) -> dict[str, int] | None:
        return {"ib": step.number, "dword": step.at} if step else None

    changes = [
        {
            "name": change.name,
            "a": change.old,
            "b": change.new,
            "fields": [{"name": name, "a": old, "b": new} for name, old, new in change.parts],
        }
        for change in one.changes
    ]
    return {
        "kind": one.kind,
        "what": one.what,
        "a": place(one.a),
        "b": place(one.b),
        "changes": changes,
    }
