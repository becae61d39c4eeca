"""The two RADVs that judge the emulated GPU: the system's own, and a newer one from backports.

The newer one is unpacked into a folder of this checkout and never installed: its suite is that of
the system's existing package source with "-backports" added, asked through a package index of our
own, so that nothing of the system changes and no root is needed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

WANTED_MAJOR = 25
# What RADV needs of its own age; the rest (LLVM, xcb) is there with the system's RADV.
PACKAGES = ("mesa-vulkan-drivers", "libdrm2", "libdrm-amdgpu1")
SYSTEM_ICD = "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json"
APT_TIMEOUT_S = 180


class Absent(Exception):
    """This RADV cannot be had here; the text says why."""


@dataclass(frozen=True)
class Mesa:
    """A RADV: what to call it, and the environment that makes a Vulkan loader find only it."""

    name: str
    environment: dict[str, str] = field(hash=False)


def _environment(icd: Path, libraries: str = "") -> dict[str, str]:
    return {
        "VK_DRIVER_FILES": str(icd),
        "VK_ICD_FILENAMES": str(icd),  # what loaders before 1.3.234 read
        "VK_LOADER_LAYERS_DISABLE": "all",
        "MESA_SHADER_CACHE_DISABLE": "1",
        "LD_LIBRARY_PATH": libraries,
    }


def system() -> Mesa:
    """The installed RADV. Raises Absent."""
    icd = Path(SYSTEM_ICD)
    if not icd.exists():
        raise Absent("mesa-vulkan-drivers is not installed")
    return Mesa(f"RADV {_installed_version()}", _environment(icd))


def _installed_version() -> str:
    asked = ("dpkg-query", "-W", "-f", "${Version}", "mesa-vulkan-drivers")
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.partition("-")[0] or "of unknown version"


def backports(cache: Path) -> Mesa:
    """A RADV of at least version 25.0, unpacked under `cache` once. Raises Absent."""
    stamp = cache / "version"
    if not stamp.exists():
        _unpack(cache)
        stamp.write_text(_unpacked_version(cache))
    if int(stamp.read_text().partition(".")[0]) < WANTED_MAJOR:
        raise Absent(f"the newer suite has RADV {stamp.read_text()}, {WANTED_MAJOR}.0 is wanted")
    library = next(cache.rglob("libvulkan_radeon.so"))
    icd = cache / "radeon_icd.json"
    described = {"ICD": {"api_version": "1.3.0", "library_path": str(library.resolve())}}
    icd.write_text(json.dumps(described | {"file_format_version": "1.0.0"}))
    return Mesa(f"RADV {stamp.read_text()}", _environment(icd, str(library.parent.resolve())))


def _unpacked_version(cache: Path) -> str:
    """The version in the name of the downloaded package."""
    package = next(cache.glob("mesa-vulkan-drivers_*.deb"))
    found = re.match(r"mesa-vulkan-drivers_([\d.]+)", package.name)
    if found is None:
        raise Absent(f"{package.name} names no version")
    return found[1]


def _unpack(cache: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise Absent("apt-get and dpkg-deb are needed to fetch a newer RADV")
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent, prefix="mesa-") as text:
        folder = Path(text)
        options = _private_index(folder)
        _apt(folder, *options, "update")
        _apt(folder, *options, "download", *PACKAGES)
        for package in folder.glob("*.deb"):
            subprocess.run(("dpkg-deb", "-x", package, folder / "root"), check=True)
        if not any((folder / "root").rglob("libvulkan_radeon.so")):
            raise Absent("the newer suite's mesa-vulkan-drivers has no RADV")
        shutil.rmtree(cache, ignore_errors=True)
        made = folder.rename(cache)
        folder.mkdir()  # for the context manager to remove
    assert made.is_dir()


def _private_index(folder: Path) -> tuple[str, ...]:
    """apt's options for an index of our own that knows only the newer suite."""
    source = folder / "newer.list"
    source.write_text(_newer_source())
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
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


def _newer_source() -> str:
    """A line for sources.list: this release's backports from where its packages come anyway."""
    codename = _codename()
    wanted = ("Created-By: Packages", f"Codename: {codename}", "Component: main")
    asked = ("apt-get", "indextargets", "--format", "$(REPO_URI)", *wanted)
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    places = done.stdout.split()
    if not places:
        raise Absent(f"apt-get names no package source for {codename or 'this system'}")
    return f"deb {places[0]} {codename}-backports main\n"


def _codename() -> str:
    """VERSION_CODENAME of os-release(5)."""
    try:
        text = Path("/etc/os-release").read_text()
    except OSError:
        return ""
    found = re.search(r"^VERSION_CODENAME=(\w+)$", text, re.MULTILINE)
    return found[1] if found else ""


def _apt(folder: Path, *arguments: str) -> None:
    try:
        done = subprocess.run(
            ("apt-get", "-q", *arguments),
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=APT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Absent(f"apt-get did not end in {APT_TIMEOUT_S} s") from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Absent(f"apt-get {arguments[-1]}: {' '.join(last)}")
