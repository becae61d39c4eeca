"""A client has two routers, and one router is killed. What is the client told? What does a query of
Zenoh answer?

When this fails, a client hears of a node's end although only a router died.

`test_system_routers.py` has the same with devices. The query is a report about Zenoh
(make test-setup).
"""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sparkle_drv.cluster.transport import config
from sparkle_drv.cluster.transport.base import MessageLane

zenoh = pytest.importorskip("zenoh")
pytestmark = pytest.mark.cluster
PROGRAM = Path(__file__).with_name("end_program.py")


class Router:
    """A process."""

    def __init__(self, name, folder, listen, connect, naive):
        asked = {
            "name": name, "folder": str(folder), "node": True, "listen": [listen],
            "connect": connect, "naive": naive,
        }  # fmt: skip
        line = [sys.executable, str(PROGRAM), json.dumps(asked)]
        self.process = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def up(self):
        assert self.process.stdout.readline() == "up\n"

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def close(self):
        self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def routers(made, node_folder, addresses, brief):
    """routers(naive): ({address: Router} of two that are joined, a node `far` that joined both)."""
    every = {}

    def start(naive):
        for number, address in enumerate(addresses):
            others = list(every)
            every[address] = Router(f"r{number}", node_folder, address, others, naive)
            if not others:
                every[address].up()
        far = made("far", node=True, connect=addresses)
        every[addresses[1]].up()
        return every, far

    yield start
    for router in every.values():
        router.close()


def entry(session, routers):
    """The router that a client has a link to."""
    (link,) = session.info.links()
    return routers[link.dst]


def test_a_client_is_told_and_enters_by_the_other(made, routers, addresses):
    every, far = routers({})
    client = made("client-000~1", connect=addresses)
    client.engine.watch("far")
    assert client.next_told() == ("far", True)
    client.engine.send("far", MessageLane.CONTROL, b"before")
    assert far.next() == ("client-000~1", b"before")
    killed = entry(client.engine._session, every)
    killed.kill()
    assert client.next_told() == ("far", False)
    assert client.next_told() == ("far", True)
    client.engine.send("far", MessageLane.CONTROL, b"after")
    assert far.next() == ("client-000~1", b"after")
    assert entry(client.engine._session, every) is not killed


@pytest.mark.setup
def test_a_query_ends_empty_and_without_an_error(routers, addresses, naive, client_folder):
    naive("access_control/enabled", False)
    every, far = routers({"access_control/enabled": False})
    late, answers = threading.Event(), queue.Queue()

    def slowly(query):
        late.wait(60)
        query.reply(query.key_expr, b"!")

    there = far.engine._session
    there.declare_queryable("sparkle/slow", slowly)
    there.declare_queryable("sparkle/quick", lambda query: query.reply(query.key_expr, b"!"))
    asked = config.settings(client_folder, [], list(map(config.endpoint, addresses)), False)
    with zenoh.open(zenoh.Config.from_json5(json.dumps(asked))) as client:

        def ask(key):
            answers.put(list(client.get(key, timeout=60)))

        time.sleep(0.3)
        ask("sparkle/quick")
        assert len(answers.get()) == 1
        flying = threading.Thread(target=ask, args=("sparkle/slow",))
        flying.start()
        time.sleep(0.1)
        killed = entry(client, every)
        other = next(router for router in every.values() if router is not killed)
        other.process.send_signal(signal.SIGSTOP)  # or the client enters by it before it asks
        killed.kill()
        assert answers.get(timeout=30) == []
        until = time.monotonic() + 5
        while client.info.links() and time.monotonic() < until:
            time.sleep(0.01)
        ask("sparkle/quick")
        assert answers.get(timeout=30) == []
        other.process.send_signal(signal.SIGCONT)
        late.set()
        flying.join()
