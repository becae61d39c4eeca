"""Is this checkout slower than an earlier commit? Both are measured in turn, row by row.

REV is built in build/against/<commit>, from git's files. Two processes, one for each build, are
pinned to the same CPUs. They take turns, one sample each, in a new random order every round, so
that disturbances of the machine affect both. Each result is compared with float64 before it is
timed. A ratio is the median of the rounds' ratios, this checkout over REV, with an interval of 95
%. A ratio above 1 means that this checkout is slower.

    python benchmarks/against.py HEAD~1                     # rows of cpu_peers.py and _against/
    python benchmarks/against.py main '^ctx' '^shards'      # rows whose names match
    python benchmarks/against.py v1 --check 1.03            # exit 3 if a row is slower for certain

Weights are made by `ops.constant` in a build that has this function, otherwise as read-only arrays.
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
import re
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from _against import rows
from _bench.rows import stats
from _console import output
from _console.problems import FAILED, OK, REGRESSION, USAGE, UsageError
from _cpu_peers import OURS, cases, environment, figures, measure, reference
from _cpu_peers.peer_process import Lost, PeerProcess

ROOT = Path(__file__).resolve().parents[1]
BUILDS = ROOT / "build" / "against"
BUILD_S = 900.0
"""Limit of a build in seconds. A build takes some 70 s on two cores."""
BEFORE, PEER = "before", "_against.peer"


def commit(rev: str) -> str:
    """Returns the full hash of the commit `rev`. Raises UsageError if the repository does not have
    it, or if git is not installed.
    """
    command = ["git", "rev-parse", "--verify", "--quiet", f"{rev}^{{commit}}"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UsageError("REV: expected git on this machine, but it is not installed") from None
    if found.returncode:
        raise UsageError(f"REV: expected a commit of this repository, got {rev!r}")
    return found.stdout.strip()


def built(sha: str) -> Path:
    """Returns the folder of a commit with its extensions, which are built once. Raises UsageError
    if the build fails.
    """
    where = BUILDS / sha
    stamp = where / "built"
    if stamp.exists():
        return where
    where.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile() as packed:
        subprocess.run(["git", "archive", sha], cwd=ROOT, stdout=packed, check=True)
        packed.seek(0)
        subprocess.run(["tar", "-x"], cwd=where, stdin=packed, check=True)
    print(f"# building {sha[:12]} in {where}", file=sys.stderr, flush=True)
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    done = subprocess.run(
        command, cwd=where, capture_output=True, text=True, check=False, timeout=BUILD_S
    )
    if done.returncode:
        raise UsageError(f"REV: {sha[:12]} does not build here:\n{done.stderr[-2000:]}")
    stamp.touch()
    return where


class Build:
    """A PeerProcess that is named after its build. Both builds run the same peer: this package."""

    def __init__(
        self,
        name: str,
        package: Path,
        threads: int,
        cpus: Sequence[int],
        folder: Path,
        before: Sequence[Path] = (),
    ) -> None:
        """Starts the process of a build. The process imports from the folders `before` first, then
        from the build's folder `package`.
        """
        self.name = name
        own = folder / name
        (own / "home").mkdir(parents=True)
        paths = [*before, ROOT / "benchmarks", package]
        env = environment.cleaned(os.environ, threads, own / "home", paths)
        env["PYTHONDONTWRITEBYTECODE"] = ""  # else one build would compile at each import
        _check_package(package, env, own)
        self._process = PeerProcess(PEER, threads, cpus, env, own)

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """Sends a request, as PeerProcess.ask does."""
        return self._process.ask(do, **request)

    def close(self) -> None:
        """Ends the process."""
        self._process.close()


def _check_package(package: Path, env: dict[str, str], cwd: Path) -> None:
    """Raises UsageError if a child process imports another sparkle_drv than this build, such as an
    installed one.
    """
    command = [sys.executable, "-c", "import sparkle_drv; print(sparkle_drv.__file__)"]
    found = subprocess.run(
        command, env=env, cwd=cwd, capture_output=True, text=True, check=True, timeout=60
    )
    there = Path(found.stdout.strip()).parents[1]
    if there.resolve() != package.resolve():
        raise UsageError(
            f"expected that a child process imports sparkle_drv from {package}, got it from {there}"
        )


def chosen(patterns: Sequence[str]) -> list[cases.Case | rows.Row]:
    """Returns the rows whose names match one of the patterns, or all rows if there is no pattern.
    Raises UsageError for a malformed pattern, or if no row matches.
    """
    every: list[cases.Case | rows.Row] = [*cases.all_cases().values(), *rows.ROWS.values()]
    try:
        wanted = [re.compile(pattern) for pattern in patterns]
    except re.error as error:
        raise UsageError(f"NAME: expected a regular expression, got {error.pattern!r}") from None
    found = [c for c in every if not wanted or any(w.search(c.name) for w in wanted)]
    if not found:
        raise UsageError(f"NAME: no row matches {', '.join(patterns)}")
    return found


def compared(
    of: Any, builds: Sequence[Build], settings: measure.Settings, folder: Path
) -> dict[str, Any]:
    """Measures one row with both builds. This checkout may compute the row in several ways (`Way`
    of _cpu_peers/base.py). Returns the times and their ratio of each way, or why they are missing.
    """
    given: dict[str, Any] = {}
    want = np.empty(0)
    if isinstance(of, cases.Case):
        given = reference.operands(of, settings.seed)
        want = reference.expected(of, given)
    else:
        settings = replace(settings, case_s=settings.case_s * of.share)
    reference.write(given, folder)
    ways = measure.case(of, builds, settings, folder, want)
    for file in folder.glob("?.npy"):
        file.unlink()
    samples = figures.timed({"ways": ways})
    row: dict[str, Any] = {"case": of.name, "ways": {}}
    for key, entry in ways.items():
        build, _, way = key.partition(" ")
        if build != OURS:
            continue
        then = f"{BEFORE} {way}"
        if key in samples and then in samples:
            found = stats.paired(samples[key], samples[then])
            now_ns, then_ns = float(np.median(samples[key])), float(np.median(samples[then]))
            row["ways"][way] = {
                "now_ns": now_ns, "then_ns": then_ns, "ratio": found.median,
                "low": found.low, "high": found.high,
            }  # fmt: skip
        else:
            there = ways.get(then, {"verdict": "there is no such way"})
            row["ways"][way] = {"why": f"now {_said(entry)}; before {_said(there)}"}
    return row


def _said(entry: dict[str, Any]) -> str:
    return " ".join(filter(None, (entry["verdict"], entry.get("why", ""))))


def told(row: dict[str, Any]) -> Iterator[str]:
    """Yields the text lines of a row."""
    for way, found in row["ways"].items():
        name = f"{row['case']:38} {way:8}"
        if "why" in found:
            yield f"{name} {found['why']}"
            continue
        yield (
            f"{name} {found['then_ns'] / 1e3:12.2f} us {found['now_ns'] / 1e3:12.2f} us"
            f"  {found['ratio']:6.3f}  {found['low']:6.3f} to {found['high']:6.3f}"
        )


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="against.py", description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 a row has no ratio, 2 usage, 3 with --check: a row is slower",
    )  # fmt: skip
    top.add_argument("rev", metavar="REV", help="the commit to compare with")
    top.add_argument("names", metavar="NAME", nargs="*", help="regular expressions; default: all")
    top.add_argument("--threads", type=int, default=1, help="default: %(default)s")
    top.add_argument("--seconds", type=float, default=2.0, help="per row; default: %(default)g")
    top.add_argument("--rounds", type=int, default=30, help="at most, per row")
    top.add_argument("--check", type=float, metavar="RATIO", help="exit 3 above it for certain")
    return top


def run(args: argparse.Namespace) -> int:
    """Measures and prints the rows. Returns the exit code."""
    allowed = sorted(os.sched_getaffinity(0))
    if not 1 <= args.threads <= len(allowed):
        raise UsageError(
            f"--threads: expected 1 to {len(allowed)} (the CPUs allowed), got {args.threads}"
        )
    wanted, package = chosen(args.names), built(commit(args.rev))
    fewest = max(2, min(measure.FEWEST, args.rounds))
    settings = measure.Settings(args.seconds, fewest, max(fewest, args.rounds))
    lost, slower, every = 0, [], []
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="sparkle-against-"))
        builds = []
        for build, where in ((OURS, ROOT), (BEFORE, package)):
            made = Build(build, where, args.threads, allowed[-args.threads :], Path(name))
            stack.callback(made.close)
            builds.append(made)
        print(f"# {'row':36} way             before          now   ratio")
        for case in wanted:
            row = compared(case, builds, settings, Path(name))
            print(*told(row), sep="\n", flush=True)
            ratios = [found for found in row["ways"].values() if "ratio" in found]
            lost += not ratios
            every += [found["ratio"] for found in ratios]
            slower += [case.name for r in ratios if args.check and r["low"] > args.check]
    if every:
        print(f"# geometric mean of {len(every)} ratios: {statistics.geometric_mean(every):.3f}")
    for slow in dict.fromkeys(slower):
        print(f"# slower: {slow}")
    return REGRESSION if slower else FAILED if lost else OK


def main(argv: Sequence[str]) -> int:
    """Runs the command line. Returns the exit code."""
    try:
        return run(parser().parse_intermixed_args(argv))
    except (UsageError, Lost) as error:
        print(f"against.py: {error}", file=sys.stderr)
        return USAGE


if __name__ == "__main__":
    sys.exit(output.guarded("against.py", lambda: main(sys.argv[1:])))
