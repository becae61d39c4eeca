"""The control groups of this process, and the CPU time and memory that they grant.

Sources: Linux' Documentation/admin-guide/cgroup-v2.rst (cpu.max, memory.max) and cgroup-v1
(Documentation/scheduler/sched-bwc.rst: cpu.cfs_quota_us, cpu.cfs_period_us;
Documentation/admin-guide/cgroup-v1/memory.rst). A group gets at most what each group around it
grants. Each limit is thus the least of all groups, from the process's own up to the mount.
machine.py calls this module; tests pass a made-up tree as `root`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def read(path: Path) -> str:
    """Returns the stripped text of a small file; "" if the file is missing or unreadable."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def quota(root: Path) -> float:
    """Returns how many CPUs the control groups of this process grant; inf without a limit."""
    return min((_cpus(group) for group in _groups(root, "cpu")), default=float("inf"))


def memory_nbytes(root: Path) -> int | None:
    """Returns how many bytes of memory the control groups grant; None without a limit."""
    names = ("memory.max", "memory.limit_in_bytes")
    texts = [read(group / name) for group in _groups(root, "memory") for name in names]
    return min((int(text) for text in texts if text.isdecimal()), default=None)


def _cpus(group: Path) -> float:
    text = read(group / "cpu.max")
    granted, _, period = text.partition(" ")
    if not text:
        granted, period = read(group / "cpu.cfs_quota_us"), read(group / "cpu.cfs_period_us")
    if granted.isdecimal() and period.isdecimal() and int(granted) and int(period):
        return int(granted) / int(period)
    return float("inf")


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yields the folders of the control groups that limit this process in `controller` ("cpu" or
    "memory"): its own group first, then the groups around that one.
    """
    own = _own_paths(root, controller)
    for kind, top, mount in _mounts(root, controller):
        path = own.get(kind, "/")
        # A container that sees only its own control group has this group mounted as the top of the
        # hierarchy. /proc/self/cgroup may still have the host's path.
        inside = path[len(top) :] if path == top or path.startswith(top.rstrip("/") + "/") else ""
        parts = [part for part in inside.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            yield root.joinpath(mount.lstrip("/"), *parts[:depth])


def _own_paths(root: Path, controller: str) -> dict[str, str]:
    """Returns this process's control group for each kind of hierarchy, from /proc/self/cgroup
    (cgroups(7)).
    """
    paths = {}
    for line in read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            paths["cgroup2"] = path
        elif controller in controllers.split(","):
            paths["cgroup"] = path
    return paths


def _mounts(root: Path, controller: str) -> list[tuple[str, str, str]]:
    """Returns (kind, mounted control group, mount point) of each cgroup mount in
    /proc/self/mountinfo (proc(5)).
    """
    mounts = []
    for line in read(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, about = before.split(), after.split()
        if len(fields) < 5 or len(about) < 3:
            continue
        kind, options = about[0], about[2].split(",")
        if kind == "cgroup2" or (kind == "cgroup" and controller in options):
            mounts.append((kind, fields[3], fields[4]))
    usual = ("cgroup2", "/", "/sys/fs/cgroup"), ("cgroup", "/", f"/sys/fs/cgroup/{controller}")
    # without mounts in /proc: the usual mounts of systemd and containers
    return mounts or list(usual)
