"""A call of a user's kernel, on one device or shared by several: `Context.dispatch`.

The kernel writes to copies. The caller's arrays are written once all pieces are done, so that a
device that fails or hangs leaves them unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.ops.arguments.check import NotThere
from sparkle_drv.sched.decide.choose import Impossible
from sparkle_drv.sched.model.operations import Class, Runs
from sparkle_drv.sched.shard.cuts import Cut

from . import calls
from .arrays import ContextArray, check_own, on_host
from .call_spans import call
from .foreign import all_taken
from .local import FAILURES, LocalExecutor
from .sharding import Sharding, Terms
from .user_kernels import Arguments, UserKernel, arguments, groups_of, kernel_of

PARTS = (64, 16, 4)
"""Divisors of a call's extent. The quotients are the sizes of the probes of the call's class."""


class KernelCut(Cut):
    """The cut of a kernel's arrays.

    The last operand is the number of the piece's first element, or None for a call in one piece.
    """

    def given(self, operands: Sequence[Any], begin: int, end: int) -> list[Any]:
        """Returns the operands of the piece [begin, end) of the cut axis: views of the arrays that
        are cut, the other arrays whole, and `begin`.
        """
        return [*super().given(operands, begin, end)[:-1], begin]


@dataclass(frozen=True)
class _Call:
    """One call of a user's kernel, on any device. Its operands are the arrays and the number of the
    piece's first element.
    """

    kernel: UserKernel
    how: Arguments
    groups: Any
    group_size: Any

    def run(self, device: Device, given: Sequence[Any], out: Any = None) -> Any:
        """Launches the kernel on these operands and waits. Returns the written arrays on the host.

        If the operands are Arrays and the kernel writes only one array, returns that one as an
        Array on the device. The caller then copies it to the host.
        """
        fence, there = self.launched(device, given)
        fence.wait()
        written = [there[at] for at in self.how.written]
        if len(written) == 1 and isinstance(given[0], Array):
            return written[0]
        return self._joined([array.numpy() for array in written])

    def launched(self, device: Device, given: Sequence[Any]) -> tuple[Fence, list[Any]]:
        """Launches the kernel. Returns the fence, and the list of all arguments on the device."""
        kernel, how = self.kernel.on(device), self.how
        if kernel is None:
            raise NotThere(f"{device.uri}: expected an image for this device, got none")
        there, count = list(how.given), how.extent
        for at, x in zip(how.arrays, given, strict=False):
            there[at] = _there(device, x, at in how.written)
            if at in how.axes:
                count = x.shape[how.axes[at]]
        for at, word in how.words.items():
            there[at] = count if word == "count" else given[-1] or 0
        groups = self.groups(count)
        launch = partial(device.default_queue.launch, kernel, *there, groups=groups)
        return launch(group_size=self.group_size), there

    def _joined(self, made: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        """Joins several results of a piece into one array of bytes. Each row belongs to one index
        along the axis that is cut, and has the bytes of each result at this index.
        """
        if len(made) == 1:
            return made[0]
        axes = [self.how.axes.get(at) for at in self.how.written]
        rows = (x[None] if axis is None else np.moveaxis(x, axis, 0)
                for x, axis in zip(made, axes, strict=True))  # fmt: skip
        flat = [np.ascontiguousarray(x).reshape(len(x), -1).view(np.uint8) for x in rows]
        return np.concatenate(flat, axis=1)

    def put(self, made: Any) -> Any:
        """Writes the result into the caller's arrays, and returns them."""
        host = made.numpy() if isinstance(made, Array) else made
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
            if isinstance(target, ContextArray):
                target.fill(part)
            else:
                target[...] = part
        return targets[0] if len(targets) == 1 else tuple(targets)

    def of_class(
        self, cut: Cut, operands: Sequence[Any], wrong: dict[str, Exception]
    ) -> Class:  # fmt: skip
        """Returns the class of the call: its code, and its shapes without the cut axis. The extent
        of that axis is the size.

        Numbers among the arguments are not part of the class. Otherwise a kernel with an argument
        that differs in each call, such as a step counter, would have a class for each call. If the
        first probe raises TypeError or ValueError, `wrong` gets the error under the device's URI.
        """
        rows = [
            f"{x.dtype.char}{[n for at, n in enumerate(x.shape) if at != axis]}"
            for x, axis in zip(operands[:-1], cut.operands, strict=False)
        ]
        name = f"dispatch_{self.kernel.name}:{self.kernel.digest}:{','.join(rows)}".replace(" ", "")
        counts = sorted({max(1, cut.extent // part) for part in PARTS})

        def probe(dev: Device, i: int) -> Runs:
            if i >= len(counts) or self.kernel.on(dev) is None:
                raise LookupError(name)
            given = cut.given(operands, 0, counts[i])
            if not dev.info.unified:
                given = [dev.array(x) if isinstance(x, np.ndarray) else x for x in given]

            def run() -> Any:
                if dev.info.unified:
                    return self.run(dev, given)
                return self.launched(dev, given)[0].wait()

            if i == 0:
                try:
                    run()
                except (TypeError, ValueError) as error:
                    wrong[dev.uri] = error
                    raise
            return run, float(counts[i])

        return Class(name, probe)


def _there(device: Device, x: Any, written: bool) -> Any:
    """Returns an array for the kernel on this device: a copy if the kernel writes the array."""
    if isinstance(x, Array):  # `x` is already a copy that was made for this call
        return x
    if device.info.unified and not written and x.flags.c_contiguous:
        return device.wrap(x)
    return device.array(x)


@call
def dispatch(
    executor: LocalExecutor, uris: calls.Uris, terms: Terms | None, kernel: Any, args: Any,
    groups: Any, group_size: Any, cut: Any, out: Any,
) -> Any:  # fmt: skip
    """Runs the kernel on the devices of `uris` that have it; see `Context.dispatch`."""
    executor.check_open()
    found = kernel_of(kernel)
    if isinstance(args, Mapping):
        args = all_taken(executor.devices, (), args)[1]
    elif isinstance(args, (list, tuple)):
        args = all_taken(executor.devices, tuple(args), {})[0]
    how = arguments(found, args, cut, out)
    check_own(executor, how.given)
    one = _Call(found, how, groups_of(groups, how.extent), group_size)
    there = _loaded(executor, found, uris)
    operands = [*(on_host(how.given[at]) for at in how.arrays), None]
    if not how.extent:
        return one.put(calls.plain(executor, there, operands, None, one.run))
    axes = (*(how.axes.get(at) for at in how.arrays), None)
    to = how.axes[how.written[0]] if len(how.written) == 1 else 0
    along, wrong = KernelCut("elements", how.extent, axes, to), dict[str, Exception]()
    kind = one.of_class(along, operands, wrong)
    nbytes = sum(how.given[at].nbytes for at in how.written)

    def describe() -> tuple[Class, float, int]:
        return kind, float(how.extent), nbytes

    shared: Any = executor if terms is None else Sharding(executor, lambda _: [along], terms)
    try:
        key = uris, kind.name, how.extent, axes, to, () if terms is None else terms.key
        made = shared.run(key, describe, operands, None, one.run, uris, lambda *_: "")
    except Impossible:
        if wrong:
            raise next(iter(wrong.values())) from None
        raise
    finally:
        # `lacks` has the classes of work that a device cannot do. A probe that measures nothing
        # adds its class. On the devices in `wrong` only the arguments were wrong, and they may have
        # the kernel. So the class is removed from their `lacks`.
        for uri in wrong:
            executor.costs.nodes[uri].lacks.discard(kind.name)
    return one.put(made)


def _loaded(executor: LocalExecutor, kernel: UserKernel, uris: Sequence[str]) -> calls.Uris:
    """Loads the kernel and returns the devices that have it. Raises ValueError if none has it,
    ImageError if a device cannot load the image.
    """
    there = []
    for uri in uris:
        try:
            if not executor.costs.nodes[uri].lost and kernel.on(executor.devices[uri]) is not None:
                there.append(uri)
        except FAILURES as error:
            executor.failed(uri, error)
    if not there:
        got = ", ".join(kernel.images) or kernel.name
        raise ValueError(f"kernel: expected a kernel for any of {', '.join(uris)}, got {got}")
    return tuple(there)
