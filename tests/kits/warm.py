"""Scripts in processes that are forked from one which has done the imports: half a second each.

Each is a process of its own, with arguments, environment, folder, output and exit status of its
own. It is `python SCRIPT WORDS` but for the modules that are already imported.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from where import ROOT

# A line is a request, and the answer to it is the exit status. A child leaves the loop with the
# script's own exception, so that the interpreter ends as it does after any script.
SERVER = """
import importlib, json, os, runpy, signal, sys

preload, answers = json.loads(sys.argv[1]), os.dup(1)
sys.path[:0] = preload["path"]
for name in preload["modules"]:
    importlib.import_module(name)
del sys.path[: len(preload["path"])]
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(answers)
        for fd, name in ((0, "/dev/null"), (1, asked["out"]), (2, asked["err"])):
            made = os.open(name, os.O_RDWR | os.O_CREAT)
            os.dup2(made, fd)
            os.close(made)
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["env"])
        sys.argv = asked["argv"]
        sys.orig_argv[sys.orig_argv.index("-c") :] = sys.argv
        sys.path.insert(0, os.path.dirname(sys.argv[0]))
        runpy.run_path(sys.argv[0], run_name="__main__")
        sys.exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(answers, b"%d\\n" % status)
"""


class Warm:
    """A process with the modules imported. `run` forks it."""

    def __init__(self, *modules: str, flags: Sequence[str] = ()) -> None:
        path = [str(ROOT), str(ROOT / "tools"), str(ROOT / "benchmarks")]
        preload = json.dumps({"modules": modules, "path": path})
        self._process = subprocess.Popen(
            [sys.executable, *flags, "-c", SERVER, preload],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(
        self, script: Path, *words: object, out: str = "", cwd: Path = ROOT, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """What subprocess.run returns. `out` is the file that stdout goes to."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        argv = [str(script), *map(str, words)]
        with tempfile.TemporaryDirectory() as folder:
            texts = [Path(folder, name) for name in ("out", "err")]
            asked = {
                "argv": argv,
                "out": out or str(texts[0]),
                "err": str(texts[1]),
                "cwd": str(cwd),
                "env": {**os.environ, **environment},
            }
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            said = [text.read_text() if text.exists() else "" for text in texts]
        return subprocess.CompletedProcess(argv, status, *said)

    def close(self) -> None:
        """Ends it and what it started."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
