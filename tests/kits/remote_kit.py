"""Devices of a node on the in-process wire: `remote("cpu")` gives what opens "box1/cpu".

hosts.json in a folder of the test's own names the wire by an address such as "air/1".
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os

import cluster_kit

from sparkle_drv.cluster.channel.endpoint import Endpoint
from sparkle_drv.cluster.remote import hosts
from sparkle_drv.cluster.remote.backend import RemoteBackend
from sparkle_drv.cluster.transport.air import Air
from sparkle_drv.core import registry

registry.register(registry.REMOTE, lambda: RemoteBackend)  # as the entry point does once installed

TRUSTED = "5b"
_wires = {}
_count = itertools.count()


def _dial(home, address):
    air, how = _wires[address]
    endpoint = Endpoint(air.endpoint(f"client-{next(_count)}"), **how)
    return hosts.Dialed(endpoint, lambda name: cluster_kit.caller(trusted=TRUSTED))


hosts.DIALS["air"] = _dial


@contextlib.contextmanager
def hosted(home, air, endpoint=None, name=cluster_kit.NODE):
    """SPARKLE_HOME is `home`, whose hosts.json has the node at this wire."""
    address = f"air/{next(_count)}"
    _wires[address] = air, endpoint or {}
    folder = os.path.join(home, "cluster")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "hosts.json"), "w") as file:
        json.dump({name: address}, file)
    before = os.environ.get("SPARKLE_HOME")
    os.environ["SPARKLE_HOME"] = str(home)
    try:
        yield
    finally:
        del _wires[address]
        os.environ.pop("SPARKLE_HOME")
        if before is not None:
            os.environ["SPARKLE_HOME"] = before


@contextlib.contextmanager
def remote(home, *uris, air=None, endpoint=None, **how):
    """A node that lends these devices, which can be opened as "box1/..."."""
    how.setdefault("trusted", {TRUSTED})
    air = air or Air()
    with (
        cluster_kit.lent(*uris, air=air, endpoint=endpoint, **how) as node,
        hosted(home, air, endpoint),
    ):
        yield node
