"""The decision for a graph, as plain data: `ctx.last_plan` after `graph.run()`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .explain import LOOKS, candidate, measured, seconds
from .work import Candidate, Measured, Work


@dataclass(frozen=True)
class Traffic:
    """Bytes that a task reads and writes."""

    reads_nbytes: int
    writes_nbytes: int

    @property
    def nbytes(self) -> int:
        """The sum of bytes read and written."""
        return self.reads_nbytes + self.writes_nbytes


@dataclass(frozen=True)
class TaskPlan:
    """One task of a planned graph: the recorded operations that it does, its device and times."""

    made_of: tuple[str, ...]
    """The recorded operations that the task does, as text."""
    work: Work
    device: str
    """URI of the task's device."""
    start_s: float
    """Predicted seconds from the beginning of the run to the start of the task."""
    end_s: float
    traffic: Traffic
    """Bytes that the task reads and writes on this device."""
    candidates: tuple[Candidate, ...]
    """Every device that was considered, the chosen one first. Each cost is as if the task ran
    alone."""
    changes_layout: bool = False
    """Whether the task only changes the layout of an array."""
    measured: Measured | None = field(default=None, compare=False)
    """Times of the task's last measured run, while nothing else ran; None before the first. `in_s`
    is the time of all copies just before the task. `out_s` is None for a result wanted on the host,
    which is copied later."""


@dataclass(frozen=True)
class Move:
    """A result that goes from the device that makes it to a device that reads it."""

    nbytes: int
    source: str
    to: str


@dataclass(frozen=True)
class DeviceMemory:
    """Memory that a run takes on one device."""

    peak_nbytes: int
    """Bytes for intermediate results and copied operands, with reuse."""
    naive_nbytes: int
    """Bytes for intermediate results and copied operands, without reuse."""
    kept_nbytes: int
    """Bytes for outputs, and for operands that stay on the device."""


@dataclass(frozen=True)
class MicroBatches:
    """A graph whose batch is cut. A layer is a task that was cut; all its parts use one device."""

    count: int
    extent: int
    """Length of the batch: elements along axis 0."""
    bound_s: float
    """Least seconds for any number of micro-batches, one device per layer (decide/pipeline.py)."""
    predicted_s: Mapping[int, float]
    """Predicted seconds for each number that was considered, before tasks were placed."""
    layers: tuple[int, ...]
    """The layer of each task of the plan."""


