"""The gate: only who has proved a certificate reaches the socket behind it. A plain listening
socket of this process stands for Zenoh's.

When this fails, a stranger with a thousand connections keeps new clients out, or all clients are
kept out.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import time

import pytest

from sparkle_drv.cluster.transport import gate, probe, steering
from sparkle_drv.cluster.transport.config import endpoint
from sparkle_drv.cluster.transport.gate import ConnectionGate
from sparkle_drv.cluster.transport.steering import Peer, packed, program

LOCAL = packed("127.0.0.1")


def ran(instructions, packet):
    """Which socket the program picks for a packet that begins with its IP header: a model of the
    kernel's interpreter.
    """
    value, at = 0, 0
    while True:
        code, if_true, if_false, number = instructions[at]
        at += 1
        offset = number - steering._NETWORK
        match code:
            case steering._LOAD_WORD:
                (value,) = struct.unpack_from(">I", packet, offset)
            case steering._LOAD_HALF:
                (value,) = struct.unpack_from(">H", packet, offset)
            case steering._LOAD_BYTE:
                value = packet[offset]
            case steering._AND:
                value &= number
            case steering._IF_EQUAL:
                at += if_true if value == number else if_false
            case steering._RETURN:
                return number


def request(host, port):
    """The headers of a connection request."""
    address = packed(host)
    if len(address) == 4:
        ip = bytes([0x45]) + bytes(11) + address + bytes(4)
    else:
        ip = bytes([0x60]) + bytes(7) + address + bytes(16)
    return ip + struct.pack(">HH", port, 7447) + bytes(16)


def test_the_program_lets_in_these_peers_alone():
    peers = [
        ("10.0.0.5", 4000), ("10.0.0.6", 0), ("fe80::1:2", 0), ("2001:db8::5", 50000),
        ("10.0.0.5", 4001),
    ]  # fmt: skip
    instructions = program(Peer(packed(host), port) for host, port in peers)
    for host in ("10.0.0.5", "10.0.0.6", "11.0.0.6", "fe80::1:2", "2001:db8::5", "2001:db8::6"):
        for port in (1, 4000, 4001, 50000):
            let_in = (host, port) in peers or (host, 0) in peers
            expected = steering._ZENOH if let_in else steering._OTHER
            assert ran(instructions, request(host, port)) == expected, (host, port)
    assert ran(program([]), request("10.0.0.5", 1)) == steering._OTHER


def test_the_program_has_room_for_all_that_are_let_in():
    most = [Peer(bytes([n % 256]) * 16, 1 + n) for n in range(gate.MOST_LET_IN)]
    instructions = program(most)
    assert len(instructions) <= 4096  # BPF_MAXINSNS
    assert all(jump < 256 for _, jump, other, _ in instructions for jump in (jump, other))


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", LOCAL), ("::ffff:127.0.0.1", LOCAL), ("fe80::1%lo", packed("fe80::1"))],
)
def test_an_address_is_the_same_in_each_spelling(host, expected):
    assert packed(host) == expected


class Behind:
    """A gate, and the listening socket that it protects."""

    def __init__(self, folder):
        self.zenoh = socket.create_server(("127.0.0.1", 0))
        self.port = self.zenoh.getsockname()[1]
        self.said, self.links, self.revoked = [], [], set()
        try:
            self.gate = ConnectionGate(
                [self.port], folder, self.said.append, lambda der: der in self.revoked
            )
        except OSError as error:  # a system without SO_REUSEPORT, or without its programs
            self.zenoh.close()
            pytest.skip(f"this system has no way to steer connections: {error}")

    def connect(self, port=0, wait=True):
        link = socket.socket()
        self.links.append(link)
        link.bind(("127.0.0.1", port))
        link.settimeout(5)
        if not wait:
            link.setblocking(False)
        link.connect_ex(("127.0.0.1", self.port))
        return link

    def at_zenoh(self, link, wait_s=0.0):
        """Whether that connection comes to the protected socket."""
        until = time.monotonic() + wait_s
        while select.select([self.zenoh], [], [], max(0.0, until - time.monotonic()))[0]:
            other, peer = self.zenoh.accept()
            other.close()
            if peer == link.getsockname():
                return True
        return False

    def close(self):
        self.gate.close()
        for link in (self.zenoh, *self.links):
            link.close()


@pytest.fixture
def behind(node_folder):
    made = Behind(node_folder)
    yield made
    made.close()


def ask(behind, folder, **how):
    where = endpoint(f"tls/127.0.0.1:{behind.port}")
    return probe.ask(where, folder, 5.0, **how)


def proved(behind, folder, said):
    """A TLS handshake with a certificate, after which one says that."""
    context = probe._context(folder)
    with context.wrap_socket(behind.connect(), server_hostname="127.0.0.1") as link:
        link.settimeout(5)
        link.sendall(said)
        with contextlib.suppress(OSError):
            while link.recv(16):
                pass


def test_strangers_do_not_reach_zenoh_and_do_not_keep_a_client_out(behind, client_folder):
    for n in range(2 * gate.MOST_OPEN):
        link = behind.connect(wait=False)
        if n % 3 == 1:
            with contextlib.suppress(OSError):
                link.send(b"\x16\x03\x01")
        elif n % 3 == 2:
            link.close()
    answer = ask(behind, client_folder, tell_port=True)
    assert answer.reason is None
    assert not select.select([behind.zenoh], [], [], 0)[0]
    port = int(answer.bind.rpartition(":")[2])
    assert behind.at_zenoh(behind.connect(port), 5.0)
    assert len(behind.gate._guests) <= gate.MOST_OPEN


def test_only_the_port_that_was_told_gets_in(behind, client_folder):
    port = int(ask(behind, client_folder, tell_port=True).bind.rpartition(":")[2])
    assert not behind.at_zenoh(behind.connect())
    assert behind.at_zenoh(behind.connect(port), 5.0)


def test_a_zenoh_that_connects_again_by_itself_gets_in_at_the_next_try(behind, client_folder):
    proved(behind, client_folder, b"the first message of a Zenoh")
    assert behind.at_zenoh(behind.connect(), 5.0)


def test_nobody_gets_in_for_longer_than_a_moment(node_folder, client_folder, monkeypatch):
    monkeypatch.setattr(gate, "OPEN_S", 0.0)
    monkeypatch.setattr(gate, "CHECK_S", 0.0)
    behind = Behind(node_folder)
    with contextlib.closing(behind):
        proved(behind, client_folder, b"the first message of a Zenoh")
        until = time.monotonic() + 10
        while behind.gate._until_s and time.monotonic() < until:
            time.sleep(0.01)
        assert not behind.gate._until_s
        assert not behind.at_zenoh(behind.connect())


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("no certificate", "peer did not return a certificate"),
        ("another CA", "invalid peer certificate: "),
        ("no TLS", "it does not speak TLS"),
        ("the end", "it said nothing"),
        ("silence", "no TLS handshake within 0 s"),
    ],
)
def test_who_proves_nothing_is_said_and_stays_out(
    node_folder, tmp_path, issuer, monkeypatch, how, words
):
    monkeypatch.setattr(gate, "PROVE_S", 0.0 if how == "silence" else 60.0)
    behind = Behind(node_folder)
    with contextlib.closing(behind):
        link = behind.connect()
        if how == "no TLS":
            link.sendall(b"GET / HTTP/1.1\r\n\r\n")
        elif how == "the end":
            link.close()
        elif how != "silence":
            folder = None
            if how == "another CA":
                folder = type(issuer)().folder(tmp_path, "client", server=False)
            context = probe._context(folder)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with contextlib.suppress(OSError), context.wrap_socket(link) as spoken:
                spoken.recv(1)
        until = time.monotonic() + 10
        while not behind.said and time.monotonic() < until:
            time.sleep(0.01)
        assert words in behind.said[0]
        assert not behind.at_zenoh(behind.connect())


def test_the_address_with_most_connections_gives_way(behind):
    mine = socket.socket()
    behind.links.append(mine)
    mine.bind(("127.0.0.2", 0))
    mine.settimeout(5)
    mine.connect(("127.0.0.1", behind.port))
    for _ in range(gate.MOST_OPEN + 50):
        behind.connect(wait=False)
    until = time.monotonic() + 10
    while not behind.said and time.monotonic() < until:
        time.sleep(0.01)
    assert f"more than {gate.MOST_OPEN} connections" in behind.said[0]
    mine.setblocking(False)
    with pytest.raises(BlockingIOError):  # it is open still
        mine.recv(1)


def test_after_the_gate_all_connections_come_to_zenoh(node_folder):
    behind = Behind(node_folder)
    behind.gate.close()
    link = behind.connect()
    assert behind.at_zenoh(link, 5.0)
    assert not behind.said
    for each in (*behind.links, behind.zenoh):
        each.close()


def test_a_gate_that_fails_says_so(behind, monkeypatch):
    def fails(door):
        raise RuntimeError("a bug")

    monkeypatch.setattr(behind.gate, "_accept", fails)
    behind.connect()
    behind.gate._thread.join(10)
    expected = "gate: it has failed, so strangers may keep new clients out: RuntimeError: a bug"
    assert behind.said == [expected]
    assert behind.at_zenoh(behind.connect(), 5.0)


@pytest.mark.parametrize("tell_port", [True, False])
def test_a_revoked_certificate_does_not_pass(behind, client_folder, tell_port):
    pem = (client_folder / "cert.pem").read_text()
    behind.revoked.add(ssl.PEM_cert_to_DER_cert(pem))
    answer = ask(behind, client_folder, tell_port=tell_port)
    assert answer.reason == "our certificate is revoked"
    proved(behind, client_folder, b"the first message of a Zenoh")
    assert behind.said == ["refused: a link: the certificate is revoked"] * 2
    assert not behind.gate._until_s
    assert not behind.at_zenoh(behind.connect())
    behind.revoked.clear()
    assert ask(behind, client_folder, tell_port=tell_port).reason is None
