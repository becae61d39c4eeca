"""The engine over mutual TLS on loopback: messages, who is there, renewal, two of one name.

When this fails, nodes do not find each other, or two of one name are confused.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time

import pytest
from where import ROOT

from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.transport.base import MOST_NBYTES, MessageLane, Stalled
from sparkle_drv.cluster.transport.engine import Engine
from sparkle_drv.cluster.transport.senders import Senders


@pytest.fixture
def pair(made, address):
    node = made("node", node=True, listen=[address])
    return node, made("client-000~1", connect=[address])


def test_messages_of_every_size_go_both_ways_on_both_lanes(pair):
    node, client = pair
    for lane in MessageLane:
        for nbytes in (0, 1, 100, 4096, 65_535, 128 << 10, MOST_NBYTES):
            message = os.urandom(nbytes)
            client.engine.send("node", lane, message)
            assert node.next() == ("client-000~1", message)
            node.engine.send("client-000~1", lane, message)
            assert client.next() == ("node", message)


def test_bulk_keeps_its_bytes_in_numbers(pair):
    node, client = pair
    chunks = [os.urandom(128 << 10) for _ in range(64)]
    for chunk in chunks:
        client.engine.send("node", MessageLane.BULK, chunk)
    assert sorted(node.next()[1] for _ in chunks) == sorted(chunks)


def test_what_cannot_be_sent_is_a_value_error(pair):
    _, client = pair
    with pytest.raises(ValueError, match=f"expected at most {MOST_NBYTES} bytes"):
        client.engine.send("node", MessageLane.BULK, bytes(MOST_NBYTES + 1))
    with pytest.raises(ValueError, match="expected a name"):
        client.engine.send("**", MessageLane.CONTROL, b"to everybody")


def test_a_message_to_nobody_is_lost_and_harms_nothing(pair):
    node, client = pair
    client.engine.send("nobody", MessageLane.CONTROL, b"lost")
    client.engine.send("node", MessageLane.CONTROL, b"comes")
    assert node.next() == ("client-000~1", b"comes")


def test_watchers_see_an_endpoint_come_and_go(pair, made, address):
    node, client = pair
    node.engine.watch("client-000~1")
    client.engine.watch("client-000~2")
    assert node.next_told() == ("client-000~1", True)
    assert client.told.empty()
    other = made("client-000~2", connect=[address])
    assert client.next_told() == ("client-000~2", True)
    other.engine.close()
    other.engine.close()
    assert client.next_told() == ("client-000~2", False)
    with pytest.raises(Stalled, match="closed"):
        other.engine.send("node", MessageLane.CONTROL, b"")


def test_who_is_not_watched_any_more_costs_nothing(pair):
    node, client = pair
    node.engine.watch("client-000~1")
    assert node.next_told() == ("client-000~1", True)
    threads = len(os.listdir("/proc/self/task"))
    for number in range(20):
        node.engine.watch(f"guest.{number}")
        node.engine.unwatch(f"guest.{number}")
    until = time.monotonic() + 5
    while len(os.listdir("/proc/self/task")) > threads + 2 and time.monotonic() < until:
        time.sleep(0.02)
    assert len(os.listdir("/proc/self/task")) <= threads + 2
    node.engine.unwatch("client-000~1")
    client.engine.close()
    time.sleep(0.2)
    assert node.told.empty()


NAMES = ("node", "twin", "twin")

FORKED = """
import os, sys, time
from pathlib import Path
from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.transport.engine import Engine
one, two = (Engine(name, Path(sys.argv[1]), connect=[sys.argv[2]]) for name in "ab")
one.start(print, print)
if sys.argv[3] == "closed":
    one.close()
child = os.fork()
if not child:
    try:
        two.start(print, print)
    except Refused as error:
        print(error)
    sys.exit(7)
