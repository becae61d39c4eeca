"""A client with two entry routers, and a node behind both: one router is killed.

When this fails, one dead router cuts a client off, although there is another.

hosts.json has one address for a host, so the test dials both routers itself in the place of
`tls/...`. Everything above that is what users have.
"""

import contextlib

import numpy as np
import pytest
from system_kit import Node

import sparkle_drv as sp
from sparkle_drv.cluster.channel.endpoint import Endpoint
from sparkle_drv.cluster.remote import hosts
from sparkle_drv.cluster.transport import access
from sparkle_drv.cluster.transport.engine import Engine
from sparkle_drv.cluster.trust import handshake, identity

pytestmark = pytest.mark.cluster


@pytest.fixture
def routers(site, box1):
    """Two nodes, joined; `far`, which has joined both, is up."""
    second_home, far_home = site.machine("second"), site.machine("far")
    with Node(box1) as first, contextlib.ExitStack() as kept:
        second = kept.enter_context(Node(second_home, "--join", first.address, up=False))
        both = ("--join", first.address, "--join", second.address)
        far = kept.enter_context(Node(far_home, *both, up=False))
        for node in (second, far):
            node.line("lends")
        yield {node.address: node for node in (first, second)}


@pytest.fixture
def engine(site, routers, monkeypatch):
    """Of a client that may enter by either."""
    own = identity.load(str(site.ca))
    name = access.client_endpoint(own.common_name, "alice-by-two")
    made = Engine(name, own.folder, connect=list(routers))

    def dial(home, address):
        return hosts.Dialed(Endpoint(made), lambda node: handshake.Caller(own, node))

    monkeypatch.setitem(hosts.DIALS, "two", dial)
    with site.at(far="two/routers"):
        yield made


def entry(engine, routers):
    """The router that the client has a link to."""
    (link,) = engine._session.info.links()
    return routers[link.dst]


def answered(device, number):
    """A request and its answer, checked."""
    sent = np.full(50_000, number, np.uint32)
    with device.array(sent) as there:
        assert (there.numpy() == sent).all()


def test_a_request_after_the_router_died_is_answered_or_lost(routers, engine):
    with sp.open("far/cpu") as device:
        answered(device, 0)
        killed = entry(engine, routers)
        flying = device.default_queue.submit(sp.Commands())
        killed.kill()
        with contextlib.suppress(sp.DeviceLost):
            flying.wait(10)
        with contextlib.suppress(sp.DeviceLost):
            for number in range(1, 10):
                answered(device, number)
        with sp.open("far/cpu") as again:  # by the same endpoint
            answered(again, 10)
            assert entry(engine, routers) is not killed
