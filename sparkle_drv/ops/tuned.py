"""The cache of tuned tile plans: SPARKLE_HOME/tuned.json, written by `bench.py tune`, read once per
open device.

An entry belongs to one device, driver, instruction set, number of threads and package version, one
kernel and one shape; what was measured on anything else is never used. The file is written whole,
under a lock; one that is damaged is set aside with a warning, an entry that makes no sense counts
as absent. Nothing here chooses: plans.py does, and falls back to the model (tiles.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sparkle_drv.types import DeviceInfo, TilePlan
from sparkle_drv.version import VERSION

from .geometry import Geometry

log = logging.getLogger("sparkle_drv.ops")
SCHEMA = 1
_FIELDS = ("algo", "levels", "vector", "threads", "layout_in", "layout_out", "pack")


def identity(info: DeviceInfo, version: str = VERSION) -> str:
    """What a plan was measured on, as the key of the file."""
    facts = (info.backend, info.vendor, info.name, info.driver, info.isa, info.compute_units)
    return "|".join(str(fact) for fact in (*facts, version))


def gemm_shape(m: int, n: int, k: int) -> str:
    """The shape of a matrix product as the file names it."""
    return f"m={m} n={n} k={k}"


def conv2d_shape(shape: Geometry) -> str:
    """The shape of a convolution as the file names it: its scalars in the kernel's order."""
    return f"{shape.layout} " + ",".join(str(v) for v in shape.arguments()[:-1])


def reduce_shape(outer: int, n: int, inner: int) -> str:
    """The shape of a reduction of the middle axis as the file names it."""
    return f"outer={outer} n={n} inner={inner}"


@dataclass(frozen=True)
class Entry:
    """A plan and how it was found: medians in seconds, of it and of the model's own choice."""

    plan: TilePlan
    best_s: float = 0.0
    model_s: float = 0.0


class Tuned:
    """The file below one SPARKLE_HOME; "" is nowhere: nothing is found or kept."""

    def __init__(self, home: str) -> None:
        self.path = Path(home, "tuned.json") if home else None

    def entries(self, info: DeviceInfo) -> dict[tuple[str, str], Entry]:
        """(kernel, shape) -> what was found on this very device; {} where nothing can be read."""
        found = {}
        kernels = self._read().get(identity(info))
        for kernel, shapes in kernels.items() if isinstance(kernels, dict) else ():
            for shape, entry in shapes.items() if isinstance(shapes, dict) else ():
                with contextlib.suppress(KeyError, TypeError, ValueError):
                    found[kernel, shape] = _entry(entry)
        return found

    def put(self, info: DeviceInfo, kernel: str, shape: str, entry: Entry) -> None:
        """Keep an entry, in place of what stood there. Raises OSError when it cannot be written."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            devices = self._read()
            kernels = devices.get(identity(info))
            kernels = dict(kernels) if isinstance(kernels, dict) else {}
            shapes = kernels.get(kernel)
            written = {"best_s": entry.best_s, "model_s": entry.model_s, "plan": _plan(entry.plan)}
            kernels[kernel] = {**(shapes if isinstance(shapes, dict) else {}), shape: written}
            document = {"schema": SCHEMA, "devices": {**devices, identity(info): kernels}}
            _replace(self.path, json.dumps(document, indent=1) + "\n")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        assert self.path is not None
        with open(self.path.with_name(".tuned.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _read(self) -> dict[str, Any]:
        """The devices of the file; {} when there is none, or none that can be used."""
        if self.path is None:
            return {}
        try:
            text = self.path.read_bytes()
        except OSError:
            return {}
        try:
            document = json.loads(text)
            if document["schema"] != SCHEMA:
                return {}  # of another version of this package: not ours to judge
            if isinstance(document["devices"], dict):
                return dict(document["devices"])
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        self._set_aside()
        return {}

    def _set_aside(self) -> None:
        assert self.path is not None
        aside = self.path.with_name(self.path.name + ".damaged")
        try:
            os.replace(self.path, aside)
        except OSError as error:
            log.warning("%s is damaged and is not used: %s", self.path, error)
        else:
            log.warning("%s is damaged and is not used; it is %s now", self.path, aside.name)


def _plan(plan: TilePlan) -> dict[str, Any]:
    fields = asdict(plan)
    return {name: fields[name] for name in _FIELDS}


def _entry(given: Mapping[str, Any]) -> Entry:
    """Raises KeyError, TypeError or ValueError for what is no entry."""
    fields = {name: given["plan"][name] for name in _FIELDS if name in given["plan"]}
    fields["levels"] = tuple(_level(level) for level in fields.get("levels", ()))
    plan = TilePlan(**fields)
    texts = (plan.algo, plan.layout_in, plan.layout_out)
    numbers = (plan.vector, plan.threads)
    if not all(isinstance(text, str) for text in texts) or not isinstance(plan.pack, bool):
        raise TypeError("a plan with other types")
    if len(plan.levels) > 2 or not all(_is_size(number) for number in numbers):
        raise ValueError("a plan with other sizes")
    best = float(given["best_s"])
    plan = replace(plan, source="tuned", predicted_s=best)
    return Entry(plan, best, float(given["model_s"]))


def _level(given: Any) -> tuple[int, int, int]:
    m, n, k = given
    if not all(_is_size(size) for size in (m, n, k)):
        raise ValueError(f"levels: {given!r}")
    return m, n, k


def _is_size(given: Any) -> bool:
    return type(given) is int and 0 <= given < 1 << 31


def _replace(path: Path, text: str) -> None:
    """Write beside the place and rename: nobody meets half a file."""
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=".tuned-")
    try:
        with os.fdopen(fd, "w") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
