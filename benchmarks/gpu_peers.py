"""The cost of calling an NVIDIA GPU from Python, compared with C and with other Python libraries.

One run starts every installed peer (_gpu_peers/) in a new process, one after another, five times
over, in an order that rotates. The table has the median of the five. The figures are: import;
opening the device and a first kernel; launches with 0, 4 and 16 arguments; a launch with its wait;
graphs; copies; allocation; compiling PTX.

    python benchmarks/gpu_peers.py --json peers.json --md peers.md
    python benchmarks/gpu_peers.py --libcuda build/fake/libcuda.so.1 --quick    # labelled fake

A figure that has taken a second gets no more rounds. The fake driver copies bytes but runs no
kernel: its figures show only the binding's cost. Its large copies (without --quick) measure page
faults.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from _reexec import reexec

# Restart in the virtual environment. gpu_run.sh has none and passes --no-reexec.
if "--no-reexec" not in sys.argv:
    reexec()

import argparse
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import _crash_safety
from _console import output
from _gpu_peers import NAMES, images
from _gpu_peers.table import facts, markdown

from sparkle_drv import assets

HERE = Path(__file__).resolve().parent
BASELINE = HERE.parent / "benchmarks/_gpu_peers/baseline.c"
SCHEMA = 1
CHILD_S = 40.0  # limit of one repetition of one peer, in seconds
TRIES = 2  # failures in a row after which a peer is absent; a cold disk may cause the first
Runs = dict[str, list[dict[str, Any]]]  # each peer's results, one per repetition
LIBRARY = "libcuda.so.1"


class Failed(Exception):
    """Says that the run cannot begin. The text is the reason."""


def baseline(folder: Path, given: str) -> Path | None:
    """Returns the path of the program that measures the baseline in C. This is `given` if it is not
    "", otherwise a program that is compiled into `folder`. Returns None if there is no C compiler.
    """
    if given:
        return Path(given)
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        return None
    out = folder / "baseline"
    command = [compiler, "-std=c11", "-O2", "-o", str(out), str(BASELINE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise Failed(f"the C baseline does not compile: {done.stderr}")
    return out


def environment(libcuda: str, cache: Path) -> dict[str, str]:
    """Returns the environment of the child processes: one driver for all, and a compile cache that
    starts empty.
    """
    env = {**os.environ, "CUDA_CACHE_PATH": str(cache), "CUDA_CACHE_MAXSIZE": str(1 << 30)}
    # folder of the sparkle_drv that this process runs
    package = Path(assets.__file__).resolve().parents[1]
    paths = [env.get("PYTHONPATH", ""), str(HERE), str(package)]
    env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    if libcuda:
        env["SPARKLE_LIBCUDA"] = libcuda
        kept = env.get("LD_LIBRARY_PATH", "")
        env["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(Path(libcuda).parent), kept]))
    return env


class Runner:
    """Starts one repetition of one peer at a time."""

    def __init__(self, folder: Path, libcuda: str, compiled: Path | None, quick: bool) -> None:
        self.folder, self.libcuda, self.compiled = folder, libcuda, compiled
        self.quick = ["--quick"] * quick
        self.jit = assets.folder("shaders") / "cuda" / "gemm.sm_80.ptx"
        self.env = environment(libcuda, folder / "cache")
        for count in images.TYPES:
            (folder / f"empty{count}.ptx").write_bytes(images.empty(count).rstrip(b"\0"))

    def once(self, name: str) -> dict[str, Any]:
        """Runs one repetition and returns the peer's output: {"absent": why} when the peer is
        missing, {"failed": why} when it failed.
        """
        tag = f"{name}_{secrets.token_hex(4)}"
        born = str(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        if name == "c":
            if self.compiled is None:
                return {"absent": "no C compiler, and no program given"}
            library = self.libcuda or LIBRARY
            command = [str(self.compiled), library, born, str(self.jit), tag, str(self.folder)]
        else:
            # Run as a module, because a script's own folder comes first in sys.path, and that
            # folder has a torch.py.
            command = [sys.executable, "-m", "_gpu_peers.child", name, born, str(self.jit), tag]
        return self._told([*command, *self.quick])

    def _told(self, command: list[str]) -> dict[str, Any]:
        child = subprocess.Popen(
            command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=self.folder, start_new_session=True,
            preexec_fn=partial(_crash_safety.end_with_parent, os.getpid()),
        )  # fmt: skip
        try:
            out, errors = child.communicate(timeout=CHILD_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            return {"failed": f"not done after {CHILD_S:g} s"}
        try:
            told: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
        except (IndexError, ValueError):
            said = errors.strip().splitlines()[-1:] or ["nothing"]
            return {"failed": f"ended with status {child.returncode}, saying {said[0][:300]}"}
        return told


def given_up(runs: Sequence[dict[str, Any]]) -> bool:
    """True if a peer must not be started again after the results `runs`: it is absent, or its last
    TRIES runs all failed.
    """
    return bool(runs) and (
        "absent" in runs[-1] or (len(runs) >= TRIES and all("failed" in r for r in runs[-TRIES:]))
    )


def run(
    runner: Runner,
    names: Sequence[str],
    repetitions: int,
    budget_s: float,
    told: Runs | None = None,
    keep: Callable[[Runs], None] = lambda told: None,
) -> Runs:
    """Returns each peer's results, one per repetition. `told` are the results of an earlier call,
    which this call continues.

    A repetition does not begin if it would end after `budget_s`, judged by the longest one so far.
    `keep` is called after each run of a peer.
    """
    told = {name: list((told or {}).get(name, ())) for name in names}
    begun, longest = time.monotonic(), 0.0
    for repetition in range(repetitions):
        start = time.monotonic()
        if start - begun + longest > budget_s:
            print(f"{repetition} of {repetitions}: the time is over", file=sys.stderr)
            break
        at = repetition % len(names)
        for name in [*names[at:], *names[:at]]:
            if len(told[name]) > repetition or given_up(told[name]):
                continue
            if time.monotonic() - begun > budget_s:
                return told  # one peer takes at most CHILD_S, so the run ends little after budget_s
            one = runner.once(name)
            told[name].append(one)
            keep(told)
            what = one.get("absent") or one.get("failed") or "measured"
            print(f"{repetition + 1}/{repetitions} {name}: {what}", file=sys.stderr, flush=True)
        longest = max(longest, time.monotonic() - start)
    return told


def summary(told: Runs) -> dict[str, Any]:
    """Returns for each peer its version, the median of each figure and all samples, or the reason
    why it is absent.
    """
    peers: dict[str, Any] = {}
    for name, runs in told.items():
        good = [one for one in runs if "values" in one]
        if not good:
            last = runs[-1] if runs else {"absent": "the time was over before"}
            peers[name] = {"absent": last.get("absent") or last["failed"]}
            continue
        figures: dict[str, list[float]] = {}
        for one in good:
            for figure, value in one["values"].items():
                figures.setdefault(figure, []).append(value)
        peers[name] = {
            "version": good[-1]["version"],
            "repetitions": len(good),
            "median": {figure: median(values) for figure, values in figures.items()},
            "samples": figures,
            "errors": {k: v for one in good for k, v in one["errors"].items()},
        }
    return peers


def earlier(path: str, known: dict[str, Any], quick: bool) -> Runs:
    """Returns the runs in the results file `path`. Returns {} if the file cannot be read, or if its
    device, driver, label, commit or `quick` differs.
    """
    try:
        result = json.loads(Path(path).read_text())
        same = all(result[key] == known[key] for key in ("device", "driver", "label", "commit"))
        runs: Runs = result["runs"] if same and result["quick"] == quick else {}
    except (OSError, ValueError, KeyError):
        return {}
    return runs


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="gpu_peers.py",
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 this package or the baseline was not measured, 3 no device",
    )
    top.add_argument("--peers", default=",".join(NAMES), help=f"of {','.join(NAMES)}; default: all")
    top.add_argument("--repetitions", type=int, default=5, help="fresh processes; default: 5")
    top.add_argument("--budget-s", type=float, default=1800, help="seconds for all repetitions")
    top.add_argument("--libcuda", default="", help="a driver library in place of the system's")
    top.add_argument("--baseline", default="", help="the compiled C baseline; else gcc")
    top.add_argument("--quick", action="store_true", help="few rounds and small copies: no figures")
    top.add_argument("--json", help="write all results there, after each run of a peer")
    top.add_argument("--resume", action="store_true", help="go on with the runs in --json")
    top.add_argument("--md", help="write the table there")
    top.add_argument("--no-reexec", action="store_true", help="stay with this Python")
    return top


def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    if output.overlap(args.json, args.md):
        print("gpu_peers.py: --json and --md must be different files", file=sys.stderr)
        return 2
    names = args.peers.split(",")
    if strange := [name for name in names if name not in NAMES]:
        print(f"gpu_peers.py: no such peer: {', '.join(strange)}", file=sys.stderr)
        return 2
    libcuda = str(Path(args.libcuda).resolve()) if args.libcuda else ""
    try:
        known = facts(libcuda)
    except LookupError as error:
        print(f"gpu_peers.py: {error}", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="sparkle-peers-") as folder:
        try:
            compiled = baseline(Path(folder), args.baseline) if "c" in names else None
        except Failed as error:
            print(f"gpu_peers.py: {error}", file=sys.stderr)
            return 1
        runner = Runner(Path(folder), libcuda, compiled, args.quick)
        result: dict[str, Any] = {"schema": SCHEMA, "quick": args.quick, **known, "finished": False}

        def texts(told: Runs) -> list[tuple[str, str]]:
            result["peers"], result["runs"] = summary(told), told
            both = ((args.json, json.dumps(result, indent=1) + "\n"), (args.md, markdown(result)))
            return [(path, text) for path, text in both if path]

        def keep(told: Runs) -> None:
            for path, text in texts(told):
                output.so_far(path, text)

        before = earlier(args.json, known, args.quick) if args.resume and args.json else {}
        told = run(runner, names, args.repetitions, args.budget_s, before, keep)
    result["finished"] = True
    files = texts(told)
    peers = result["peers"]
    print(markdown(result))
    saved = [output.save("gpu_peers.py", path, text) for path, text in files]
    wanted = [name for name in ("c", "sparkle") if name in names]
    return 1 if not all(saved) or any("absent" in peers[name] for name in wanted) else 0


if __name__ == "__main__":
    sys.exit(output.guarded("gpu_peers.py", lambda: main(sys.argv[1:])))
