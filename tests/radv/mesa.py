"""The two RADVs that judge the emulated GPU: the system's own, and a newer one from backports.

The newer one is unpacked into a folder of this checkout (../kits/debian.py) and never installed.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import debian
from debian import Absent

WANTED_MAJOR = 25
# What RADV needs of its own age; the rest (LLVM, xcb) is there with the system's RADV.
PACKAGES = ("mesa-vulkan-drivers", "libdrm2", "libdrm-amdgpu1")
SYSTEM_ICD = "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json"


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
    if not (cache / "root").exists():
        debian.unpack(cache, PACKAGES, "-backports")
    version = _version(debian.package(cache, PACKAGES[0]))
    if int(version.partition(".")[0]) < WANTED_MAJOR:
        raise Absent(f"the newer suite has RADV {version}, {WANTED_MAJOR}.0 is wanted")
    library = next(cache.rglob("libvulkan_radeon.so"), None)
    if library is None:
        raise Absent(f"the newer suite's {PACKAGES[0]} has no RADV")
    icd = cache / "radeon_icd.json"
    described = {"ICD": {"api_version": "1.3.0", "library_path": str(library.resolve())}}
    icd.write_text(json.dumps(described | {"file_format_version": "1.0.0"}))
    return Mesa(f"RADV {version}", _environment(icd, str(library.parent.resolve())))


def _version(package: Path) -> str:
    """The version in the name of a downloaded package."""
    found = re.match(r"[^_]+_(?:\d+%3a)?([\d.]+)", package.name)
    if found is None:
        raise Absent(f"{package.name} names no version")
    return found[1]
