"""Checks that there is enough memory before any work starts, because a system without memory kills
the process without a message. Called by runner.py and transfer.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from _console.problems import UsageError

from _bench.jobs.job import Job

if TYPE_CHECKING:
    import sparkle_drv as sp

# Copies in host memory that a job needs at once: the operands as written, the outputs as read, and
# the reference's float64 arrays.
HOST_COPIES = 3


def check_job(job: Job, nsets: int, info: sp.DeviceInfo) -> None:
    """Raises UsageError when a job with `nsets` sets of its operands needs more memory than the
    device or the host has.
    """
    sets = nsets * (1 + len(job.rivals))
    host = HOST_COPIES * job.footprint
    check(f"{job.kernel} {job.label}", sets * job.footprint, host, info)


def check(what: str, device_nbytes: int, host_nbytes: int, info: sp.DeviceInfo) -> None:
    """Raises UsageError, which begins with `what`, when there is too little memory: the device has
    less than `device_nbytes`, or the host has less than `host_nbytes` free. A device that computes
    in the host's memory needs both there.
    """
    from sparkle_drv.types import in_common

    if info.memory_nbytes and device_nbytes > info.memory_nbytes:
        raise UsageError(
            f"{what} needs {gib(device_nbytes)} of memory, {info.uri} has {gib(info.memory_nbytes)}"
        )
    shared = bool(in_common(("cpu",), info.shares))
    wanted, free = host_nbytes + shared * device_nbytes, available_nbytes()
    if free is not None and wanted > free:
        raise UsageError(f"{what} needs {gib(wanted)} of the host's memory, {gib(free)} are free")


def available_nbytes(root: Path = Path("/")) -> int | None:
    """Returns the bytes that are free without swapping: MemAvailable, or less when a cgroup limits
    it. None if the system does not say.
    """
    found = []
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            found.append(int(line.split()[1]) << 10)
    group = root / "sys/fs/cgroup"
    limit, used = _read(group / "memory.max"), _read(group / "memory.current")
    if limit.isdigit() and used.isdigit():
        stat = dict(line.split() for line in _read(group / "memory.stat").splitlines())
        # The cgroup counts cached pages of files as used, but Linux can reclaim them.
        found.append(int(limit) - int(used) + int(stat.get("inactive_file", 0)))
    return max(min(found), 0) if found else None


def gib(nbytes: int) -> str:
    return f"{nbytes / (1 << 30):.3g} GiB" if nbytes < 1 << 40 else f"{nbytes / (1 << 40):.3g} TiB"


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
