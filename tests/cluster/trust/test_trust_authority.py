"""What the CA makes, as TLS sees it; its record; the revocation list.

When this fails, a revoked or foreign certificate is accepted.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.trust import authority, certificates, files, identity, requests, revocation


def context(folder, server):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.verify_mode, made.verify_flags = ssl.CERT_REQUIRED, ssl.VERIFY_X509_STRICT
    made.load_verify_locations(folder / files.CA)
    made.load_cert_chain(folder / files.CERTIFICATE, folder / files.KEY)
    return made


def linked(client, server, host):
    """A TLS handshake in memory. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = context(client.folder, False).wrap_bio(to_client, to_server, server_hostname=host)
    far = context(server.folder, True).wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for end in (near, far):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return near.version()


@pytest.mark.parametrize("host", ["box1", "10.0.0.5", "box1.lan", "fd00::1"])
def test_mutual_tls(world, host):
    node = world.new("box1", "node", ("10.0.0.5", "box1.lan", "fd00::1"))
    assert linked(world.new("alice", "client"), node, host) == "TLSv1.3"
    assert linked(world.new("r", "router"), node, host) == "TLSv1.3"


def test_tls_refuses_another_host_a_client_that_listens_and_another_ca(world, stranger):
    node, client = world.new("box1", "node", ("10.0.0.5",)), world.new("alice", "client")
    with pytest.raises(ssl.SSLError, match="IP address mismatch"):
        linked(client, node, "10.0.0.6")
    with pytest.raises(ssl.SSLError, match="purpose"):
        linked(node, client, "alice")
    with pytest.raises(ssl.SSLError, match="certificate"):
        linked(client, stranger.new("box1", "node"), "box1")


@pytest.mark.parametrize(
    ("name", "role", "hosts", "days", "words"),
    [
        ("Box", "node", (), 1, "name: expected up to 63"),
        ("a/b", "client", (), 1, "name: expected"),
        ("", "client", (), 1, "name: expected"),
        ("a", "king", (), 1, "role: expected node, client, router, got 'king'"),
        ("a", "client", ("10.0.0.1",), 1, "hosts: expected none for a client"),
        ("a", "node", ("10.0.0.1/8",), 1, "host: expected an IP address or a host name"),
        ("a", "node", tuple(f"10.0.0.{i}" for i in range(17)), 1, "hosts: expected at most 16"),
        ("a", "node", (), 0, "days: expected more than 0, at most 90, got 0"),
        ("a", "node", (), float("nan"), "days: expected"),
        ("a", "node", (), 1000, "days: expected"),
    ],
)
def test_what_no_certificate_is_made_for(world, name, role, hosts, days, words):
    with pytest.raises(ValueError, match=words):
        world.ca.issue(name, role, hosts, days)
    assert not list(world.ca.issued())


def test_a_name_has_one_role(world):
    world.new("box1", "node")
    world.new("box1", "node")
    with pytest.raises(ValueError, match="no other role has, got that of node box1"):
        world.ca.issue("box1", "client")
    world.ca.revoke("box1")
    assert world.ca.issue("box1", "client")


def test_a_machine_may_keep_its_key(world, tmp_path):
    folder = tmp_path / "own" / "cluster"
    of = certificates.subject("node", "box2", ("10.0.0.6",))
    key = requests.begun(folder, of)
    assert requests.begun(folder, of) == key
    signed, made = world.ca.sign((folder / files.REQUEST).read_bytes())
    files.write(folder, made)
    mine = identity.load(str(folder.parent))
    assert (signed, mine.subject, mine.fingerprint) == (of, of, key)
    assert files.KEY not in made


@pytest.mark.parametrize("data", [b"", b"x", b"-----BEGIN CERTIFICATE REQUEST-----\n", b"\x30\x00"])
def test_what_is_no_request(world, data):
    with pytest.raises(Refused, match="expected a request of `sparkle certs request`"):
        world.ca.sign(data)


def test_a_request_with_another_signature(world):
    der = requests.made(certificates.subject("client", "eve"), requests.new_key()).public_bytes(
        identity.Encoding.DER
    )
    with pytest.raises(Refused, match="expected a request"):
        world.ca.sign(der[:-1] + bytes([der[-1] ^ 1]))


def test_a_second_ca_does_not_replace_the_first(world):
    with pytest.raises(FileExistsError, match="got one with a CA"):
        authority.init(world.home)
    again = authority.load(world.home)
    assert again.name == world.ca.name


def test_a_ca_with_the_key_of_another(world, stranger):
    (world.ca.folder / files.CA_KEY).write_bytes((stranger.ca.folder / files.CA_KEY).read_bytes())
    with pytest.raises(Refused, match=r"expected the key of ca\.pem in ca\.key, got another"):
        authority.load(world.home)


def test_revocation_is_by_name_and_covers_every_key(world):
    old, new, other = (world.new(name, "client") for name in ("alice", "alice", "bob"))
    assert [str(of) for of in world.ca.revoke("alice")] == ["client alice"] * 2
    revoked = authority.load(world.home).revoked
    assert [revoked.has(who.key.public_key()) for who in (old, new, other)] == [True, True, False]
    assert [revoked.has_certificate(who.der) for who in (old, new, other)] == [True, True, False]
    assert revoked.has_certificate(other.der[:-1]), "nobody can read it"
    with pytest.raises(
        ValueError, match=r"expected one with a certificate \(alice, bob\), got eve"
    ):
        world.ca.revoke("eve")
    later = world.new("alice", "client")
    assert identity.load(str(later.folder.parent)).name == "alice"  # by a new key


def test_a_list_never_gives_way_to_an_older_one(world, ends):
    path = world.ca.folder / files.REVOKED
    first = path.read_bytes()
    world.ca.revoke("alice")
    second = path.read_bytes()
    mine = ends.node.revoked
    assert mine.take(second)
    assert not mine.take(first)
    assert not mine.take(second)
    assert mine.path.read_bytes() == second
    mine.path.write_bytes(first)  # by hand: this process goes on with the newer one
    assert mine.has(ends.client.key.public_key())
    mine.path.unlink()
    assert mine.has(ends.client.key.public_key())


def test_a_list_that_changes_on_disk_is_read_again(world, ends, caplog):
    mine = ends.node.revoked
    assert mine.listed.count == 1
    world.ca.revoke("alice")
    kept = (world.ca.folder / files.REVOKED).read_bytes()
    mine.path.write_bytes(kept)
    assert mine.listed.count == 2
    mine.path.write_bytes(b"damaged")
    assert mine.listed.count == 2
    assert "stays in force" in caplog.text


def test_a_forged_list(world, ends, stranger):
    key = ends.client.key
    forged = revocation.packed(revocation.Listed(99, frozenset([bytes(32)])), key)
    for data in (forged, b"", bytes(9), b"\x92\xc4\x00\xc4\x00", b"\x92\x01\x02", bytes(1 << 17),
                 Path(stranger.ca.folder / files.REVOKED).read_bytes()):  # fmt: skip
        with pytest.raises(Refused, match="revocation list"):
            ends.node.revoked.take(data)
    assert ends.node.revoked.listed.count == 1


def test_a_list_has_room_for_many(world):
    many = frozenset(i.to_bytes(32, "big") for i in range(1900))
    world.ca.revoked.add(many, world.ca._key)
    assert world.ca.revoked.listed.keys == many
    with pytest.raises(ValueError, match="expected at most 65536 bytes"):
        world.ca.revoked.add(frozenset(i.to_bytes(32, "big") for i in range(2000)), world.ca._key)
