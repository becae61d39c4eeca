"""A client and a router with valid certificates listen at a node, and forge what they hear.

When this fails, others read the operands of a user, or change results and code on their way.
"""

import contextlib
import json
import struct

import numpy as np
import pytest
from system_kit import Node

import sparkle_drv as sp
from sparkle_drv.cluster.transport import config
from sparkle_drv.cluster.wire.frame import Frame, Kind

pytestmark = pytest.mark.cluster
zenoh = pytest.importorskip("zenoh")

WORDS = b"ALICE-SECRET-WEIGHTS"
WILD = ("**", "sparkle/**", "sparkle/*/*/*/*", "sparkle/client/**", "sparkle/node/box1/**")


class Forger:
    """Zenoh alone at a node, with the certificate of that home. It puts each chunk that it hears
    again, with other data, other places and cut short, faster than the chunk itself."""

    def __init__(self, home, address):
        asked = config.settings(home / "cluster", [], [config.endpoint(address)], node=False)
        asked["access_control"]["enabled"] = False
        self.heard, self.forged, self._own = [], 0, set()
        self.session = zenoh.open(zenoh.Config.from_json5(json.dumps(asked)))
        self._kept = [self.session.declare_subscriber(key, self._on) for key in WILD]

    def _on(self, sample):
        data = sample.payload.to_bytes()
        if data in self._own:
            return
        self.heard.append(data)
        frame = Frame(data)
        if frame.head.kind not in (Kind.CHUNK, Kind.DATA):
            return
        begin = len(frame.opening)
        other = struct.pack("<f", -666.0) * ((len(data) - begin) // 4)
        for bad in (
            data[:begin] + other, data[:begin] + data[begin:-16][::-1] + data[-16:], data[:-1], data
        ):  # fmt: skip
            self._own.add(bad)
            self.forged += bad is not data
            self.session.put(
                str(sample.key_expr), bad, priority=zenoh.Priority.REAL_TIME, express=True
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session.close()


def work(mark, box="box1"):
    """An upload, a result and code of alice's own: all are right."""
    secret = np.frombuffer(WORDS * 40_000, np.uint8)
    x = np.full(300_000, 1234.5, np.float32)
    with sp.open(f"{box}/cpu") as device:
        with device.array(secret) as there:
            assert (there.numpy() == secret).all()
        with device.array(x) as there:
            assert ((there * 2).numpy() == 2469).all()
        with device.kernel(**mark) as kernel, device.array(np.zeros(2, np.uint32)) as y:
            device.default_queue.launch(kernel, y, groups=2).wait()
            assert y.numpy().tolist() == [3, 3]


@pytest.fixture
def mark(userlib, tmp_path):
    """A native image of several chunks, which alice may load."""
    large = tmp_path / "mark.so"
    large.write_bytes(userlib.mark(3).read_bytes() + bytes(600_000))
    return {"image": large, "entry": "mark", "args": "u32*"}


def plain(messages):
    """Bytes of alice's operands or results in what was heard."""
    words = (WORDS * 5, np.full(20, 1234.5, "<f4").tobytes(), np.full(20, 2469, "<f4").tobytes())
    return sum(len(data) for data in messages if any(each in data for each in words))


def test_a_client_hears_and_forges_nothing(site, lent, mark):
    with Forger(site.root / "client-bob", lent.address) as bob, site.at(box1=lent):
        work(mark)
        assert (bob.heard, bob.forged) == ([], 0)


def test_a_router_on_the_way_reads_and_changes_nothing(site, lent, mark):
    """A router hears all messages, but they are sealed for the other end."""
    with Forger(site.machine("relay"), lent.address) as router, site.at(box1=lent):
        with contextlib.suppress(sp.DeviceLost):
            work(mark)
        assert router.forged > 20
        assert plain(router.heard) == 0


def test_a_client_behind_another_node_hears_nothing(site, box1, mark):
    """alice reaches beyond by way of box1, where bob listens."""
    code = ("--trust-code", site.ca / "cluster" / "cert.pem")
    with (
        Node(box1) as first,
        Node(site.machine("beyond"), "--join", first.address, *code),
        Forger(site.root / "client-bob", first.address) as bob,
        site.at(beyond=first),
    ):
        work(mark, "beyond")
        assert (bob.heard, bob.forged) == ([], 0)