@dataclass(frozen=True)
class GraphPlan:
    """The plan of a graph. `tasks` has all tasks in the order in which they begin."""

    tasks: tuple[TaskPlan, ...]
    by: str
    """The method that found this placement (decide/schedule.py)."""
    predicted_s: float
    """Predicted seconds from the first start to the last end."""
    alone_s: Mapping[str, float]
    """Predicted seconds of the whole graph on one device alone, by the URI of each device that can
    do all tasks."""
    moves: tuple[Move, ...]
    memory: Mapping[str, DeviceMemory]
    """The memory on each device that takes part, by URI."""
    otherwise_s: float = 0.0
    """Predicted seconds of the alternative with more, or fewer, changes of layout; 0 if there is
    none."""
    explores: bool = False
    """Whether one task of this run is on a device that is not predicted to be best, to learn the
    device's speed."""
    extra_s: float = 0.0
    """Seconds predicted beyond the best placement; 0 unless `explores`."""
    micro: MicroBatches | None = None
    """How the batch is cut. None if the graph was not asked to use micro-batches."""

    @property
    def gap(self) -> float:
        """How far the predicted time is above the bound, 0.1 for a tenth; nan without a bound."""
        return self.predicted_s / self.micro.bound_s - 1 if self.micro else math.nan

    @property
    def devices(self) -> tuple[str, ...]:
        """URIs of the devices that take part, in order of their first task."""
        return tuple(dict.fromkeys(task.device for task in self.tasks))

    @property
    def device(self) -> str:
        """The URI of the device that does the graph's first task."""
        return self.tasks[0].device

    @property
    def convert_s(self) -> float:
        """Predicted seconds of tasks that change a layout."""
        layouts = (task for task in self.tasks if task.changes_layout)
        return sum(task.end_s - task.start_s for task in layouts)

    @property
    def traffic_nbytes(self) -> int:
        """Bytes that tasks read and write, and that moves read and write."""
        return sum(t.traffic.nbytes for t in self.tasks) + sum(2 * m.nbytes for m in self.moves)

    def explain(self) -> str:
        """Returns the plan as text: one line per task with its candidates and times below, then
        totals, bytes and memory.
        """
        lines = [
            f"graph: {len(self.tasks)} tasks on {', '.join(self.devices)}, "
            f"predicted {seconds(self.predicted_s)} ({self.by})" + (LOOKS if self.explores else "")
        ]
        lines += _micro(self)
        shown = set[int]()
        for at, task in enumerate(self.tasks):
            # Of the micro-batches of a layer, only the first is shown.
            if self.micro and self.micro.count > 1:
                if self.micro.layers[at] in shown:
                    continue
                shown.add(self.micro.layers[at])
            lines.append(
                f"{' + '.join(task.made_of)} on {task.device}: {seconds(task.start_s)} to "
                f"{seconds(task.end_s)}; reads {task.traffic.reads_nbytes} bytes, writes "
                f"{task.traffic.writes_nbytes}"
            )
            lines += [f"    {candidate(c, i == 0)}" for i, c in enumerate(task.candidates)]
            cost, took = task.candidates[0].cost, task.measured
            if cost is not None and took is not None:
                lines.append(f"    {measured(took, cost)}")
        if self.convert_s or self.otherwise_s:
            other = f", {seconds(self.otherwise_s)} in all otherwise" if self.otherwise_s else ""
            lines.append(f"changes of layout take {seconds(self.convert_s)}{other}")
        lines += [f"{uri} alone: {seconds(s)}" for uri, s in self.alone_s.items()]
        return "\n".join([*lines, *_bytes(self)])


@dataclass
class KeptGraph:
    """A plan of a graph, with the measurements of its runs."""

    plan: GraphPlan
    runs: int = 0
    measured: dict[int, Measured] = field(default_factory=dict)
    """Times of each task's last measured run, in which tasks ran one after another, by the task's
    number."""

    @property
    def so_far(self) -> GraphPlan:
        """The plan, with the times of the last measured run of its tasks."""
        tasks = enumerate(self.plan.tasks)
        return replace(
            self.plan,
            tasks=tuple(replace(task, measured=self.measured.get(at)) for at, task in tasks),
        )


def _micro(plan: GraphPlan) -> list[str]:
    """Describes how the batch is cut, the bound, and the stages of the pipeline."""
    micro = plan.micro
    if micro is None:
        return []
    others = ", ".join(f"{n}: {seconds(s)}" for n, s in sorted(micro.predicted_s.items()))
    word = "micro-batches" if micro.count > 1 else "micro-batch"
    lines = [
        f"{micro.count} {word} of a batch of {micro.extent} (of {others}); at least "
        f"{seconds(micro.bound_s)}, predicted {plan.gap:.1%} above"
    ]
    stages: list[tuple[str, list[str]]] = []
    named = dict(zip(reversed(micro.layers), reversed(plan.tasks), strict=True))
    for _, task in sorted(named.items()):
        if not stages or stages[-1][0] != task.device:
            stages.append((task.device, []))
        stages[-1][1].append(" + ".join(task.made_of))
    return lines + [f"stage {i}, {uri}: {', '.join(s)}" for i, (uri, s) in enumerate(stages, 1)]


def _bytes(plan: GraphPlan) -> list[str]:
    moved = sum(move.nbytes for move in plan.moves)
    lines = [f"{plan.traffic_nbytes} bytes read and written, {moved} of them moved between devices"]
    for uri, memory in plan.memory.items():
        lines.append(
            f"{uri}: {memory.peak_nbytes} bytes for what is between tasks, "
            f"{memory.naive_nbytes} without reuse; {memory.kept_nbytes} for what stays"
        )
    return lines
