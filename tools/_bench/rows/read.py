"""Reads a row of a results file back into a Row: the inverse of `Row.as_json`.

Only timed rows are read: a failed row is measured again. Called by commands/resume.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from _bench.machine.noise import Noise

from . import stats
from .overhead import WAYS, Overhead, Way
from .results import CACHE_COUNTS, Measured, Row, Share, Subject, Submission

_OTHER_CLOCK = {"device": "host", "host": "device"}
_ROW = {
    *("kernel", "device", "device_name", "emulated", "axes", "mode", "verified", "error"),
    *("time_ns", "samples_ns", "host_ns", "device_ns", "gflops", "gbytes_per_s"),
    *("roof_percent", "roof", "roof_beside", "reason", "notes", "overhead", "noise", "probes"),
    *("ioctls_per_submit", "ib_dwords_per_dispatch", *CACHE_COUNTS.values()),
}
"""The keys that are fields of a Row. All other keys are its `extra`."""


def row(told: Mapping[str, Any]) -> Row:
    """Returns the Row of a timed row of a results file. Raises KeyError, TypeError or ValueError if
    the row is malformed.
    """
    names = ("kernel", "device", "device_name", "emulated", "axes", "mode")
    return Row(
        Subject(*(told[name] for name in names)),
        told["verified"],
        told["error"],
        _measured(told),
        _overhead(told.get("overhead")),
        _submission(told),
        _noise(told.get("noise")),
        told["gflops"],
        told["gbytes_per_s"],
        _share(told),
        told["reason"],
        list(told["notes"]),
        {key: value for key, value in told.items() if key not in _ROW},
    )


def _measured(told: Mapping[str, Any]) -> Measured:
    time, samples = told["time_ns"], [float(sample) for sample in told["samples_ns"]]
    clock = time["of"]
    if not samples or clock not in _OTHER_CLOCK:
        raise ValueError("expected samples of a clock in a timed row, got none")
    by = (samples, []) if clock == "device" else ([], samples)
    other = told[f"{_OTHER_CLOCK[clock]}_ns"]
    how = clock, time["batch"], time["stop"], told.get("probes", {})
    return Measured(*by, *how, _summary(other) if other else None)


def _summary(told: Mapping[str, Any]) -> stats.Summary:
    return stats.Summary(told["median"], told["ci_low"], told["ci_high"], told["n"])


def _share(told: Mapping[str, Any]) -> Share | None:
    beside = told.get("roof_beside")
    if beside is None:
        return None
    row, roof = zip(*beside["turns"], strict=True)
    return Share(told["roof"], beside["kernel"], row, roof)


def _noise(told: Mapping[str, Any] | None) -> Noise | None:
    return None if told is None else Noise.of(told)


def _overhead(told: Mapping[str, Any] | None) -> Overhead | None:
    if told is None:
        return None
    clocks = ("host_samples_ns", "device_samples_ns")
    return Overhead({w: Way(*(told[w][c] for c in clocks)) for w in WAYS}, told["batch"])


def _submission(told: Mapping[str, Any]) -> Submission | None:
    if "ioctls_per_submit" not in told:
        return None
    caches = {name: told[column] for name, column in CACHE_COUNTS.items()}
    return Submission(told["ioctls_per_submit"], told["ib_dwords_per_dispatch"], caches)
