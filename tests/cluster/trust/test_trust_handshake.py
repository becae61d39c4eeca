"""The handshake: who gets in, and every certificate and message that does not, at both ends.

When this fails, somebody without a valid certificate gets in.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import msgpack
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.trust import handshake, messages, requests
from sparkle_drv.cluster.trust.handshake import Answerer, Caller
from sparkle_drv.cluster.wire.frame import Frame, Kind
from sparkle_drv.cluster.wire.values import Damaged
from sparkle_drv.version import VERSION

EPOCH = 7


def travelled(message):
    """As the other end gets it."""
    return msgpack.unpackb(msgpack.packb(message))


def shaken(client, node):
    """The keys of both ends."""
    caller, answerer = Caller(client, node.name), Answerer(node, EPOCH)
    welcome, pending = answerer.welcome(travelled(caller.hello()))
    proof, mine = caller.prove(travelled(welcome))
    return mine, answerer.admit(pending, travelled(proof))


def opens(sender, receiver):
    """Whether the receiver's keys open a frame of the sender's."""
    try:
        return receiver.incoming.open(Frame(sender.outgoing.frame(Kind.ACK, 0, (), b"")))
    except Damaged:
        return False


def said(call, *given):
    """The one line of a refusal, which also travels."""
    with pytest.raises(Refused) as raised:
        call(*given)
    line = str(raised.value)
    assert line.isprintable()
    told = travelled(messages.refusal(raised.value))
    assert set(told) == {"refused"}
    assert len(told["refused"]) <= 300
    return line


def test_both_ends_have_the_same_keys(ends):
    client, node = shaken(ends.client, ends.node)
    assert (len(client.session), client.session) == (16, node.session)
    assert opens(client, node)
    assert opens(node, client)
    assert not opens(client, client)  # the other direction has another key
    assert client.epoch == node.epoch
    assert (client.epoch, client.peer, client.role) == (EPOCH, "box1", "node")
    assert (node.peer, node.role, node.trusted) == ("alice", "client", ends.client.fingerprint)
    assert client.trusted == ends.node.fingerprint


def test_sessions_share_nothing(ends):
    (first, first_node), (second, second_node) = (shaken(ends.client, ends.node) for _ in "ab")
    assert first.session != second.session
    assert not opens(first, second_node)
    assert not opens(second_node, first)
    assert opens(first, first_node)


def test_messages_may_come_twice(ends):
    caller, answerer = Caller(ends.client, "box1"), Answerer(ends.node, EPOCH)
    answerer.welcome(caller.hello())
    welcome, pending = answerer.welcome(caller.hello())
    proof, keys = caller.prove(welcome)
    assert caller.prove(travelled(welcome)) == (proof, keys)  # not a second count of nonces
    assert answerer.admit(pending, proof) is answerer.admit(pending, proof)
    assert "expected one welcome" in said(caller.prove, answerer.welcome(caller.hello())[0])


# Certificates: `bad` is the identity of the end that the other refuses.


def self_signed(world, name, role):
    key = requests.new_key()
    subject = requests.common_name(name)
    good = world.new(name, role)
    made = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(subject)
        .public_key(key.public_key()).serial_number(1)
        .not_valid_before(good.certificate.not_valid_before_utc)
        .not_valid_after(good.certificate.not_valid_after_utc)
        .add_extension(x509.SubjectAlternativeName(
            [x509.UniformResourceIdentifier(f"sparkle:{role}/{name}")]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    return dataclasses.replace(good, certificate=made, key=key)


def forged(world, stranger, name, role):
    """Of a CA that has taken our CA's name."""
    key = requests.new_key()
    made = (
        x509.CertificateBuilder().subject_name(requests.common_name(name))
        .issuer_name(world.ca.certificate.subject).public_key(key.public_key()).serial_number(1)
        .not_valid_before(world.ca.certificate.not_valid_before_utc)
        .not_valid_after(world.ca.certificate.not_valid_after_utc)
        .sign(requests.new_key(), hashes.SHA256())
    )  # fmt: skip
    return dataclasses.replace(world.new(name, role), certificate=made, key=key)


