"""The cards of the amdgpu family: how a render node is opened, and its files in sysfs.

`Real` is a render node of this machine, `Emulated` a card of an emulated machine. Each process that
runs rungs opens the card itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import sparkle_drv as sp
from _bringup.results.rung import Wrong
from sparkle_drv.errors import DeviceNotFound
from sparkle_drv.lowlevel import around, nodes, raw

# Timeout of a job in the emulated kernel driver, in seconds. The real amdgpu driver has 2 s in new
# Linux versions; in old ones it has 10 s, and 60 s for compute.
JOB_LIMIT_S = 1.5


class Real:
    """A render node of this machine. `uri` is "amdgpu:0" or the path of a render node; "" is the
    first render node that amdgpu drives.
    """

    emulated = False

    def __init__(self, uri: str = "", root: Path = Path("/")) -> None:
        self.uri = uri or "amdgpu:0"
        self.root = root

    def listed(self) -> list[nodes.RenderNode]:
        return nodes.listed(self.root)

    def path(self) -> Path:
        """Returns the path of the render node. Raises Wrong, which says what is missing."""
        if self.uri.startswith("/"):
            if not os.path.exists(self.uri):
                raise Wrong(f"expected a render node, found no file {self.uri}", no_node=True)
            return Path(self.uri)
        listed = self.listed()
        dri = self.root / "dev/dri"
        if not dri.is_dir():
            raise Wrong(
                f"there is no {dri}: no GPU driver has made a render node here", no_dri=True
            )
        if not listed:
            raise Wrong(f"{dri} has no render node (renderD*)", no_dri=True)
        ours = [node for node in listed if nodes.maybe_ours(node)]
        which = int(self.uri.partition(":")[2] or 0)
        if which >= len(ours):
            found = ", ".join(map(str, listed))
            raise Wrong(
                f"{self.uri}: expected {which + 1} render nodes of the amdgpu driver or more, got "
                f"{len(ours)}; all render nodes: {found}",
                other_driver=True,
            )
        return ours[which].path

    def open(self) -> raw.DrmNode:
        """Opens the card's render node once more. Raises raw.IoctlError if that fails."""
        return raw.DrmNode(around(raw.linux()), raw.open_path(self.path()))

    def device(self) -> Any:
        """Opens the card's `sparkle_drv.Device`."""
        # Looks for the device by its path. Its number may differ: the package counts only cards
        # that it can drive, the ladder counts all cards of the kernel driver.
        path, reasons = str(self.path()), []
        for found in sp.discover():
            if found.backend != "amdgpu":
                continue
            if found.info is not None and found.tried[0].startswith(f"{path}: "):
                return sp.open(found.info.uri)
            reasons += [found.reason] if found.reason else []
        raise DeviceNotFound(f"{path}: the package cannot drive this card: {'; '.join(reasons)}")

    def sysfs(self) -> Path | None:
        """Returns /sys/class/drm/renderD*/device, or None if it does not exist."""
        try:
            folder = self.root / "sys/class/drm" / self.path().name / "device"
        except Wrong:
            return None
        return folder if folder.is_dir() else None

    def last_fault(self) -> str:
        """Returns "": only an emulated card can describe its last fault."""
        return ""

    def close(self) -> None:
        """Does nothing, because nothing is open."""


class Emulated:
    """Card number `index` of an emulated machine. Without `machine`, makes a new one."""

    emulated = True
    root = Path("/")

    def __init__(self, chip: str, *, machine: Any = None, index: int = 0, **options: Any) -> None:
        self.uri = f"emu:{chip}"
        self._chip, self._machine, self._index = chip, machine, index
        self._own = machine is None
        self._options = {"job_limit_s": JOB_LIMIT_S, "kms_minor": 58, **options}

    @property
    def machine(self) -> Any:
        """The emulated machine (testing.emulator.Machine), made when first needed."""
        if self._machine is None:
            from sparkle_drv.testing.emulator import Machine

            self._machine = Machine([self._chip], **self._options)
        return self._machine

    def path(self) -> Path:
        return Path(self.uri)

    def open(self) -> raw.DrmNode:
        try:
            fd = self.machine.open(self._index)
        except OSError as error:
            raise raw.IoctlError(error.errno or 0, "open", self.uri) from None
        node = raw.DrmNode(around(self.machine.ops), fd.fd)
        fd.fd = -1  # from here on `node` owns the descriptor and closes it
        return node

    def device(self) -> Any:
        from sparkle_drv.testing import emu

        return emu.open_device(self.machine, self._index, self.uri)

    def sysfs(self) -> Path | None:
        return None

    def last_fault(self) -> str:
        fault = self.machine.fault(self._index) if self._machine is not None else None
        return str(fault) if fault else ""

    def close(self) -> None:
        if self._own and self._machine is not None:
            self._machine.close()
            self._machine = None
