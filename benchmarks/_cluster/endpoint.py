"""One end of a link as a program: `endpoint.py ssl|zenoh|engine|device node|client FOLDER ADDRESS`.

The node sends each request back. It answers the last chunk of a bulk transfer with one byte. The
client reads commands from stdin: `ask COUNT` sends requests of 100 bytes and prints the median in
us; `bulk MIB` sends MIB MiB and prints MB/s.

With `device`, FOLDER is SPARKLE_HOME, `ask` asks for the device's clock and `bulk` is an upload.
The client then has three more commands. `down MIB` is a download and prints MB/s. `launch COUNT`
prints the us that a prepared launch costs the client. `hundred COUNT` makes 100 launches and one
wait, and prints the us.
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparkle_drv.cluster.transport import access, config
from sparkle_drv.cluster.transport.base import MessageLane
from sparkle_drv.cluster.transport.engine import Engine

CHUNK = 128 << 10
NODE, CLIENT = "node", access.client_endpoint(access.CLIENTS[0], "bench")
Receive = Callable[[bytes], None]


class Bare:
    """A link over a TLS socket of Python's `ssl` module. Each message begins with its length."""

    def __init__(self, node: bool, folder: Path, address: str, receive: Receive) -> None:
        where = config.endpoint(address)
        protocol = ssl.PROTOCOL_TLS_SERVER if node else ssl.PROTOCOL_TLS_CLIENT
        context = ssl.SSLContext(protocol)
        context.load_verify_locations(folder / "ca.pem")
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        self._receive, self._there = receive, threading.Event()
        if node:
            server = socket.create_server((where.host, where.port))
            threading.Thread(target=self._accept, args=(server, context), daemon=True).start()
        else:
            raw = socket.create_connection((where.host, where.port), 10)
            raw.settimeout(None)
            self._serve(context.wrap_socket(raw, server_hostname=where.host))

    def _accept(self, server: socket.socket, context: ssl.SSLContext) -> None:
        self._serve(context.wrap_socket(server.accept()[0], server_side=True))

    def _serve(self, link: ssl.SSLSocket) -> None:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._link = link
        self._there.set()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        head = bytearray(4)
        while self._fill(head):
            message = bytearray(struct.unpack("<I", head)[0])
            self._fill(message)
            self._receive(bytes(message))

    def _fill(self, into: bytearray) -> bool:
        left = memoryview(into)
        while left and (count := self._link.recv_into(left)):
            left = left[count:]
        return not left

    def send(self, lane: MessageLane, message: bytes) -> None:
        self._there.wait(10)
        self._link.sendall(struct.pack("<I", len(message)) + message)


class Zenoh:
    """A link over Zenoh without the package's transport protocol. Zenoh's configuration and keys
    are those of the package.
    """

    def __init__(self, node: bool, folder: Path, address: str, receive: Receive) -> None:
        import zenoh

        where = [config.endpoint(address)]
        made = config.settings(folder, where if node else [], [] if node else where, node)
        self._session = zenoh.open(zenoh.Config.from_json5(json.dumps(made)))
        me, self._peer = (NODE, CLIENT) if node else (CLIENT, NODE)
        self._me, block = me, zenoh.CongestionControl.BLOCK
        self._how: dict[MessageLane, dict[str, Any]] = {
            MessageLane.CONTROL: {"priority": zenoh.Priority.REAL_TIME, "express": True},
            MessageLane.BULK: {"priority": zenoh.Priority.BACKGROUND, "congestion_control": block},
        }
        self._kept = [
            self._session.declare_subscriber(
                access.message_key(me, "*", lane.value),
                lambda sample: receive(sample.payload.to_bytes()),
            )
            for lane in MessageLane
        ]

    def send(self, lane: MessageLane, message: bytes) -> None:
        key = access.message_key(self._peer, self._me, lane.value)
        self._session.put(key, message, **self._how[lane])


class Ours:
    """A link over the package's own transport (its class Engine)."""

    def __init__(self, node: bool, folder: Path, address: str, receive: Receive) -> None:
        name, self._peer = (NODE, CLIENT) if node else (CLIENT, NODE)
        listen, connect = ([address], []) if node else ([], [address])
        self._engine = Engine(name, folder, listen, connect, node)
        self._engine.start(lambda _, message: receive(bytes(message)), lambda *_: None)

    def send(self, lane: MessageLane, message: bytes) -> None:
        self._engine.send(self._peer, lane, message)


SIDES: dict[str, Any] = {"ssl": Bare, "zenoh": Zenoh, "engine": Ours}


