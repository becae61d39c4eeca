"""Facts of this machine: CPU name, caches, memory, NUMA nodes, and the threads that this process
may use.

The module reads /proc and /sys and runs no program. Tests pass a made-up tree as `root`.
"""

from __future__ import annotations

import math
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkle_drv.backends import cgroup
from sparkle_drv.backends.cgroup import read
from sparkle_drv.types import CacheLevel

MOST_THREADS = 1024
"""Threads of one cpu device at most, as native/cpu/runtime/device.c."""
_PCI = re.compile(r"([0-9a-f]{1,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.ASCII | re.IGNORECASE)
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def name_and_vendor(root: Path = Path("/")) -> tuple[str, str]:
    """Returns "model name" and "vendor_id" of /proc/cpuinfo on x86; elsewhere the machine type and
    "".
    """
    fields = dict(re.findall(r"^([\w ]+?)\s*:\s*(.*)$", read(root / "proc/cpuinfo"), re.M))
    return fields.get("model name") or platform.machine() or "cpu", fields.get("vendor_id", "")


def cpu_list(text: str) -> list[int]:
    """Parses a list of CPUs as Linux writes it, such as "0-3,8"."""
    cpus: list[int] = []
    for part in text.split(","):
        low, _, high = (number.strip() for number in part.partition("-"))
        if low.isdecimal() and (high or low).isdecimal():
            cpus += range(int(low), int(high or low) + 1)
    return cpus


def caches(root: Path = Path("/"), cpu: int = 0) -> tuple[CacheLevel, ...]:
    """Returns the data and unified caches of one CPU, from sysfs; empty if Linux reports none."""
    levels = []
    for index in sorted((root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index*")):
        size = re.fullmatch(r"(\d+)([KMG]?)", read(index / "size"))
        if size and read(index / "type") in ("Data", "Unified"):
            nbytes = int(size[1]) * _UNITS.get(size[2], 1)
            levels.append(CacheLevel(int(read(index / "level") or 0), nbytes, _shared_by(index)))
    return tuple(sorted(levels, key=lambda c: c.level))


def _shared_by(index: Path) -> int:
    return max(1, len(cpu_list(read(index / "shared_cpu_list"))))


def memory_nbytes(root: Path = Path("/")) -> int:
    """Returns the bytes of memory that this process may use: MemTotal, or less if a cgroup limits
    it.
    """
    total = re.search(r"^MemTotal:\s+(\d+) kB", read(root / "proc/meminfo"), re.M)
    limits = [int(total[1]) * 1024] if total else []
    granted = cgroup.memory_nbytes(root)
    return min(limits if granted is None else [*limits, granted], default=0)


def thread_count(root: Path = Path("/")) -> int:
    """Returns the number of CPUs in the affinity mask, limited to what the cgroups grant.

    A fraction of a CPU counts as one CPU. It is enough for one more thread, because threads that
    wait for memory or at the end of a job leave the CPU to the others.
    """
    granted = cgroup.quota(root)
    mask = len(os.sched_getaffinity(0))
    return mask if granted >= mask else max(1, math.ceil(granted))


def slot(text: str) -> str:
    """Returns the PCI address `text` in Linux' spelling (drivers/pci/probe.c, pci_setup_device).
    Returns "" for any other text.

    CUDA uses capital letters; NVIDIA's tools write the domain with eight digits.
    """
    match = _PCI.fullmatch(text)
    return f"{int(match[1], 16):04x}:{match[2]}:{match[3]}.{match[4]}".lower() if match else ""


def slot_of(node: str | Path, root: Path = Path("/")) -> str:
    """Returns the PCI address of a DRM node such as "/dev/dri/renderD128", from sysfs; "" if it has
    none.

    Linux' Documentation/ABI: /sys/class/drm/renderD128/device links to the device's folder, and
    folders of PCI devices are named by their addresses.
    """
    name = Path(node).name
    return slot((root / "sys/class/drm" / name / "device").resolve().name) if name else ""


@dataclass(frozen=True)
class NumaNode:
    """The part of a NUMA node that this process may use."""

    number: int
    """The node's number in sysfs."""
    cpus: tuple[int, ...]
    """The node's CPUs in the affinity mask; never empty."""


def nodes(root: Path = Path("/")) -> tuple[NumaNode, ...]:
    """Returns the NUMA nodes that have CPUs of this process, from sysfs; empty if Linux reports
    none.

    Each folder nodeN has a file `cpulist` (Linux' Documentation/ABI/stable/sysfs-devices-node).
    This file is empty for a node without CPUs (memory of accelerators, CXL), which is left out.
    """
    ours = os.sched_getaffinity(0)
    nodes = []
    for path in (root / "sys/devices/system/node").glob("node[0-9]*"):
        cpus = tuple(sorted(ours & set(cpu_list(read(path / "cpulist")))))
        if cpus and path.name[4:].isdecimal():
            nodes.append(NumaNode(int(path.name[4:]), cpus))
    return tuple(sorted(nodes, key=lambda node: node.number))


def spread(nodes: Sequence[NumaNode], threads: int) -> tuple[int, ...]:
    """Returns the node (an index into `nodes`) of each of `threads` threads. Neighbouring threads
    get the same node.

    Each node gets threads in proportion to its CPUs, rounded so that the sum is right.
    """
    total = sum(len(node.cpus) for node in nodes)
    ends, passed = [], 0
    for node in nodes:
        passed += len(node.cpus)
        ends.append((threads * passed + total // 2) // total)
    return tuple(next(i for i, end in enumerate(ends) if t < end) for t in range(threads))
