"""Machines of network namespaces on one bridge: cables to cut, links to slow down. Root only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NET = "10.77"
"""First half of every address; the third number is the process's own."""


def lacking() -> str | None:
    """What is missing, or None."""
    if os.geteuid():
        return "network namespaces need root"
    missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if missing:
        return f"no {missing[0]} (iproute2)"
    name = f"spk-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode:
        return f"no network namespaces: {made.stderr.strip()[:200]}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


class Network:
    """Namespaces by name, joined by a bridge in one more; nothing touches the host's own links."""

    def __init__(self, *names: str) -> None:
        self._tag, self.names = f"spk{os.getpid()}", names
        try:
            self._run("netns", "add", f"{self._tag}-sw")
            self._run("-n", f"{self._tag}-sw", "link", "add", "br0", "type", "bridge")
            self._run("-n", f"{self._tag}-sw", "link", "set", "br0", "up")
            for name in names:
                self._add(name)
        except BaseException:
            self.close()
            raise

    def _add(self, name: str) -> None:
        space, switch = self.space(name), f"{self._tag}-sw"
        self._run("netns", "add", space)
        self._run("-n", space, "link", "set", "lo", "up")
        peer = ("peer", "name", "eth0", "netns", space)
        self._run("-n", switch, "link", "add", f"v{name}", "type", "veth", *peer)
        self._run("-n", switch, "link", "set", f"v{name}", "master", "br0")
        self._run("-n", switch, "link", "set", f"v{name}", "up")
        self._run("-n", space, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
        self._run("-n", space, "link", "set", "eth0", "up")

    def space(self, name: str) -> str:
        return f"{self._tag}-{name}"

    def address(self, name: str) -> str:
        return f"{NET}.{os.getpid() % 250}.{self.names.index(name) + 1}"

    def command(self, name: str, *arguments: str) -> list[str]:
        """The command line that runs Python on that machine."""
        return ["ip", "netns", "exec", self.space(name), sys.executable, *arguments]

    def cut(self, name: str) -> None:
        self._run("-n", self.space(name), "link", "set", "eth0", "down")

    def heal(self, name: str) -> None:
        self._run("-n", self.space(name), "link", "set", "eth0", "up")

    def slow(self, name: str, rate: str) -> None:
        """Both directions of the cable carry `rate` at most, as "200mbit"."""
        shape = ("root", "tbf", "rate", rate, "burst", "128k", "latency", "50ms")
        for space, device in ((self.space(name), "eth0"), (f"{self._tag}-sw", f"v{name}")):
            line = ["tc", "-n", space, "qdisc", "add", "dev", device, *shape]
            subprocess.run(line, check=True, capture_output=True)

    def close(self) -> None:
        for name in (*self.names, "sw"):
            subprocess.run(["ip", "netns", "del", f"{self._tag}-{name}"], capture_output=True)

    def _run(self, *arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class Machine:
    """A Python program on a machine of the network, which speaks by lines."""

    def __init__(self, network: Network, name: str, program: Path, *arguments: str) -> None:
        self.name = name
        self.lines: list[tuple[float, str]] = []
        """When each line came, and the line."""
        self.process = subprocess.Popen(
            network.command(name, str(program), *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append((time.monotonic(), line.strip()))

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")

    def heard(self, start: str, since: float = 0.0, timeout_s: float = 15.0) -> tuple[float, str]:
        """The first line after `since` that starts so, and when it came."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            for when, line in list(self.lines):
                if when >= since and line.startswith(start):
                    return when, line
            time.sleep(0.005)
        raise AssertionError(f"{self.name}: no {start!r} in {timeout_s} s, got {self.lines[-10:]}")

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(10)
        self._reader.join(10)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
