"""The parts of a ladder: rungs, their exceptions, and results."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

PASS, FAIL, SKIP, BLOCKED = "PASS", "FAIL", "SKIP", "BLOCKED"
# EHWPOISON (asm-generic/errno.h) has no name in Python's errno.
ERRNO = {**errno.errorcode, 133: "EHWPOISON"}
STATUSES = (PASS, FAIL, SKIP, BLOCKED)


class Skip(Exception):
    """The rung makes no sense on this device. The text is the reason."""


class Unmet(Exception):
    """Something that the rung needs is no longer there, so the rung can neither pass nor fail. The
    text is the reason.
    """


class Wrong(Exception):
    """The device did something wrong. `facts` go into the report and to the causes."""

    def __init__(self, text: str, **facts: Any) -> None:
        super().__init__(text)
        self.facts = facts


@dataclass(frozen=True)
class Rung:
    """One experiment. `run(bench)` returns a line about what it saw. It raises Skip if the rung
    makes no sense here, or any other exception for a failure. `needs` names earlier rungs without
    which this rung shows nothing.
    """

    name: str
    text: str
    run: Callable[[Any], str]
    needs: tuple[str, ...] = ()
    limit_s: float = 0.0  # the rung's own limit, if it may take longer than --timeout
    hangs: bool = False  # the rung hangs the GPU on purpose and needs --allow-hang


@dataclass
class Result:
    """The outcome of one rung: the fields of an entry of "rungs" in the JSON document."""

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
    """Returns the result of a rung that raised `error`. The result has the failed call and its
    errno, if the exception names them, and the exception's text.
    """
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
    """Returns the names of the rungs that this rung needs and that did not pass."""
    bad = {one.name for one in results if one.status in (FAIL, BLOCKED)}
    return [name for name in rung.needs if name in bad]
