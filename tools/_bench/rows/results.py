"""One benchmark row, and the document of rows from which every output format is written.

A row whose check failed has no time: only `Row.failed` makes such a row, and it accepts no time.
The JSON form is a contract ("schema": 1, README of benchmarks/baseline). Keys may be added, never
renamed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from _console.problems import UsageError

from _bench.jobs.axes import Value
from _bench.machine.noise import Noise

from . import stats
from .overhead import Overhead

SCHEMA = 1
_LEAST = 1e-100
"""Smaller and larger numbers in a file are refused: their ratios and squares are not finite."""
MODES = ("hot", "cold", "latency", "pipeline")


@dataclass(frozen=True)
class Subject:
    """The subject of a row: what was measured, and where. The compare command matches two rows by
    kernel, device, axes and mode.
    """

    kernel: str
    device: str
    device_name: str
    emulated: bool
    axes: Mapping[str, Value]
    mode: str

    @property
    def where(self) -> str:
        """The device's name, with a note when the device is emulated."""
        known = not self.emulated or "emulated" in self.device_name
        return self.device_name if known else f"{self.device_name} (emulated)"

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.kernel, self.device, json.dumps(dict(self.axes), sort_keys=True), self.mode


@dataclass(frozen=True)
class Measured:
    """Samples in ns per launch, in the order in which they were taken.

    `primary` says which clock the row's time_ns comes from ("device" or "host"). `probes` are rates
    of the roofs' kernels in the same rounds, sample by sample, in GFLOPS or GB/s. A row that was
    read from a file has only the samples of the primary clock; `other` is the summary of the other
    clock.
    """

    device_ns: Sequence[float]
    host_ns: Sequence[float]
    primary: str
    batch: int
    stop: str
    probes: Mapping[str, Sequence[float]] = field(default_factory=dict)
    other: stats.Summary | None = None

    @property
    def rounded(self) -> list[float]:
        """The samples as a results file has them, rounded to 10 ps."""
        return [round(value, 2) for value in self.samples]

    @property
    def samples(self) -> Sequence[float]:
        return self.device_ns if self.primary == "device" else self.host_ns

    def by(self, clock: str) -> stats.Summary | None:
        """Returns the times by the "device" or "host" clock, or None if that clock has
        no samples.
        """
        return self._by_clock[clock]

    @cached_property
    def _by_clock(self) -> dict[str, stats.Summary | None]:
        every = {"device": self.device_ns, "host": self.host_ns}
        return {
            clock: stats.summarize(samples) if len(samples) else self.other
            for clock, samples in every.items()
        }


CACHE_COUNTS = {
    **{
        f"bus_{kind}": f"bus_{kind}_bytes"
        for kind in ("code", "scalar", "packets", "data", "written")
    },
    **{name: f"{name}_invalidations" for name in ("gli", "glk", "glv", "gl1", "gl2")},
    "flushes": "gl2_flushes",
}
"""The emulator's counts for one submission, and their columns."""


@dataclass(frozen=True)
class Submission:
    """The average cost of a submission of one dispatch on an emulated device: calls of the kernel
    driver, dwords of the IB, bytes over the bus of a card with its own memory, and cache
    invalidations and flushes.
    """

    ioctls: float
    ib_dwords: float
    caches: Mapping[str, float]

    @classmethod
    def of(
        cls,
        ioctls: float,
        ib_dwords: float,
        before: Mapping[str, int],
        after: Mapping[str, int],
        n: int,
    ) -> Submission:
        """Makes a Submission from measured numbers. `before` and `after` are the emulated card's
        counters (bus, caches) before and after `n` submissions. The Submission stores their mean
        increase per submission.
        """
        return cls(
            ioctls, ib_dwords, {name: (after[name] - before[name]) / n for name in CACHE_COUNTS}
        )

    def as_json(self) -> dict[str, float]:
        """Returns the numbers of a submission, by the names that they have in a results file."""
        return {
            "ioctls_per_submit": self.ioctls,
            "ib_dwords_per_dispatch": self.ib_dwords,
            **{CACHE_COUNTS[name]: self.caches[name] for name in CACHE_COUNTS},
        }


@dataclass(frozen=True)
class Share:
    """A row's share of its roof. `row` and `roof` are rates by round, in GFLOPS or GB/s."""

    kind: str
    kernel: str
    row: Sequence[float]
    roof: Sequence[float]

    @cached_property
    def ratio(self) -> stats.Summary:
        return stats.paired(self.row, self.roof)

    @property
    def is_known(self) -> bool:
        """True if there are enough rounds for a 95 % interval of the row's share of its roof."""
        return len(self.row) >= stats.FEWEST_FOR_INTERVAL

    def as_json(self) -> dict[str, Any]:
        """Returns the rates behind the row's share of the roof. A results file stores them beside
        `roof_percent`.
        """
        ratio = self.ratio
        return {
            "kernel": self.kernel,
            "unit": "GFLOPS" if self.kind == "flops" else "GB/s",
            "row": float(np.median(self.row)),
            "roof": float(np.median(self.roof)),
            "ci_low_percent": 100 * ratio.low if self.is_known else None,
            "ci_high_percent": 100 * ratio.high if self.is_known else None,
            "turns": [[a, b] for a, b in zip(self.row, self.roof, strict=True)],
        }


