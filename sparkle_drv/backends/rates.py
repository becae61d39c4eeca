"""The keys under which measurements of devices are kept, and their best measured rates
(SPARKLE_HOME/rates.json).

Whoever measures tells `Device.learned`; `open` and `devices` show it in DeviceInfo. Nothing is
measured or chosen here. Emulated devices have no rates.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparkle_drv.kept import DeviceFile
from sparkle_drv.types import DeviceInfo
from sparkle_drv.version import VERSION

log = logging.getLogger("sparkle_drv")
FIELDS = ("peak_gflops", "mem_bw_gbs")
MOST = 1e9
"""No device does more GFLOP/s or GB/s: a file that says so is damaged."""


def identity(info: DeviceInfo, version: str = VERSION) -> str:
    """What a plan, or a roof of the bench, was measured on, as the key of its file.

    The PCI slot is no part of it: a plan holds for every card of a kind.
    """
    facts = (info.backend, info.vendor, info.name, info.driver, info.isa, info.compute_units)
    cores = [name for name in info.shares if ":" in name]  # named ones; not all need be alike
    return "|".join(str(fact) for fact in (*facts, *cores, version))


def slot_key(info: DeviceInfo) -> str:
    """The name under which what was measured of a device and of its ways is kept.

    It has the PCI slot: equal cards find their own measurements in whatever order they are
    enumerated, and a card in another slot is measured anew. Devices without a slot have their URI.
    """
    return f"{info.slot or info.uri}|{identity(info)}"


def _sane(entry: Any) -> bool:
    return isinstance(entry, dict) and all(
        type(entry.get(name, 0.0)) in (int, float) and 0 <= entry.get(name, 0.0) < MOST
        for name in FIELDS
    )


def _file(home: str) -> DeviceFile | None:
    return DeviceFile(Path(home, "rates.json"), log, _sane) if home else None


def raised(info: DeviceInfo, rates: dict[str, float]) -> DeviceInfo:
    """`info` with those of the rates that are higher; itself where none is."""
    if info.emulated:
        return info
    higher = {
        name: float(value)
        for name, value in rates.items()
        if name in FIELDS and math.isfinite(value) and getattr(info, name) < value < MOST
    }
    return replace(info, **higher) if higher else info  # type: ignore[arg-type]


def known(info: DeviceInfo, home: str) -> DeviceInfo:
    """`info` with what was measured of the device in this or an earlier process."""
    file = None if info.emulated else _file(home)
    entry = file.read().get(slot_key(info)) if file else None
    return raised(info, entry) if entry else info


def keep(info: DeviceInfo, home: str) -> None:
    """Keep the rates in `info`. A file that cannot be written is told in the log."""
    file = _file(home)
    if file is None or info.emulated:
        return

    def change(before: Any) -> dict[str, float]:
        best = before if isinstance(before, dict) else {}
        return {name: max(getattr(info, name), best.get(name, 0.0)) for name in FIELDS}

    try:
        file.update(slot_key(info), change, 1.0)
    except OSError as error:
        log.warning("%s: what was measured is not kept: %s", info.uri, error)