def both(world, kind, bad, *words):
    """A client or a node with a bad certificate is refused by the other end, which goes on."""
    if kind == "client":
        node = world.new("box9", "node")
        answerer = Answerer(node, EPOCH)
        line = said(answerer.welcome, Caller(bad, "box9").hello())
        answerer.welcome(Caller(world.new("bob", "client"), "box9").hello())
    else:
        caller = Caller(world.new("bob", "client"), bad.name)
        line = said(caller.prove, Answerer(bad, EPOCH).welcome(caller.hello())[0])
    for word in words:
        assert word in line, line


NAMES = {"client": "alice", "node": "box1"}
either = pytest.mark.parametrize("kind", ["client", "node"])


@either
def test_self_signed(world, kind):
    both(world, kind, self_signed(world, NAMES[kind], kind), world.ca.name, "a self-signed one")


@either
def test_another_ca(world, stranger, kind):
    bad = dataclasses.replace(stranger.new(NAMES[kind], kind), ca=world.ca.certificate)
    both(world, kind, bad, f"signed by {world.ca.name}", f"another CA, {stranger.ca.name}")


@either
def test_another_ca_of_the_same_name(world, stranger, kind):
    both(world, kind, forged(world, stranger, NAMES[kind], kind), "of another CA")


@either
def test_expired(world, clock, kind):
    bad = world.new(NAMES[kind], kind, days=0.01)
    clock.ahead = timedelta(hours=1)
    both(world, kind, bad, f"certificate of {kind} {NAMES[kind]}", "expired at 20", "clock of ",
         "of its sender: 20", "set the clocks, or renew")  # fmt: skip


@either
def test_not_yet_valid(world, clock, kind):
    clock.ahead = timedelta(hours=30)
    bad = world.new(NAMES[kind], kind)
    clock.ahead = timedelta(0)
    both(world, kind, bad, "not valid before 20", "clock of ", "of its sender: 20")


def test_clocks_apart_are_both_told(ends, clock):
    hello = Caller(ends.client, "box1").hello()
    clock.ahead = timedelta(days=2)
    line = said(Answerer(ends.node, EPOCH).welcome, hello)
    there = f"{clock._real():%Y-%m-%d %H:}"
    here = f"{clock._real() + clock.ahead:%Y-%m-%d %H:}"
    assert f"clock of node box1: {here}" in line
    assert f"of its sender: {there}" in line


@either
def test_clocks_five_minutes_apart_do_no_harm(ends, clock, kind):
    hello = Caller(ends.client, "box1").hello()
    clock.ahead = timedelta(minutes=4) * (1 if kind == "client" else -1)
    Answerer(ends.node, EPOCH).welcome(hello)


def test_a_revoked_client(world, ends):
    world.ca.revoke("alice")
    ends.node.revoked.take((world.ca.folder / "revoked.list").read_bytes())
    line = said(Answerer(ends.node, EPOCH).welcome, Caller(ends.client, "box1").hello())
    assert line == "client alice: the certificate is revoked"


def test_a_revoked_node(world, ends):
    caller = Caller(ends.client, "box1")
    welcome, _ = Answerer(ends.node, EPOCH).welcome(caller.hello())
    world.ca.revoke("box1")
    ends.client.revoked.take((world.ca.folder / "revoked.list").read_bytes())
    assert said(caller.prove, welcome) == "node box1: the certificate is revoked"


def test_revoked_between_hello_and_proof(world, ends):
    caller, answerer = Caller(ends.client, "box1"), Answerer(ends.node, EPOCH)
    welcome, pending = answerer.welcome(caller.hello())
    world.ca.revoke("alice")
    ends.node.revoked.take((world.ca.folder / "revoked.list").read_bytes())
    assert "revoked" in said(answerer.admit, pending, caller.prove(welcome)[0])


@pytest.mark.parametrize("other", ["client", "router"])
def test_no_certificate_of_a_node(world, ends, other):
    mallory = world.new("mallory", other)
    assert f"of a node, got that of {other} mallory" in said(Answerer, mallory, EPOCH)
    posing = Answerer(ends.node, EPOCH)
    posing._identity = mallory
    caller = Caller(ends.client, "mallory")
    line = said(caller.prove, posing.welcome(caller.hello())[0])
    assert line == (
        f"node mallory: expected the certificate of a node, got that of {other} mallory"
    )