@dataclass
class Row:
    """One row, with the values that a results file stores.

    Only `timed`, `failed` and `unverified` make rows.
    """

    subject: Subject
    verified: bool
    error: Mapping[str, Any]
    measured: Measured | None = None
    overhead: Overhead | None = None
    submission: Submission | None = None
    noise: Noise | None = None
    gflops: float | None = None
    gbytes_per_s: float | None = None
    share: Share | None = None
    reason: str | None = None
    notes: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def failed(cls, subject: Subject, error: Mapping[str, Any], reason: str) -> Row:
        """Returns a row whose check failed. The row has no time, whatever was measured."""
        return cls(subject, False, error, reason=reason)

    @property
    def roof(self) -> str | None:
        """The roof that the row comes closest to."""
        return self.share.kind if self.share else None

    @property
    def roof_percent(self) -> float | None:
        return 100 * self.share.ratio.median if self.share else None

    @property
    def time(self) -> stats.Summary | None:
        return self.measured.by(self.measured.primary) if self.measured else None

    @property
    def spread_percent(self) -> float | None:
        """The spread of the row's samples, rounded as in a results file: the distance between the
        quartiles, in per cent of the median.
        """
        return 100 * stats.spread(self.measured.rounded) if self.measured else None

    @property
    def device(self) -> stats.Summary | None:
        return self.measured.by("device") if self.measured else None

    @property
    def host(self) -> stats.Summary | None:
        return self.measured.by("host") if self.measured else None

    @cached_property
    def text(self) -> str:
        """The row as strict JSON. The text is made once: the files are written anew after every
        row, and a row does not change once it is in a report.
        """
        return json.dumps(finite(self.as_json()), allow_nan=False)

    def as_json(self) -> dict[str, Any]:
        """Returns the row as an entry of "results" in a results file."""
        s, m = self.subject, self.measured
        row: dict[str, Any] = {
            "kernel": s.kernel,
            "device": s.device,
            "device_name": s.device_name,
            "emulated": s.emulated,
            "axes": dict(s.axes),
            "mode": s.mode,
            "verified": self.verified,
            "error": dict(self.error),
            "time_ns": None,
            "samples_ns": [],
            "host_ns": None,
            "device_ns": None,
            "gflops": self.gflops,
            "gbytes_per_s": self.gbytes_per_s,
            "roof_percent": self.roof_percent,
            "roof": self.roof,
            "reason": self.reason,
            "notes": self.notes,
            **self.extra,
        }
        if m is not None:
            row["time_ns"] = {
                **stats.rounded(stats.summarize(m.samples)),
                "stop": m.stop,
                "of": m.primary,
                "batch": m.batch,
            }
            row["samples_ns"] = m.rounded
            if m.probes:
                row["probes"] = {
                    kernel: [float(f"{rate:.6g}") for rate in rates]
                    for kernel, rates in m.probes.items()
                }
            for clock in ("host", "device"):
                summary = m.by(clock)
                row[f"{clock}_ns"] = stats.rounded(summary) if summary else None
        if self.share is not None:
            row["roof_beside"] = self.share.as_json()
        if self.noise is not None:
            row["noise"] = {"noise_percent": self.spread_percent, **self.noise.as_json()}
        if self.overhead is not None:
            row["overhead"] = self.overhead.as_json()
        if self.submission is not None:
            row |= self.submission.as_json()
        return row


@dataclass
class Report:
    """The content of a results file: what was run where, and the rows so far. `command` decides
    which tables show the rows.
    """

    env: Mapping[str, Any]
    rows: list[Row] = field(default_factory=list)
    interrupted: bool = False
    command: str = "run"
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def head(self) -> dict[str, Any]:
        """Returns the document without its rows."""
        known = {"schema": SCHEMA, "env": dict(self.env), "interrupted": self.interrupted}
        return {**known, **self.extra}

    def as_json(self) -> dict[str, Any]:
        return {**self.head, "results": [row.as_json() for row in self.rows]}


def finite(value: Any) -> Any:
    """Returns the value with NaN and infinities, which JSON lacks, replaced by "nan", "inf", "-inf"
    at any depth.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def load(path: Path) -> dict[str, Any]:
    """Reads a results file. Raises UsageError when the file is missing, is not JSON, has another
    schema, or has malformed rows.
    """
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("results"), list):
        raise UsageError(
            f'{path}: expected a results file, {{"schema": {SCHEMA}, "results": [...]}}'
        )
    if document.get("schema") != SCHEMA:
        raise UsageError(f"{path}: expected schema {SCHEMA}, got {document.get('schema')!r}")
    if not isinstance(document.get("env"), (dict, type(None))):
        raise UsageError(f"{path}: expected an object or null as env")
    for at, row in enumerate(document["results"]):
        _check_row(row, f"{path}: results[{at}]")
    return document


def _check_row(row: Any, where: str) -> None:
    wanted: dict[str, type | tuple[type, ...]] = {
        "kernel": str,
        "device": str,
        "device_name": str,
        "axes": dict,
        "mode": str,
        "verified": bool,
        "samples_ns": list,
    }
    for key, kind in wanted.items():
        if not isinstance(row, dict) or not isinstance(row.get(key), kind):
            raise UsageError(f"{where}: expected {key!r} with the type that the schema requires")
    if not all(map(_is_positive, row["samples_ns"])):
        raise UsageError(f"{where}: expected positive numbers in samples_ns")
    noise = row.get("noise") or {}
    others = noise.get("others_percent") if isinstance(noise, dict) else "?"
    if not (others is None or others == 0 or _is_positive(others)):
        raise UsageError(f"{where}: expected a number or null as noise.others_percent")
    probes = row.get("probes") or {}
    number = len(row["samples_ns"])
    for rates in probes.values() if isinstance(probes, dict) else [None]:
        known = isinstance(rates, list) and len(rates) == number
        if not known or not all(map(_is_positive, rates or ())):
            raise UsageError(f"{where}: expected positive rates in 'probes', one per sample")


def _is_positive(value: Any) -> bool:
    """Returns whether `value` is a number of which times and rates can be computed."""
    return type(value) in (int, float) and _LEAST < value < 1 / _LEAST
