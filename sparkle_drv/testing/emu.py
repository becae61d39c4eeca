"""`emu:gfx1100`, `emu:gfx1036#1`, `emu:gfx1103:kms-3.42:bar-256M`: the amdgpu backend on emulated
cards, registered when `sparkle_drv.testing` is imported.

All cards of a process are in one machine, four of each chip, so that any two are peers. gfx1100 and
gfx1036 are there from the beginning. Another chip is added when a URI first names it. A URI
may add options to a chip, such as ":kms-3.42" (native/emu/README.md). For each chip with options, a
further machine has four such cards.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sparkle_drv._emu import lib
from sparkle_drv.backends.amdgpu.backend import AmdgpuBackend
from sparkle_drv.backends.base import Settings
from sparkle_drv.core.device import Device
from sparkle_drv.errors import DeviceNotFound
from sparkle_drv.fork_lock import fork_lock
from sparkle_drv.testing.emulated_options import card_problem
from sparkle_drv.testing.emulator import Machine
from sparkle_drv.types import Found

CHIPS, CARDS = ("gfx1100", "gfx1036"), 4
FIRST_BUS = 3
"""PCI bus of the first card, as native/emu/preload/tree.c."""
_URI = re.compile(r"emu(?::([\w.:-]+)(?:#(\d+))?)?\Z")
# the common machine of a process, by process id: a forked child has its own machine
_machines: dict[int, Machine] = {}
# machines of cards with options, by (process id, the cards in a URI: "gfx1103:kms-3.42")
_apart: dict[tuple[int, str], Machine] = {}
_others: list[Machine] = []  # `on` uses these in place of the process's common machine
_cards: weakref.WeakKeyDictionary[AmdgpuBackend, tuple[Machine, int]] = weakref.WeakKeyDictionary()
_lock = fork_lock()


class _EmulatedBackend(AmdgpuBackend):
    """Names the reason of a fault: adds the emulated card's own report to the backend's text. For a
    real card, only the log of the operating system's kernel has the reason.
    """

    def fault(self, queue: Any, value: int) -> str:
        words = super().fault(queue, value)
        machine, card = _cards[self]
        try:
            found = machine.fault(card)
        except ValueError:  # the machine is closed
            return words
        return f"{words}; the card's last fault: {found.kind}: {found.text}" if found else words


def machine() -> Machine:
    """Returns the machine of this process, made on first use."""
    with _lock:
        return _common()


def _common() -> Machine:
    if os.getpid() not in _machines:
        _machines[os.getpid()] = Machine([chip for chip in CHIPS for _ in range(CARDS)])
    return _machines[os.getpid()]


def _holder(text: str) -> Machine:
    """Returns the machine that has the cards `text`, such as "gfx1103:kms-3.42". Raises ValueError
    if the text names no card.
    """
    with _lock:
        there = _common()
        if text in there.chips or there in _others:
            return there
        if ":" not in text:
            for _ in range(CARDS):
                there.add(text)
            return there
        key = (os.getpid(), text)
        if key not in _apart:
            _apart[key] = Machine([text] * CARDS)
        return _apart[key]


@contextmanager
def on(other: Machine) -> Iterator[Machine]:
    """Makes `emu:` name the cards of another machine inside the block, for tests that break a
    machine.
    """
    pid = os.getpid()
    with _lock:
        usual = _machines.pop(pid, None)
        _machines[pid] = other
        _others.append(other)
    try:
        yield other
    finally:
        with _lock:
            _others.remove(other)
            del _machines[pid]
            if usual is not None:
                _machines[pid] = usual


def open_card(machine: Machine, card: int, uri: str, *, name: str = "") -> AmdgpuBackend:
    """Opens a card of any emulated machine as a backend. Raises DeviceNotFound if the
    card's render node cannot be opened.
    """
    fd = lib.sp_emu_open(machine.handle, card)
    if fd < 0:
        raise DeviceNotFound(f"{uri}: cannot open its render node: {os.strerror(-fd)}")
    said = name or f"emulated {machine.chips[card]}"
    slot = f"0000:{FIRST_BUS + card:02x}:00.0"
    backend = _EmulatedBackend(machine.ops, fd, uri, name=said, emulated=True, slot=slot)
    _cards[backend] = machine, card
    return backend


def caches(device: Device) -> dict[str, int] | None:
    """Returns the numbers of events and bytes in a device's emulated caches so far, as
    Machine.caches does. Returns None for a device that is not emulated.
    """
    backend = device._backend
    if not isinstance(backend, AmdgpuBackend) or backend not in _cards:
        return None
    machine, card = _cards[backend]
    return machine.caches(card)


def open_device(machine: Machine, card: int, uri: str) -> Device:
    """Opens a card of any emulated machine as a Device."""
    return Device(uri, open_card(machine, card, uri))


class EmuBackend:
    """The scheme `emu`, which opens an AmdgpuBackend."""

    @staticmethod
    def discover(settings: Settings) -> Sequence[Found]:
        """Returns no devices, so that no search for devices finds an emulated card. A user must
        name the card.
        """
        return []

    @staticmethod
    def open(uri: str, settings: Settings) -> AmdgpuBackend:
        match = _URI.match(uri)
        text, number = (match[1] or CHIPS[0], int(match[2] or 0)) if match else ("", 0)
        if problem := card_problem(text):
            raise DeviceNotFound(f"{uri}: {problem}")
        there = _holder(text)
        cards = [i for i, name in enumerate(there.chips) if name == text]
        if number >= len(cards):
            known = " and ".join(
                f"{there.chips.count(name)} of emu:{name}" for name in dict.fromkeys(there.chips)
            )
            raise DeviceNotFound(
                f"{uri}: expected one of the emulated cards ({known}, counted from #0)"
            )
        return open_card(there, cards[number], f"emu:{text}" + (f"#{number}" if number else ""))
