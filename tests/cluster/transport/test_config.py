"""Texts of endpoints, and what the configuration must never allow.

When this fails, a node listens without TLS, or where nobody asked it to.
"""

from __future__ import annotations

import json
import socket

import pytest

from sparkle_drv.cluster.transport import config
from sparkle_drv.cluster.transport.engine import Engine


@pytest.mark.parametrize("text", ["tls/box1:7447", "tls/10.0.0.5:1", "tls/[fe80::1]:65535"])
def test_an_endpoint_is_read_and_written(text):
    assert str(config.endpoint(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "box1", "box1:7447", "tls/box1", "tls/box1:0", "tls/box1:65536", "tls/:7447"),
        *("udp/box1:7447", "quic/box1:7447", "tls/box1:7447#x=y", "tls/box1:7447?rel=0"),
        *("tls/box1:7447\n", "tls/a b:7447", "TLS/box1:7447", "tls//box1:7447", "tls/" + "x" * 400),
    ],
)
def test_a_bad_text_is_refused(text):
    with pytest.raises(ValueError, match=r"expected tls/host:port, got"):
        config.endpoint(text)


def test_plaintext_stays_on_the_loopback_interface():
    assert str(config.endpoint("tcp/127.0.0.1:1")) == "tcp/127.0.0.1:1"
    assert config.endpoint("tcp/localhost:1").host in ("127.0.0.1", "::1")
    for text in ("tcp/10.0.0.5:1", "tcp/0.0.0.0:1", "tcp/[::]:1", "tcp/192.168.1.1:1"):
        with pytest.raises(ValueError, match="plaintext is for loopback addresses only"):
            config.endpoint(text)
        with pytest.raises(ValueError, match="plaintext is for loopback addresses only"):
            Engine("x", None, listen=[text], node=True)


@pytest.mark.parametrize("others", [["10.0.0.5"], ["127.0.0.1", "10.0.0.5"]])
def test_a_name_that_means_another_host_too_is_refused(others, monkeypatch):
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 1)) for host in others]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(ValueError, match=r"loopback addresses only, not for 10\.0\.0\.5"):
        config.endpoint("tcp/localhost:1")


def test_a_client_listens_nowhere(client_folder):
    where = config.endpoint("tls/127.0.0.1:1")
    with pytest.raises(ValueError, match="expected a client to listen nowhere"):
        config.settings(client_folder, [where], [where], node=False)
    with pytest.raises(ValueError, match="expected an address for a client"):
        Engine("x", client_folder)


def test_strangers_cannot_make_a_node_speak_plaintext(node_folder):
    plain, tls = config.endpoint("tcp/127.0.0.1:1"), config.endpoint("tls/127.0.0.1:2")
    mixed = config.settings(node_folder, [plain, tls], [], node=True)
    pure = config.settings(node_folder, [tls], [], node=True)
    assert not mixed["scouting"]["gossip"]["enabled"]
    assert pure["scouting"]["gossip"]["enabled"]
    assert pure["transport"]["link"]["protocols"] == ["tls"]


@pytest.mark.parametrize("node", [True, False])
def test_the_engine_knows_every_setting(node, node_folder):
    """It refuses a field that it does not know."""
    where = [config.endpoint("tls/127.0.0.1:2")]
    asked = config.settings(node_folder, where if node else [], where, node)
    kept = pytest.importorskip("zenoh").Config.from_json5(json.dumps(asked))
    assert json.loads(kept.get_json("mode")) == ("router" if node else "client")
    assert json.loads(kept.get_json("access_control/default_permission")) == "deny"
    link = json.loads(kept.get_json("transport/link"))
    assert link["tls"].items() >= asked["transport"]["link"]["tls"].items()
    assert link["tx"]["lease"] == config.LEASE_MS
