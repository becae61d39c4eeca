"""Certificates renew themselves, where the CA is and over a session.

When this fails, a node stops serving when its certificate runs out.
"""

from __future__ import annotations

import os
from datetime import timedelta

import pytest

from sparkle_drv import saved_files
from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.trust import authority, identity, renewal, requests


def renewed(ends, world, clock, hours=17):
    """The node's identity, renewed over a session."""
    clock.ahead = timedelta(hours=hours)
    request = renewal.renewal_request(ends.node)
    return renewal.renewal_take(ends.node, renewal.renewal_grant(world.ca, request, "box1", "node"))


def test_due_when_a_third_of_the_life_is_left(ends, clock):
    for hours, due in ((0, False), (15, False), (16.1, True), (30, True)):
        clock.ahead = timedelta(hours=hours)
        assert renewal.due(ends.node) is due


def test_over_a_session(ends, world, clock):
    new = renewed(ends, world, clock)
    assert new.certificate.not_valid_after_utc - ends.node.certificate.not_valid_after_utc > (
        timedelta(hours=16)
    )
    assert (new.subject, new.fingerprint) == (ends.node.subject, ends.node.fingerprint)
    assert not renewal.due(new)
    clock.ahead = timedelta(hours=30)
    assert identity.load(str(new.folder.parent)).der == new.der
    with pytest.raises(Refused, match="expired"):
        identity.load(str(ends.client.folder.parent))


def test_a_renewal_brings_the_revocation_list(ends, world, clock):
    world.ca.revoke("alice")
    new = renewed(ends, world, clock)
    assert new.revoked.has(ends.client.key.public_key())
    assert ends.node.revoked.has(ends.client.key.public_key())


def test_where_the_ca_is(tmp_path, clock):
    home = str(tmp_path)
    ca = authority.init(home)
    for name, content in ca.issue("alice", "client").items():
        (ca.folder / name).write_bytes(content)
        (ca.folder / name).chmod(0o600)
    clock.ahead = timedelta(days=3)  # expired meanwhile
    new = renewal.renew(identity.read(home))
    assert identity.load(home).der == new.der
    ca.revoke("alice")
    with pytest.raises(Refused, match="revoked"):
        renewal.renew(new)


def test_no_ca_here(ends):
    with pytest.raises(Refused, match=r"ca\.key is missing: this is done where the CA is"):
        renewal.renew(ends.node)


def test_only_the_same_name_role_hosts_and_key(ends, world):
    def refused(request, name="box1", role="node"):
        with pytest.raises(Refused) as raised:
            renewal.renewal_grant(world.ca, request, name, role)
        return str(raised.value)

    good = renewal.renewal_request(ends.node)
    assert "request for node box1" in refused(good, "box2")
    assert "request for node box1" in refused(good, role="client")
    other = renewal.certificates.subject("node", "box1", ("10.0.0.1",))
    more = requests.made(other, ends.node.key).public_bytes(renewal.Encoding.DER)
    assert "with the same hosts" in refused({"request": more})
    fresh = requests.made(ends.node.subject, requests.new_key()).public_bytes(renewal.Encoding.DER)
    assert "a key that the CA has certified" in refused({"request": fresh})
    world.ca.revoke("box1")
    assert "revoked" in refused(good)


def test_a_grant_for_another_key_or_ca_is_not_taken(ends, world, stranger):
    before = (ends.node.folder / "cert.pem").read_bytes()
    for who, ca in ((ends.client, world.ca), (stranger.new("box1", "node"), stranger.ca)):
        grant = renewal.renewal_grant(ca, renewal.renewal_request(who), who.name, who.role)
        with pytest.raises(Refused, match=r"same key and hosts|another CA"):
            renewal.renewal_take(ends.node, grant)
    assert (ends.node.folder / "cert.pem").read_bytes() == before


def test_an_old_grant_is_not_taken(ends, world, clock):
    old = renewal.renewal_grant(world.ca, renewal.renewal_request(ends.node), "box1", "node")
    new = renewed(ends, world, clock)
    with pytest.raises(Refused, match="expected a later certificate"):
        renewal.renewal_take(new, old)


def test_a_full_disk_leaves_the_old_certificate(ends, world, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    grant = renewal.renewal_grant(world.ca, renewal.renewal_request(ends.node), "box1", "node")
    monkeypatch.setattr(saved_files.os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*cert\.pem"):
        renewal.renewal_take(ends.node, grant)
    names = {path.name for path in ends.node.folder.iterdir()}
    assert not [name for name in names if name.startswith(".new-")]
    assert identity.load(str(ends.node.folder.parent)).der == ends.node.der


def test_a_certificate_is_on_the_disk_before_it_has_its_name(ends, world, monkeypatch):
    done = []
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: done.append("fsync"))
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("replace"), replace(*names)))
    grant = renewal.renewal_grant(world.ca, renewal.renewal_request(ends.node), "box1", "node")
    renewal.renewal_take(ends.node, grant)
    # Content, name and folder, in issued/ at the CA and here.
    assert done == ["fsync", "replace", "fsync"] * 2
