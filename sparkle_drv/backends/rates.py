"""Measured rates of devices, kept in SPARKLE_HOME/rates.json, and the keys of all kept
measurements.

Code that has measured a rate passes it to `Device.learned`. `open` and `devices` show the rates in
DeviceInfo. This module itself measures nothing and decides nothing. Emulated devices have no rates.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparkle_drv.saved_files import DeviceFile
from sparkle_drv.types import DeviceInfo
from sparkle_drv.version import VERSION

log = logging.getLogger("sparkle_drv")
FIELDS = ("peak_gflops", "mem_bw_gbs")
MOST = 1e9
"""No device exceeds this in GFLOP/s or GB/s: a file with more is damaged."""


def identity(info: DeviceInfo, version: str = VERSION) -> str:
    """Returns the key of plans and of the bench's roofs: the kind of device that they were measured
    on.

    The key omits the PCI slot, since a plan applies to every card of a kind.
    """
    facts = (info.backend, info.vendor, info.name, info.driver, info.isa, info.compute_units)
    # The key contains the named cores (cpu:c0), since the cores of a CPU may differ in speed.
    cores = [name for name in info.shares if ":" in name]
    return "|".join(str(fact) for fact in (*facts, *cores, version))


def slot_key(info: DeviceInfo) -> str:
    """Returns the key of measurements of one device and of its links.

    The key has the PCI slot. Equal cards thus find their own measurements in any order of
    enumeration, and a card in another slot is measured again. Devices without a slot use their URI.
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
    """Returns a copy of `info` that has the rates in `rates` where these are higher. Rates of an
    emulated device stay as they are.
    """
    if info.emulated:
        return info
    higher = {
        name: float(value)
        for name, value in rates.items()
        if name in FIELDS and math.isfinite(value) and getattr(info, name) < value < MOST
    }
    return replace(info, **higher) if higher else info  # type: ignore[arg-type]


def known(info: DeviceInfo, home: str) -> DeviceInfo:
    """Returns `info` with the rates measured in this or an earlier process."""
    file = None if info.emulated else _file(home)
    entry = file.read().get(slot_key(info)) if file else None
    return raised(info, entry) if entry else info


def keep(info: DeviceInfo, home: str) -> None:
    """Stores the rates of `info`. Logs a warning if the file cannot be written."""
    file = _file(home)
    if file is None or info.emulated:
        return

    def change(before: Any) -> dict[str, float]:
        best = before if isinstance(before, dict) else {}
        return {name: max(getattr(info, name), best.get(name, 0.0)) for name in FIELDS}

    try:
        file.update(slot_key(info), change, 1.0)
    except OSError as error:
        log.warning("%s: the measured rates are not kept: %s", info.uri, error)