@pytest.mark.parametrize("other", ["node", "router"])
def test_no_certificate_of_a_client(world, ends, other):
    hello = Caller(world.new("box2", other), "box1").hello()
    line = said(Answerer(ends.node, EPOCH).welcome, hello)
    assert line == f"caller: expected the certificate of a client, got that of {other} box2"


def test_a_node_may_call_where_it_is_asked_for(world, ends):
    hello = Caller(world.new("box2", "node"), "box1").hello()
    _, pending = Answerer(ends.node, EPOCH, ("client", "node")).welcome(hello)
    assert (pending.keys.role, pending.keys.peer) == ("node", "box2")


def test_another_node_than_the_one_wanted(world, ends):
    caller = Caller(ends.client, "box1")
    other = Answerer(world.new("box2", "node"), EPOCH)
    assert said(other.welcome, caller.hello()) == (
        "caller: expected to find node box1, got node box2"
    )
    welcome, _ = other.welcome({**caller.hello(), "node": "box2"})
    assert said(caller.prove, welcome) == (
        "node box1: expected its certificate, got that of node box2"
    )


# Messages.


@either
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"certificate": b""}, "expected a certificate, got none"),
        ({"certificate": b"\x30\x03abc"}, "expected a certificate, got 5 other bytes"),
        ({"certificate": bytes(5000)}, "certificate: expected 0 to 4096 bytes, got 5000"),
        ({"protocol": 1}, "speaks protocol 1, "),
        ({"protocol": True}, "protocol: expected int, got bool"),
        ({"protocol": 1 << 200}, "got a number beyond 64 bits"),
        ({"manifest": bytes(32)}, f"has the kernels {'00' * 8} of sparkle_drv {VERSION}, "),
        ({"manifest": b""}, "manifest: expected 32 bytes, got 0"),
        ({"version": "\u202e1"}, "version: expected characters that print"),
        ({"version": "x" * 33}, "version: expected 1 to 32 characters, got 33"),
        ({"share": bytes(32)}, "expected a share of a key exchange"),
        ({"nonce": "n" * 32}, "nonce: expected bytes, got str"),
        ({"clock": -1}, "clock: expected 0 to"),
        ({"nonce": None}, "expected the field nonce, got none"),
        ({"more": 1}, "got also 'more'"),
        ({"m\n": 1}, "got also 'm\\n'"),
        ({7: 1}, "got also a int"),
    ],
)
def test_a_bad_field(ends, kind, change, words):
    caller, answerer = Caller(ends.client, "box1"), Answerer(ends.node, EPOCH)
    hello = caller.hello()
    good = hello if kind == "client" else answerer.welcome(hello)[0]
    bad = {k: v for k, v in {**good, **change}.items() if v is not None}
    if kind == "node" and "share" in change:  # signed by a node that is bad itself
        bad.pop("signature")
        bad["signature"] = handshake._sign(ends.node, b"node", handshake._hash(hello, bad))
    line = said(answerer.welcome if kind == "client" else caller.prove, bad)
    assert words in line
    if "protocol" in change and change["protocol"] == 2:
        assert ("box1 speaks 1" if kind == "client" else "alice speaks 1") in line


@either
@pytest.mark.parametrize("message", [None, [], b"", "x", 7, {}, [1, 2]])
def test_what_is_no_message(ends, kind, message):
    caller, answerer = Caller(ends.client, "box1"), Answerer(ends.node, EPOCH)
    assert "expected" in said(answerer.welcome if kind == "client" else caller.prove, message)


def test_a_stolen_certificate_is_nothing_without_its_key(world, ends):
    thief = dataclasses.replace(ends.client, key=requests.new_key())
    caller, answerer = Caller(thief, "box1"), Answerer(ends.node, EPOCH)
    welcome, pending = answerer.welcome(caller.hello())
    line = said(answerer.admit, pending, caller.prove(welcome)[0])
    assert line == "client alice: expected a signature by its certificate's key, got another one"
    caller = Caller(ends.client, "box1")
    thief = dataclasses.replace(ends.node, key=requests.new_key())
    line = said(caller.prove, Answerer(thief, EPOCH).welcome(caller.hello())[0])
    assert line == "node box1: expected a signature by its certificate's key, got another one"


