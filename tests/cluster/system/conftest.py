"""One CA with a client, and one node that lends, for a module's tests."""

import pytest
import system_kit

import sparkle_drv as sp


@pytest.fixture(scope="package")
def site(tmp_path_factory):
    """A CA at alice's, and bob, who has none."""
    return system_kit.Site(tmp_path_factory.mktemp("site"), ("alice", "bob"))


@pytest.fixture(scope="package")
def box1(site):
    """The home of the node box1."""
    return site.machine("box1")


@pytest.fixture(scope="module")
def lent(site, box1):
    """box1 lends devices, also to alice's own kernels."""
    trusted = ("--trust-code", site.ca / "cluster" / "cert.pem")
    with (
        system_kit.Node(box1, *trusted, devices="cpu,egl:0,emu:gfx1100") as node,
        site.at(box1=node),
    ):
        yield node


@pytest.fixture
def box(lent):
    """The node's cpu."""
    with sp.open("box1/cpu") as device:
        yield device
