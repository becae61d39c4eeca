"""Traps of Zenoh, on loopback: each test holds with our settings and fails with the naive ones.

When this fails, a known trap of Zenoh drops messages of users again.
"""

from __future__ import annotations

import json
import time

import pytest

from sparkle_drv.cluster.transport import config
from sparkle_drv.cluster.transport.base import MOST_NBYTES, MessageLane


@pytest.mark.usefixtures("brief")
def test_nodes_are_routers(made, address):
    """A message gets from a client to a node, when both have a link to a third one only."""
    middle = made("middle", node=True, listen=[address])
    far = made("far", node=True, connect=[address])
    client = made("client-000~1", connect=[address])
    client.engine.send("middle", MessageLane.CONTROL, b"near")
    assert middle.next() == ("client-000~1", b"near")
    time.sleep(0.3)
    client.engine.send("far", MessageLane.CONTROL, b"far")
    assert far.next() == ("client-000~1", b"far")


@pytest.mark.parametrize("limit", [None, MOST_NBYTES // 2])
def test_zenoh_drops_a_message_over_its_limit_in_silence(limit, made, address, naive):
    if limit:
        naive("transport/link/rx/max_message_size", limit)
    node = made("node", node=True, listen=[address])
    client = made("client-000~1", connect=[address])
    client.engine.send("node", MessageLane.CONTROL, bytes(MOST_NBYTES))
    until = time.monotonic() + (0.5 if limit else 30)  # silence is short, an arrival may be late
    while node.got.empty() and time.monotonic() < until:
        time.sleep(0.01)
    assert node.got.empty() == (limit is not None)


@pytest.mark.parametrize("guarded", [True, False])
def test_nothing_but_our_keys_passes_a_node(guarded, made, address, naive, client_folder):
    """A client with a good certificate that is not of ours asks and tells whatever it likes."""
    zenoh = pytest.importorskip("zenoh")
    if not guarded:
        naive("access_control/enabled", False)
    node = made("node", node=True, listen=[address])
    there = node.engine._session
    told = []
    there.declare_subscriber("**", lambda sample: told.append(str(sample.key_expr)))
    there.declare_queryable("sparkle/secret", lambda query: query.reply("sparkle/secret", b"!"))
    asked = config.settings(client_folder, [], [config.endpoint(address)], False)
    asked["access_control"]["enabled"] = False
    with zenoh.open(zenoh.Config.from_json5(json.dumps(asked))) as stranger:
        time.sleep(0.2)
        stranger.put("other/key", b"x")
        stranger.put("sparkle/node/node/client-000~stranger/c", b"x")
        answers = list(stranger.get("sparkle/secret", timeout=0.5))
    assert node.next() == ("client-000~stranger", b"x")
    end = time.monotonic() + 20  # the subscriber is called by another thread
    while len(told) < (1 if guarded else 2) and time.monotonic() < end:
        time.sleep(0.01)
    assert told == ["sparkle/node/node/client-000~stranger/c"] if guarded else "other/key" in told
    assert len(answers) == (0 if guarded else 1)
