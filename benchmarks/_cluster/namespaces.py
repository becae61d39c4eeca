"""Makes network namespaces that stand for machines, joined by one bridge. A test can take the link
of a machine down, or limit its rate. Only root can make namespaces.
"""

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
"""The first half of every address. The third part is the process's own number."""


def lacking() -> str | None:
    """Returns the reason why network namespaces are not available, or None if they are."""
    if os.geteuid():
        return "network namespaces need root"
    missing = [tool for tool in ("ip", "tc", "nsenter") if shutil.which(tool) is None]
    if missing:
        return f"no {missing[0]} (iproute2, util-linux)"
    name = f"spk-try-{os.getpid()}"
    bridge = ("ip", "link", "add", "br0", "type", "bridge")
    try:
        for line in (["ip", "netns", "add", name], inside(name, *bridge)):
            made = subprocess.run(line, capture_output=True, text=True)
            if made.returncode:
                return f"network namespaces are refused: {' '.join(line)}: {made.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return None


def inside(space: str, *command: str) -> list[str]:
    """Returns the command line that runs `command` in the network namespace `space`.

    It uses nsenter, because `ip -n` and `ip netns exec` also mount /sys again. Linux refuses that
    mount if the root of a chroot is not a mount point.
    """
    return ["nsenter", f"--net=/var/run/netns/{space}", *command]


class Network:
    """Network namespaces by name, joined by a bridge that lives in another namespace. The host's
    own links stay untouched.
    """

    def __init__(self, *names: str) -> None:
        self._tag, self.names = f"spk{os.getpid()}", names
        try:
            self._run("ip", "netns", "add", self.space("sw"))
            self._ip("sw", "link", "add", "br0", "type", "bridge")
            self._ip("sw", "link", "set", "br0", "up")
            for name in names:
                self._add(name)
        except BaseException:
            self.close()
            raise

    def _add(self, name: str) -> None:
        self._run("ip", "netns", "add", self.space(name))
        self._ip(name, "link", "set", "lo", "up")
        peer = ("peer", "name", "eth0", "netns", self.space(name))
        self._ip("sw", "link", "add", f"v{name}", "type", "veth", *peer)
        self._ip("sw", "link", "set", f"v{name}", "master", "br0")
        self._ip("sw", "link", "set", f"v{name}", "up")
        self._ip(name, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
        self._ip(name, "link", "set", "eth0", "up")

    def space(self, name: str) -> str:
        return f"{self._tag}-{name}"

    def address(self, name: str) -> str:
        return f"{NET}.{os.getpid() % 250}.{self.names.index(name) + 1}"

    def command(self, name: str, *arguments: str) -> list[str]:
        """Returns the command line that runs Python on the machine `name`."""
        return inside(self.space(name), sys.executable, *arguments)

    def cut(self, name: str) -> None:
        self._ip(name, "link", "set", "eth0", "down")

    def heal(self, name: str) -> None:
        self._ip(name, "link", "set", "eth0", "up")

    def slow(self, name: str, rate: str) -> None:
        """Limits both directions of the network link between machine `name` and the switch to
        `rate`, such as "200mbit".
        """
        shape = ("root", "tbf", "rate", rate, "burst", "128k", "latency", "50ms")
        for end, device in ((name, "eth0"), ("sw", f"v{name}")):
            line = ("tc", "qdisc", "add", "dev", device, *shape)
            self._run(*inside(self.space(end), *line))

    def close(self) -> None:
        for name in (*self.names, "sw"):
            subprocess.run(["ip", "netns", "del", self.space(name)], capture_output=True)

    def _ip(self, name: str, *arguments: str) -> None:
        self._run(*inside(self.space(name), "ip", *arguments))

    def _run(self, *command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, text=True)


class Machine:
    """A Python program on a machine of the network. The test and the program exchange lines of
    text.
    """

    def __init__(
        self, network: Network, name: str, program: Path, *arguments: str, root: Path = ROOT
    ) -> None:
        """Starts the program. `root` is the checkout whose package it imports."""
        self.name = name
        self.lines: list[tuple[float, str]] = []
        """The time at which each line came, and the line."""
        self.process = subprocess.Popen(
            network.command(name, str(program), *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
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
        """Waits until this program prints a line that starts with `start`. Returns the time at
        which the line came, and the line.

        Lines that came before `since` do not count. Raises AssertionError after `timeout_s`.
        """
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            for when, line in list(self.lines):
                if when >= since and line.startswith(start):
                    return when, line
            time.sleep(0.005)
        raise AssertionError(
            f"{self.name}: expected a line that starts with {start!r} within {timeout_s} s, "
            f"got the lines {self.lines[-10:]}"
        )

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(10)
        self._reader.join(10)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
