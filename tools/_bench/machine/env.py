"""The conditions of a result: machine, caches, governor, versions, SPARKLE_*, commit.

The module only reads them. It needs no device.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[3]  # the checkout, if this file belongs to one
_CPU = Path("/sys/devices/system/cpu")
# Prefixes of variables that steer other numeric libraries, such as numpy's. They change times, so
# a result's conditions include them.
_PEER_PREFIXES = ("OPENBLAS_", "MKL_", "OMP_", "NVPL_", "GOTO_")


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def cpu_name() -> str:
    """Returns the CPU's model name from /proc/cpuinfo, or the architecture if there is none."""
    for line in (_read(Path("/proc/cpuinfo")) or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def cpu_model() -> str | None:
    """Returns the CPU's generation: "25-17" (family and model) or "0x41-0xd40" (implementer and
    part).

    The name is not enough: virtual machines give CPUs of different generations one name. None if
    /proc/cpuinfo has neither form.
    """
    fields: dict[str, str] = {}
    for line in (_read(Path("/proc/cpuinfo")) or "").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    for keys in (("cpu family", "model"), ("CPU implementer", "CPU part")):
        if all(key in fields for key in keys):
            return "-".join(fields[key] for key in keys)
    return None


def caches() -> list[str]:
    """Returns the caches of the first CPU: ["L1 data 32K", ...]."""
    found = []
    for index in sorted((_CPU / "cpu0/cache").glob("index*")):
        level, kind, size = (_read(index / name) for name in ("level", "type", "size"))
        if level and kind and size and kind != "Instruction":
            found.append(
                f"L{level} {kind.lower()} {size} shared by cpus {_read(index / 'shared_cpu_list')}"
            )
    return found


def commit() -> str | None:
    """Returns the checkout's commit, with "+" if tracked files differ from it; None outside a
    checkout.
    """
    if not (_ROOT / ".git").exists():
        return None
    try:
        head = subprocess.run(
            ["git", "-C", str(_ROOT), "rev-parse", "--short=12", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
        )
        changed = subprocess.run(
            ["git", "-C", str(_ROOT), "status", "--porcelain", "-uno"],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if head.returncode:
        return None
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def describe() -> dict[str, Any]:
    """Returns the `env` object of a results file."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    load = os.getloadavg()[0]
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "sparkle_drv": version("sparkle_drv") or _package_version(),
        "commit": commit(),
        "cpu": cpu_name(),
        "cpu_model": cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "caches": caches(),
        "memory_nbytes": memory,
        "governor": _read(_CPU / "cpu0/cpufreq/scaling_governor"),
        "load_1min": round(load, 2),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "scipy": version("scipy"),
        "sparkle_environment": _variables("SPARKLE_"),
        "peer_environment": _variables(*_PEER_PREFIXES),
        "command": sys.argv[1:],
    }


def _package_version() -> str | None:
    import sparkle_drv

    return getattr(sparkle_drv, "__version__", None)


def _variables(*prefixes: str) -> dict[str, str]:
    return {k: v for k, v in sorted(os.environ.items()) if k.startswith(prefixes)}
