"""A client that is not admitted gets one clear line at each end, and the node goes on.

When this fails, a user who is not admitted to a node does not learn why.
"""

import os
import shutil
import time
from datetime import timedelta

import numpy as np
import pytest
from _cluster.certificates import self_signed
from system_kit import Node, Site, free_port

import sparkle_drv as sp
from sparkle_drv.cluster.channel.endpoint import Endpoint
from sparkle_drv.cluster.transport import access, engine
from sparkle_drv.cluster.transport.base import MessageLane
from sparkle_drv.cluster.transport.engine import Engine
from sparkle_drv.cluster.trust import authority, certificates, files, handshake, identity

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Another CA, its client and a node of its own."""
    return Site(tmp_path_factory.mktemp("other"), ("mallory",))


@pytest.fixture
def serves(site, lent):
    """At the end of the test a good client works."""
    yield
    works(site, lent)


def works(site, lent):
    with site.at(box1=lent), sp.open("box1/cpu") as device:
        x = np.arange(100, dtype=np.float32)
        with device.array(x) as there:
            assert (there.numpy() == x).all()


@pytest.fixture
def refused(site, lent):
    """refused(home, part, there=None): opening fails with a line that has that part, and the node
    says one with the part `there`."""

    def check(home, part, there=None, address=None, name="box1", patched=False):
        before, began = len(lent.lines), time.monotonic()
        with (
            site.at(home, **{name: address or lent}),
            pytest.raises(sp.DeviceNotFound) as raised,
        ):
            sp.open(f"{name}/cpu")
        assert time.monotonic() - began < 8
        (line,) = str(raised.value).splitlines()
        assert part in line, line
        if there is not None:
            lent.line(there, before)
        time.sleep(0.05)
        news = [line for line in lent.lines[before:] if "alice" not in line]
        assert len(news) <= 1, news
        if not patched:
            works(site, lent)

    return check


def home_of(tmp_path, made):
    files.write(tmp_path / "cluster", made)
    return tmp_path


def test_no_certificate(refused, tmp_path):
    (tmp_path / "cluster").mkdir()
    refused(tmp_path, "expected certificates, got none")


def test_another_ca_for_both(refused, other):
    refused(other.ca, "its certificate is refused: unable to get local issuer certificate")


def test_another_ca_that_knows_ours(refused, site, other, tmp_path, monkeypatch):
    """Our own look at our files is left out, as a stranger would."""
    home = tmp_path / "home"
    shutil.copytree(other.ca, home)
    shutil.copy(site.ca / "cluster" / "ca.pem", home / "cluster")
    refused(home, "expected a certificate signed by")
    honest = certificates.signed
    monkeypatch.setattr(
        certificates, "signed", lambda made, ca, whose: certificates.subject_of(made.extensions)
    )
    (home / "cluster" / "revoked.list").unlink()
    refused(home, "it does not know the CA of our certificate", "refused: a link: invalid peer")
    monkeypatch.setattr(certificates, "signed", honest)


def test_self_signed(refused, site, tmp_path):
    self_signed(tmp_path / "cluster", (site.ca / "cluster" / "ca.pem").read_bytes())
    refused(tmp_path, "expected a certificate signed by")


def test_expired(refused, site, tmp_path, monkeypatch):
    real = certificates.now
    with monkeypatch.context() as patch:
        patch.setattr(certificates, "now", lambda: real() - timedelta(minutes=2))
        made = authority.load(str(site.ca)).issue("late", "client", days=1 / 1440)
    home = home_of(tmp_path, made)
    refused(home, "expired at")
    monkeypatch.setattr(certificates, "timely", lambda *_: None)
    refused(home, "our certificate has expired", "refused: a link: invalid peer")


def test_clocks_apart(refused, site, tmp_path, monkeypatch):
    real = certificates.now
    with monkeypatch.context() as patch:
        patch.setattr(certificates, "now", lambda: real() + timedelta(hours=1))
        made = authority.load(str(site.ca)).issue("ahead", "client")
        home = home_of(tmp_path, made)
        refused(home, "our certificate", "refused: a link: invalid peer")
    refused(home, "clock of this machine")


def test_revoked(refused, site, box1):
    home = site.machine("eve", "client")
    old = (box1 / "cluster" / "revoked.list").read_bytes()
    site.certs("revoke", "eve")
    shutil.copy(site.ca / "cluster" / "revoked.list", box1 / "cluster")
    refused(home, "our certificate is revoked", "refused: a link: the certificate is revoked")
    assert (box1 / "cluster" / "revoked.list").read_bytes() != old


def test_a_node_s_certificate_as_a_client_s(refused, site):
    home = site.machine("box8")
    words = "caller: expected the certificate of a client, got that of node box8"
    refused(home, words, f"refused: {words}")


def test_a_client_s_certificate_as_a_node_s(site):
    ended = site.sparkle("node", "-d", "cpu", "--listen", f"tls/127.0.0.1:{free_port()}")
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert "expected the certificate of a node, got that of client alice" in line


def test_plaintext_to_a_tls_port(refused, site, lent):
    refused(site.ca, "it expects TLS", "refused: a link", lent.address.replace("tls/", "tcp/"))


def test_tls_to_a_plaintext_port(refused, site, lent, monkeypatch):
    """The client waits for half a second instead of 3."""
    home = site.machine("box9")
    monkeypatch.setattr(engine, "ENDED_S", 1.0)
    with Node(home, listen=f"tcp/127.0.0.1:{free_port()}") as plain:
        address = plain.address.replace("tcp/", "tls/")
        refused(site.ca, "does it speak TLS?", address=address, name="box9", patched=True)
        monkeypatch.undo()
        works(site, lent)
        with site.at(box9=plain), sp.open("box9/cpu"):
            pass


@pytest.mark.parametrize(
    ("what", "value", "says"),
    [
        ("PROTOCOL", 1, "speaks protocol 1, box1 speaks 2: install one version"),
        ("manifest_hash", lambda: b"x" * 32, "install one version on both"),
    ],
)
def test_versions(refused, site, lent, monkeypatch, what, value, says):
    monkeypatch.setattr(handshake, what, value)
    refused(site.ca, says, "install one version", patched=True)
    monkeypatch.undo()
    works(site, lent)


def test_another_name_at_the_address(refused, site, lent, monkeypatch):
    """The client asks for a second instead of 5."""
    monkeypatch.setattr(Endpoint.connect, "__defaults__", (1.0,))
    said = "box5: nobody of that name answers"
    refused(site.ca, said, address=lent.address, name="box5", patched=True)
    monkeypatch.undo()
    works(site, lent)


def test_nobody_listens(refused, site):
    where = f"tls/127.0.0.1:{free_port()}"
    refused(site.ca, f"{where}: nobody listens", address=where)


def test_messages_that_are_cut_short_or_too_long(site, lent, serves):
    """Of a client with a certificate, by the engine itself."""
    name = access.client_endpoint(identity.load(str(site.ca)).common_name, "noise")
    noise = Engine(name, site.ca / "cluster", connect=[lent.address])
    noise.start(lambda *_: None, lambda *_: None)
    try:
        before = len(lent.lines)
        for nbytes in (0, 1, 7, 40, 100, 5000, 1 << 20):
            for lane in MessageLane:
                noise.send("box1", lane, os.urandom(nbytes))
        with pytest.raises(ValueError, match="expected at most 1048576 bytes, got 1048577"):
            noise.send("box1", MessageLane.BULK, bytes((1 << 20) + 1))
        noise._put(
            access.message_key("box1", name, "b"), MessageLane.BULK, bytes(3 << 20)
        )  # more than a link takes
        lent.line(f"a message from {name} was dropped", before)
    finally:
        noise.close()


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["-d", "cuda:77"], 3, "cuda"),
        (["-d", "cpu", "--listen", "tcp/0.0.0.0:7447"], 1, "plaintext is for loopback"),
    ],
)
def test_nodes_that_do_not_start(site, box1, args, code, says):
    ended = site.sparkle("node", *args, home=box1)
    assert ended.returncode == code, ended
    (line,) = (ended.stdout + ended.stderr).splitlines()
    assert says in line


def test_two_nodes_of_one_name(site, box1, lent, serves):
    ended = site.sparkle(
        "node", "-d", "cpu", "--join", lent.address, "--listen", f"tls/127.0.0.1:{free_port()}",
        home=box1,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "expected one node of each name, got a second 'box1'" in ended.stderr.splitlines()[-1]
