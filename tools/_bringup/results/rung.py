"""The parts of a ladder: rungs, their exceptions, and results."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

PASS, FAIL, SKIP, BLOCKED = "PASS", "FAIL", "SKIP", "BLOCKED"
# EHWPOISON (asm-generic/errno.h) has no name in Python.
ERRNO = {**errno.errorcode, 133: "EHWPOISON"}
STATUSES = (PASS, FAIL, SKIP, BLOCKED)


class Skip(Exception):
    """This rung makes no sense here. The text is the reason."""


class Unmet(Exception):
    """What this rung needs is gone by now, so it says nothing. The text is the reason."""


class Wrong(Exception):
    """The device did something wrong. `facts` go into the report and to the causes."""

    def __init__(self, text: str, **facts: Any) -> None:
        super().__init__(text)
        self.facts = facts


@dataclass(frozen=True)
class Rung:
    """`run(bench)` returns a line about what it saw. It raises Skip, or any other exception for a
    failure. `needs` names earlier rungs without which this one says nothing."""

    name: str
    text: str
    run: Callable[[Any], str]
    needs: tuple[str, ...] = ()
    limit_s: float = 0.0  # for a rung that may take longer than --timeout
    hangs: bool = False  # hangs the GPU on purpose: with --allow-hang only


@dataclass
class Result:
    """One rung's outcome, the fields of the JSON's "rungs"."""

    name: str
    status: str
    time_s: float = 0.0
    ioctl: str | None = None
    errno: str | None = None
    causes: list[dict[str, str]] = field(default_factory=list)
    next: str | None = None
    text: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def failure(rung: Rung, error: BaseException, time_s: float) -> Result:
    """The result of a rung that raised: the call, and its error."""
    code = getattr(error, "errno", None)
    name = ERRNO.get(code, str(code)) if isinstance(code, int) else None
    call = getattr(error, "call", None)
    if call is None and isinstance(error, TimeoutError) and hasattr(error, "job"):
        call = "AMDGPU_WAIT_CS"
    facts = dict(getattr(error, "facts", {}))
    if isinstance(error, TimeoutError):
        facts["late"] = True
    facts["raised"] = type(error).__name__
    text = " ".join(str(error).split()) or type(error).__name__
    return Result(rung.name, FAIL, time_s, call, name, text=text, facts=facts)


def unmet(rung: Rung, results: Sequence[Result]) -> list[str]:
    """Names of the rungs that this one needs and that did not pass."""
    bad = {one.name for one in results if one.status in (FAIL, BLOCKED)}
    return [name for name in rung.needs if name in bad]
