"""The cards of the amdgpu family: how a node is opened, and what lies about it in the file system.

`Real` is a render node of this machine, `Emulated` a card of an emulated machine. Both are opened
anew for every bench, in the process that uses them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import sparkle_drv as sp
from _bringup.results.rung import Wrong
from sparkle_drv.errors import DeviceNotFound
from sparkle_drv.lowlevel import around, nodes, raw

JOB_LIMIT_S = 1.5  # of the emulated kernel: 2 s in new kernels, 10 and 60 s in old ones


class Real:
    """`uri`: "amdgpu:0", or the path of a render node; "" is the first that amdgpu drives."""

    emulated = False

    def __init__(self, uri: str = "", root: Path = Path("/")) -> None:
        self.uri = uri or "amdgpu:0"
        self.root = root

    def listed(self) -> list[nodes.Node]:
        return nodes.listed(self.root)

    def path(self) -> Path:
        """The node's; Wrong that says what is missing."""
        if self.uri.startswith("/"):
            if not os.path.exists(self.uri):
                raise Wrong(f"there is no {self.uri}", no_node=True)
            return Path(self.uri)
        listed = self.listed()
        dri = self.root / "dev/dri"
        if not dri.is_dir():
            raise Wrong(f"there is no {dri}: no GPU driver has made a node here", no_dri=True)
        if not listed:
            raise Wrong(f"{dri} has no render node (renderD*)", no_dri=True)
        ours = [node for node in listed if nodes.maybe_ours(node)]
        which = int(self.uri.partition(":")[2] or 0)
        if which >= len(ours):
            found = ", ".join(map(str, listed))
            raise Wrong(f"{self.uri}: amdgpu drives {len(ours)} of: {found}", other_driver=True)
        return ours[which].path

    def open(self) -> raw.Node:
        """A node of its own; raw.IoctlError."""
        return raw.Node(around(raw.linux()), raw.open_path(self.path()))

    def device(self) -> Any:
        """The public device."""
        # The package counts the cards that it can drive, the ladder those of the driver.
        path, reasons = str(self.path()), []
        for found in sp.discover():
            if found.backend != "amdgpu":
                continue
            if found.info is not None and found.tried[0].startswith(f"{path}: "):
                return sp.open(found.info.uri)
            reasons += [found.reason] if found.reason else []
        raise DeviceNotFound(f"{path}: the package cannot drive it: {'; '.join(reasons)}")

    def sysfs(self) -> Path | None:
        """/sys/class/drm/renderD*/device, where there is one."""
        try:
            folder = self.root / "sys/class/drm" / self.path().name / "device"
        except Wrong:
            return None
        return folder if folder.is_dir() else None

    def last_fault(self) -> str:
        """What only an emulated card can tell."""
        return ""

    def close(self) -> None:
        """Nothing is kept."""


class Emulated:
    """Card `index` of an emulated machine; one is made where none is given."""

    emulated = True
    root = Path("/")

    def __init__(self, chip: str, *, machine: Any = None, index: int = 0, **options: Any) -> None:
        self.uri = f"emu:{chip}"
        self._chip, self._machine, self._index = chip, machine, index
        self._own = machine is None
        self._options = {"job_limit_s": JOB_LIMIT_S, "kms_minor": 58, **options}

    @property
    def machine(self) -> Any:
        """The testing.emulator.Machine, made when first asked for."""
        if self._machine is None:
            from sparkle_drv.testing.emulator import Machine

            self._machine = Machine([self._chip], **self._options)
        return self._machine

    def path(self) -> Path:
        return Path(self.uri)

    def open(self) -> raw.Node:
        try:
            fd = self.machine.open(self._index)
        except OSError as error:
            raise raw.IoctlError(error.errno or 0, "open", self.uri) from None
        node = raw.Node(around(self.machine.ops), fd.fd)
        fd.fd = -1  # the node's from here on
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
