"""Runs every measurement that needs a real GPU, on a machine with only Python and a driver.

The script runs the conformance suite on cuda:0 and on the vendor's OpenGL. Then it measures the
rates of kernels, and the cost of calls compared with the installed peers. It needs the kit of `make
gpu-kit`, but no network, no compiler and no installed package. benchmarks/gpu_run.sh starts it.

A call begins a step only if the step's limit fits into the rest of --call-s. The step with the
peers therefore needs a second call. A call with the same OUT, or with --resume and the archive of
the first call, goes on where the first call ended. OUT receives at most eight files; the archive
has the logs.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import _crash_safety
import _gpu_site  # the import makes tools/ importable
from _console import output

PROG = "gpu_run.py"
ARCHIVE = "gpu-run.tar.gz"
EARLIER = "gpu-run-earlier.tar.gz"
SUMMARY, LINES = "summary.json", "summary.txt"
TOP = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Step:
    """A script of this folder and its options. `{out}`, `{logs}`, `{kit}` and `{fake}` in the
    options are replaced by paths.
    """

    name: str
    limit_s: int  # seconds after which the script is stopped on a GPU: nine minutes at most
    fake_limit_s: int
    words: str
    more: str  # options that a run on a GPU adds to those in `words`
    fake_more: str  # options that a run on the fake driver adds to those in `words`


# The first four minutes show whether the package works, the last eight how fast it is. The limits
# are guesses until a GPU has been measured. On the fake driver all four steps take half a minute.
STEPS = (
    Step(
        "conformance-cuda", 150, 110,
        "gpu_conformance.py cuda:0 --json {out}/conformance-cuda.json",
        "--gpu", "--covers memory",
    ),
    Step(
        "conformance-egl", 120, 90,
        "gpu_conformance.py egl:0 --json {out}/conformance-egl.json",
        "--gpu", "--covers memory",
    ),
    Step(
        "kernels", 150, 90,
        "gpu_kernels.py --no-reexec -d cuda:0 --json {out}/kernels.json --md {logs}/kernels.md",
        "", "--quick",
    ),
    Step(
        "peers", 500, 150,
        "gpu_peers.py --no-reexec --resume --baseline {kit}/baseline --json {out}/peers.json"
        " --md {logs}/peers.md",
        "--budget-s 430", "--budget-s 100 --libcuda {fake} --quick --repetitions 1",
    ),
)  # fmt: skip
FOLDER = "sparkle-gpu-run-"  # start of the names of temporary folders; the process id follows
GRACE_S = 5  # seconds from SIGTERM to SIGKILL
LOCK_S = 2.0  # seconds to wait for a lock; a killed step ends in milliseconds


class Stopped(BaseException):
    """Raised by SIGTERM or Ctrl-C. The script then writes the archive of its results and ends. As a
    BaseException it is not caught by `except Exception`.
    """


class Results:
    """The content of the folder OUT: the steps that have ended, their files, and an archive of
    everything.
    """

    def __init__(self, out: Path, logs: Path, key: dict[str, str]) -> None:
        self.out, self.logs, self.key = out, logs, key
        self.steps: dict[str, dict[str, Any]] = {}
        self.whole = True  # False once the summary or the archive could not be written
        _crash_safety.sweep(out)

    def files(self) -> list[Path]:
        """Returns the files of the steps and of this program in OUT, which may also
        hold other files.
        """
        return [self.out / name for name in (*(f"{s.name}.json" for s in STEPS), SUMMARY, LINES)]

    def take_up(self, archive: Path | None) -> None:
        """Reads the results of an earlier call, from OUT or from its archive, so that this call
        continues it.
        """
        with contextlib.suppress(OSError, ValueError):
            if self._take_up((self.out / SUMMARY).read_text()):
                # the logs are only in the archive, not in the folder OUT
                archive = archive or self.out / ARCHIVE
        if archive is None:
            return
        try:
            with tarfile.open(archive) as packed:
                self._unpack(packed)
        except (OSError, tarfile.TarError, EOFError, zlib.error, ValueError, KeyError) as error:
            print(f"{PROG}: cannot go on with {archive}: {error}", flush=True)

    def _take_up(self, summary: str) -> bool:
        """Reads from `summary`, a text that `save` wrote, which steps have ended. Returns False if
        the summary belongs to another run: one with another commit, Python or driver. That run's
        archive is kept under another name.
        """
        key, steps = read_summary(summary)
        if key == self.key:
            self.steps |= steps
            return True
        print(f"{PROG}: the earlier run differs, {key}: all steps run again")
        with contextlib.suppress(FileNotFoundError):
            (self.out / ARCHIVE).replace(self.out / EARLIER)
            print(f"{PROG}: its archive is {EARLIER} now")
        for old in self.files():
            old.unlink(missing_ok=True)
        return False

    def _unpack(self, packed: tarfile.TarFile) -> None:
        files: dict[str, bytes] = {}
        for member in packed:
            content = packed.extractfile(member) if member.isfile() else None
            if content:
                files[member.name] = content.read()
        key, steps = read_summary(files[SUMMARY])
        if key != self.key:
            print(f"{PROG}: the archive is of another run, {key}: all steps run again")
            return
        self.steps = steps | self.steps
        for name, data in files.items():
            folder = self.logs if name.startswith("logs/") else self.out
            place = folder / Path(name).name
            if not place.exists():
                _crash_safety.write(place, data)

    def ended(self, step: Step, status: int, seconds: float) -> None:
        self.steps[step.name] = {
            "status": status, "seconds": round(seconds, 1), "limit_s": step.limit_s,
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }  # fmt: skip
        try:
            self.save()
        except OSError as error:  # a later step may find free space again
            self.whole = False
            output.complain(PROG, self.out, error)

    def save(self) -> None:
        """Writes the summary, and packs everything into the archive."""
        left = [step.name for step in STEPS if step.name not in self.steps]
        told = {"key": self.key, "steps": self.steps, "left": left}
        lines = [
            f"{name}: status {one['status']}, {one['seconds']:.0f} s"
            for name, one in self.steps.items()
        ]
        lines += [f"{name}: left for the next call" for name in left]
        _crash_safety.write(self.out / SUMMARY, json.dumps(told, indent=1) + "\n")
        _crash_safety.write(self.out / LINES, "\n".join(lines) + "\n")
        self.pack()

    def pack(self) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
            for file in self.files():
                if file.is_file():
                    packed.add(file, file.name)
            for file in sorted(self.logs.iterdir()):
                packed.add(file, f"logs/{file.name}")
        _crash_safety.write(self.out / ARCHIVE, buffer.getvalue())


def read_summary(text: str | bytes) -> tuple[object, dict[str, dict[str, Any]]]:
    """Returns the key of a summary (commit, Python and driver) and its steps.

    Raises ValueError if the text was not written by `save`.
    """
    try:
        told = json.loads(text)
        for one in told["steps"].values():
            float(one["status"]), float(one["seconds"])
        return told["key"], told["steps"]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"expected a summary of {PROG}, got {str(text)[:60]!r}") from error


@contextlib.contextmanager
def alone(out: Path) -> Iterator[None]:
    """Locks the folder against other calls. Raises OSError if another call works in it.

    Waits up to LOCK_S for the lock. A step that a killed call was starting may hold the call's lock
    until the step ends.
    """
    folder = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    until = time.monotonic() + LOCK_S
    try:
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise OSError(
                        errno.EBUSY, "another call of gpu_run.py uses this folder", str(out)
                    ) from None
                time.sleep(0.02)
            except OSError:  # the file system has no locks
                break
        yield
    finally:
        os.close(folder)


def run_step(command: Sequence[str], env: dict[str, str], limit_s: float, log: Path) -> int:
    """Runs a step. Returns its exit status, or 124 when it took longer than its limit."""
    with log.open("ab") as told:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=told, stderr=told, env=env,
            preexec_fn=partial(_crash_safety.end_with_parent, os.getpid()),
        )  # fmt: skip
        try:
            return child.wait(limit_s)
        except subprocess.TimeoutExpired:
            return 124
        finally:  # SIGTERM or Ctrl-C (the exception Stopped) must end the child process, too
            if child.poll() is None:
                child.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(GRACE_S)
                child.kill()
                child.wait()


def run(results: Results, args: argparse.Namespace, env: dict[str, str]) -> None:
    """Runs the steps that --steps names; without it, those that have not ended yet."""
    begun = time.monotonic()
    values = {"out": results.out, "logs": results.logs, "kit": args.kit, "fake": args.fake}
    for step in STEPS:
        if step.name not in args.steps if args.steps else step.name in results.steps:
            continue
        left_s = args.call_s - (time.monotonic() - begun)
        limit_s = step.fake_limit_s if args.fake else step.limit_s
        if limit_s > left_s:
            print(f"{step.name}: left for the next call", flush=True)
            continue
        more = step.fake_more if args.fake else step.more
        words = [word.format(**values) for word in f"{step.words} {more}".split()]
        words[0] = str(TOP / "benchmarks" / words[0])
        log = results.logs / f"{step.name}.log"
        start = time.monotonic()
        status = run_step([sys.executable, *words], env, limit_s, log)
        results.ended(step, status, time.monotonic() - start)
        print(f"{step.name}: status {status}, {time.monotonic() - start:.0f} s", flush=True)
        if status:
            print("\n".join(log.read_text(errors="replace").splitlines()[-3:]), flush=True)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog=PROG,
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 all steps well, 1 a step failed, 2 it cannot begin, 3 steps are left "
        "for another call, 143 it was stopped. Limits: "
        + ", ".join(f"{step.name} {step.limit_s} s" for step in STEPS),
    )
    top.add_argument(
        "steps", nargs="*", help="run these, ended or not; default: those that have not ended"
    )
    top.add_argument("--fake", type=Path, metavar="LIB", help="a dry run over this driver library")
    top.add_argument("--out", type=Path, help="a folder for results; default: $OUT")
    top.add_argument("--kit", type=Path, help="default: $GPU_KIT, else build/gpu-kit")
    top.add_argument("--resume", type=Path, metavar=ARCHIVE, help="of an earlier call")
    top.add_argument("--call-s", type=float, default=560, help="limit of one call in seconds: 560")
    return top


def settled(argv: Sequence[str]) -> argparse.Namespace:
    """Parses the arguments and makes their paths absolute. Raises SystemExit if the run cannot
    begin.
    """
    args = parser().parse_args(argv)
    known = [step.name for step in STEPS]
    if strange := [name for name in args.steps if name not in known]:
        sys.exit(_refused(f"expected steps of {', '.join(known)}, got {', '.join(strange)}"))
    args.out = args.out or Path(os.environ.get("OUT") or sys.exit(_refused("OUT is not set")))
    args.kit = (args.kit or Path(os.environ.get("GPU_KIT") or TOP / "build" / "gpu-kit")).resolve()
    if not (args.kit / "site" / "sparkle_drv").is_dir():
        sys.exit(_refused(f"no {args.kit}: run make gpu-kit first"))
    args.fake = args.fake and args.fake.resolve()
    if args.fake and not args.fake.is_file():
        sys.exit(_refused(f"expected a driver library, got {args.fake}"))
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(_refused(f"OUT: {error}"))
    args.out = args.out.resolve()
    return args


def _refused(why: str) -> int:
    print(f"{PROG}: {why}", file=sys.stderr)
    return 2


def sweep() -> None:
    """Removes the temporary folders of earlier runs of gpu_run.py that were killed. Each has 60 MiB
    if numpy was unpacked there.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        number = left.name.removeprefix(FOLDER).partition("-")[0]
        if not Path("/proc", number).exists():
            shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def stop(number: int, frame: object) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(signal.Signals(number).name)

    before = [signal.signal(number, stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def main(argv: Sequence[str]) -> int:
    """Runs the command line and returns the exit code. If the reader of stdout goes away, the steps
    go on.
    """
    return output.guarded(PROG, lambda: _main(argv))


def _main(argv: Sequence[str]) -> int:
    args = settled(argv)
    try:
        sweep()
        with (
            tempfile.TemporaryDirectory(prefix=f"{FOLDER}{os.getpid()}-") as folder,
            alone(args.out),
            stoppable(),
        ):
            return _steps(args, Path(folder))
    except _gpu_site.Unfit as error:
        return _refused(str(error))
    except OSError as error:
        return _refused(f"{error.filename or args.out}: {output.reason(error)}")


def _steps(args: argparse.Namespace, work: Path) -> int:
    commit = _gpu_site.commit(args.kit)
    version = ".".join(map(str, sys.version_info[:3]))
    key = {"commit": commit, "python": version, "driver": str(args.fake or "the system's")}
    (work / "logs").mkdir()
    results = Results(args.out, work / "logs", key)
    try:
        results.take_up(args.resume)
        env = _gpu_site.environment(args.kit, work, args.fake)
        _gpu_site.describe(work / "logs", env, bool(args.fake))
        results.save()
        run(results, args, env)
    except Stopped as stopped:
        results.save()
        print(f"{PROG}: {stopped}: call it again to go on", file=sys.stderr)
        return 143
    print(f"{len(results.steps)} of {len(STEPS)} steps have ended; {args.out / ARCHIVE}")
    if not results.whole or any(one["status"] for one in results.steps.values()):
        return 1
    return 0 if all(step.name in results.steps for step in STEPS) else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
