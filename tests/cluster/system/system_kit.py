"""Nodes, clients as users run them: processes of `sparkle node`, certificates by `sparkle certs`.

`Site` is a folder with the CA and the machines' homes; `Node` is the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "sparkle.py"
CLIENT = "alice"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Site:
    """A CA, and homes of machines; alice, a client, works where the CA is unless a test says so."""

    def __init__(self, root, clients=(CLIENT,)):
        self.root, self.ca = root, root / clients[0]
        self.certs("init")
        self.certs("client", clients[0])
        for name in clients[1:]:
            self.machine(name, "client")

    def certs(self, *args, home=None):
        made = self.sparkle("certs", *args, home=home or self.ca)
        assert made.returncode == 0, made.stderr
        return made.stdout

    def sparkle(self, *args, home=None):
        """The command, to its end."""
        return subprocess.run(
            [sys.executable, str(TOOL), *map(str, args)], capture_output=True, text=True,
            timeout=60, env={**os.environ, "SPARKLE_HOME": str(home or self.ca)}, cwd=ROOT,
        )  # fmt: skip

    def machine(self, name, role="node", *args, hosts=("127.0.0.1",)):
        """A home with a certificate."""
        home = self.root / f"{role}-{name}"
        hosts = hosts if role != "client" else ()
        self.certs(role, name, *hosts, *args, "--out", home / "cluster")
        return home

    @contextlib.contextmanager
    def at(self, home=None, **hosts):
        """SPARKLE_HOME is that client's, whose hosts.json has these nodes (Node or address)."""
        home = home or self.ca
        listed = {k: v if isinstance(v, str) else v.address for k, v in hosts.items()}
        file = home / "cluster" / "hosts.json"
        text = file.read_text() if file.exists() else "{}"
        file.write_text(json.dumps(listed))
        before = os.environ.get("SPARKLE_HOME")
        os.environ["SPARKLE_HOME"] = str(home)
        try:
            yield
        finally:
            file.write_text(text)
            os.environ.pop("SPARKLE_HOME")
            if before is not None:
                os.environ["SPARKLE_HOME"] = before


class Node:
    """`sparkle node` in a process, whose lines are read as they come."""

    def __init__(self, home, *args, devices="cpu", listen=None, prefix=(), program=TOOL, up=True):
        self.address = listen or f"tls/127.0.0.1:{free_port()}"
        self.lines = []
        self._came = threading.Condition()
        self.process = subprocess.Popen(
            [*prefix, sys.executable, str(program), "node", "--devices", devices,
             "--listen", self.address, *map(str, args)],
            env={**os.environ, "SPARKLE_HOME": str(home), "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if up:
            self.line("lends")

    def _read(self):
        for line in self.process.stdout:
            with self._came:
                self.lines.append(line.rstrip())
                self._came.notify_all()
        with self._came:
            self.lines.append("(ended)")
            self._came.notify_all()

    def line(self, part, since=0, timeout_s=15.0):
        """The first line with that part; it may come yet."""

        def found():
            return next((line for line in self.lines[since:] if part in line), None)

        with self._came:
            self._came.wait_for(lambda: found() or self.lines[-1:] == ["(ended)"], timeout_s)
            assert found() is not None, f"no line with {part!r}, got {self.lines}"
            return found()

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait(10)
        return time.monotonic()

    def nbytes(self):
        """Of memory that the process has."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def ended(self):
        """Its exit code, after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(10)
        self._reader.join(10)
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
