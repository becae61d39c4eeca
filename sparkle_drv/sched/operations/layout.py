"""The change of an image's layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparkle_drv import ops
from sparkle_drv.core.device import Device
from sparkle_drv.ops.layout.operation import outline, parse
from sparkle_drv.sched.model.task import Task, Value
from sparkle_drv.sched.model.work_class import Class, Runs, stored

from . import verify
from .operation import Host, Operation, Request, is_free


class LayoutOperation(Operation):
    """args: a, the layout of the result. named: source, channels."""

    name = "layout"
    function = staticmethod(ops.layout)
    rate = "GB/s"

    def operands(self, request: Request) -> dict[str, Any]:
        return {"a": request.args[0]}

    def is_placeable(self, request: Request) -> bool:
        a, target = request.args
        try:
            change = outline(a, target, request.named.get("source"), request.named.get("channels"))
            whole = 0 not in a.shape and bool(change.steps)
        except (AttributeError, TypeError, ValueError):
            return False
        free = is_free(a) and (request.out is None or is_free(request.out))
        return whole and free and request.named.keys() <= {"source", "channels"}

    def task_of(self, request: Request, reads: Mapping[str, Value]) -> Task:
        return self.task(reads, {**request.named, "target": request.args[1]})

    def task(self, reads: Mapping[str, Value], options: Mapping[str, Any]) -> Task:
        """Returns the Task of a change of layout. Raises as `ops` does."""
        a, channels = reads["a"], options.get("channels")
        change = outline(a, options["target"], options.get("source"), channels)
        made = {"source": change.before.name, "target": change.after.name, "channels": channels}
        return Task(self.name, reads, Value(-1, change.shape, a.dtype, change.after.name), made)

    def work_class(self, task: Task) -> tuple[Class, float]:
        """The size is the bytes of the operand. Blocked layouts are classes of their own."""
        source, to = task.options["source"], task.options["target"]
        before = parse("source", source)

        def probe(dev: Device, i: int) -> Runs:
            side = 8 * 2**i
            x = stored(dev, before.shape(1, 16, side, side), np.dtype(np.float32), source)
            channels = 16 if before.block else None
            return lambda: ops.layout(dev, x, to, channels=channels), float(x.nbytes)

        return Class(f"{self.name}_f32:{source}:{to}", probe), float(task.reads["a"].nbytes)

    def launch(self, device: Device, task: Task, reads: Mapping[str, Any], out: Any = None) -> Any:
        target, options = task.options["target"], dict(task.options)
        del options["target"]
        return ops.layout(device, reads["a"], target, out=out, **options)

    def wrong(self, task: Task, got: Host, reads: Mapping[str, Host], chance: Any) -> str:
        return verify.layout(got, (reads["a"],), chance, **task.options)

    def on_host(self, task: Task, a: Host) -> Host:
        """Returns the result of a task whose operand `a` is on the host."""
        how = task.options
        made: Host = ops.ref.layout(a, how["source"], how["target"], how["channels"])
        return made

    def along(self, task: Task) -> list[str] | str:
        return ["a"]

    def beside_nbytes(self, task: Task, fuses: bool) -> tuple[int, int]:
        """A change between two other layouts goes through an array in NCHW. That array is the
        smallest of the three, since it has no padding.
        """
        if "NCHW" in (task.options["source"], task.options["target"]):
            return 0, 0
        whole = min(task.reads["a"].nbytes, task.out.nbytes)
        return whole, whole

    def words(self, task: Task) -> str:
        return f"{task.options['source']} to {task.options['target']}"


LAYOUT = LayoutOperation()


def is_change(task: Task, source: str | None = None, target: str | None = None) -> bool:
    """Returns whether a task changes a layout: from `source` to `target`, if they are given."""
    if task.op != LAYOUT.name:
        return False
    ends = task.options["source"], task.options["target"]
    return source is None or ends == (source, target)


def change_task(value: Value, out: Value, source: str, target: str) -> Task:
    """Returns the Task that changes `value` from layout `source` to `out` in layout `target`."""
    options = {"source": source, "target": target, "channels": None}
    return Task(LAYOUT.name, {"a": value}, out, options, made_of=(f"{source} to {target}",))