began = time.monotonic()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert time.monotonic() - began < 3
"""


@pytest.mark.parametrize("before", ["open", "closed"])
def test_a_forked_process_is_refused_and_ends_at_once(before, pair, client_folder, address):
    command = [sys.executable, "-c", FORKED, str(client_folder), address, before]
    done = subprocess.run(command, cwd=ROOT, timeout=20, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "expected a new process, got a fork of one that had a connection" in done.stdout


ALONE = """
import sys, time
from pathlib import Path
from sparkle_drv.cluster.transport.engine import Engine
Engine(sys.argv[1], Path(sys.argv[2]), connect=[sys.argv[3]]).start(print, print)
print("up", flush=True)
time.sleep(60)
"""


def test_a_killed_process_is_told_within_a_second(pair, client_folder, address):
    node, _ = pair
    node.engine.watch("client-000~victim")
    command = [sys.executable, "-c", ALONE, "client-000~victim", str(client_folder), address]
    with subprocess.Popen(command, cwd=ROOT) as victim:
        try:
            assert node.next_told(20) == ("client-000~victim", True)
        finally:
            victim.send_signal(signal.SIGKILL)
        began = time.monotonic()
        assert node.next_told() == ("client-000~victim", False)
        assert time.monotonic() - began < 1


def test_an_open_endpoint_does_not_hang_the_interpreter(pair, client_folder, address):
    text = ALONE.replace("time.sleep(60)", "")
    command = [sys.executable, "-c", text, "client-000~short", str(client_folder), address]
    assert subprocess.run(command, cwd=ROOT, timeout=20).returncode == 0


@pytest.mark.parametrize("which", [0, 1])
def test_renewal_changes_certificates_and_nobody_is_told_of_a_loss(pair, which, issuer, tmp_path):
    pair[0].engine.watch("client-000~1")
    pair[1].engine.watch("node")
    assert pair[0].next_told() == ("client-000~1", True)
    assert pair[1].next_told() == ("node", True)
    engine = pair[which].engine
    engine.renewed(issuer.folder(tmp_path, ["node", "client-000"][which], server=which == 0))
    until = time.monotonic() + 5
    while time.monotonic() < until:
        pair[1].engine.send("node", MessageLane.CONTROL, b"again")
        if not pair[0].got.empty():
            break
        time.sleep(0.02)
    assert pair[0].next() == ("client-000~1", b"again")
    time.sleep(0.2)
    assert pair[0].told.empty()
    assert pair[1].told.empty()


def test_a_renewal_after_one_that_did_not_open(pair, issuer, tmp_path):
    node, client = pair
    client.engine._shut()  # as the failed one has left it
    client.engine.renewed(issuer.folder(tmp_path, "client-000", server=False))
    client.engine.send("node", MessageLane.CONTROL, b"again")
    assert node.next() == ("client-000~1", b"again")


def test_a_renewal_without_certificates_changes_nothing(pair, tmp_path):
    node, client = pair
    with pytest.raises(ValueError, match=r"expected ca\.pem, cert\.pem, key\.pem in"):
        client.engine.renewed(tmp_path)
    client.engine.send("node", MessageLane.CONTROL, b"still")
    assert node.next() == ("client-000~1", b"still")


@pytest.mark.usefixtures("brief")
def test_nodes_that_join_route_for_their_clients(made, address, node_folder):
    host, _, port = address.rpartition(":")
    other = f"{host}:{int(port) + 1 if int(port) < 65535 else int(port) - 1}"
    made("a", node=True, listen=[address])
    b = made("b", node=True, listen=[other], connect=[address])
    client = made("client-000~1", connect=[address])
    client.engine.watch("b")
    assert client.next_told() == ("b", True)
    client.engine.send("b", MessageLane.CONTROL, b"through a")
    assert b.next() == ("client-000~1", b"through a")
    b.engine.send("client-000~1", MessageLane.BULK, b"and back")
    assert client.next() == ("b", b"and back")


def test_of_nodes_of_one_name_the_first_stays_or_one_of_those_that_start_at_once(
    pair, address, node_folder
):
    """A second "node", and two of "twin", all at once: each waits for a lease."""
    node, client = pair
    engines = [Engine(name, node_folder, connect=[address], node=True) for name in NAMES]
    refused, got = [], queue.Queue()
    begin = threading.Barrier(len(NAMES))

    def start(engine):
        begin.wait(5)
        try:
            engine.start(lambda sender, message: got.put((engine, message)), print)
        except Refused as error:
            refused.append((engine, str(error)))

    threads = [threading.Thread(target=start, args=(engine,)) for engine in engines]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert sorted(words for _, words in refused) == [
            f"expected one node of each name, got a second {name!r}" for name in ("node", "twin")
        ]
        client.engine.send("node", MessageLane.CONTROL, b"still")
        assert node.next() == ("client-000~1", b"still")
        client.engine.send("twin", MessageLane.CONTROL, b"who")
        engine, message = got.get(timeout=5)
        assert engine not in [loser for loser, _ in refused]
        assert message == b"who"
    finally:
        for engine in engines:
            engine.close()


def test_a_put_that_stalls_is_told_and_control_goes_on_meanwhile():
    """The engine's put, replaced by one that bulk never leaves."""
    control, release = [], threading.Event()

    def put(key, lane, message):
        if lane is MessageLane.CONTROL:
            control.append(message)
        else:
            release.wait(10)

    senders = Senders(put, watchdog_s=0.5)
    senders.start()
    bulk = ("sparkle/node/client/b", MessageLane.BULK, b"bulk")
    stuck = threading.Thread(target=senders.send, args=bulk)
    stuck.start()
    time.sleep(0.1)
    senders.send("sparkle/node/client/c", MessageLane.CONTROL, b"control")
    until = time.monotonic() + 2
    while not control and time.monotonic() < until:
        time.sleep(0.01)
    assert control == [b"control"]
    began = time.monotonic()
    with pytest.raises(Stalled, match="expected room for a message"):
        senders.send(*bulk)
    assert time.monotonic() - began < 1
    with pytest.raises(Stalled):  # whoever sends learns of it
        senders.send("sparkle/node/client/c", MessageLane.CONTROL, b"late")
    release.set()
    stuck.join(5)
    senders.end()
