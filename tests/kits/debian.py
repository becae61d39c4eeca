"""Packages of this Debian or Ubuntu release, or of its backports, unpacked without installing.

The suite is that of the system's own package source, with "-backports" added or not, asked through
a package index of our own: nothing of the system changes and no root is needed. Used by libdrm.py
and radv/mesa.py. Not a test.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
TIMEOUT_S = 180


class Absent(Exception):
    """What was asked for cannot be had here; the text says why."""


def unpack(place: Path, packages: Sequence[str], suffix: str = "") -> None:
    """Makes `place` with each package's .deb file, and what is in them below `root`.

    `suffix` is added to the name of the release: "-backports". Raises Absent, with no `place` made.
    """
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise Absent(f"{tool} is needed to fetch {packages[0]}")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="debian-") as text:
        index, made = Path(text, "index"), Path(text, "made")
        made.mkdir()
        options = _private_index(index, suffix)
        _run(index, "apt-get", "-q", *options, "update")
        _run(made, "apt-get", "-q", *options, "download", *packages)
        for name in packages:
            _run(made, "dpkg-deb", "-x", str(package(made, name)), "root")
        shutil.rmtree(place, ignore_errors=True)
        made.rename(place)


def package(place: Path, name: str) -> Path:
    """The .deb file of package `name` in `place`. Raises Absent."""
    found = next(place.glob(f"{name}_*.deb"), None)
    if found is None:
        raise Absent(f"{name} was not downloaded")
    return found


def _private_index(folder: Path, suffix: str) -> tuple[str, ...]:
    """apt's options for an index below `folder` that knows only the wanted suite."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    codename = _codename()
    signed = f"[signed-by={KEYRING}] " if Path(KEYRING).exists() else ""
    source = folder / "sources.list"
    source.write_text(f"deb {signed}{_archive(folder, codename)} {codename}{suffix} main\n")
    settings = {
        "Dir::Etc::SourceList": source,
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "",
        "APT::Get::List-Cleanup": "0",
        "Acquire::Retries": "1",
        "Acquire::http::Timeout": "20",
    }
    return tuple(part for key, value in settings.items() for part in ("-o", f"{key}={value}"))


def _codename() -> str:
    """VERSION_CODENAME of os-release(5)."""
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        return ""


def _archive(folder: Path, codename: str) -> str:
    """The address of the release's archive, as this machine's apt knows it."""
    wanted = ("Created-By: Packages", f"Codename: {codename}", "Component: main")
    targets = ("indextargets", "--format", "$(REPO_URI)", *wanted)
    found = _run(folder, "apt-get", *targets).split()
    if not found:  # no lists yet: get some, here and not for the whole system
        lists = ("-o", f"Dir::State::Lists={folder}/lists", "-o", "APT::Sandbox::User=")
        _run(folder, "apt-get", "-q", *lists, "update")
        found = _run(folder, "apt-get", *lists, *targets).split()
    if not found:
        raise Absent(f"apt-get names no package source for {codename or 'this system'}")
    return found[0]


def _run(folder: Path, *command: str) -> str:
    """What the command said."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Absent(f"{command[0]} did not end in {TIMEOUT_S} s") from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Absent(f"{command[0]} failed: {' '.join(last)}")
    return done.stdout