class Device:
    """The cpu device of a node, used through the package's public interface."""

    def __init__(self, folder: Path, address: str) -> None:
        import numpy as np

        import sparkle_drv as sp

        os.environ["SPARKLE_HOME"] = str(folder)
        (folder / "cluster/hosts.json").write_text(json.dumps({"b": address}))
        end = time.monotonic() + 20
        while True:
            try:
                self._device = sp.open("b/cpu:c0")
                break
            except sp.DeviceNotFound:  # the node is still starting
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
        self._queue = self._device.queue()
        self._launch = self._queue.prepare(self._device.kernel("noop"), groups=1)
        self._bytes = np.ones(64 << 20, np.uint8)
        self._back = np.empty_like(self._bytes)
        self._buffer = self._device.buffer(self._bytes.nbytes)

    def figure(self, word: str, number: int) -> float:
        return float(getattr(self, f"_{word}")(number))

    def _ask(self, count: int) -> float:
        return 1e6 * _median(self._device._backend.timestamp, count)

    def _bulk(self, mib: int) -> float:
        return self._moved(mib, lambda n: self._queue.write(self._buffer, self._bytes[:n]))

    def _down(self, mib: int) -> float:
        return self._moved(mib, lambda n: self._queue.read(self._buffer, self._back[:n]))

    def _moved(self, mib: int, move: Callable[[int], Any]) -> float:
        began = time.perf_counter()
        for at in range(0, mib, 64):
            move(min(64, mib - at) << 20).wait(60)
        return (mib << 20) / (time.perf_counter() - began) / 1e6

    def _hundred(self, count: int) -> float:
        def once() -> None:
            for _ in range(100):
                value = self._launch()
            self._queue.fence(value).wait(10)

        return 1e6 * _median(once, count)

    def _launch_us(self, count: int) -> float:
        self._queue.fence(self._launch()).wait(10)
        began = time.perf_counter()
        for _ in range(count):
            value = self._launch()
        took = (time.perf_counter() - began) / count
        self._queue.fence(value).wait(10)
        return 1e6 * took


def _median(action: Callable[[], object], count: int) -> float:
    took = []
    for _ in range(count):
        began = time.perf_counter()
        action()
        took.append(time.perf_counter() - began)
    return sorted(took)[count // 2]


def lend(folder: Path, address: str) -> None:
    """Starts a node in this process, as `sparkle node` does."""
    os.environ["SPARKLE_HOME"] = str(folder)
    tools = Path(__file__).resolve().parents[2] / "tools"
    sys.path.insert(0, str(tools))
    sys.argv = ["sparkle", "node", "--devices", "cpu:c0", "--listen", address]
    runpy.run_path(str(tools / "sparkle.py"), run_name="__main__")


def main() -> None:
    kind, role, folder, address = sys.argv[1:]
    if kind == "device":
        print("up", flush=True)
        if role == "node":
            lend(Path(folder), address)
            return
        device = Device(Path(folder), address)
        for line in sys.stdin:
            word, number = line.split()
            name = "launch_us" if word == "launch" else word
            print(f"{word} {device.figure(name, int(number)):.3f}", flush=True)
        return
    answers = threading.Semaphore(0)

    def serve(message: bytes) -> None:
        if len(message) == CHUNK:
            if message[:1] == b"L":
                side.send(MessageLane.CONTROL, b"!")
        else:
            side.send(MessageLane.CONTROL, message)

    def take(_: bytes) -> None:
        answers.release()

    node = role == "node"
    side = SIDES[kind](node, Path(folder), address, serve if node else take)
    print("up", flush=True)
    for line in sys.stdin:
        word, number = line.split()
        figure = {"ask": ask, "bulk": bulk}[word](side, answers, int(number))
        print(f"{word} {figure:.3f}", flush=True)


def ask(side: Any, answers: threading.Semaphore, count: int) -> float:
    took = []
    for _ in range(count):
        began = time.perf_counter()
        side.send(MessageLane.CONTROL, bytes(100))
        if not answers.acquire(timeout=5):
            raise TimeoutError("ask: the other endpoint did not answer within 5 s")
        took.append(time.perf_counter() - began)
    return sorted(took)[count // 2] * 1e6


def bulk(side: Any, answers: threading.Semaphore, mib: int) -> float:
    count = (mib << 20) // CHUNK
    began = time.perf_counter()
    for number in range(count):
        side.send(MessageLane.BULK, (b"L" if number == count - 1 else b"-") + bytes(CHUNK - 1))
    if not answers.acquire(timeout=60):
        raise TimeoutError("bulk: the other endpoint did not answer within 60 s")
    return count * CHUNK / (time.perf_counter() - began) / 1e6


if __name__ == "__main__":
    main()
