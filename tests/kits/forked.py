"""Child processes that do not start Python: each is a fork of one process, a server, that has
imported numpy, pytest and the package, and has opened nothing. A start takes 10 ms instead of 500.

    done = forked.run("import sys; print(sys.argv[1])", "a", env={**os.environ, "NAME": "x"})
    with forked.Child(code) as child: child.stdout.readline(); child.send_signal(signal.SIGINT)

A child is as `python -c CODE ARGUMENT...` is: its own pid, environment, signals, exit status, and
an ending interpreter. It imports what PYTHONPATH of the server finds. Tests of imports, of
options of `python`, or of what the loader reads from the environment start Python themselves.
ThreadSanitizer allows no threads in a forked child: there a child starts Python, too.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
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
from collections.abc import Mapping
from typing import IO

from where import ROOT, kits

IMPORTED = (
    "numpy", "pytest", "fakecuda", "sparkle_drv.context", "sparkle_drv.core.registry",
    "sparkle_drv.core.device", "sparkle_drv.backends.cpu.backend", "sparkle_drv.backends.cuda",
    "sparkle_drv.testing",
)  # fmt: skip
NEW = "TSAN_OPTIONS" in os.environ


class _Server:
    """The process that forks, and the socket that requests go by."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                # one thread of OpenBLAS: a fork has no others
                env={**os.environ, "PYTHONPATH": kits(ROOT), "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
            )  # fmt: skip
        self._lock = threading.Lock()
        atexit.register(self._close)

    def start(self, request: object, *fds: int) -> int:
        """The pid of a new child."""
        text = json.dumps(request).encode()
        with self._lock:
            socket.send_fds(self._socket, [len(text).to_bytes(8, "little")], fds)
            self._socket.sendall(text)
            pid = int.from_bytes(self._socket.recv(8, socket.MSG_WAITALL), "little")
        assert pid, "the server of forks has ended"
        return pid

    def _close(self) -> None:
        self._socket.close()
        self._process.wait(10)


_server = functools.cache(_Server)


class Child:
    """Has of subprocess.Popen what tests use; stdout and stderr are pipes of text."""

    def __init__(
        self,
        code: str,
        *arguments: object,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> None:
        self.args = ["-c", *map(str, arguments)]
        self.returncode: int | None = None
        # The checkout last: `make asan` has another build of the package on the path.
        given = {**(os.environ if env is None else env), "PYTHONPATH": kits(ROOT)}
        where = os.fspath(cwd or os.getcwd())
        (out, out_theirs), (err, err_theirs) = os.pipe(), os.pipe()
        self.stdout, self.stderr = open(out), open(err)  # noqa: SIM115
        self._popen: subprocess.Popen[bytes] | None = None
        try:
            if NEW:
                line = [sys.executable, "-c", code, *self.args[1:]]
                self._popen = subprocess.Popen(
                    line, env=given, cwd=where, stdout=out_theirs, stderr=err_theirs
                )
                self.pid = self._popen.pid
            else:
                self._status, theirs = os.pipe()
                request = {"code": code, "argv": self.args, "env": given, "cwd": where}
                try:
                    self.pid = _server().start(request, out_theirs, err_theirs, theirs)
                finally:
                    os.close(theirs)
        finally:
            os.close(out_theirs)
            os.close(err_theirs)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None and self._popen is not None:
            self.returncode = self._popen.wait(timeout)
        elif self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            said = os.read(self._status, 16)
            os.close(self._status)
            assert said, "the server of forks has ended"
            self.returncode = int(said)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """The rest of both, once the child has ended."""
        until = None if timeout is None else time.monotonic() + timeout
        read: dict[str, str] = {}

        def drain(name: str, file: IO[str]) -> None:
            read[name] = file.read()

        both = {"out": self.stdout, "err": self.stderr}
        threads = [threading.Thread(target=drain, args=item, daemon=True) for item in both.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))
            if thread.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(None if until is None else max(1.0, until - time.monotonic()))
        self.stdout.close()
        self.stderr.close()
        return read["out"], read["err"]

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kills what still runs."""
        self.kill()
        self.wait(10)
        self.stdout.close()
        self.stderr.close()


def run(
    code: str,
    *arguments: object,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    timeout: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Runs the code to its end; after `timeout` seconds kills it and raises TimeoutExpired."""
    with Child(code, *arguments, env=env, cwd=cwd) as child:
        out, err = child.communicate(timeout)
        return subprocess.CompletedProcess(child.args, child.wait(), out, err)


def _reap(asking: socket.socket, children: dict[int, tuple[int, int]]) -> None:
    """Tells of children that end, until a request comes."""
    while True:
        ready = select.select([asking, *children], [], [])[0]
        for watch in [each for each in ready if each is not asking]:
            pid, status = children.pop(watch)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with contextlib.suppress(BrokenPipeError):
                os.write(status, b"%d" % code)
            os.close(status)
            os.close(watch)
        if asking in ready:
            return


def _serve(asking: socket.socket) -> str:
    """Forks a child for each request. Returns only in a child: the code that it runs."""
    children: dict[int, tuple[int, int]] = {}  # pidfd -> pid, the pipe for its exit status
    while True:
        _reap(asking, children)
        head, fds, _, _ = socket.recv_fds(asking, 8, 3)
        if not head:
            os._exit(0)  # without coverage of its own: the imports, which others cover
        left, text = int.from_bytes(head, "little"), b""
        while len(text) < left:
            text += asking.recv(left - len(text))
        pid = os.fork()
        if not pid:
            os.dup2(fds[0], 1)
            os.dup2(fds[1], 2)
            for fd in (*fds, *children, *(status for _, status in children.values())):
                os.close(fd)
            asking.close()
            return _become(json.loads(text))
        children[os.pidfd_open(pid)] = pid, fds[2]
        os.close(fds[0])
        os.close(fds[1])
        asking.sendall(pid.to_bytes(8, "little"))


def _become(request: dict[str, object]) -> str:
    """The child takes what is its own. Returns its code."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]
    os.chdir(str(request["cwd"]))
    sys.path[0] = ""
    sys.argv = list(request["argv"])  # type: ignore[call-overload]
    random.seed()
    return str(request["code"])


def _main(descriptor: int) -> str:
    """The server; returns in a child."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the tests' own
    for name in IMPORTED:
        __import__(name)
    gc.collect()
    gc.freeze()
    return _serve(socket.socket(fileno=descriptor))


if __name__ == "__main__":
    exec(compile(_main(int(sys.argv[1])), "<string>", "exec"), {"__name__": "__main__"})
