"""A client that is not admitted gets one line with address and reason, and the node goes on.

When this fails, a user with a wrong certificate or address gets no reason.
"""

from __future__ import annotations

import datetime
import random
import socket
import ssl
import threading
import time

import pytest
from _cluster.certificates import Issuer, self_signed

from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.transport import engine
from sparkle_drv.cluster.transport.base import MessageLane
from sparkle_drv.cluster.transport.config import endpoint
from sparkle_drv.cluster.transport.engine import Engine


@pytest.fixture
def node(made, address):
    return made("node", node=True, listen=[address])


@pytest.fixture
def serves(made, address, node):
    """At the end of the test the node must serve a good client."""
    yield
    client = made("client-000~good", connect=[address])
    client.engine.send("node", MessageLane.CONTROL, b"still there?")
    assert node.next() == ("client-000~good", b"still there?")


def refused(name, folder, address, **how):
    began = time.monotonic()
    with pytest.raises(Refused) as error:
        Engine(name, folder, connect=[address], **how).start(print, print)
    assert time.monotonic() - began < 10
    (line,) = str(error.value).splitlines()
    assert line.startswith(address)
    return line


STRANGERS = {
    "expired": "our certificate has expired",
    "self-signed": "it does not know the CA of our certificate",
    "another CA": "it does not know the CA of our certificate",
    "another CA for both": "its certificate is refused: unable to get local issuer certificate",
}


@pytest.mark.parametrize("which", STRANGERS)
@pytest.mark.usefixtures("serves")
def test_a_wrong_certificate(which, issuer, address, tmp_path):
    other = Issuer("another CA")
    folder = {
        "expired": lambda: issuer.folder(tmp_path, "x", life=datetime.timedelta(hours=-1)),
        "self-signed": lambda: self_signed(tmp_path, issuer.pem),
        "another CA": lambda: other.folder(tmp_path, "x", trusts=issuer.pem),
        "another CA for both": lambda: other.folder(tmp_path, "x"),
    }[which]()
    assert refused("x", folder, address) == f"{address}: {STRANGERS[which]}"


@pytest.mark.usefixtures("serves")
def test_no_certificate(address, issuer, tmp_path):
    where = endpoint(address)
    (tmp_path / "ca.pem").write_bytes(issuer.pem)
    bare = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with (
        socket.create_connection((where.host, where.port), 5) as raw,
        bare.wrap_socket(raw, server_hostname=where.host) as link,
        pytest.raises(ssl.SSLError, match=r"(?i)certificate.required"),
    ):
        link.recv(1)
    with pytest.raises(ValueError, match="expected a folder with certificates for tls"):
        Engine("x", None, connect=[address]).start(print, print)


def test_a_client_certificate_as_a_node_s(made, address, client_folder):
    made("impostor", node=True, folder=client_folder, listen=[address])
    assert refused("x", client_folder, address).startswith(
        f"{address}: its certificate is refused: unsuitable certificate purpose"
    )


def test_a_certificate_for_another_host(made, address, issuer, tmp_path, client_folder):
    folder = issuer.folder(tmp_path, "node", hosts=("10.9.8.7",))
    made("node", node=True, folder=folder, listen=[address])
    assert "its certificate is refused: IP address mismatch" in refused("x", client_folder, address)


@pytest.mark.usefixtures("serves")
def test_plaintext_to_a_tls_port(address):
    plain = address.replace("tls/", "tcp/")
    assert refused("x", None, plain) == f"{plain}: it expects TLS"


@pytest.mark.parametrize("answer", [b"HTTP/1.0 400 no\r\n\r\n", b""])
def test_tls_to_something_else(answer, client_folder):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            try:
                while True:
                    link, _ = server.accept()
                    link.sendall(answer)
                    link.close()
            except OSError:
                pass

        threading.Thread(target=serve, daemon=True).start()
        line = refused("x", client_folder, f"tls/127.0.0.1:{server.getsockname()[1]}")
        server.shutdown(socket.SHUT_RDWR)
    assert "TLS" in line or "closed the connection" in line


def test_nobody_listens(address, client_folder):
    assert refused("x", client_folder, address) == f"{address}: nobody listens"


def test_a_name_without_an_address(client_folder):
    where = "tls/nobody.invalid:7447"
    assert refused("x", client_folder, where) == f"{where}: the name nobody.invalid has no address"


def test_a_listener_that_never_answers(client_folder, monkeypatch):
    monkeypatch.setattr(engine, "ENDED_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"tls/127.0.0.1:{silent.getsockname()[1]}"
        line = f"{where}: no answer within 0.5 s; does it speak TLS?"
        assert refused("x", client_folder, where) == line


def test_a_port_that_is_taken(address, node, node_folder):
    with pytest.raises(Refused) as error:
        Engine("other", node_folder, listen=[address], node=True).start(print, print)
    assert str(error.value) == f"{address}: cannot listen: address already in use"


@pytest.mark.usefixtures("brief")
def test_a_node_starts_before_the_one_that_it_joins(made, address):
    host, _, port = address.rpartition(":")
    own = f"{host}:{int(port) + 1 if int(port) < 65535 else int(port) - 1}"
    late = made("late", node=True, listen=[own], connect=[address])
    assert late.engine.trouble == [f"{address}: nobody listens"]
    late.engine.watch("first")
    made("first", node=True, listen=[address])
    assert late.next_told(10) == ("first", True)


@pytest.mark.usefixtures("serves")
def test_garbage_at_the_port(address, client_folder, issuer):
    drawn, where = random.Random(1), endpoint(address)
    context = ssl.create_default_context(cafile=str(client_folder / "ca.pem"))
    context.load_cert_chain(client_folder / "cert.pem", client_folder / "key.pem")
    for turn in range(12):
        garbage = drawn.randbytes(drawn.randrange(1, 3000))
        with socket.create_connection((where.host, where.port), 5) as raw:
            try:
                if turn % 3 == 0:
                    raw.sendall(b"\x16\x03\x01" + garbage)
                elif turn % 3 == 1:
                    raw.sendall(garbage)
                else:
                    with context.wrap_socket(raw, server_hostname=where.host) as link:
                        link.sendall(len(garbage).to_bytes(2, "little") + garbage)
            except OSError:
                pass  # the node may hang up at any byte


@pytest.mark.usefixtures("serves")
def test_connections_that_say_nothing_keep_nobody_out(address, made):
    where = endpoint(address)
    silent = [socket.create_connection((where.host, where.port), 5) for _ in range(10)]
    began = time.monotonic()
    made("between", connect=[address])
    assert time.monotonic() - began < 5
    for each in silent:
        each.close()
