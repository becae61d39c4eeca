"""Defines a lint rule, and the job that a rule checks. The rules are in rules_*.py.

The IBs that `lint` gets count as one job, in their order, because a driver submits a preamble and
the IBs after it as one job. The source of a rule is a section of docs/AMDGPU_FACTS.md, which also
is the source of the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from .model import Ib
from .run import PacketStep, run, submitted
from .state import IbEvent, State, is_dispatch, play

ERROR, WARNING, NOTE = "error", "warning", "note"
SEVERITIES = (ERROR, WARNING, NOTE)  # a finding that is only a note is no failure


@dataclass(frozen=True)
class KernelNeeds:
    """What the launched program needs, by its kernel descriptor. A field is None if unknown.

    >>> lowlevel.Kernel(lds_bytes=1024).rsrc1 is None
    True
    """

    lds_bytes: int | None = None
    rsrc1: int | None = None
    rsrc2: int | None = None
    rsrc3: int | None = None


@dataclass(frozen=True)
class LintJob:
    """The job that rules check. `steps` has the executed packets, in order. `events` has those of
    them that write no register.
    """

    ibs: Sequence[Ib]
    kernel: KernelNeeds = field(default_factory=KernelNeeds)

    @cached_property
    def steps(self) -> list[PacketStep]:
        return list(run(self.ibs))

    @cached_property
    def events(self) -> list[IbEvent]:
        state: State = {}
        return list(play(self.steps, state))

    @property
    def dispatches(self) -> Iterator[IbEvent]:
        return (event for event in self.events if is_dispatch(event.step))

    @cached_property
    def submitted(self) -> list[int]:
        return submitted(self.ibs)


# What a check finds: (place, message). An int as the place means the end of the IB with that
# number.
Said = tuple[PacketStep | int, str]
Check = Callable[[LintJob], Iterator[Said]]


@dataclass(frozen=True)
class Rule:
    """A lint rule. `check` finds the packets, or ends of IBs, that break the rule.

    >>> lowlevel.RULES["padding"].severity
    'warning'
    """

    id: str
    severity: str
    source: str
    explanation: str
    check: Check


RULES: dict[str, Rule] = {}


def rule(name: str, severity: str, source: str) -> Callable[[Check], Check]:
    """Registers a function as the check of the rule `name`. The docstring of the function explains
    the rule to people.
    """

    def enter(check: Check) -> Check:
        if name in RULES:
            raise ValueError(f"rule {name} is defined twice")
        text = " ".join((check.__doc__ or "python -OO leaves explanations out").split())
        RULES[name] = Rule(name, severity, f"AMDGPU_FACTS {source}", text, check)
        return check

    return enter
