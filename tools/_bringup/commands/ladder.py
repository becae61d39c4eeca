"""`bringup.py ladder` climbs a device's rungs, lowest first."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _console import output
from _console.problems import FAILED, OK, UsageError

from _bringup.ladder import bundle, child, evidence, families, recording
from _bringup.results import report
from _bringup.results.rung import FAIL, Result, Rung

from . import options

TIMEOUT_S = 20.0


def add(sub: options.Subcommands) -> None:
    one = options.command(sub, "ladder", run, "climb the rungs of a device, lowest first")
    one.add_argument("--from", dest="first", metavar="RUNG", help="begin with this rung")
    one.add_argument("--to", dest="last", metavar="RUNG", help="end with this rung")
    one.add_argument("--only", metavar="RUNG,...", help="these rungs alone, whatever they need")
    one.add_argument("--list", action="store_true", help="name the rungs, and climb none")
    one.add_argument(
        "--timeout", type=options.seconds, default=TIMEOUT_S, metavar="S",
        help=f"limit of one rung in seconds (default {TIMEOUT_S:g}; a few rungs have longer ones)",
    )  # fmt: skip
    one.add_argument(
        "--allow-hang", action="store_true",
        help="also the rungs that hang the GPU on purpose: the kernel may reset it, and other "
        "programs may lose their work on it",
    )  # fmt: skip
    one.add_argument(
        "--bundle", metavar="FILE", help="one .tar.gz with report, dumps, info and what ran it"
    )
    one.add_argument(
        "--evidence", action="append", default=[], metavar="FILE",
        help="with --bundle: another file to include, such as umr's text or RADV's trace.log; "
        "devcoredumps and RADV's reports are found by themselves",
    )  # fmt: skip
    one.add_argument(
        "--record", metavar="FILE",
        help="write down every ioctl and IB of the climb of an amdgpu device (docs/recording.md)",
    )  # fmt: skip
    one.add_argument(
        "--record-memory", action="store_true",
        help="with --record: also changes of memory, which --replay needs to repeat jobs; "
        "each job is then waited for",
    )  # fmt: skip
    one.add_argument(
        "--replay", metavar="FILE",
        help="instead of a climb: repeat the recording in FILE, and print its first difference",
    )  # fmt: skip


def chosen(family: families.Family, args: argparse.Namespace) -> list[Rung]:
    """Returns the requested rungs. Raises UsageError for an unknown name."""
    rungs = list(family.rungs)
    names = [rung.name for rung in rungs]

    def known(name: str) -> str:
        if name not in names:
            raise UsageError(f"{family.name} has no rung {name!r}; --list prints all its rungs")
        return name

    if args.only is not None:
        if args.first or args.last:
            raise UsageError("--only: expected neither --from nor --to beside it")
        wanted = [known(name.strip()) for name in args.only.split(",")]
        return [rung for rung in rungs if rung.name in wanted]
    start = names.index(known(args.first)) if args.first else 0
    end = names.index(known(args.last)) + 1 if args.last else len(rungs)
    hangs = args.allow_hang
    return [rung for rung in rungs[start:end] if hangs or not rung.hangs]


def run(args: argparse.Namespace) -> int:
    if args.replay is not None:
        return _replay(args.replay, args.device)
    family = families.of(args.device)
    if args.record_memory and args.record is None:
        raise UsageError("--record-memory: expected --record FILE, too")
    if args.evidence and args.bundle is None:
        raise UsageError("--evidence: expected --bundle FILE, too")
    if missing := [name for name in args.evidence if not Path(name).is_file()]:
        raise UsageError(f"--evidence {missing[0]}: no such file")
    if args.record and family.name == "api":
        raise UsageError(
            "--record: expected a device that this package drives by ioctls (amdgpu or emu), "
            f"got {args.device}"
        )
    rungs = chosen(family, args)
    if any(rung.hangs for rung in rungs) and not args.allow_hang and not args.list:
        raise UsageError("rungs that hang the GPU on purpose need --allow-hang")
    if not rungs:
        raise UsageError(
            f"no rung from {args.first} to {args.last}: expected --from at or before --to, and "
            "--allow-hang for rungs that hang the GPU"
        )
    out = sys.stderr if args.json == "-" else sys.stdout
    if args.list:
        _list(rungs, out)
        return OK
    written = (args.json, args.bundle, args.record)
    if output.overlap(*written):
        raise UsageError("--json, --bundle and --record must be different files")
    for name in written:
        options.check_writable(name)
    print(f"{args.device}: {len(rungs)} rungs", file=out, flush=True)
    facts: dict[str, object] = {}

    lines = report.Lines(out)
    results = child.run(
        rungs, lambda: family.bench(args.device), timeout_s=args.timeout, tell=lines.tell,
        facts=facts, record=lambda child: _record(args, child),
    )  # fmt: skip
    lines.flush()
    document = report.document(args.device, results, facts)
    print(report.summary(results), file=out)
    if document["verified"]:
        print(f"amdgpu: {document['verified']}", file=out)
    if trouble := facts.get("trouble"):
        print(f"{options.PROG}: {args.device}: {trouble}", file=sys.stderr)
    saved = not args.json or options.write_json(args.json, document)
    if args.bundle:
        others = evidence.gather(args.evidence, home=Path(os.path.expanduser("~")))
        packed = output.save(options.PROG, args.bundle, bundle.pack(args.device, document, others))
        if packed and not trouble:
            print(f"{args.bundle}: one file to send", file=out)
        saved &= packed
    failed = not saved or trouble or "interrupted" in facts
    return FAILED if failed else _code(results)


def _record(args: argparse.Namespace, child: int) -> Any:
    path = args.record and (args.record if child == 1 else f"{args.record}.{child}")
    return recording.around_climb(path or "", args.record_memory)


def _replay(path: str, uri: str) -> int:
    try:
        outcome = recording.replay(path, uri)
    except recording.NotReplayed as error:
        raise UsageError(str(error)) from None
    for line in recording.report(outcome):
        print(line)
    return FAILED if outcome.difference else OK


def _code(results: Sequence[Result]) -> int:
    return FAILED if any(one.status == FAIL for one in results) else OK


def _list(rungs: Sequence[Rung], out: object) -> None:
    for rung in rungs:
        more = f"  (needs {', '.join(rung.needs)})" if rung.needs else ""
        mark = " [--allow-hang]" if rung.hangs else ""
        print(f"{rung.name:16} {rung.text}{mark}{more}", file=out)  # type: ignore[call-overload]
