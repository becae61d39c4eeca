"""Lists render nodes, finds those of amdgpu, and says why a node cannot be opened."""

from __future__ import annotations

import errno
import grp
import os
from dataclasses import dataclass
from pathlib import Path

from sparkle_drv._native import lib
from sparkle_drv.errors import DeviceNotFound

NO_NODE = "with an AMD GPU: load the amdgpu kernel module; in a container pass /dev/dri through"


@dataclass(frozen=True)
class RenderNode:
    """A render node. `driver` is the kernel driver's name in sysfs, or "" if sysfs has none."""

    path: Path
    driver: str

    def __str__(self) -> str:
        return f"{self.path}: {self.driver or 'an unknown driver'}"


def listed(root: Path = Path("/")) -> list[RenderNode]:
    """Returns every render node, in the order of their numbers."""
    paths = (root / "dev/dri").glob("renderD*")
    return [
        RenderNode(path, _driver(root, path.name))
        for path in sorted(paths, key=lambda p: (len(p.name), p.name))
    ]


def _driver(root: Path, name: str) -> str:
    link = root / "sys/class/drm" / name / "device/driver"
    return link.resolve().name if link.exists() else ""


def maybe_ours(node: RenderNode) -> bool:
    """Returns whether amdgpu drives a render node. True also if the driver is unknown."""
    return node.driver in ("", "amdgpu")


def open_node(node: RenderNode) -> int:
    """Opens a render node and returns the descriptor, which the caller owns. Raises DeviceNotFound
    with the reason, and with advice if the permission is missing.
    """
    fd: int = lib.sp_amdgpu_open_node(os.fsencode(node.path))
    if fd >= 0:
        return fd
    if fd in (-errno.EACCES, -errno.EPERM):
        raise DeviceNotFound(f"{node.path}: permission denied; {_permission(node.path)}")
    raise DeviceNotFound(f"cannot open {node.path}: {os.strerror(-fd)}")


def _permission(path: Path) -> str:
    """Returns which group may open the render node, and how to add a user to that group."""
    try:
        stat = path.stat()
    except OSError as error:
        return f"and its mode cannot be read: {error.strerror}"
    try:
        group = grp.getgrgid(stat.st_gid).gr_name
    except KeyError:
        group = str(stat.st_gid)
    who = f"it belongs to group {group} (mode {stat.st_mode & 0o777:o})"
    if stat.st_gid in os.getgroups():
        return f"{who}, which this process is in: a container's device rules may forbid it"
    return f"{who}: add the user to it ('usermod -aG {group} USER') and log in again"
