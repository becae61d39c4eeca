"""Certificates with seconds of life renew themselves, and sessions go on.

When this fails, sessions end because certificates run out.
"""

import time
from contextlib import ExitStack

import numpy as np
import pytest
from system_kit import Node

import sparkle_drv as sp
from sparkle_drv.cluster.trust import identity

pytestmark = pytest.mark.cluster
LIFE_S = 4
SHORT = ("--days", f"{LIFE_S / 86400}")


def life_s(home):
    made = identity.read(str(home)).certificate
    return (made.not_valid_after_utc - made.not_valid_before_utc).total_seconds()


def test_sessions_outlive_certificates(site, tmp_path):
    """A client's, renewed by a node that has the CA, and a node's, renewed by such a client."""
    site.certs("node", "caller", "127.0.0.1", "--out", tmp_path / "cluster")
    for name in ("ca.key", "issued"):
        (tmp_path / "cluster" / name).symlink_to(site.ca / "cluster" / name)
    with Node(tmp_path) as keeper, ExitStack() as stack:
        short = [site.machine("brief", "client", *SHORT), site.machine("box7", "node", *SHORT)]
        over_s = time.monotonic() + LIFE_S + 1
        node = stack.enter_context(Node(short[1]))
        with site.at(short[0], caller=keeper):
            devices = [stack.enter_context(sp.open("caller/cpu"))]
        with site.at(box7=node):
            devices.append(stack.enter_context(sp.open("box7/cpu")))
        x = np.arange(5000, dtype=np.float32)
        there = [stack.enter_context(device.array(x)) for device in devices]
        while time.monotonic() < over_s:
            assert all((array.numpy() == x).all() for array in there)
            time.sleep(0.05)
        node.line("box7: goes on with a new certificate")
    assert [life_s(home) > 80000 for home in short] == [True, True]
