"""`emu:gfx1100`, `emu:gfx1036#1`: the amdgpu backend on emulated cards, known once
`sparkle_drv.testing` is imported.

All cards of a process are in one machine, four of each chip, so that two of them are peers.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence

from sparkle_drv._emu import lib
from sparkle_drv.backends.amdgpu.backend import AmdgpuBackend
from sparkle_drv.backends.base import Settings
from sparkle_drv.core.device import Device
from sparkle_drv.errors import DeviceNotFound
from sparkle_drv.testing.emulator import Machine, check
from sparkle_drv.types import Found

CHIPS, CARDS = ("gfx1100", "gfx1036"), 4
_URI = re.compile(r"emu(?::(\w+)(?:#(\d+))?)?\Z")
_machines: dict[int, Machine] = {}  # by process: a forked child has its own
_lock = threading.Lock()


def machine() -> Machine:
    """The machine of this process, made when first asked for."""
    with _lock:
        if os.getpid() not in _machines:
            _machines[os.getpid()] = Machine([chip for chip in CHIPS for _ in range(CARDS)])
        return _machines[os.getpid()]


def open_card(machine: Machine, card: int, uri: str, *, name: str = "") -> AmdgpuBackend:
    """The backend on a card of any emulated machine."""
    fd = check(lib.sp_emu_open(machine.handle, card), "open")
    said = name or f"emulated {machine.chips[card]}"
    return AmdgpuBackend(machine.ops, fd, uri, name=said, emulated=True)


def open_device(machine: Machine, card: int, uri: str) -> Device:
    """The public device of a card of any emulated machine."""
    return Device(uri, open_card(machine, card, uri))


class EmuBackend:
    """The scheme `emu`; what it opens is an AmdgpuBackend."""

    @staticmethod
    def discover(settings: Settings) -> Sequence[Found]:
        """None: an emulated card is there for who names it, and no mesh takes it unasked."""
        return []

    @staticmethod
    def open(uri: str, settings: Settings) -> AmdgpuBackend:
        match = _URI.match(uri)
        chip, number = (match[1] or CHIPS[0], int(match[2] or 0)) if match else ("", 0)
        if chip not in CHIPS or number >= CARDS:
            raise DeviceNotFound(
                f"{uri}: emulated are {' and '.join(f'emu:{c}' for c in CHIPS)}, each with "
                f"#0 to #{CARDS - 1}"
            )
        card = CHIPS.index(chip) * CARDS + number
        return open_card(machine(), card, f"emu:{chip}" + (f"#{number}" if number else ""))
