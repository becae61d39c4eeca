"""A CA, a folder of certificates for each name, and endpoints that keep what comes."""

from __future__ import annotations

import queue
import socket

import pytest

pytest.importorskip("zenoh", reason="eclipse-zenoh is not installed (the extra `cluster`)")
pytest.importorskip("cryptography", reason="cryptography is not installed (the extra `cluster`)")

from _cluster.certificates import Issuer

from sparkle_drv.cluster.transport import config, engine
from sparkle_drv.cluster.transport.engine import Engine


class Kept:
    """An Engine with queues of what it received and of what it was told."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self.got, self.told = queue.Queue(), queue.Queue()

    def start(self):
        self.engine.start(
            lambda sender, message: self.got.put((sender, message)),
            lambda name, alive: self.told.put((name, alive)),
        )
        return self

    def next(self, timeout=5):
        return self.got.get(timeout=timeout)

    def next_told(self, timeout=5):
        return self.told.get(timeout=timeout)


@pytest.fixture(scope="session")
def issuer():
    return Issuer()


@pytest.fixture(scope="session")
def node_folder(issuer, tmp_path_factory):
    return issuer.folder(tmp_path_factory.mktemp("node"), "node")


@pytest.fixture(scope="session")
def client_folder(issuer, tmp_path_factory):
    return issuer.folder(tmp_path_factory.mktemp("client"), "client-000", server=False)


def free_address():
    """A port of this machine that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"tls/127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture
def address():
    return free_address()


@pytest.fixture
def addresses():
    """Two of them."""
    return [free_address(), free_address()]


@pytest.fixture
def made(node_folder, client_folder):
    """make(name, ...): a started endpoint, which the end of the test closes."""
    every = []

    def make(name, folder=None, node=False, **how):
        folder = folder or (node_folder if node else client_folder)
        kept = Kept(Engine(name, folder, node=node, **how))
        every.append(kept.engine)
        return kept.start()

    yield make
    for each in every:
        each.close()


@pytest.fixture
def brief(monkeypatch):
    """A node looks for another one of its name for a moment instead of a second."""
    monkeypatch.setattr(engine, "LOOK_S", 0.05)


@pytest.fixture
def naive(monkeypatch):
    """naive(path, value, node=None): from now on endpoints start with this setting replaced."""
    ours = config.settings

    def replace(path, value, node=None):
        def settings(folder, listen, connect, is_node, binds=()):
            made = at = ours(folder, listen, connect, is_node, binds)
            if node is None or node == is_node:
                *parents, last = path.split("/")
                for parent in parents:
                    at = at[parent]
                at[last] = value
            return made

        monkeypatch.setattr(config, "settings", settings)

    return replace
