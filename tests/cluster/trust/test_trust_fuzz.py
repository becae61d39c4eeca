"""Mutated messages: each end refuses all of them, and raises nothing but Refused.

When this fails, a malformed handshake crashes a node.
"""

from __future__ import annotations

import random

import pytest

from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.trust import renewal
from sparkle_drv.cluster.trust.handshake import Answerer, Caller
from sparkle_drv.cluster.wire.frame import Frame, Kind

COUNT = 2000
STRANGE = (
    *(None, True, -1, 0, 1 << 31, 1 << 70, 10**5000, 1.5, float("nan"), "", "x", "\ud800", "\0"),
    *(
        "a" * 100_000,
        b"",
        b"\xff" * 32,
        b"\x30\x82\xff\xff",
        bytes(100_000),
        [],
        {},
        (1,),
        {"a": 1},
    ),
)


def mutated(good, chance):
    """A message with one to three things wrong."""
    message = dict(good)
    for _ in range(chance.randint(1, 3)):
        name = chance.choice([*[*good] * 4, "refused", "more", 7, None, b"node", ("a",)])
        value, kind = message.get(name), chance.randrange(5)
        if kind == 0 and name in message:
            del message[name]
        elif kind <= 2 and isinstance(value, bytes) and value:
            message[name] = spoilt(value, chance)
        elif kind == 3 and isinstance(value, str) and value:
            message[name] = value[: chance.randrange(len(value))] + chr(chance.randrange(0x110000))
        else:
            message[name] = chance.choice(STRANGE)
    return message if chance.random() < 0.98 else chance.choice(STRANGE)


def spoilt(value, chance):
    """Bytes with some changed, cut short, or doubled: DER whose lengths lie, above all."""
    changed = bytearray(value)
    for _ in range(chance.choice((1, 1, 2, 8))):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(
        chance.choice((changed, changed, value[: chance.randrange(len(value))], value * 2))
    )


def outcome(call, message):
    """The line of a refusal; "": none."""
    try:
        call(message)
    except Refused as error:
        return str(error)
    return ""


@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_messages_of_a_handshake(ends, seed):
    caller, answerer = Caller(ends.client, "box1"), Answerer(ends.node, 1)
    hello = caller.hello()
    welcome, pending = answerer.welcome(hello)
    proof, keys = caller.prove(welcome)
    ways = (
        (hello, answerer.welcome),
        (welcome, caller.prove),
        (proof, lambda message: answerer.admit(pending, message)),
    )
    chance, let_in = random.Random(seed), 0
    for number in range(COUNT // 2):
        good, call = ways[number % 3]
        bad = mutated(good, chance)
        line = outcome(call, bad)
        assert line.isprintable()
        if not line:  # a hello may name another nonce; a welcome or a proof may differ in nothing
            assert good is hello or bad == good
            let_in += 1
    assert 0 < let_in < COUNT // 10
    admitted = answerer.admit(pending, proof)
    assert admitted.incoming.open(Frame(keys.outgoing.frame(Kind.ACK, 0, (), b"")))


def test_mutated_certificates_are_refused_by_their_signature(ends):
    chance, answerer = random.Random(3), Answerer(ends.node, 1)
    hello = Caller(ends.client, "box1").hello()
    for _ in range(300):
        bad = {**hello, "certificate": spoilt(hello["certificate"], chance)}
        if bad["certificate"] != hello["certificate"]:
            with pytest.raises(Refused, match="certificate"):
                answerer.welcome(bad)


def test_mutated_messages_of_a_renewal(world, ends):
    request = renewal.renewal_request(ends.client)
    grant = renewal.renewal_grant(world.ca, request, "alice", "client")
    before = (ends.client.folder / "cert.pem").read_bytes()
    calls = (
        lambda message: renewal.renewal_grant(world.ca, message, "alice", "client"),
        lambda message: renewal.renewal_take(ends.client, message),
    )
    chance = random.Random(4)
    for number in range(300):
        bad = mutated((request, grant)[number % 2], chance)
        if bad in (request, grant):
            continue
        assert outcome(calls[number % 2], bad)
    assert (ends.client.folder / "cert.pem").read_bytes() == before
