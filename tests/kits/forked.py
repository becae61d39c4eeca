"""Child processes that do not start Python. A server imports modules once, then forks each child.

    done = forked.run("import sys; print(sys.argv[1])", "a", env={**os.environ, "NAME": "x"})
    with forked.start(code) as child: child.line(); child.send_signal(signal.SIGINT)
    with forked.Server("bench", flags=["-OO"]) as python: done = python.run(SCRIPT, "--help")

A fork takes 10 ms, where a start of Python and the imports take 500. A child is as `python WORDS`
makes it: its pid, arguments, folder, environment, signals, exit status and end are its own. Only
imported modules and the flags of `python` come from the server. Tests of imports, or of what the
loader reads from the environment, start Python. So does each child under ThreadSanitizer.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from where import ROOT, kits

PACKAGE = (
    "numpy", "pytest", "fakecuda", "sparkle_drv.context", "sparkle_drv.core.registry",
    "sparkle_drv.core.device", "sparkle_drv.backends.cpu.backend", "sparkle_drv.backends.cuda",
    "sparkle_drv.testing",
)  # fmt: skip
LIMIT_S = 100  # of each wait: below the 120 s that pytest gives a test
NEW = "TSAN_OPTIONS" in os.environ
Env = Mapping[str, str] | None
Done = subprocess.CompletedProcess[str]


class Child(contextlib.AbstractContextManager["Child"]):
    """A running child. Names are those of subprocess.Popen. Each wait raises TimeoutExpired."""

    def __init__(self, args: list[str], pid: int, pipes: tuple[int, ...]) -> None:
        self.args, self.pid = args, pid
        self.returncode: int | None = None
        self._out, self._err, self._status = pipes
        self._open, self._came = set(pipes), dict.fromkeys(pipes, b"")

    def _hear(self, enough: Callable[[], bool], timeout: float) -> None:
        """Reads the pipes until there is enough."""
        until = time.monotonic() + timeout
        while not enough():
            ready = select.select([*self._open], [], [], max(0.0, until - time.monotonic()))[0]
            if not ready:
                raise subprocess.TimeoutExpired(self.args, timeout)
            for pipe in ready:
                came = os.read(pipe, 1 << 16)
                self._came[pipe] += came
                if not came:
                    self._open.remove(pipe)
                    os.close(pipe)

    def line(self, timeout: float = LIMIT_S) -> str:
        """The next line of stdout, or what came without one."""
        self._hear(lambda: b"\n" in self._came[self._out] or self._out not in self._open, timeout)
        line, newline, self._came[self._out] = self._came[self._out].partition(b"\n")
        return (line + newline).decode()

    def wait(self, timeout: float = LIMIT_S) -> int:
        if self.returncode is None:
            self._hear(lambda: self._status not in self._open, timeout)
            if not self._came[self._status]:
                raise ChildProcessError("the server that forks has ended")
            self.returncode = int(self._came[self._status])
        return self.returncode

    def communicate(self, timeout: float = LIMIT_S) -> tuple[str, str]:
        """The rest of stdout and of stderr, once the child has ended."""
        self._hear(lambda: not self._open, timeout)
        self.wait()
        return self._came[self._out].decode(), self._came[self._err].decode()

    def completed(self, timeout: float = LIMIT_S) -> Done:
        """The child at its end. After `timeout` seconds kills it and raises TimeoutExpired."""
        with self:
            out, err = self.communicate(timeout)
            return Done(self.args, self.wait(), out, err)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def close(self, *_: object) -> None:
        """Kills the child if it still runs."""
        try:
            self.send_signal(signal.SIGKILL)
            self.wait(10)
        finally:
            while self._open:
                os.close(self._open.pop())

    __exit__ = close


class Server(contextlib.AbstractContextManager["Server"]):
    """A process that has imported the modules, and forks. Its end is the end of its children."""

    def __init__(self, *modules: str, flags: Sequence[str] = ()) -> None:
        path = kits(ROOT, ROOT / "tools", ROOT / "benchmarks").split(os.pathsep)
        # one thread of OpenBLAS: a fork has no others
        own = {"PYTHONPATH": "", "PYTHONSAFEPATH": "", "OPENBLAS_NUM_THREADS": "1"}
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(LIMIT_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *flags, __file__, json.dumps([theirs.fileno(), path, modules])],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
                env=os.environ | own, start_new_session=True,
            )  # fmt: skip

    def start(
        self, *words: object, env: Env = None, cwd: Path | None = None, stdout: int | None = None
    ) -> Child:
        """A child that runs `python WORDS`. Its stdout is the given descriptor, or a pipe."""
        args = [str(word) for word in words]
        request = [args, dict(os.environ if env is None else env), os.fspath(cwd or os.getcwd())]
        pipes, ends = zip(*(os.pipe() for _ in range(3)), strict=True)
        given = [ends[0] if stdout is None else stdout, *ends[1:]]
        try:
            with self._lock:
                socket.send_fds(self._socket, [json.dumps(request).encode()], given)
                answer = self._socket.recv(16)
            if not answer:
                raise ChildProcessError("the server that forks has ended")
        except BaseException:
            self.close()  # a late answer would be taken for the next one
            for pipe in pipes:
                os.close(pipe)
            raise
        finally:
            for end in ends:
                os.close(end)
        return Child(args, int(answer), pipes)

    def run(self, *words: object, timeout: float = LIMIT_S, **options: Any) -> Done:
        """Runs what `start` starts to its end."""
        return self.start(*words, **options).completed(timeout)

    def close(self, *_: object) -> None:
        """Kills the server, its children, and what they started in its session."""
        self._socket.close()
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)

    __exit__ = close


@functools.cache
def _package() -> Server:
    server = Server(*PACKAGE)
    atexit.register(server.close)
    return server


def start(code: str, *words: object, env: Env = None) -> Child:
    """A child that runs the code, with numpy, pytest, the package and the kits at hand."""
    # The checkout last: `make asan` has another build of the package on the path.
    given = {**(os.environ if env is None else env), "PYTHONPATH": kits(ROOT)}
    return _package().start("-c", code, *words, env=given)


def run(code: str, *words: object, env: Env = None, timeout: float = LIMIT_S) -> Done:
    """Runs what `start` starts to its end."""
    return start(code, *words, env=env).completed(timeout)


def _serve(descriptor: int, path: list[str], modules: list[str]) -> tuple[CodeType, dict[str, Any]]:
    """Forks a child for each request. Returns only in a child: what it runs, and where."""
    own = sys.path[1:]
    sys.path[1:1] = path
    for name in () if NEW else modules:
        importlib.import_module(name)
    gc.freeze()
    asking = socket.socket(fileno=descriptor)
    children: dict[int, tuple[int, int]] = {}  # pidfd -> pid, the pipe for its exit status
    while True:
        ready = select.select([descriptor, *children], [], [])[0]
        for ended in children.keys() & set(ready):
            pid, status = children.pop(ended)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with contextlib.suppress(BrokenPipeError):
                os.write(status, b"%d" % code)
            os.close(status)
            os.close(ended)
        if descriptor not in ready:
            continue
        text, fds, _, _ = socket.recv_fds(asking, 1 << 20, 3)
        if not text:
            os.killpg(0, signal.SIGKILL)  # whoever asked has gone: nothing is left running
        pid = os.fork()
        if not pid:
            os.dup2(fds[0], 1)
            os.dup2(fds[1], 2)
            for fd in (*fds, *children, *(status for _, status in children.values())):
                os.close(fd)
            asking.close()
            return _become(own, *json.loads(text))
        children[os.pidfd_open(pid)] = pid, fds[2]
        os.close(fds[0])
        os.close(fds[1])
        asking.send(b"%d" % pid)


def _become(
    own: list[str], words: list[str], env: dict[str, str], cwd: str
) -> tuple[CodeType, dict[str, Any]]:
    """Makes the child what `python WORDS` is before the first line. Returns code and globals."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    line = [*sys.orig_argv[:-2], *words]
    if NEW:
        os.execv(line[0], line)
    sys.orig_argv[:] = line
    main = sys.modules["__main__"] = ModuleType("__main__")
    if words[0] == "-c":
        folder, name, text = "", "<string>", words.pop(1).encode()
    else:
        folder, name = os.path.dirname(os.path.realpath(words[0])), words[0]
        main.__file__, text = name, Path(name).read_bytes()
    sys.argv = words
    sys.path[:] = [folder, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep)), *own]
    random.seed()
    return compile(text, name, "exec", dont_inherit=True), main.__dict__


if __name__ == "__main__":
    exec(*_serve(*json.loads(sys.argv[1])))
