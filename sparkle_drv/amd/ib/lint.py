"""Applies every lint rule of rules_*.py to a job. The findings come in the order of execution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import rules_dispatch, rules_job, rules_packet
from .model import Ib
from .rule import NOTE, RULES, KernelNeeds, LintJob, Rule

RULE_MODULES = (rules_packet, rules_dispatch, rules_job)  # importing these modules fills RULES


@dataclass(frozen=True)
class Finding:
    """A violation of a lint rule. `ib` is the index of the IB, and `dword` the position in that IB,
    in dwords.

    >>> ib = lowlevel.Ib((0xC0001000, 0), gfx=11)
    >>> [(finding.rule.id, finding.dword) for finding in lowlevel.lint([ib])]
    [('padding', 2)]
    """

    rule: Rule
    message: str
    ib: int
    dword: int
    packet: str
    where: str
    doubt: str = ""  # why the finding is not certain: part of the packet is unknown

    @property
    def fails(self) -> bool:
        return self.severity != NOTE

    @property
    def severity(self) -> str:
        return NOTE if self.doubt else self.rule.severity

    def __str__(self) -> str:
        doubt = f" (but {self.doubt})" if self.doubt else ""
        return f"{self.where}: {self.severity}: {self.message}{doubt} [{self.rule.id}]"


def lint(
    ibs: Sequence[Ib], disable: Iterable[str] = (), kernel: KernelNeeds | None = None
) -> list[Finding]:
    """Returns the findings in the order in which the packets run. Raises ValueError for an unknown
    rule in `disable`. Raises TooLong if the IBs call each other so often that too many packets run.

    >>> [finding.message for finding in lowlevel.lint([lowlevel.Ib((0xC0001000, 0), gfx=11)])]
    ['8 bytes are no multiple of 32']
    """
    off = set(disable)
    if unknown := off - RULES.keys():
        raise ValueError(
            f"expected rules among {', '.join(RULES)}, got {', '.join(sorted(unknown))}"
        )
    job = LintJob(ibs, kernel or KernelNeeds())
    order = {id(step): i for i, step in enumerate(job.steps)}
    findings: list[tuple[int, Finding]] = []
    for rule in RULES.values():
        if rule.id in off:
            continue
        for place, message in rule.check(job):
            if isinstance(place, int):
                ib, at = job.ibs[place], len(job.ibs[place].dwords)
                va = f" ({ib.va:#x})" if ib.va is not None else ""
                where = f"IB {place}{va} dword {at}"
                findings.append((len(order), Finding(rule, message, place, at, "", where)))
            else:
                doubt = place.ib.gap(place.at, len(place.packet.dwords))
                finding = Finding(
                    rule, message, place.number, place.at, place.name, place.where, doubt
                )
                findings.append((order[id(place)], finding))
    return [finding for _, finding in sorted(findings, key=lambda pair: pair[0])]
