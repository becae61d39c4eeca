"""A user's kernel. Its operands are the arrays among its arguments.

The kernel writes to copies. The caller's arrays are written once all pieces are done (`put`), so
that a device that fails or hangs leaves them unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.ops.arguments.check import NotThere
from sparkle_drv.sched.model.task import Task, Value
from sparkle_drv.sched.model.work_class import Class, Runs
from sparkle_drv.sched.shard.cuts import Cut

from .operation import Host, Operation, Request, is_context_array
from .user_kernels import Arguments, UserKernel

PARTS = (64, 16, 4)
"""Divisors of a call's extent. The quotients are the sizes of the probes of the call's class."""


class DispatchOperation(Operation):
    """One call of a user's kernel, on any device. args: the arrays, on the host.

    `groups` maps the elements of a piece to its workgroups. `refused` has, by URI, the TypeError or
    ValueError that the first probe of a device raised: the arguments were wrong there.
    """

    name = "dispatch"
    rate = "Gelements/s"

    def __init__(
        self, kernel: UserKernel, how: Arguments, groups: Callable[[int], Any], group_size: Any
    ) -> None:
        self.kernel, self.how, self.groups, self.group_size = kernel, how, groups, group_size
        self.refused: dict[str, Exception] = {}
        self._host: dict[str, Host] = {}

    def function(self, device: Device, *arrays: Any) -> Any:
        reads = dict(zip(self._names(), arrays, strict=True))
        return self._run(device, reads, 0, self.how.extent)

    def _names(self) -> list[str]:
        return [self.how.args[at].name for at in self.how.arrays]

    def request(self, args: tuple[Any, ...], named: dict[str, Any]) -> Request:
        self._host = dict(zip(self._names(), args, strict=True))
        return super().request(args, named)

    def operands(self, request: Request) -> dict[str, Any]:
        return dict(zip(self._names(), request.args, strict=True))

    def is_placeable(self, request: Request) -> bool:
        return self.how.extent > 0

    def task_of(self, request: Request, reads: Mapping[str, Value]) -> Task:
        how, extent = self.how, self.how.extent
        written = [reads[how.args[at].name] for at in how.written]
        out = written[0]
        if len(written) > 1:  # joined: a row of bytes for each element
            row = sum(value.nbytes for value in written) // extent
            out = Value(-1, (extent, row), np.dtype(np.uint8))
        options = {"kernel": self.kernel.name, "digest": self.kernel.digest, "count": extent,
                   "written": list(how.written)}  # fmt: skip
        numbers = {how.args[at].name: x for at, x in enumerate(how.given) if at not in how.arrays}
        return Task(self.name, reads, out, options, numbers=numbers)

    def cuts(self, task: Task, combine: str = "none") -> list[Cut]:
        how = self.how
        axes = {how.args[at].name: how.axes.get(at) for at in how.arrays}
        to = how.axes[how.written[0]] if len(how.written) == 1 else 0
        return [Cut("elements", how.extent, axes, to)]

    def launch_piece(
        self, device: Device, task: Task, reads: Mapping[str, Any], begin: int, end: int
    ) -> Any:
        return self._run(device, reads, begin, end - begin)

    def launch(self, device: Device, task: Task, reads: Mapping[str, Any], out: Any = None) -> Any:
        return self._run(device, reads, 0, task.options["count"])

    def _run(self, device: Device, reads: Mapping[str, Any], begin: int, count: int) -> Any:
        """Launches the kernel on these operands and waits. Returns the written arrays on the host.

        If the operands are Arrays and the kernel writes only one array, returns that one as an
        Array on the device. The caller then copies it to the host.
        """
        fence, there = self._launched(device, reads, begin, count)
        fence.wait()
        written = [there[at] for at in self.how.written]
        if len(written) == 1 and any(isinstance(x, Array) for x in reads.values()):
            return written[0]
        return self._joined([array.numpy() for array in written])

    def _launched(
        self, device: Device, reads: Mapping[str, Any], begin: int, count: int
    ) -> tuple[Fence, list[Any]]:
        """Launches the kernel. Returns the fence, and the list of all arguments on the device."""
        kernel, how = self.kernel.on(device), self.how
        if kernel is None:
            raise NotThere(f"{device.uri}: expected an image for this device, got none")
        there = list(how.given)
        for at in how.arrays:
            there[at] = _there(device, reads[how.args[at].name], at in how.written)
        for at, word in how.words.items():
            there[at] = count if word == "count" else begin
        launch = partial(device.default_queue.launch, kernel, *there, groups=self.groups(count))
        return launch(group_size=self.group_size), there

    def _joined(self, arrays: list[Host]) -> Host:
        """Joins several results of a piece into one array of bytes. Each row belongs to one index
        along the axis that is cut, and has the bytes of each result at this index.
        """
        if len(arrays) == 1:
            return arrays[0]
        axes = [self.how.axes.get(at) for at in self.how.written]
        rows = (x[None] if axis is None else np.moveaxis(x, axis, 0)
                for x, axis in zip(arrays, axes, strict=True))  # fmt: skip
        flat = [np.ascontiguousarray(x).reshape(len(x), -1).view(np.uint8) for x in rows]
        return np.concatenate(flat, axis=1)

    def put(self, result: Any) -> Any:
        """Writes the result into the caller's arrays, and returns them."""
        host = result.numpy() if isinstance(result, Array) else result
        targets, begin = [self.how.given[at] for at in self.how.written], 0
        for at, target in zip(self.how.written, targets, strict=True):
            part = host
            if len(targets) > 1:
                axis, shape = self.how.axes.get(at), target.shape
                front = (1, *shape) if axis is None else (
                    shape[axis], *shape[:axis], *shape[axis + 1 :]
                )  # fmt: skip
                nbytes = target.nbytes // front[0]
                bytes_of = np.ascontiguousarray(host[:, begin : begin + nbytes])
                part = bytes_of.view(target.dtype).reshape(front)
                part = part[0] if axis is None else np.moveaxis(part, 0, axis)
                begin += nbytes
            if is_context_array(target):
                target.fill(part)
            else:
                target[...] = part
        return targets[0] if len(targets) == 1 else tuple(targets)

    def work_class(self, task: Task) -> tuple[Class, float]:
        """The class is the code, and the shapes without the cut axis. The size is the extent of
        that axis.

        Numbers among the arguments are not part of the class. Otherwise a kernel with an argument
        that differs in each call, such as a step counter, would have a class for each call.
        """
        (cut,) = self.cuts(task)
        rows = [
            f"{value.dtype.char}{[n for at, n in enumerate(value.shape) if at != axis]}"
            for value, axis in ((value, cut.operands[name]) for name, value in task.reads.items())
        ]
        name = f"{self.name}_{self.kernel.name}:{self.kernel.digest}:{','.join(rows)}"
        name = name.replace(" ", "")
        counts = sorted({max(1, cut.extent // part) for part in PARTS})
        operands = self._host

        def probe(dev: Device, i: int) -> Runs:
            if i >= len(counts) or self.kernel.on(dev) is None:
                raise LookupError(name)
            reads = cut.given(operands, 0, counts[i])
            if not dev.info.unified:
                reads = {n: dev.array(x) for n, x in reads.items()}

            def run() -> Any:
                if dev.info.unified:
                    return self._run(dev, reads, 0, counts[i])
                return self._launched(dev, reads, 0, counts[i])[0].wait()

            if i == 0:
                try:
                    run()
                except (TypeError, ValueError) as error:
                    self.refused[dev.uri] = error
                    raise
            return run, float(counts[i])

        return Class(name, probe), float(cut.extent)


def _there(device: Device, x: Any, written: bool) -> Any:
    """Returns an array for the kernel on this device: a copy if the kernel writes the array."""
    if isinstance(x, Array):  # `x` is already a copy that was made for this call
        return x
    if device.info.unified and not written and x.flags.c_contiguous:
        return device.wrap(x)
    return device.array(x)
