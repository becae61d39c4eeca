"""The roofs of a device: flops and memory bandwidth measured on it by our own kernels, and their
cache.

The cache is SPARKLE_HOME/peak.json (default ~/.sparkle), one entry per device, driver, instruction
set, number of threads and package version (tuned.identity), so that a roof is never that of
something else. Called by the peak and run commands.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sparkle_drv.kept import DeviceFile

log = logging.getLogger("sparkle_drv.bench")


@dataclass(frozen=True)
class Roof:
    """What a device can do at best: GFLOPS by type ("f32", "f64"), and GB/s of memory beyond the
    caches when a kernel reads and writes ("copy") and when it does little but read ("read").
    """

    gflops: Mapping[str, float] = field(default_factory=dict)
    gbytes_per_s: Mapping[str, float] = field(default_factory=dict)

    def raised_to(self, other: Roof) -> Roof:
        """The higher of two measurements of each: a roof is what was reached once."""
        return Roof(
            _higher(self.gflops, other.gflops), _higher(self.gbytes_per_s, other.gbytes_per_s)
        )


def _higher(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    return {key: max(a.get(key, 0.0), b.get(key, 0.0)) for key in {**a, **b}}


def home() -> Path:
    """SPARKLE_HOME, else ~/.sparkle."""
    return Path(os.environ.get("SPARKLE_HOME") or os.path.expanduser("~/.sparkle"))


class RoofCache:
    """The file and what is known beside it: an unwritable home costs a measurement per process,
    nothing else.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or home() / "peak.json"
        self._file = DeviceFile(self.path, log)
        self._known: dict[str, Roof] = {}
        self._said = False

    def get(self, key: str) -> Roof | None:
        """The roof kept for a device, from memory or file; an unreadable or malformed file counts
        as empty.
        """
        if key not in self._known:
            entry = self._file.read().get(key)
            if isinstance(entry, dict):
                with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
                    self._known[key] = Roof(
                        _numbers(entry["gflops"]), _numbers(entry["gbytes_per_s"])
                    )
        return self._known.get(key)

    def put(self, key: str, roof: Roof) -> None:
        """Keeps a roof, in the file too when it can be written."""
        self._known[key] = roof
        try:
            self._file.update(key, lambda _: asdict(roof))
        except OSError as error:
            if not self._said:
                log.debug("roofs are kept in memory only: %s", error)
            self._said = True


def _numbers(entry: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in entry.items()}
