"""The common names that the CA gives to clients, by which nodes know what each may do.

When this fails, two clients share their rights at nodes, or a client loses its own.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.transport import access
from sparkle_drv.cluster.trust import authority, identity, renewal


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(access, "CLIENTS", ("client-000", "client-001", "client-002"))


def test_each_client_has_one_of_its_own(world):
    names = [world.new(f"c{number}", "client").common_name for number in range(20)]
    assert len(set(names)) == 20
    assert set(names) <= set(access.CLIENTS)


@pytest.mark.parametrize("role", access.ROUTERS)
def test_nodes_and_routers_have_their_role(world, role):
    assert world.new("r1", role).common_name == role


def test_a_name_stays_with_its_client(world, clock, few):
    """With a new key, after a renewal, and although an earlier one of the order is free again."""
    short = world.new("other", "client", days=0.5).common_name
    first = world.new("alice", "client")
    again = world.new("alice", "client")
    clock.ahead = timedelta(hours=18)
    renewed = renewal.renewal_take(
        again, renewal.renewal_grant(world.ca, renewal.renewal_request(again), "alice", "client")
    )
    assert {one.common_name for one in (first, again, renewed)} == {first.common_name}
    assert short != first.common_name


def test_a_name_is_free_when_all_its_certificates_have_expired(world, clock, few):
    names = {world.new(name, "client").common_name for name in ("a", "b", "c")}
    assert len(names) == 3
    with pytest.raises(ValueError, match="expected at most 3 clients with valid certificates"):
        world.new("d", "client")
    world.ca.revoke("a")  # a link of its certificate opens nevertheless
    with pytest.raises(ValueError, match="expected at most 3 clients"):
        world.new("d", "client")
    clock.ahead = timedelta(days=2)
    assert world.new("d", "client").common_name in names


def test_a_certificate_of_an_older_version_is_refused(world, monkeypatch):
    """Its common name is the client's name, for which nodes have no rules."""
    monkeypatch.setattr(authority.Authority, "_common_name", lambda self, of: of.name)
    for role in ("client", "node"):
        home = world.make(f"old-{role}", role)
        with pytest.raises(Refused, match=f"of this version of sparkle_drv, got 'old-{role}'"):
            identity.load(home)
        identity.read(home)  # the CA's machine makes a new one of it