@pytest.mark.parametrize(
    "field", ["nonce", "share", "session", "epoch", "clock", "version", "signature"]
)
def test_a_welcome_that_was_altered_on_its_way(ends, field):
    caller = Caller(ends.client, "box1")
    welcome, _ = Answerer(ends.node, EPOCH).welcome(caller.hello())
    value = welcome[field]
    changed = {
        int: lambda: value + 1,
        str: lambda: f"{value}x",
        bytes: lambda: value[:-1] + bytes([value[-1] ^ 1]),
    }[type(value)]()
    assert "expected a signature" in said(caller.prove, {**welcome, field: changed})


@pytest.mark.parametrize("field", ["nonce", "clock", "version"])
def test_a_hello_that_was_altered_on_its_way(ends, field):
    """The node signs what it got, which the caller did not send."""
    caller = Caller(ends.client, "box1")
    changed = {"nonce": bytes(32), "clock": 1, "version": "9"}[field]
    welcome, _ = Answerer(ends.node, EPOCH).welcome({**caller.hello(), field: changed})
    assert "expected a signature" in said(caller.prove, welcome)


def test_nothing_of_one_handshake_serves_in_another(ends):
    caller, answerer = Caller(ends.client, "box1"), Answerer(ends.node, EPOCH)
    welcome, pending = answerer.welcome(caller.hello())
    proof, _ = caller.prove(welcome)
    other, later = answerer.welcome(caller.hello())
    assert "proof of this session" in said(answerer.admit, later, proof)
    line = said(answerer.admit, later, {**proof, "session": other["session"]})
    assert "expected a signature" in line
    assert "expected a signature" in said(Caller(ends.client, "box1").prove, welcome)
    assert answerer.admit(pending, proof)


def test_no_message_serves_in_the_other_direction(ends):
    caller, answerer = Caller(ends.client, "box1"), Answerer(ends.node, EPOCH)
    welcome, pending = answerer.welcome(caller.hello())
    assert "field session" in said(caller.prove, caller.hello())
    assert "field node" in said(answerer.welcome, welcome)
    mirrored = {"session": welcome["session"], "signature": welcome["signature"]}
    assert "expected a signature" in said(answerer.admit, pending, mirrored)
    # Of one key in both roles, even: what it signs as a client is none of a node's signatures.
    own = handshake._sign(ends.node, b"client", b"t" * 32)
    key = ends.node.key.public_key()
    with pytest.raises(Refused):
        handshake._verify(key, own, b"node", b"t" * 32, "node box1")


def test_the_other_end_is_told(ends):
    caller, answerer = Caller(ends.client, "box1"), Answerer(ends.node, EPOCH)
    _, pending = answerer.welcome(caller.hello())
    told = messages.refusal(Refused("\x1b[2Jlong\n" + "x" * 999))
    assert told["refused"].startswith("?[2Jlong?x")
    for call, given in ((caller.prove, ()), (answerer.admit, (pending,))):
        line = said(call, *given, {"refused": "no room"})
        assert line in ("node box1 refused: no room", "client alice refused: no room")
        assert "no reason given" in said(call, *given, {"refused": 7})
        assert len(said(call, *given, {"refused": "\n" * 9999})) < 400


@pytest.mark.parametrize("name", ["", "BOX", "a/b", "x" * 64, "a b", "a\n", "-a", "*"])
def test_a_name_that_no_node_has(ends, name):
    with pytest.raises(ValueError, match="name: expected"):
        Caller(ends.client, name)


def test_a_certificate_with_another_curve_is_refused(world, ends):
    key = ec.generate_private_key(ec.SECP384R1())
    made = world.ca._certificate(ends.client.subject, key.public_key(), 1)
    hello = {**Caller(ends.client, "box1").hello(), "certificate": made.public_bytes(Encoding.DER)}
    assert "got another one" in said(Answerer(ends.node, EPOCH).welcome, hello)
