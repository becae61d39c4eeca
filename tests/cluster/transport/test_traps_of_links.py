"""Traps of Zenoh that show on slow, cut and suspended links between machines of namespaces.

When this fails, a known trap of Zenoh on slow links stalls users again. What only shows that the
naive settings fail is a report about Zenoh (make test-setup).
"""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from namespaces import Machine, Network

from sparkle_drv.cluster.channel.bulk import CHUNK
from sparkle_drv.cluster.channel.credit import TOTAL, total

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
PROGRAM = Path(__file__).with_name("end_program.py")
WINDOW = TOTAL // CHUNK


@pytest.fixture
def network():
    made = Network("a", "b", "c", "r")
    yield made
    made.close()


@pytest.fixture
def machines(network, issuer, tmp_path):
    """make(names, ...): node r and a client of it on each other machine; they are up."""
    every = []

    def make(names, **how):
        for name in ("r", *names):
            node, at = name == "r", f"tls/{network.address('r')}:7447"
            folder = issuer.folder(tmp_path / name, name, (network.address(name),), server=node)
            asked = {"name": name, "folder": str(folder), "node": node, **how}
            # clients load each other here, which the rules do not allow
            asked["naive"] = {"access_control/enabled": False, **how.get("naive", {})}
            asked["listen" if node else "connect"] = [at]
            every.append(Machine(network, name, PROGRAM, json.dumps(asked)))
            every[-1].heard("up")
        return every[-len(names) :]

    yield make
    for machine in every:
        machine.close()


def told(watcher, name, alive, since, timeout_s):
    return watcher.heard(f"seen {name} {alive}", since, timeout_s)[0] - since


def watched(watcher, *names):
    for name in names:
        watcher.say(f"watch {name}")
        watcher.heard(f"seen {name} True")


def test_failures_are_told_in_time(network, machines):
    a, b = machines("ab")
    watched(a, "b")
    began = time.monotonic()
    b.signal(signal.SIGSTOP)
    assert told(a, "b", False, began, 4) < 4
    began = time.monotonic()
    b.signal(signal.SIGCONT)
    assert told(a, "b", True, began, 5) < 5
    began = time.monotonic()
    network.cut("b")
    assert told(a, "b", False, began, 4) < 4
    began = time.monotonic()
    network.heal("b")
    assert told(a, "b", True, began, 5) < 5
    began = time.monotonic()
    a.say("ask b 5 0")
    assert a.heard("asked 5 5", began)
    b.signal(signal.SIGKILL)
    began = time.monotonic()
    assert told(a, "b", False, began, 1) < 1


@pytest.mark.setup
def test_zenoh_s_own_lease_is_too_long(machines):
    a, b = machines("ab", naive={"transport/link/tx/lease": 10_000})
    watched(a, "b")
    began = time.monotonic()
    b.signal(signal.SIGSTOP)
    with pytest.raises(AssertionError):
        told(a, "b", False, began, 4)


def bystanders(network, machines, window, count=40, **how):
    """Of `count` requests to b: those answered within 1 s while c, which a loads, is stopped."""
    a, _, c = machines("abc", **how)
    network.slow("c", "200mbit")
    watched(a, "b", "c")
    nbytes = CHUNK if window else 1 << 20
    a.say(f"load c {nbytes} {(64 << 20) // nbytes} {window}")
    time.sleep(0.5)
    c.signal(signal.SIGSTOP)
    began = time.monotonic()
    a.say(f"ask b {count} 0.1")
    _, said = a.heard("asked", began, 90)
    print("bystanders", window, how, said)
    return int(said.split()[2]), began, a


def test_a_stopped_receiver_leaves_bystanders_answered(network, machines):
    answered, began, a = bystanders(network, machines, window=WINDOW, count=20)
    assert answered == 20
    assert told(a, "c", False, began, 20) < 4


@pytest.mark.long
def test_a_small_receive_buffer_needs_less_credit(network, machines, tmp_path):
    """Zenoh does not tell that c is gone; the silence of a session does."""
    (tmp_path / "rmem_max").write_text("212992")
    naive = {"transport/link/tls/so_rcvbuf": 212992}
    window = total(tmp_path / "rmem_max") // CHUNK
    assert bystanders(network, machines, window=window, naive=naive)[0] == 40


@pytest.mark.long
def test_without_lanes_and_credit_bystanders_wait(network, machines):
    naive = {"transport/link/tls/so_sndbuf": 4 << 20}
    answered, began, a = bystanders(network, machines, window=0, flat=True, naive=naive)
    assert answered < 40
    assert told(a, "c", False, began, 20) > 4


def control_ms(network, machines, **how):
    """The slowest of 15 requests to b, which a loads at the same time over 200 Mbit/s."""
    a, _ = machines("ab", **how)
    network.slow("b", "200mbit")
    nbytes = 1 << 20 if how else CHUNK
    a.say(f"load b {nbytes} {(64 << 20) // nbytes} {0 if how else WINDOW}")
    time.sleep(0.3)
    began = time.monotonic()
    a.say("ask b 15 0")
    _, said = a.heard("asked", began, 40)
    print("control behind bulk", how, said)
    return float(said.split()[4])


def test_control_does_not_wait_behind_bulk(network, machines):
    assert control_ms(network, machines) < 300


@pytest.mark.setup
def test_control_behind_bulk_without_lanes(network, machines):
    naive = {"transport/link/tls/so_sndbuf": 4 << 20, "transport/link/tls/so_rcvbuf": 4 << 20}
    assert control_ms(network, machines, flat=True, naive=naive) > 300


@pytest.mark.long
@pytest.mark.parametrize("patient", [True, False])
def test_a_slow_link_is_not_closed_for_its_slowness(patient, network, machines):
    """3 MiB at 4 Mbit/s take 6 s; without credit and with little patience Zenoh ends the link."""
    path = "transport/link/tx/queue/congestion_control/block/wait_before_close"
    a, b = machines("ab", **({} if patient else {"naive": {path: 300_000}}))
    watched(b, "a")
    network.slow("b", "4mbit")
    began = time.monotonic()
    if patient:
        a.say(f"load b {CHUNK} 12 {WINDOW}")
        a.heard("loaded 12", began, 20)
    else:
        a.say(f"load b {1 << 20} 6 0")
        told(b, "a", False, began, 20)
    assert patient != any(line == "seen a False" for _, line in b.lines)
