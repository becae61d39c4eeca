"""Implements --resume F: reuses the rows of an earlier run of the same command, and keeps all rows
in the order of the work.

A file of another machine or of another command is refused before any work. The rows of a job and of
its rivals belong together: all of them are reused, or none. Called by options.py and runner.py.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _console.problems import NotComparable, UsageError

from _bench.rows import read, results
from _bench.rows.results import Report, Row, Subject

if TYPE_CHECKING:
    import sparkle_drv as sp

SAME = ("cpu", "cpu_model", "cpus", "kernel", "sparkle_drv", "commit", "sparkle_environment")
"""The keys of env.describe() that both runs must share."""
_FREE = {"command", "json", "csv", "md", "svg", "resume", "seed", "log"}
"""Options that do not change what is measured. The seed is that of the earlier run."""
_NAME_FILES = ("image", "vs", "ref", "args")


def request(args: Any) -> dict[str, Any]:
    """Returns the command line as a results file stores it: its options, and the SHA-256 of each
    file that they name.
    """
    asked = {name: value for name, value in vars(args).items() if name not in _FREE}
    words: list[str] = []
    for name in _NAME_FILES:
        value = asked.get(name) or ()
        words += [value] if isinstance(value, str) else map(str, value)
    files = {}
    for word in words:
        for text in (word, word.split()[0] if word.split() else ""):
            path = text[1:] if text.startswith("@") else text.rpartition(":")[0]
            if path and Path(path).is_file():
                files[path] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    plain = (str, int, float, list, type(None))
    kept = {n: v if isinstance(v, plain) else str(v) for n, v in asked.items()}
    return {**kept, "files": files}


@dataclass
class Earlier:
    """The results file of an earlier run that this run continues."""

    path: Path
    document: Mapping[str, Any]
    rows: dict[Any, deque[Row]] = field(default_factory=lambda: defaultdict(deque))

    @property
    def seed(self) -> int:
        seed: int = self.document["seed"]
        return seed

    def check(self, asked: Mapping[str, Any], env: Mapping[str, Any]) -> None:
        """Raises UsageError if another command wrote the results file, and NotComparable if another
        machine wrote it.
        """
        told = self.document["request"]
        for name in dict.fromkeys((*asked, *told)):
            if told.get(name) != asked.get(name):
                raise UsageError(
                    f"--resume {self.path}: expected the same command, got {name} "
                    f"{asked.get(name)!r} where the file has {told.get(name)!r}"
                )
        for name in SAME:
            self._same(name, self.document["env"].get(name), env.get(name))

    def check_device(self, uri: str, device: Mapping[str, str]) -> None:
        """Raises NotComparable when the file has rows of another device under this URI."""
        told = self.document.get("devices", {}).get(uri)
        for name in device if told is not None else ():
            self._same(f"{name} of {uri}", told.get(name), device[name])

    def _same(self, what: str, was: Any, now: Any) -> None:
        if was != now:
            raise NotComparable(
                f"--resume {self.path}: expected the same {what}, got {now!r} "
                f"where the file has {was!r}"
            )

    def take(self, subjects: Sequence[Subject]) -> list[Row]:
        """Returns the earlier run's rows of all `subjects`, or [] when one of them has no row."""
        if not all(self.rows.get(subject.key) for subject in subjects):
            return []
        return [self.rows[subject.key].popleft() for subject in subjects]


def read_file(path: Path, unverified: bool) -> Earlier:
    """Returns the finished rows of a file: those that were verified and timed and, with
    `unverified`, also those without a reference.

    Raises UsageError when the file is not a results file that can be resumed.
    """
    document = results.load(path)
    known: Mapping[str, type] = {"env": dict, "request": dict, "seed": int}
    for key, kind in known.items():
        if not isinstance(document.get(key), kind):
            raise UsageError(
                f"--resume {path}: expected a results file of run, kernel or transfer, got one "
                f"without {key!r}"
            )
    made = Earlier(path, document)
    for at, told in enumerate(document["results"]):
        if told.get("time_ns") and (told["verified"] or unverified):
            try:
                row = read.row(told)
                made.rows[row.subject.key].append(row)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise UsageError(f"--resume {path}: results[{at}] is malformed: {error}") from error
    return made


@dataclass
class Ledger:
    """The rows of a run in the order of the work, measured now or reused from an earlier run."""

    report: Report
    earlier: Earlier | None = None
    taken: int = 0
    _places: list[list[Row]] = field(default_factory=list)

    def met(self, info: sp.DeviceInfo) -> None:
        """Adds a device to the document of the results file, before the device's work is planned.

        Raises NotComparable if the earlier run measured another device under this URI.
        """
        device = {"name": info.name, "driver": info.driver}
        if self.earlier:
            self.earlier.check_device(info.uri, device)
        self.report.extra.setdefault("devices", {})[info.uri] = device

    def plan(self, subjects: Sequence[Subject]) -> int:
        """Reserves a place for the rows of a job and its rivals, which are `subjects`. If the
        earlier run has all these rows, puts them there. Returns the number of the place.
        """
        rows = self.earlier.take(subjects) if self.earlier else []
        self.taken += len(rows)
        self.put(len(self._places), rows)
        return len(self._places) - 1

    def tell(self) -> None:
        """Writes into the results file's document how many of its rows an earlier run measured."""
        if self.earlier:
            document = self.earlier.document
            runs = [*document.get("resumed", ())]
            own = self.taken - sum(run["rows"] for run in runs)
            if own > 0:
                runs.append({"rows": own, "date": document["env"].get("date")})
            self.report.extra["resumed"] = runs

    def is_done(self, place: int) -> bool:
        return bool(self._places[place])

    def rows(self, place: int) -> Sequence[Row]:
        return self._places[place]

    def put(self, place: int, rows: Sequence[Row]) -> None:
        """Stores the rows of one job and its rivals. `place` is what `plan` returned for them.

        Copies all rows so far into the report, in the order in which `plan` was called.
        """
        self._places[place : place + 1] = [list(rows)]
        self.report.rows = [row for rows in self._places for row in rows]
