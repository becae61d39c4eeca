"""The report of a climb: lines as results come, and the JSON document."""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
import textwrap
import time
from collections.abc import Sequence
from typing import Any

import sparkle_drv as sp

from .rung import BLOCKED, FAIL, PASS, SKIP, STATUSES, Result

SCHEMA = 1
VERIFIED = "verified on an emulated GPU that stock RADV also runs on, not yet on silicon"
COLOURS = {PASS: "32", FAIL: "31;1", SKIP: "33", BLOCKED: "35"}


def line(result: Result, out: Any) -> None:
    """Prints the result of one rung and, after a failure, its causes."""
    word = f"{result.status:7}"
    if out.isatty() and "NO_COLOR" not in os.environ:
        word = f"\033[{COLOURS[result.status]}m{word}\033[0m"
    print(f"{word} {result.name:16} {result.time_s:7.3f} s  {result.text}", file=out)
    if result.status != FAIL:
        return
    if result.ioctl:
        print(f"          ioctl  {result.ioctl}: {result.errno or 'no errno'}", file=out)
    for i, cause in enumerate(result.causes, 1):
        print(f"          {i}. {cause['text']} [{cause['source']}]", file=out)
    if result.next:
        print(f"          next:  {result.next}", file=out)


class Lines:
    """Prints results as they come. Blocked rungs in a row become one paragraph."""

    def __init__(self, out: Any) -> None:
        self.out = out
        self._blocked: list[Result] = []

    def tell(self, result: Result) -> None:
        if result.status == BLOCKED:
            self._blocked.append(result)
        else:
            self.flush()
            line(result, self.out)
        self.out.flush()

    def flush(self) -> None:
        """Prints the blocked rungs that have not been printed yet."""
        blocked, self._blocked = self._blocked, []
        if len(blocked) < 4:
            for one in blocked:
                line(one, self.out)
            return
        names = ", ".join(one.name for one in blocked)
        reasons = {one.text for one in blocked if not one.text.startswith("needs ")}
        why = ", ".join(sorted(reasons)) or "that need a failed rung"
        text = f"{len(blocked)} rungs {why}: {names}"
        for i, part in enumerate(textwrap.wrap(text, 90, break_on_hyphens=False)):
            print(f"{BLOCKED if i == 0 else '':7} {part}", file=self.out)


def counts(results: Sequence[Result]) -> dict[str, int]:
    return {status: sum(r.status == status for r in results) for status in STATUSES}


def summary(results: Sequence[Result]) -> str:
    return ", ".join(f"{n} {status}" for status, n in counts(results).items() if n) or "no rung"


def machine() -> dict[str, str]:
    """Returns the versions, the command and the time of this run, by name."""
    return {
        "kernel": platform.release(),
        "system": platform.version(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "package": sp.__version__,
        "command": " ".join(sys.argv),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def document(device: str, results: Sequence[Result], facts: dict[str, Any]) -> dict[str, Any]:
    """Returns the JSON document of a climb."""
    return {
        "schema": SCHEMA,
        "device": device,
        "rungs": [dataclasses.asdict(result) for result in results],
        "counts": counts(results),
        "facts": facts,
        "machine": machine(),
        "verified": VERIFIED if "kms_minor" in facts or "node" in facts else "",
    }
