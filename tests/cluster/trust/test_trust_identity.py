"""What `identity.load` says of files that are missing, damaged, of others, or out of time.

When this fails, a user with damaged key files does not learn which file to mend.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sparkle_drv import DeviceNotFound
from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.trust import files, identity


@pytest.fixture
def box(world):
    return Path(world.make("box1", "node", ("127.0.0.1", "::1", "Box1.LAN"))) / "cluster"


def refused(box, *words):
    with pytest.raises(Refused) as raised:
        identity.load(str(box.parent))
    said = str(raised.value)
    assert "\n" not in said
    for word in words:
        assert word in said, said


def test_an_identity_says_who_it_is(box):
    mine = identity.load(str(box.parent))
    assert (mine.name, mine.role, str(mine.subject)) == ("box1", "node", "node box1")
    assert mine.subject.hosts == ("127.0.0.1", "::1", "box1.lan")
    assert mine.folder == box
    assert re.fullmatch("[0-9a-f]{64}", mine.fingerprint)
    assert {path.name: path.stat().st_mode & 0o777 for path in box.iterdir()} == dict.fromkeys(
        (files.CA, files.CERTIFICATE, files.KEY, files.REVOKED), 0o600
    )
    assert box.stat().st_mode & 0o777 == 0o700


def test_no_certificates_at_all(tmp_path):
    refused(tmp_path / "cluster", "got none", "sparkle certs init", "sparkle certs client NAME")
    assert issubclass(Refused, DeviceNotFound)


@pytest.mark.parametrize("name", [files.CA, files.CERTIFICATE, files.KEY])
def test_a_file_is_missing(box, name):
    (box / name).unlink()
    refused(box, f"{name} is missing", "sparkle certs")


@pytest.mark.parametrize("name", [files.CA, files.CERTIFICATE, files.KEY, files.REVOKED])
@pytest.mark.parametrize("content", [b"", b"\0\xff" * 99, b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_file_is_damaged(box, name, content):
    (box / name).write_bytes(content)
    refused(box, name, "expected")


@pytest.mark.parametrize("name", [files.CA, files.CERTIFICATE, files.KEY, files.REVOKED])
def test_a_file_is_unreadable(box, name):
    (box / name).unlink()
    (box / name).mkdir()
    refused(box, name, "unreadable")


def test_a_pipe_in_place_of_a_file_is_no_hang(box):
    (box / files.CERTIFICATE).unlink()
    os.mkfifo(box / files.CERTIFICATE)
    refused(box, files.CERTIFICATE, "expected a certificate")


def test_a_huge_file(box):
    (box / files.CA).write_bytes(bytes(1 << 20))
    refused(box, files.CA, "expected at most")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_key_that_others_may_read(box, mode):
    (box / files.KEY).chmod(mode)
    refused(box, f"got mode {mode:04o}", "chmod 600")


def test_a_key_of_another_certificate(box, world):
    other = Path(world.make("box2", "node")) / "cluster"
    (box / files.KEY).write_bytes((other / files.KEY).read_bytes())
    refused(box, "expected the key of cert.pem in key.pem, got another key")


@pytest.mark.parametrize("key", ["rsa", "p384"])
def test_a_key_of_another_kind(box, key):
    made = (
        rsa.generate_private_key(65537, 2048)
        if key == "rsa"
        else ec.generate_private_key(ec.SECP384R1())
    )
    pem = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (box / files.KEY).write_bytes(pem)
    refused(box, "expected a P-256 key")


def test_trusted_code_of_a_key_of_another_kind(tmp_path):
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "carol")])
    now = datetime.now(timezone.utc)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    path = tmp_path / "carol.pem"
    path.write_bytes(made.sign(key, SHA256()).public_bytes(Encoding.PEM))
    with pytest.raises(Refused, match=r"carol\.pem: expected a P-256 key, got .*RSA"):
        identity.fingerprint_of(path)


def test_a_certificate_of_another_ca(box, world, stranger):
    (box / files.CA).write_bytes((stranger.ca.folder / files.CA).read_bytes())
    (box / files.REVOKED).unlink()
    refused(box, f"signed by {stranger.ca.name}", f"another CA, {world.ca.name}")


def test_the_ca_is_no_ca(box):
    (box / files.CA).write_bytes((box / files.CERTIFICATE).read_bytes())
    refused(box, files.CA, "expected the CA", "got another certificate")


def test_an_expired_certificate(box, clock):
    clock.ahead = timedelta(days=2)
    refused(
        box,
        "cert.pem: the certificate has expired at 20",
        "clock of this machine: 20",
        "sparkle certs renew",
    )


def test_a_certificate_of_tomorrow(box, clock):
    clock.ahead = -timedelta(days=1)
    refused(box, "not valid before 20", "clock of this machine: 20", "set the clock")


def test_an_expired_ca(box, clock):
    clock.ahead = timedelta(days=4000)
    refused(box, "ca.pem: the certificate has expired at 20", "clock of this machine: 20")


def test_a_revoked_certificate(box, world):
    world.ca.revoke("box1")
    (box / files.REVOKED).write_bytes((world.ca.folder / files.REVOKED).read_bytes())
    refused(box, "the certificate is revoked")


def test_the_package_imports_no_cryptography():
    code = (
        "import sys, sparkle_drv, sparkle_drv.cluster, sparkle_drv.cluster.trust\n"
        "sparkle_drv.devices()\n"
        "assert not {'cryptography', 'zenoh'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
