"""Describes the plan of a graph: tasks in the order in which they begin, and what they move."""

from __future__ import annotations

from sparkle_drv.sched.decide.kept_plan import KeptPlan
from sparkle_drv.sched.model.graph_plan import GraphPlan, KeptGraph

from . import explain
from .explain import LOOKS, candidate, measured, seconds


def plan(kept: KeptPlan | KeptGraph | None) -> str:
    """Describes the plan of a call or of a graph."""
    return graph(kept) if isinstance(kept, KeptGraph) else explain.plan(kept)


def graph(kept: KeptGraph) -> str:
    """Describes a graph: one line per task with its candidates and times below, then totals, bytes
    and memory.
    """
    plan = kept.plan
    lines = [
        f"graph: {len(plan.tasks)} tasks on {', '.join(plan.devices)}, "
        f"predicted {seconds(plan.predicted_s)} ({plan.by})" + (LOOKS if plan.explores else "")
    ]
    lines += _micro(plan)
    shown = set[int]()
    for at, task in enumerate(plan.tasks):
        # Of the micro-batches of a layer, only the first is shown.
        if plan.micro and plan.micro.count > 1:
            if plan.micro.layers[at] in shown:
                continue
            shown.add(plan.micro.layers[at])
        lines.append(
            f"{' + '.join(task.made_of)} on {task.device}: {seconds(task.start_s)} to "
            f"{seconds(task.end_s)}; reads {task.traffic.reads_nbytes} bytes, writes "
            f"{task.traffic.writes_nbytes}"
        )
        lines += [f"    {candidate(c, i == 0)}" for i, c in enumerate(task.candidates)]
        cost, took = task.candidates[0].cost, kept.measured.get(at)
        if cost is not None and took is not None:
            lines.append(f"    {measured(took, cost)}")
    if plan.convert_s or plan.otherwise_s:
        other = f", {seconds(plan.otherwise_s)} in all otherwise" if plan.otherwise_s else ""
        lines.append(f"changes of layout take {seconds(plan.convert_s)}{other}")
    lines += [f"{uri} alone: {seconds(s)}" for uri, s in plan.alone_s.items()]
    return "\n".join([*lines, *_bytes(plan)])


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
