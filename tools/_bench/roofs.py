"""The roofs of a device: flops and memory bandwidth measured on it by our own kernels, and their
cache.

The cache is SPARKLE_HOME/peak.json (default ~/.sparkle), one entry per device, driver, instruction
set, number of threads and package version, so that a roof is never that of something else. Called
by the peak and run commands.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import results
from .problems import UsageError

if TYPE_CHECKING:
    import sparkle_drv as sp

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


def identity(info: sp.DeviceInfo, version: str) -> str:
    """What a roof belongs to."""
    facts = (info.backend, info.name, info.driver, info.isa, info.compute_units, version)
    return "|".join(str(fact) for fact in facts)


def home() -> Path:
    """SPARKLE_HOME, else ~/.sparkle."""
    return Path(os.environ.get("SPARKLE_HOME") or os.path.expanduser("~/.sparkle"))


class RoofCache:
    """The file and what is known beside it: an unwritable home costs a measurement per process,
    nothing else.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or home() / "peak.json"
        self._known: dict[str, Roof] = {}
        self._said = False

    def get(self, key: str) -> Roof | None:
        """The roof kept for a device, from memory or file; an unreadable or malformed file counts
        as empty.
        """
        if key not in self._known:
            entry = self._read().get(key)
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
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked():
                devices = {**self._read(), key: asdict(roof)}
                results.write_atomically(
                    self.path, json.dumps({"schema": 1, "devices": devices}, indent=1) + "\n"
                )
        except (OSError, UsageError) as error:
            if not self._said:
                log.debug("roofs are kept in memory only: %s", error)
            self._said = True

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Two benches may end at once: read, change and rename under a lock."""
        with open(self.path.with_name(".peak.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _read(self) -> dict[str, Any]:
        try:
            document = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        devices = (
            document.get("devices")
            if isinstance(document, dict) and document.get("schema") == 1
            else None
        )
        return devices if isinstance(devices, dict) else {}


def _numbers(entry: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in entry.items()}
