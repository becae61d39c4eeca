"""What a bundle takes of other tools' evidence: found, bounded, listed, and without names.

When this fails, a bundle lacks evidence, or carries names of the user.
"""

from __future__ import annotations

import os
import platform
import tarfile

import pytest
from _bringup.ladder import evidence

from sparkle_drv import lowlevel

DUMP = """**** AMDGPU Device Coredump ****
version: 1
kernel: 6.18.0
process_name: secret-game PID: 1720
HWIP: GC[1][0]: v11.0.0.0.0
IP Type: 1 Ring Name: comp_1.0.0

IB #0 0xffff800100041000 2 dw
0xc0004600
0x00000407
"""


@pytest.fixture
def root(tmp_path):
    """A machine with two devcoredumps, one of them a network card's."""
    for name, text in (("devcd1", DUMP), ("devcd2", "iwlwifi firmware error dump, secret-net")):
        folder = tmp_path / "sys/class/devcoredump" / name
        folder.mkdir(parents=True)
        (folder / "data").write_text(text)
    return tmp_path


@pytest.fixture
def home(tmp_path):
    """A home with three of RADV's hang reports."""
    for number in (1, 2, 3):
        folder = tmp_path / f"home/ann-example/radv_dumps_{number}_2026.01.01"
        folder.mkdir(parents=True)
        (folder / "trace.log").write_text(f"Trace ID: {number}\n")
        (folder / "app_info.log").write_text("secret-game")
        os.utime(folder, (number, number))
    return tmp_path / "home/ann-example"


def listed(found):
    return found["evidence/list.txt"].splitlines()


def test_dumps_of_amdgpu_are_found(root, home):
    found = evidence.gather(root=root, home=home)
    assert sorted(name.partition(".")[2] for name in found) == [
        "devcd1.data",
        "radv_dumps_2_2026.01.01.trace.log",
        "radv_dumps_3_2026.01.01.trace.log",
        "txt",
    ]
    [dump] = (text for name, text in found.items() if "devcd1" in name)
    [ib] = lowlevel.read_ibs(dump)
    assert (ib.dwords, ib.gfx) == ((0xC0004600, 0x407), 11)
    assert not [name for name, text in found.items() if "secret" in text]
    [refused] = [line for line in listed(found) if "left out" in line]
    assert "devcd2/data: left out: expected a dump of amdgpu" in refused


def test_names_and_serials_go(monkeypatch):
    monkeypatch.setattr(platform, "node", lambda: "annes-box")
    monkeypatch.setenv("HOME", "/home/ann-example")
    text = (
        "annes-box kernel: amdgpu\nSerial Number: 0123456789\nunique_id=55aa\n"
        "/home/ann-example/x.log of ann-example, not joann-example\n"
    )
    assert evidence.scrubbed(text) == (
        "HOST kernel: amdgpu\nSerial Number: (left out)\nunique_id=(left out)\n"
        "~/x.log of USER, not joann-example\n"
    )
    monkeypatch.setattr(platform, "node", lambda: "localhost")
    monkeypatch.setenv("HOME", "/root")
    assert evidence.scrubbed("localhost root /root/x\n") == "localhost root /root/x\n"


def test_sizes_are_bounded_and_what_is_left_out_is_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "MOST", 64)
    monkeypatch.setattr(evidence, "MOST_IN_ALL", 100)
    for name, nbytes in (("a", 60), ("b", 65), ("c", 41), ("d", 40)):
        (tmp_path / name).write_bytes(b"x" * nbytes)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    named = [str(tmp_path / name) for name in ("a", "b", "c", "d", "folder", "pipe", "none")]
    found = evidence.gather(named, root=tmp_path)
    assert [len(text) for name, text in found.items() if name != "evidence/list.txt"] == [60, 40]
    words = [line.partition(": ")[2] for line in listed(found)]
    assert [word.startswith("left out") for word in words] == [False, True, True, False] + [
        True
    ] * 3
    assert "at most 40 bytes" in words[1]
    assert "at most 40 bytes" in words[2]
    assert words[4:6] == ["left out: expected a regular file"] * 2
    assert words[6] == "left out: No such file or directory"


def test_bytes_stay_bytes(tmp_path):
    (tmp_path / "ib.bin").write_bytes(b"\x00\x46\x00\xc0\x07\x04\x00\x00")
    (tmp_path / "text").write_bytes(b"a dump with NULs behind it\0\0\0")
    found = evidence.gather([str(tmp_path / "ib.bin"), str(tmp_path / "text")], root=tmp_path)
    first, second, _ = found.values()
    assert first == b"\x00\x46\x00\xc0\x07\x04\x00\x00"
    assert second == "a dump with NULs behind it"


def test_a_bundle_with_a_named_file(tmp_path, capsys):
    import bringup as tool

    (tmp_path / "umr.txt").write_text("Decoding IB at 0x0@0x0 from 0x0@0x0 of 8 words (type 4)\n")
    words = ["ladder", "-d", "cpu", "--only", "open"]
    made = ["--bundle", str(tmp_path / "b.tar.gz")]
    named = ["--evidence", str(tmp_path / "umr.txt")]
    assert tool.main([*words, *made, *named]) == 0
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        told = {name: tar.extractfile(name).read().decode() for name in tar.getnames()}
    [text] = (text for name, text in told.items() if name.endswith("umr.txt"))
    assert text.startswith("Decoding IB at")
    assert "umr.txt: 56 bytes" in told["bringup/evidence/list.txt"]
    capsys.readouterr()
    for wrong in ([*words, *named], [*words, *made, "--evidence", str(tmp_path / "none")]):
        assert tool.main(wrong) == 2
        assert capsys.readouterr()[1].count("\n") == 1
