"""What one client can receive, send and show of another one's, at a node and at one behind it.

When this fails, a client with a certificate reads other clients' messages, or speaks in their name.
"""

from __future__ import annotations

import contextlib
import json
import queue
import time

import pytest

from sparkle_drv.cluster.transport import access, config
from sparkle_drv.cluster.transport.base import MessageLane

zenoh = pytest.importorskip("zenoh")

ALICE, BOB = "client-000~alice", "client-001~bob"
WILD = (
    "**", "sparkle/**", "sparkle/*/*/*/*", "sparkle/client/**", "sparkle/client/client-$*/*/*",
    "sparkle/client/$*alice/*/*", f"sparkle/client/{ALICE}/*/c", "sparkle/node/**",
    "sparkle/node/near/*/*", "sparkle/node/far/*/b", f"sparkle/node/*/{ALICE}/*", "@/**",
)  # fmt: skip
TOKENS = ("**", "sparkle/alive/**", "sparkle/alive/client/**", f"sparkle/alive/client/{ALICE}/*")


@pytest.fixture
def nodes(made, addresses, brief):
    """Node `near`, and node `far`, which has joined it."""
    near = made("near", node=True, listen=addresses[:1])
    return near, made("far", node=True, listen=addresses[1:], connect=addresses[:1])


@pytest.fixture
def alice(made, addresses, nodes):
    return made(ALICE, connect=addresses[:1])


@pytest.fixture
def stranger(issuer, tmp_path, addresses, nodes):
    """stranger(common name, mode): Zenoh alone, without our settings, at `near`."""
    with contextlib.ExitStack() as kept:

        def make(common_name="client-001", mode="client"):
            folder = issuer.folder(tmp_path / common_name, common_name, server=False)
            where = [config.endpoint(addresses[0])]
            asked = config.settings(folder, [], where, node=False)
            asked["access_control"]["enabled"], asked["mode"] = False, mode
            session = zenoh.open(zenoh.Config.from_json5(json.dumps(asked)))
            return kept.enter_context(session)

        yield make


def arrived(kept, sender, message):
    """Whether that message comes; others before it are an error."""
    assert kept.next() == (sender, message)
    return kept.got.empty()


@pytest.mark.parametrize("mode", ["client", "peer", "router"])
def test_a_stranger_receives_nothing(nodes, alice, stranger, mode):
    got = []
    session = stranger(mode=mode)
    remote = zenoh.Locality.REMOTE
    kept = [
        session.declare_subscriber(
            key, lambda m: got.append(str(m.key_expr)), allowed_origin=remote
        )
        for key in WILD
    ]
    live = session.liveliness()
    kept += [
        live.declare_subscriber(key, lambda m: got.append(str(m.key_expr)), history=True)
        for key in TOKENS
    ]
    time.sleep(0.3)
    for node in nodes:
        for lane in MessageLane:
            alice.engine.send(node.engine.name, lane, b"an operand")
            assert arrived(node, ALICE, b"an operand")
            node.engine.send(ALICE, lane, b"a result")
            assert arrived(alice, node.engine.name, b"a result")
    time.sleep(0.3)
    # a link that says it is a router's is told which nodes are there, as any client may ask
    assert [key for key in got if not key.startswith("sparkle/alive/node/")] == []
    assert kept


def test_a_stranger_speaks_in_nobody_else_s_name(nodes, alice, stranger):
    near, far = nodes
    session = stranger()
    time.sleep(0.2)
    for node in ("near", "far"):
        session.put(access.message_key(node, ALICE, "c"), b"as alice")
        session.put(access.message_key(node, "near", "c"), b"as a node")
        session.put(access.message_key(node, "node", "b"), b"as a node")
        session.put(access.message_key(node, BOB, "c"), b"as bob")
    session.put(access.message_key(ALICE, "near", "c"), b"as a node")
    session.put(access.message_key(ALICE, BOB, "c"), b"to a client")
    assert arrived(near, BOB, b"as bob")
    assert arrived(far, BOB, b"as bob")
    near.engine.send(ALICE, MessageLane.CONTROL, b"as it is")
    assert arrived(alice, "near", b"as it is")


def test_a_stranger_shows_nobody_else_alive(nodes, alice, stranger):
    near, _ = nodes
    alice.engine.watch("box9")
    near.engine.watch("client-002~carol")
    near.engine.watch(BOB)
    session = stranger()
    kept = [
        session.liveliness().declare_token(access.token_key(name, "1"))
        for name in ("box9", "client-002~carol", BOB)
    ]
    assert near.next_told() == (BOB, True)
    time.sleep(0.3)
    assert near.told.empty()
    assert alice.told.empty()
    assert kept


@pytest.mark.parametrize("common_name", ["alice", "client-1", "client-256", "near"])
def test_an_unknown_common_name_has_no_rights(nodes, stranger, common_name):
    near, _ = nodes
    session, got = stranger(common_name), queue.Queue()
    remote = zenoh.Locality.REMOTE
    kept = session.declare_subscriber("sparkle/**", got.put, allowed_origin=remote)
    time.sleep(0.2)
    session.put(access.message_key("near", f"{common_name}~x", "c"), b"x")
    session.put(access.message_key("near", BOB, "c"), b"x")
    time.sleep(0.3)
    assert near.got.empty()
    assert got.empty()
    assert kept


def test_names_of_nodes_are_not_names_of_clients():
    """A node's name cannot have the mark of a client's, so that roles do not mix."""
    assert access.message_key("box1", ALICE, "c") == f"sparkle/node/box1/{ALICE}/c"
    assert access.message_key(ALICE, "box1", "b") == f"sparkle/client/{ALICE}/box1/b"
    assert access.token_key("box1", "5") == "sparkle/alive/node/box1/5"
    assert len(set(access.CLIENTS)) == len(access.CLIENTS)
