"""Plan: the decision for one call."""

from __future__ import annotations

from dataclasses import dataclass, field

from .explain import LOOKS, candidate, measured
from .work import Candidate, Measured, Work


@dataclass(frozen=True)
class Plan:
    """A decision for one call, and the candidates that it was made from."""

    work: Work
    candidates: tuple[Candidate, ...]
    """Every device that was considered, the chosen one first, then by predicted time."""
    explores: bool = False
    """Whether a device was chosen that is not predicted to be best, to learn its speed."""
    measured: Measured | None = field(default=None, compare=False)
    """Times of the plan's last measured run; None before the first. Decisions and journals do not
    use them; `Context.last_plan` shows them."""

    @property
    def device(self) -> str:
        """URI of the chosen device."""
        return self.candidates[0].device

    @property
    def predicted_s(self) -> float:
        """Predicted seconds of the chosen candidate."""
        cost = self.candidates[0].cost
        return cost.total_s if cost else 0.0

    @property
    def extra_s(self) -> float:
        """Predicted seconds beyond the fastest candidate; 0 unless the plan explores."""
        totals = [c.cost.total_s for c in self.candidates if c.cost]
        return self.predicted_s - min(totals) if totals else 0.0

    def explain(self) -> str:
        """Returns the plan as text: its work, a line per candidate, and the times of a run if it
        has them.
        """
        work = self.work
        moved = sum(x.nbytes for x in work.operands)
        lines = [
            f"{work.op}, size {work.size:.4g}: {moved} bytes in, {work.out_nbytes} bytes out"
            + (LOOKS if self.explores else "")
        ]
        lines += [
            f"before it {x.nbytes} bytes go through {x.convert}" for x in work.operands if x.convert
        ]
        lines += [candidate(c, i == 0) for i, c in enumerate(self.candidates)]
        cost = self.candidates[0].cost
        if self.measured is not None and cost is not None:
            lines.append(measured(self.measured, cost))
        return "\n".join(lines)
