"""KeptShards: the plan of a call that several devices share, and the outcome of its last run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkle_drv.sched.model.explain import seconds
from sparkle_drv.sched.model.task import Task
from sparkle_drv.sched.model.work import Work
from sparkle_drv.sched.shard.cuts import Cut
from sparkle_drv.sched.shard.divide import Axis, Divided
from sparkle_drv.sched.shard.shares import Shares
from sparkle_drv.sched.shard.site import Pace

SLACK_S = 4e-3
"""Seconds before which no piece is late, since a thread may wait a time slice for a core. On a
virtual clock 0 is used instead."""
PATIENCE_S = 2.0
"""Seconds before which no piece is late if the caller gave the shares. A driver that compiles a
kernel must not cost a device its share. Four heartbeats take this long."""


@dataclass
class Done:
    """Outcome of a call on several devices."""

    seconds: float = 0.0
    units: dict[str, int] = field(default_factory=dict)
    """Units of pieces whose result counts, by the URI of their device."""
    lost: dict[str, str] = field(default_factory=dict)
    """Why a device got no more pieces during the run, by URI."""
    late: dict[str, str] = field(default_factory=dict)
    """The late piece of a device that another device did instead, by URI."""
    doubled: int = 0
    """Late pieces that another device started again."""
    dropped: int = 0
    """Results that were dropped because another device's came first."""


@dataclass
class KeptShards:
    """The decision for a call on several devices, and what happened in its last run."""

    task: Task
    """The first call that was planned so."""
    work: Work
    cut: Cut
    axis: Axis
    divided: Divided
    paces: Mapping[str, Pace]
    """The seconds per unit of each device, by URI."""
    uses: int = 1
    """Calls that follow this decision until the next decision."""
    spare: int = 0
    """Calls of `uses` that are still to come."""
    alone: bool = False
    """Whether one device is enough. False if the caller said which devices take part."""
    bases: Mapping[str, str] = field(default_factory=dict)
    """How the speed of each device is known (Costs.basis) if this work was never probed there, by
    URI."""
    slack_s: float = SLACK_S
    """Seconds before which no piece is late."""
    done: Done = field(default_factory=Done)
    """Outcome of the last call."""

    @property
    def shares(self) -> Shares:
        """The plan that says which device computes which pieces of the call."""
        return self.divided.shares

    @property
    def left_out(self) -> dict[str, str]:
        """Why a device does no part of the call, by URI."""
        return {**self.shares.left_out, **self.divided.unable}

    @property
    def predicted_s(self) -> float:
        """Predicted seconds of the call."""
        return self.shares.predicted_s

    @property
    def so_far(self) -> KeptShards:
        """This object itself, which is the value of `ctx.last_plan`."""
        return self

    @property
    def device(self) -> str:
        """The device that does most of the call."""
        return max(self.shares.parts, key=self.shares.units)

    def explain(self) -> str:
        """Returns the plan as text, and the outcome of the last call."""
        axis, n = self.axis, self.axis.granule
        unit = f"{n} of {axis.extent} {axis.name}" if n > 1 else f"one of {axis.extent} {axis.name}"
        lines = [
            f"{self.work.op}, size {self.work.size:.4g}, a unit is {unit}: {self.shares.explain()}"
        ]
        lines += [f"  {uri} cannot: {why}" for uri, why in self.divided.unable.items()]
        lines += [f"  {uri}: {basis}" for uri, basis in self.bases.items() if basis]
        lines += [
            f"  {site.uri} computes at a weight of {site.weight:.2f}: it is slow"
            for site in self.divided.sites
            if site.weight < 1
        ]
        if (done := self.done).seconds:
            units = ", ".join(f"{uri} {n}" for uri, n in done.units.items())
            lines.append(
                f"measured {seconds(done.seconds)}, "
                f"{done.seconds / self.predicted_s:.2f} times what was predicted; units done: "
                f"{units}; late pieces started twice: {done.doubled}, results dropped: "
                f"{done.dropped}"
            )
            lines += [f"  {uri} was lost: {why}" for uri, why in done.lost.items()]
            lines += [f"  {uri} is late: {why}" for uri, why in done.late.items()]
        return "\n".join(lines)
