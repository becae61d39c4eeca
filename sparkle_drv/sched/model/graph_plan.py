"""What was decided for a graph: plain data, what `ctx.last_plan` is after `graph.run()`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .traffic import Traffic
from .work import Candidate, Measured, Work


@dataclass(frozen=True)
class TaskPlan:
    """One task: what it is made of and where it is done."""

    made_of: tuple[str, ...]
    """The operations that were written down and are done here, in words."""
    work: Work
    device: str
    """Its URI."""
    start_s: float
    """Predicted seconds from the beginning of the run."""
    end_s: float
    traffic: Traffic
    """Bytes that it reads and writes on this device."""
    candidates: tuple[Candidate, ...]
    """Every device that was considered, the chosen one first, each as if the task were alone."""
    measured: Measured | None = field(default=None, compare=False)
    """What its last measured run took, with nothing beside it; None: there was none yet. Its `in_s`
    is that of all that was brought just before it; its `out_s` is None where the result is wanted
    on the host, which is fetched later."""


@dataclass(frozen=True)
class Move:
    """A result that is read on another device than the one that makes it."""

    nbytes: int
    source: str
    to: str


@dataclass(frozen=True)
class DeviceMemory:
    """What a run takes of one device."""

    peak_nbytes: int
    """For intermediate results and operands on their way, with memory used again."""
    naive_nbytes: int
    """The same if none were."""
    kept_nbytes: int
    """For outputs, and operands that stay."""


@dataclass(frozen=True)
class MicroBatches:
    """A graph whose batch is cut; each layer (a task that was cut) has one device for all parts."""

    count: int
    extent: int
    """Of the batch: elements along axis 0."""
    bound_s: float
    """No number of micro-batches takes less, a layer on one device each (decide/pipeline.py)."""
    predicted_s: Mapping[int, float]
    """Before tasks were placed one by one: by each number that was considered."""
    layers: tuple[int, ...]
    """By task of the plan, the layer that it is a part of."""


@dataclass(frozen=True)
class GraphPlan:
    """All tasks in the order in which they are begun."""

    tasks: tuple[TaskPlan, ...]
    by: str
    """The method that found this placement (decide/schedule.py)."""
    predicted_s: float
    """From the first start to the last end."""
    alone_s: Mapping[str, float]
    """Predicted seconds of each device that could do all of it by itself."""
    moves: tuple[Move, ...]
    memory: Mapping[str, DeviceMemory]
    """By the URI of each device that does something."""
    otherwise_s: float = 0.0
    """Predicted seconds with more changes of layout, or with fewer, whatever was not taken; 0:
    there is no other way."""
    explores: bool = False
    """Is a task on a device that is not predicted to be best, for one run, to learn about it?"""
    extra_s: float = 0.0
    """Seconds predicted beyond the best placement: 0 unless it explores."""
    micro: MicroBatches | None = None
    """None: nobody asked for micro-batches."""

    @property
    def gap(self) -> float:
        """How far the predicted time is above the bound, 0.1 for a tenth; nan without a bound."""
        return self.predicted_s / self.micro.bound_s - 1 if self.micro else math.nan

    @property
    def devices(self) -> tuple[str, ...]:
        """URIs of the devices that do something, in order of their first task."""
        return tuple(dict.fromkeys(task.device for task in self.tasks))

    @property
    def device(self) -> str:
        """The device of the first task."""
        return self.tasks[0].device

    @property
    def convert_s(self) -> float:
        """Predicted seconds of changes of layout that are tasks."""
        layouts = (task for task in self.tasks if task.work.op.startswith("layout"))
        return sum(task.end_s - task.start_s for task in layouts)

    @property
    def traffic_nbytes(self) -> int:
        """Bytes that tasks read and write, and moves between devices."""
        return sum(t.traffic.nbytes for t in self.tasks) + sum(2 * m.nbytes for m in self.moves)


@dataclass
class KeptGraph:
    """A plan of a graph, and what became of it."""

    plan: GraphPlan
    runs: int = 0
    measured: dict[int, Measured] = field(default_factory=dict)
    """By task, of its last measured run; those are done one after another."""

    @property
    def so_far(self) -> GraphPlan:
        """The plan, with what the last measured run of its tasks took."""
        tasks = enumerate(self.plan.tasks)
        return replace(
            self.plan,
            tasks=tuple(replace(task, measured=self.measured.get(at)) for at, task in tasks),
        )
