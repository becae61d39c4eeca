"""The kit debian.py with an apt-get of our own: what it unpacks, and each failure as Absent.

When this fails, tests of foreign drivers fail without saying which package is missing.
"""

from __future__ import annotations

import shutil
import subprocess

import debian
import pytest

pytestmark = pytest.mark.setup

INDEX = 'case "$*" in *indextargets*) echo http://archive.invalid/debian;;'


@pytest.fixture
def apt(tmp_path, monkeypatch):
    """apt(cases) makes apt-get a shell script that names an archive, and does `cases` besides."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def make(cases, index=INDEX):
        script = folder / "apt-get"
        script.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/asked\n{index} {cases} esac\n')
        script.chmod(0o755)

    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(debian, "_codename", lambda: "release")
    return make


@pytest.fixture
def package(tmp_path):
    """A small package of the right form."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("no dpkg-deb to make a package with")
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr").mkdir()
    (tree / "usr" / "a.txt").write_text("here\n")
    control = "Package: a\nVersion: 25.1-1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
    (tree / "DEBIAN" / "control").write_text(control)
    made = tmp_path / "a_25.1-1_all.deb"
    subprocess.run(("dpkg-deb", "--build", tree, made), check=True, capture_output=True)
    return made


def test_a_package_is_unpacked_in_place_of_an_older_one(tmp_path, apt, package):
    place = tmp_path / "cache" / "a"
    (place / "old").mkdir(parents=True)
    apt(f"*download*) cp {package} .;;")
    debian.unpack(place, ["a"], "-backports")
    assert sorted(entry.name for entry in place.iterdir()) == [package.name, "root"]
    assert (place / "root" / "usr" / "a.txt").read_text() == "here\n"
    assert debian.package(place, "a").name == package.name
    assert list(place.parent.iterdir()) == [place]
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.split()[-1] for line in asked] == ["main", "update", "a"]


def test_without_lists_it_gets_some_of_its_own(tmp_path, apt, package):
    index = 'case "$*" in *State::Lists*indextargets*) echo http://archive.invalid/debian;;'
    apt(f"*download*) cp {package} .;;", index)
    debian.unpack(tmp_path / "a", ["a"])
    assert (tmp_path / "a" / "root").exists()


@pytest.mark.parametrize(
    ("cases", "index", "why"),
    [
        ("*update*) echo 'E: no network' >&2; exit 100;;", INDEX, "apt-get failed: E: no network"),
        ("", 'case "$*" in', "apt-get names no package source for release"),
        ("", INDEX, "a was not downloaded"),
        ("*download*) echo no archive >a_1_all.deb;;", INDEX, "dpkg-deb failed: "),
    ],
)
def test_what_cannot_be_had_is_absent(tmp_path, apt, cases, index, why):
    apt(cases, index)
    with pytest.raises(debian.Absent, match=why):
        debian.unpack(tmp_path / "cache" / "a", ["a"])
    assert list((tmp_path / "cache").iterdir()) == []


def test_without_apt_it_is_absent(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(debian.Absent, match="apt-get is needed to fetch a"):
        debian.unpack(tmp_path / "a", ["a"])
