"""Turns the steps of a placed graph into a program for lanes: which step waits for which. All
functions are pure.

A device's tasks run in the lane of that device, in their order. Each direction between two
devices, or between a device and the host, is a lane, too. So a wait for one result holds up only
the device that reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparkle_drv.mesh.lanes.program import Lane, Program, Step
from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.sched.model.task import Task

from .place.steps import Bring, Do, Key, Steps

Region = tuple[str, int, int]
"""(URI, begin, end): a range of bytes in the memory that the steps of a device share."""


def program(tasks: Sequence[Task], steps: Steps) -> Program:
    """Returns the program of `steps`. A step waits for the steps that write what it reads. It also
    waits for all earlier steps that use the memory that it writes.

    A ContextArray or ContextConstant is copied to one device after another, since each copy changes
    the object's list of devices that have a copy. Rows of a numpy array are copied on the device's
    queue, after the device's previous task. Otherwise the rows of all micro-batches would be copied
    first.
    """
    lane_steps: list[Step] = []
    wrote: dict[Key, int] = {}
    doing: dict[str, int] = {}  # the last task of each device, by URI
    moved: dict[int, int] = {}  # the last step that copied each operand to a device
    # By URI: regions of memory, each with the number of a step that uses it.
    used: dict[str, list[tuple[Region, int]]] = {}
    for number, step in enumerate(steps.steps):
        reads, writes = _keys(tasks, step)
        after = {wrote[key] for key in reads if key in wrote}
        if isinstance(step, Bring) and step.value.kind in ("context", "constant"):
            after |= {moved[step.value.whole]} if step.value.whole in moved else set()
            moved[step.value.whole] = number
        if isinstance(step, Do):
            doing[step.uri] = number
        elif step.value.part and step.value.kind == "numpy" and step.uri in doing:
            after.add(doing[step.uri])
        for key in writes:
            if mine := _region(steps, key):
                _, begin, end = mine
                others = used.get(mine[0], ())
                after |= {user for (_, at, to), user in others if at < end and begin < to}
        lane = _lane(step)
        after = {n for n in after if lane_steps[n].lane != lane}
        lane_steps.append(Step(number, lane, step, tuple(sorted(after))))
        wrote |= dict.fromkeys(writes, number)
        for key in (*reads, *writes):
            if region := _region(steps, key):
                used.setdefault(region[0], []).append((region, number))
    return Program(tuple(lane_steps))


def _lane(step: Bring | Do) -> Lane:
    if isinstance(step, Do):
        return Lane(step.uri)
    return Lane(step.source or HOST, step.uri)


def _keys(tasks: Sequence[Task], step: Bring | Do) -> tuple[list[Key], list[Key]]:
    """Returns what the step reads and what it writes, each as keys: (`number` of a Value of
    the graph, URI of the device that holds it).
    """
    if isinstance(step, Do):
        task = tasks[step.task]
        reads = [(value.number, step.uri) for value in task.reads.values()]
        return reads, [(task.out.number, step.uri)]
    number = step.value.number
    return [(number, step.source)] if step.source else [], [(number, step.uri)]


def _region(steps: Steps, key: Key) -> Region | None:
    """Returns where the array of `key` lies in the memory that results share. Returns None if the
    array has memory of its own, or no bytes.
    """
    begin, nbytes = steps.offsets.get(key), steps.values[key[0]].nbytes
    return None if begin is None or not nbytes else (key[1], begin, begin + nbytes)
