"""What this machine is: CPU name, caches, memory, and how many threads we may use.

Reads /proc and /sys, runs nothing. `root` lets tests point at a made-up tree.
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from sparkle_drv.types import CacheLevel

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def name_and_vendor(root: Path = Path("/")) -> tuple[str, str]:
    """From /proc/cpuinfo: "model name" and "vendor_id" on x86, else the machine type and ""."""
    fields = dict(re.findall(r"^([\w ]+?)\s*:\s*(.*)$", _read(root / "proc/cpuinfo"), re.M))
    return fields.get("model name") or platform.machine() or "cpu", fields.get("vendor_id", "")


def parse_cpu_list(text: str) -> int:
    """How many CPUs a kernel list such as "0-3,8" names."""
    count = 0
    for part in text.split(","):
        low, _, high = part.partition("-")
        if low.strip().isdecimal():
            count += int(high or low) - int(low) + 1
    return count


def caches(root: Path = Path("/")) -> tuple[CacheLevel, ...]:
    """Data and unified caches of CPU 0, from sysfs; empty where the kernel does not tell."""
    found = []
    for index in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        size = re.fullmatch(r"(\d+)([KMG]?)", _read(index / "size"))
        if size and _read(index / "type") in ("Data", "Unified"):
            nbytes = int(size[1]) * _UNITS.get(size[2], 1)
            found.append(CacheLevel(int(_read(index / "level") or 0), nbytes, _shared_by(index)))
    return tuple(sorted(found, key=lambda c: c.level))


def _shared_by(index: Path) -> int:
    return max(1, parse_cpu_list(_read(index / "shared_cpu_list")))


def memory_nbytes(root: Path = Path("/")) -> int:
    """Memory we may use: MemTotal, less where a cgroup says so."""
    total = re.search(r"^MemTotal:\s+(\d+) kB", _read(root / "proc/meminfo"), re.M)
    limits = [int(total[1]) * 1024] if total else []
    for path in ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = _read(root / path)
        if text.isdecimal():
            limits.append(int(text))
    return min(limits, default=0)


def _quota(root: Path) -> float:
    """CPUs that the cgroup grants (v2 cpu.max, v1 cfs quota); inf without a limit."""
    quota, _, period = _read(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if not quota:
        quota = _read(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us")
        period = _read(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us")
    if quota.isdecimal() and period.isdecimal() and int(quota) and int(period):
        return int(quota) / int(period)
    return float("inf")


def thread_count(root: Path = Path("/")) -> int:
    """The affinity mask, cut to the cgroup's quota (rounded up)."""
    quota = _quota(root)
    mask = len(os.sched_getaffinity(0))
    return max(1, mask if quota == float("inf") else min(mask, -int(-quota // 1)))
