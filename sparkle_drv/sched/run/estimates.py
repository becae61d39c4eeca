"""Plans of calls that are not made: the results of `Context.plan`.

calls.py and shard_calls.py describe such a call like a real one. An `Estimating` takes the place of
the executor: it plans the work and does not run it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sparkle_drv.sched.check.validate import Check
from sparkle_drv.sched.journal import explain
from sparkle_drv.sched.model.conversion import Conversion
from sparkle_drv.sched.model.operations import Class
from sparkle_drv.sched.model.work import Plan

from . import call_plan
from .arrays import check_own
from .local import LocalExecutor, Run
from .sharding import KeptShards, Sharding

OPS = ("gemm", "conv2d", "map", "reduce")
"""Methods of a Context whose calls `Context.plan` can plan."""


@dataclass(frozen=True)
class Estimate(Plan):
    """The plan of a call on one device."""

    def explain(self) -> str:
        """Returns the plan as text, as in `Context.explain_last_plan`."""
        return explain.text(self)


class Estimating:
    """Replaces the LocalExecutor for a call that is only planned. `run` returns the plan."""

    def __init__(self, executor: LocalExecutor) -> None:
        self._executor = executor
        self.plans: dict[object, Any] = {}
        self.trace = self.inspector = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    def run(
        self, key: object, describe: Callable[[], tuple[Class, float, int]],
        operands: Sequence[Any], out: Any, run: Run, uris: tuple[str, ...], check: Check,
        convert: Conversion | None = None, whole: bool = False, known: bool = False,
    ) -> Estimate:  # fmt: skip
        """Returns the plan that LocalExecutor.run would follow. Raises Impossible if no device can
        do the call.
        """
        executor = self._executor
        check_own(executor, (*operands, out))
        call = call_plan.Call(describe, operands, out, convert, known)
        plan = call_plan.idle_plan(executor, call, uris, executor.hung(uris))
        return Estimate(plan.work, plan.candidates, plan.explores)

    def unplaced(self, operands: Sequence[Any]) -> ValueError:
        """Returns the error of `Context.plan` for a call that the scheduler runs without a plan,
        because its operands are empty or bound to a device.
        """
        given = (x for x in operands if x is not None)
        told = ", ".join(f"{getattr(x, 'dtype', type(x).__name__)}{_shape(x)}" for x in given)
        return ValueError(
            "plan: expected operands of the operation that are not empty and bound to no "
            f"device, got {told or 'none'}"
        )


class SharedEstimate(Sharding):
    """Takes the place of a Sharding for a call that is only planned: `run` returns the plan of a
    call that several devices may share.
    """

    def alone(self, key: tuple[Any, ...]) -> None:
        """Returns None, so that `run` plans the call. `Sharding.alone` may return an executor
        instead, which would run the call on one device.
        """

    def run(
        self, key: tuple[Any, ...], describe: Callable[[], tuple[Class, float, int]],
        operands: Sequence[Any], out: Any, run: Run, uris: tuple[str, ...], check: Check,
        convert: Conversion | None = None, whole: bool = False, known: bool = False,
    ) -> KeptShards | Estimate:  # fmt: skip
        """Returns the plan that Sharding.run would follow. Raises as Sharding.run does."""
        kept = self.decide(None, describe, operands, out, uris, convert)
        if kept is not None:
            return kept
        left = self._within(uris, describe, operands)
        alone: Estimate = self._executor.run(
            key, describe, operands, out, run, left, check, convert, whole, self._known
        )
        return alone


def _shape(x: Any) -> str:
    return str(list(getattr(x, "shape", ())))
