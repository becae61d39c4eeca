"""sparkle.py certs: what it makes, what it prints, and what it refuses with which exit code.

When this fails, somebody who sets up a cluster gets unusable or unsafe certificates.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from sparkle_drv.cluster.trust import identity


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Types a command on a machine of this name: SPARKLE_HOME is its own."""
    import sparkle as tool

    def typed(name, *words):
        monkeypatch.setenv("SPARKLE_HOME", str(tmp_path / name))
        return tool.main(["certs", *words])

    return typed


def test_a_ca_a_node_and_a_client(machine, tmp_path, capsys):
    out = tmp_path / "box1" / "cluster"
    assert machine("ca", "init") == 0
    assert machine("ca", "client", "alice") == 0
    assert machine("ca", "node", "box1", "10.0.0.5", "--out", str(out), "--days", "2") == 0
    assert machine("ca", "router", "r1", "10.0.0.9", "--out", str(tmp_path / "r1/cluster")) == 0
    assert "copy its contents to that machine's SPARKLE_HOME/cluster" in capsys.readouterr().out
    found = [identity.load(str(tmp_path / name)) for name in ("ca", "box1", "r1")]
    assert [str(one.subject) for one in found] == ["client alice", "node box1", "router r1"]
    assert not (out / "ca.key").exists()
    assert machine("box1", "show") == 0
    shown = capsys.readouterr().out
    for word in ("node box1, of sparkle CA", "10.0.0.5", found[1].fingerprint, "until    20"):
        assert word in shown
    assert machine("ca", "show") == 0
    shown = capsys.readouterr().out
    for word in ("its key is here", "  client alice: until", "  node box1: until"):
        assert word in shown


def test_a_key_stays_on_its_machine(machine, tmp_path, capsys):
    machine("ca", "init")
    assert machine("box2", "request", "box2", "node", "10.0.0.6") == 0
    key = identity.certificates.key_hash(
        identity.requests.key_of((tmp_path / "box2/cluster/key.pem").read_bytes(), "").public_key()
    )
    assert key.hex() in capsys.readouterr().out
    out = tmp_path / "signed"
    request = str(tmp_path / "box2/cluster/request.pem")
    assert machine("ca", "sign", request, "--out", str(out)) == 0
    said = capsys.readouterr().out
    assert "signed: node box2, hosts 10.0.0.6" in said
    assert key.hex() in said
    assert not (out / "key.pem").exists()
    shutil.copytree(out, tmp_path / "box2/cluster", dirs_exist_ok=True)
    assert machine("box2", "show") == 0


def test_renew_and_revoke(machine, tmp_path, capsys):
    machine("ca", "init")
    machine("ca", "client", "alice")
    before = identity.load(str(tmp_path / "ca"))
    assert machine("ca", "renew") == 0
    after = identity.load(str(tmp_path / "ca"))
    assert (after.der == before.der, after.fingerprint) == (False, before.fingerprint)
    assert machine("ca", "revoke", "alice") == 0
    assert "revoked: a key of client alice\ncopy " in capsys.readouterr().out
    assert machine("ca", "show") == 1
    said = capsys.readouterr()
    assert ", revoked\n" in said.out
    assert said.err.endswith("cert.pem: the certificate is revoked\n")
    assert machine("ca", "renew") == 1


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (("show",), 1, "expected certificates, got none"),
        (("client", "alice"), 1, "ca.key is missing: this is done where the CA is"),
        (("renew",), 1, "expected certificates, got none"),
        (("revoke", "alice"), 1, "ca.key is missing"),
        (("request", "box1", "king"), 2, "role: expected node, client, router, got 'king'"),
        (("request", "Box", "node"), 2, "name: expected up to 63"),
    ],
)
def test_what_does_not_work_without_a_ca(machine, capsys, words, code, line):
    assert machine("empty", *words) == code
    said = capsys.readouterr().err
    assert line in said
    assert said.count("\n") == 1


def test_what_does_not_work_with_one(machine, tmp_path, capsys):
    def refused(code, line, *words):
        assert machine("ca", *words) == code
        said = capsys.readouterr().err
        assert line in said
        assert said.count("\n") == 1

    machine("ca", "init")
    refused(1, "got one with a CA", "init")
    machine("ca", "client", "alice")
    refused(1, "`certs renew` renews a certificate", "client", "bob")
    out = str(tmp_path / "out")
    refused(2, "host: expected an IP address", "node", "box1", "10.0.0.5:7447", "--out", out)
    refused(2, "days: expected more than 0", "node", "box1", "--days", "0", "--out", out)
    refused(2, "expected one with a certificate (alice), got eve", "revoke", "eve")
    refused(1, "expected a request.pem", "sign", str(tmp_path / "none"), "--out", out)
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    refused(1, "expected a request of `sparkle certs request`", "sign", str(junk), "--out", out)
    assert not Path(out).exists()


def test_without_cryptography(machine, monkeypatch, capsys):
    for name in [n for n in sys.modules if n.startswith("sparkle_drv.cluster.trust")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("sparkle_drv.cluster.trust", raising=False)
    for name in [n for n in sys.modules if n.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert machine("ca", "init") == 2
    assert "install sparkle_drv[cluster]" in capsys.readouterr().err


@pytest.mark.parametrize("words", [(), ("nonsense",), ("node",), ("sign", "x")])
def test_usage(machine, words):
    with pytest.raises(SystemExit) as ended:
        machine("ca", *words)
    assert ended.value.code == 2
