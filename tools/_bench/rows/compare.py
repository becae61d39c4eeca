"""Compares two results files, row by row: is the new row faster, slower, the same, or is it
unclear?

A row is judged relative to its reference: a kernel that ran in the same rounds in both files. If
the machine has become slower, row and reference take longer alike; the column `machine` shows by
how much. Where the files have no common reference, as in older files, the row's own times are
judged.

shift.py has the rule. Called by the compare command and by baseline.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from _console import table
from _console.problems import NotComparable

from . import shift

_WHICH = ("old", "new")
_ANOTHER = (
    "times of different devices say nothing about a change (--force compares them all the same)"
)


@dataclass(frozen=True)
class Pairing:
    """One row of the comparison of two results files. `shift` is the relative change of the row's
    time; the change of its reference, if any, is divided out. `shift` is None if there was nothing
    to compare; `verdict` then says why. `machine` is the relative change of the reference's time.
    """

    name: tuple[str, str, str, str]
    verdict: str
    old_ns: float | None = None
    new_ns: float | None = None
    shift: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    label: str = ""
    machine: float | None = None

    @property
    def is_regression(self) -> bool:
        return self.verdict == "SLOW"

    @property
    def is_broken(self) -> bool:
        return self.verdict == "BROKEN"

    def cells(self) -> list[str]:
        kernel, device, axes, mode = self.name
        spread = f"{self.interval[0]:+.1%} .. {self.interval[1]:+.1%}" if self.interval else "-"
        return [
            kernel,
            device,
            self.label or " ".join(f"{k}={v}" for k, v in json.loads(axes).items()),
            mode,
            table.duration(self.old_ns),
            table.duration(self.new_ns),
            f"{self.machine:+.1%}" if self.machine is not None else "-",
            f"{self.shift:+.1%}" if self.shift is not None else "-",
            spread,
            f"{self.p:.1e}" if self.p is not None else "-",
            self.verdict,
        ]


COLUMNS = (
    "kernel",
    "device",
    "axes",
    "mode",
    "old",
    "new",
    "machine",
    "shift",
    "95 % interval",
    "p",
    "verdict",
)


def key(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Returns the key by which rows of two files are matched."""
    return row["kernel"], row["device"], json.dumps(row["axes"], sort_keys=True), row["mode"]


def compare(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    threshold: float = shift.THRESHOLD,
    force: bool = False,
) -> list[Pairing]:
    """Pairs the rows of two results documents. Raises NotComparable when they have no row in
    common. Raises it when their devices differ, too, unless the comparison is forced.
    """
    before, after = ({key(row): row for row in document["results"]} for document in (old, new))
    for which, rows in zip(_WHICH, (before, after), strict=True):
        if not rows:
            raise NotComparable(f"compare: there are no rows in the {which} file")
    if not force:
        _same_devices(before, after)
        _same_cpu(old, new)
    if not before.keys() & after.keys():
        raise NotComparable(
            "compare: no row (kernel, device, axes and mode) is in both files: "
            f"{_sample(before)} in the old one, {_sample(after)} in the new one"
        )
    pairs = []
    for name in [*before, *(name for name in after if name not in before)]:
        pairs.append(_pair(name, before.get(name), after.get(name), threshold))
    return pairs


def _same_devices(
    before: Mapping[Any, Mapping[str, Any]], after: Mapping[Any, Mapping[str, Any]]
) -> None:
    names = [_device_names(rows) for rows in (before, after)]
    common = names[0].keys() & names[1].keys()
    if not common:
        sides = (
            f"{', '.join(sorted(side))} in the {w} file"
            for side, w in zip(names, _WHICH, strict=True)
        )
        raise NotComparable(
            "compare: expected a device that both files have, got "
            f"{' and '.join(sides)}: {_ANOTHER}"
        )
    for device in sorted(common):
        if len(names[0][device] | names[1][device]) > 1:
            was, now = (" or ".join(map(repr, sorted(side[device]))) for side in names)
            raise NotComparable(
                f"compare: {device} is {was} in the old file and {now} in the new one: {_ANOTHER}"
            )


def _device_names(rows: Mapping[Any, Mapping[str, Any]]) -> dict[str, set[str]]:
    """Returns for each URI the names that it has in the rows: one name, unless files
    were merged.
    """
    names: dict[str, set[str]] = {}
    for row in rows.values():
        names.setdefault(row["device"], set()).add(row["device_name"])
    return names


def _same_cpu(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raises NotComparable if the host's CPUs differ: the host's clock and its work between
    launches are part of the times.
    """
    for name, prefix in (("cpu", ""), ("cpu_model", "model ")):
        was, now = ((document.get("env") or {}).get(name) for document in (old, new))
        if was and now and was != now:
            raise NotComparable(
                f"compare: measured on {prefix}{was!r} in the old file and on {prefix}{now!r} in "
                f"the new one: {_ANOTHER}"
            )


def _sample(rows: Mapping[tuple[str, str, str, str], Any]) -> str:
    kernel, device, _, mode = next(iter(rows))
    return f"{len(rows)} such as {kernel} {device} {mode}"


def _pair(
    name: tuple[str, str, str, str],
    old: Mapping[str, Any] | None,
    new: Mapping[str, Any] | None,
    threshold: float,
) -> Pairing:
    label = str((new or old or {}).get("label", ""))

    def made(verdict: str) -> Pairing:
        return Pairing(name, verdict, label=label)

    if old is None or new is None:
        return made("only in new" if old is None else "only in old")
    a, b = old["samples_ns"], new["samples_ns"]
    if old["verified"] and not new["verified"]:
        return made("BROKEN")
    if not a or not b:
        return made("no time")
    if old["verified"] != new["verified"] or not new["verified"]:
        return made("unverified")
    found = shift.judge(old, new, threshold)
    return Pairing(
        name,
        found.verdict,
        float(np.median(a)),
        float(np.median(b)),
        found.shift.middle,
        (found.shift.low, found.shift.high),
        found.p,
        label,
        found.machine,
    )


def conditions(document: Mapping[str, Any]) -> str:
    """Returns when and where a document was measured, as far as the document says."""
    env = document.get("env") or {}
    facts = {name: env.get(key) for name, key in (("commit", "commit"), ("load", "load_1min"))}
    said = [f"{name} {value}" for name, value in facts.items() if value is not None]
    return ", ".join([str(env.get("date", "no date")), *said])


def show(pairs: Sequence[Pairing], threshold: float = shift.THRESHOLD) -> None:
    """Prints the table, and one line with the number of rows for each verdict."""
    table.show(COLUMNS, [pair.cells() for pair in pairs])
    counts = {
        v: sum(pair.verdict == v for pair in pairs)
        for v in dict.fromkeys(pair.verdict for pair in pairs)
    }
    for line in machine_lines(pairs, threshold):
        print(line)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "no rows")


def machine_lines(pairs: Sequence[Pairing], threshold: float) -> list[str]:
    """Returns lines about the machine's change according to the references, and about the number of
    rows without a reference.
    """
    lines = []
    moved = [pair.machine for pair in pairs if pair.machine is not None]
    if moved and abs(middle := float(np.median(moved))) > threshold:
        how = "slower" if middle > 0 else "faster"
        lines.append(
            f"the machine was {how}: the references' times moved by {middle:+.0%}; shifts are "
            "beside them"
        )
    alone = sum(pair.shift is not None and pair.machine is None for pair in pairs)
    if alone:
        lines.append(
            f"{alone} rows have no reference in both files: the machine may have moved them"
        )
    return lines
