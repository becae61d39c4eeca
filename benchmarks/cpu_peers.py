"""The speed of the cpu device's gemm, conv2d and map from Python, compared with other libraries.

One run measures this package, numpy, torch, onnxruntime, ncnn, OpenVINO and numexpr, if installed
(`make peers`). Each library has a pinned process for each number of threads. The processes take
turns, sample by sample: while one computes, all others sleep. Every result is compared with float64
before it is timed. The output ends with the targets that the package must reach.

    python benchmarks/cpu_peers.py                           # all, at most 12 minutes
    python benchmarks/cpu_peers.py --only 'gemm f32' --threads 1

A complete run is written to benchmarks/results/.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from _reexec import reexec

if "sparkle_drv" not in sys.modules:  # a test that imports this file must not restart Python
    reexec()

import argparse
import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from _bench.machine import env
from _bench.rows import results
from _console import output
from _console.problems import OK, UsageError
from _cpu_peers import NAMES, cases, environment, measure, options, report, roofs, run

BUDGET_S = 690.0


def placed(text: str) -> dict[int, list[int]]:
    """Returns {number of threads: the CPUs to which they are pinned}. Raises UsageError if
    the text is not a list of numbers, or if a number exceeds the number of CPUs.
    """
    allowed = sorted(os.sched_getaffinity(0))
    try:
        counts = [int(word) for word in (text or "1,2").split(",")]
    except ValueError:
        raise UsageError(f"--threads: expected numbers like 1,2, got {text!r}") from None
    if not text:
        counts = [count for count in counts if count <= len(allowed)]
    if bad := [count for count in counts if not 1 <= count <= len(allowed)]:
        raise UsageError(
            f"--threads: expected 1 to {len(allowed)} (the CPUs allowed), got {bad[0]}"
        )
    return {count: allowed[-count:] for count in dict.fromkeys(counts)}


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="cpu_peers.py",
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 a result of ours was wrong or missing, or the run was "
        "interrupted, 2 usage, 3 with --check: a line does not hold",
    )
    options.add_options(top, BUDGET_S)
    top.add_argument("--threads", default="", help="1,2 by default, where there are two CPUs")
    top.add_argument("--peers", default=",".join(NAMES), help=f"of {','.join(NAMES)}; default: all")
    top.add_argument("--quick", action="store_true", help="few rounds: a trial, no figures")
    top.add_argument("--list", action="store_true", help="only print the names of the cases")
    return top


def main(argv: Sequence[str]) -> int:
    return options.guarded(parser().parse_args(argv), "cpu_peers.py", _main)


def _main(args: argparse.Namespace) -> int:
    names = options.words(args.peers, NAMES, "--peers")
    chosen = options.select(args.only)
    if args.list:
        print("\n".join(case.name for case in chosen))
        return OK
    cpus = placed(args.threads)
    facts: dict[str, Any] = {
        "env": env.describe(), "label": args.label, "quick": args.quick, "seed": args.seed,
        "removed": environment.removed(os.environ), "cpus": {str(t): c for t, c in cpus.items()},
    }  # fmt: skip
    shared = Path("/dev/shm")  # a file system in memory, for the operands
    where = str(shared) if os.access(shared, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="sparkle-peers-", dir=where) as folder:
        there = run.PeerProcesses(names, cpus, Path(folder))
        _introduce(facts["removed"], there.peers)
        try:
            told = _peers(args, chosen, there)
        finally:
            there.close()
    told = results.finite({**facts, **told})
    suffix = f"-threads-{args.threads}" if args.threads else ""
    return _write(told, args, f"cpu_peers{suffix}")


def _peers(
    args: argparse.Namespace, chosen: Sequence[cases.Case], there: run.PeerProcesses
) -> dict[str, Any]:
    """Runs the measurement. Returns the part of the results (JSON) about the peers and rows."""
    base = measure.QUICK if args.quick else measure.Settings()
    settings = measure.Settings(base.case_s, base.fewest, base.most, args.seed)
    rows: list[dict[str, Any]] = []
    measured: dict[str, dict[str, float]] = {}
    interrupted = False
    try:
        for threads, cpus in there.cpus.items():
            with _told(f"roofs of {threads}"):
                env = there.environment(threads)
                measured[str(threads)] = roofs.measure(cpus, env, args.quick)
        for row in run.run(chosen, there, settings, args.budget_s):
            rows.append(row)
            _say(row)
    except KeyboardInterrupt:
        interrupted = True
    missing = len(rows) < len(chosen) * len(there.cpus)
    told = report.document(rows, measured)
    return {**told, "peers": there.peers, "interrupted": interrupted or missing}


def _write(told: dict[str, Any], args: argparse.Namespace, name: str) -> int:
    """Prints the report of the run `told`, and writes it to the files that the options name.
    Returns the exit code.
    """
    whole = options.is_whole(args, parser(), ("peers", "quick")) and not told["interrupted"]
    kept = options.keep(args, "cpu_peers.py", told, report.markdown(told), name if whole else "")
    shows = [x for some in told["shows"].values() for x in some]
    well = kept and not told["interrupted"] and report.measured(told["rows"])
    return options.exit_code(args, well, shows)


def _introduce(removed: Mapping[str, str], peers: Mapping[str, Mapping[str, str]]) -> None:
    taken = " ".join(f"{key}={value}" for key, value in removed.items())
    print(f"# removed from the environment: {taken or 'nothing'}", file=sys.stderr)
    for name, peer in peers.items():
        said = peer.get("version") or f"absent: {peer['absent']}"
        print(f"# {name}: {said}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """Catches a RuntimeError of a child process in this context and prints it. The results of that
    process are then missing.
    """
    try:
        yield
    except RuntimeError as error:
        print(f"# {what}: {error}", file=sys.stderr, flush=True)


def _say(row: Mapping[str, Any]) -> None:
    case, ours, rate, error, best, its, ratio, _ = report.cells(row)
    said = f"{row['threads']} {case}: {ours}, {rate}, error {error}; {best} {its}: {ratio}"
    print(said, file=sys.stderr, flush=True)
    for way, entry in row["ways"].items():
        if entry["verdict"] != "right":
            why = entry.get("why") or f"error {entry['error']:.1e} over {entry['limit']:g}"
            print(f"    {way}: {entry['verdict']}: {why}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(output.guarded("cpu_peers.py", lambda: main(sys.argv[1:])))
