"""Measures one case. Verifies every way in which a peer computes the case (`Way` of base.py), then
times the correct ways in turns.

A round times each way once, in a new random order. A sample is the median of a few blocks of calls.
Warm-up calls come directly before a sample, because the other ways have emptied the caches.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from . import OURS, reference
from .cases import Case
from .peer_process import Lost

BLOCK_NS, SAMPLE_NS, BLOCKS = 400_000.0, 6_000_000.0, 5
WARM_NS = 40_000_000.0
"""A call that takes longer (ns) needs no warm-up before its sample."""
SHORT_NS = 500_000.0
"""If the first call takes less (ns), it says little about the next ones."""
FEWEST, MOST = 6, 15
"""Least and largest number of rounds. With six rounds a median has an interval of 95 %."""
LONG = 3.0
"""A case that has taken so many times its share of the time stops after three rounds."""


class Asked(Protocol):
    """The part of a PeerProcess that this module uses."""

    name: str

    def ask(self, do: str, **request: Any) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Settings:
    """How long a case may be timed, and in how many rounds. `seed` makes operands and orders
    repeatable.
    """

    case_s: float = 0.8
    fewest: int = FEWEST
    most: int = MOST
    seed: int = 1


QUICK = Settings(case_s=0.1, fewest=2, most=3)
Entry = dict[str, Any]


def case(
    case: Case, processes: Sequence[Asked], settings: Settings, folder: Path, want: Any
) -> dict[str, Entry]:
    """Verifies and times one case, whose operands are in `folder`.

    Returns an entry for each way in which each peer computes the case (`Way` of base.py). The key
    of an entry is the names of peer and way, as "torch packed".

    An entry has a "verdict" and, if the result was compared, its "error" and "limit". The verdict
    is "right", with "samples_ns"; "wrong", and then never timed; or "failed", with "why".
    """
    found: dict[str, Entry] = {}
    right: dict[str, tuple[Asked, str]] = {}
    for process in processes:
        for way, entry in _prepared(case, process, folder, want).items():
            found[f"{process.name} {way}"] = entry
            if entry["verdict"] == "right":
                right[f"{process.name} {way}"] = (process, way)
    _timed(found, right, settings)
    for process in processes:
        with contextlib.suppress(Lost):  # another request reports that the process is lost
            process.ask("drop")
    return found


def _prepared(case: Case, process: Asked, folder: Path, want: Any) -> dict[str, Entry]:
    try:
        told = process.ask("prepare", case=case.name, folder=str(folder))
    except Lost as lost:
        told = {"error": str(lost)}
    if "error" in told and not isinstance(told["error"], Mapping):
        told = {"all": {"error": told["error"]}}
    return {way: _verdict(case, process.name, said, want) for way, said in told.items()}


def _verdict(case: Case, name: str, said: Mapping[str, Any], want: Any) -> Entry:
    entry: Entry = {"verdict": "failed", "samples_ns": []}
    if "error" in said:
        return {**entry, "why": said["error"]}
    if "file" not in said:
        return {**entry, "verdict": "right", "statement": said["statement"]}
    file = Path(said["file"])
    error = reference.error(np.load(file), want)
    file.unlink()
    limit = reference.limit(case, name == OURS)
    verdict = "right" if error <= limit else "wrong"
    return {
        **entry, "verdict": verdict, "error": error, "limit": limit, "statement": said["statement"],
    }  # fmt: skip


def _timed(
    found: dict[str, Entry], right: Mapping[str, tuple[Asked, str]], settings: Settings
) -> None:
    """Times the ways of computing a case (`Way` of base.py) in rounds. Each round adds one sample
    to the entry of each way in `found`. A way that fails in a round gets the verdict "failed".
    """
    calls = {}
    for key, (process, way) in right.items():
        first = _sample(process, way, 1, 1, 0)
        if not isinstance(first, str) and first < SHORT_NS:
            first = _sample(process, way, 20, 1, 0)
        if isinstance(first, str):
            found[key] |= {"verdict": "failed", "why": first}
        else:
            calls[key] = plan(first)
    begun, draw = time.monotonic(), random.Random(settings.seed)
    for done in range(settings.most):
        late = (time.monotonic() - begun) / settings.case_s
        if (done >= settings.fewest and late > 1) or (done >= 3 and late > LONG):
            break
        for key in draw.sample(list(calls), len(calls)):
            process, way = right[key]
            took = _sample(process, way, *calls[key])
            if isinstance(took, str):
                found[key] |= {"verdict": "failed", "why": took, "samples_ns": []}
                del calls[key]
            else:
                found[key]["samples_ns"].append(took)


def plan(ns: float) -> tuple[int, int, int]:
    """Returns (calls per block, blocks, calls to warm up) for calls that take about `ns` each."""
    ns = max(ns, 1.0)
    calls = max(1, round(BLOCK_NS / ns))
    blocks = max(1, min(BLOCKS, round(SAMPLE_NS / (calls * ns))))
    return calls, blocks, calls if ns < WARM_NS else 0


def _sample(process: Asked, way: str, calls: int, blocks: int, warm: int) -> float | str:
    """Returns the ns per call, or the reason why there is no sample."""
    try:
        told = process.ask("time", way=way, calls=calls, blocks=blocks, warm=warm)
    except Lost as lost:
        return str(lost)
    return str(told["error"]) if "error" in told else float(np.median(told["ns"]))
