"""libdrm's headers in two versions, for the comparison with our own declarations.

"system" is what is installed, else the distribution's own package; "backports" is the newer one of
Debian's backports. Packages are downloaded by apt-get into build/libdrm, which needs no root, and
unpacked there; nothing is installed. Not a test.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

CACHE = Path(__file__).resolve().parents[1] / "build" / "libdrm"
INSTALLED = Path("/usr/include/libdrm")
PACKAGE = "libdrm-dev"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        pytest.skip(f"no {PACKAGE}: {command[0]} failed: {done.stderr.strip()[-200:]}")
    return done.stdout


def _archive(folder: Path, codename: str) -> str:
    """The address of the distribution's archive, as this machine's apt knows it."""
    fields = ("Created-By: Packages", f"Codename: {codename}", "Component: main")
    targets = ("indextargets", "--format", "$(REPO_URI)", *fields)
    found = _run(folder, "apt-get", *targets)
    if not found:  # no lists yet: get some, here and not for the whole system
        lists = f"Dir::State::Lists={folder}/lists"
        _run(folder, "apt-get", "-o", lists, "update", "-qq")
        found = _run(folder, "apt-get", "-o", lists, *targets)
    if not found:
        pytest.skip(f"no {PACKAGE}: apt knows no archive of {codename}")
    return found.split()[0]


def _fetch(folder: Path, suffix: str) -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {PACKAGE} here, and no {tool} to get it with")
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    signed = f"[signed-by={KEYRING}] " if Path(KEYRING).exists() else ""
    line = f"deb {signed}{_archive(folder, codename)} {codename}{suffix} main\n"
    (folder / "sources.list").write_text(line)
    private = [f"Dir::Etc::SourceList={folder}/sources.list", "Dir::Etc::SourceParts=-"]
    private += [f"Dir::State::Lists={folder}/lists", f"Dir::Cache={folder}/cache"]
    options = [word for setting in private for word in ("-o", setting)]
    _run(folder, "apt-get", *options, "update", "-qq")
    _run(folder, "apt-get", *options, "download", "-qq", PACKAGE)
    package = next(folder.glob(f"{PACKAGE}_*.deb"), None)
    if package is None:
        pytest.skip(f"no {PACKAGE} in {codename}{suffix}")
    _run(folder, "dpkg-deb", "-x", str(package), "unpacked.new")
    (folder / "unpacked.new").rename(folder / "unpacked")


def include(version: str) -> Path:
    """The folder that holds amdgpu_drm.h and drm.h; skips the test when there is no way to it."""
    if version == "system" and (INSTALLED / "amdgpu_drm.h").exists():
        return INSTALLED
    folder = CACHE / version
    headers = folder / "unpacked" / "usr" / "include" / "libdrm"
    if not headers.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _fetch(folder, "-backports" if version == "backports" else "")
    return headers
