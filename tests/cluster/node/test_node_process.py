"""`sparkle node` over mutual TLS on loopback: a process with certificates, and clients.

When this fails, `sparkle node` does not start, or serves without certificates.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_kit import Answer, Raw

from sparkle_drv.cluster.node.process import Process
from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.transport import access
from sparkle_drv.cluster.transport.engine import Engine
from sparkle_drv.cluster.trust import authority, identity
from sparkle_drv.cluster.trust.handshake import Caller
from sparkle_drv.errors import DeviceNotFound

TOOL = Path(__file__).parents[3] / "tools" / "sparkle.py"


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """(the node's home, with the CA; a client's; a second client's)."""
    from sparkle_drv.cluster.trust import files

    root = tmp_path_factory.mktemp("homes")
    ca = authority.init(str(root / "box1"))
    files.write(files.folder(str(root / "box1")), ca.issue("box1", "node", ("127.0.0.1",)))
    for name in ("alice", "bob"):
        files.write(files.folder(str(root / name)), ca.issue(name, "client", ()))
    return [str(root / name) for name in ("box1", "alice", "bob")]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Running:
    """The command in a process."""

    def __init__(self, home, *args):
        self.port = free_port()
        self.process = subprocess.Popen(
            [sys.executable, TOOL, "node", "--listen", f"tls/127.0.0.1:{self.port}", *args],
            env={**os.environ, "SPARKLE_HOME": home, "PYTHONFAULTHANDLER": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def line(self):
        return self.process.stdout.readline().rstrip()

    def ended(self, how=signal.SIGTERM):
        """(exit code, what it still said, errors)."""
        self.process.send_signal(how)
        try:
            said, errors = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            pytest.fail(f"it has not ended: {self.process.communicate()[1]}")
        return self.process.returncode, said, errors


def client(home, port):
    own = identity.load(home)
    name = access.client_endpoint(own.common_name, f"{own.name}-{os.urandom(4).hex()}")
    engine = Engine(name, own.folder, connect=[f"tls/127.0.0.1:{port}"])
    return Raw(transport=engine, caller=Caller(own, "box1"))


def test_a_node_lends_says_so_and_ends_well(homes):
    box, alice, bob = homes
    cert = Path(alice) / "cluster" / "cert.pem"
    node = Running(box, "--devices", "cpu", "--quota", "queues=3", "--trust-code", str(cert))
    try:
        assert node.line() == f"box1: lends cpu at tls/127.0.0.1:{node.port}"
        one = client(alice, node.port)
        assert one.open()["most"]["queues"] == 3
        assert node.line() == "alice: begins"
        one.ask("queue", queue=1, timing=False)
        address = one.alloc(1 << 20)
        data = os.urandom(1 << 20)
        one.write(1, 1, address, data, transfer=1)
        assert one.read(1, 2, address, 1 << 20) == data
        one.channel.send_bulk(5, memoryview(b"junk"))
        with pytest.raises(Answer, match="ImageError"):  # trusted, but no image
            one.load("mine", entry="mine", args=["f32*"], transfer=5, nbytes=4)
        two = client(bob, node.port)
        two.open()
        with pytest.raises(
            Answer, match="Refused: image: expected a client that --trust-code names"
        ):
            two.load("mine", entry="mine", args=["f32*"], transfer=5, nbytes=4)
        two.close()
        assert node.line() == "bob: begins"
        assert node.line().startswith("bob: ends: ")
        code, said, errors = node.ended()
        assert (code, errors) == (0, "")
        assert said == "alice: ends: the node ends\n"
        one.until(lambda: one.ended, "the end")
        assert one.ended == "the node ends"
        one.close()
    finally:
        node.process.kill()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_to_another_thread_ends_it(homes, how):
    """The kernel chooses the thread; here the test does."""
    node = Running(homes[0], "--devices", "cpu")
    try:
        node.line()
        pid = node.process.pid
        other = max(int(name) for name in os.listdir(f"/proc/{pid}/task"))
        assert other != pid
        tgkill = {"x86_64": 234, "aarch64": 131}[platform.machine()]
        assert ctypes.CDLL(None).syscall(tgkill, pid, other, how) == 0
        node.process.communicate(timeout=10)
        assert node.process.returncode == 0
    finally:
        node.process.kill()


def test_a_quota_that_is_none_is_a_usage_error(homes):
    node = Running(homes[0], "--devices", "cpu", "--quota", "moons=3")
    _, errors = node.process.communicate(timeout=20)
    assert node.process.returncode == 2
    assert errors.startswith("sparkle.py: node: wrong argument: quota: expected one of")
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize(
    ("how", "error", "says"),
    [
        ({"devices": ["cuda:77"]}, DeviceNotFound, "cuda"),
        ({"trusted": [Path("/nowhere/cert.pem")]}, Refused, "/nowhere/cert.pem"),
        ({"join": ["udp/x"]}, ValueError, "expected tls/host:port"),
        ({"listen": ["tcp/0.0.0.0:7447"]}, ValueError, "loopback"),
        ({"home": "/nowhere"}, Refused, "sparkle certs"),
    ],
)
def test_what_it_does_not_start_with(homes, how, error, says):
    usual = {"home": homes[0], "devices": ["cpu"], "listen": [f"tls/127.0.0.1:{free_port()}"]}
    with pytest.raises(error, match=says):
        Process(**{**usual, **how})
