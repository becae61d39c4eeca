"""A call of a user's kernel, on one device or shared by several: `Context.dispatch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkle_drv.sched.decide.choose import Impossible
from sparkle_drv.sched.operations.table import DispatchOperation
from sparkle_drv.sched.operations.user_kernels import UserKernel, arguments, groups_of, kernel_of
from sparkle_drv.sched.shard.terms import Terms

from . import sharding
from .arrays import check_own, on_host
from .call_spans import call
from .failures import FAILURES
from .foreign import all_taken
from .local import LocalExecutor


@call
def run_kernel(
    executor: LocalExecutor, uris: tuple[str, ...], terms: Terms | None, what: tuple[Any, ...]
) -> Any:
    """Runs a kernel on the devices of `uris` that have it. `what` is (kernel, args, groups,
    group_size, cut, out), the arguments of `Context.dispatch`.
    """
    executor.check_open()
    given, args, groups, group_size, cut, out = what
    kernel = kernel_of(given)
    if isinstance(args, Mapping):
        args = all_taken(executor.devices, (), args)[1]
    elif isinstance(args, (list, tuple)):
        args = all_taken(executor.devices, tuple(args), {})[0]
    how = arguments(kernel, args, cut, out)
    check_own(executor, how.given)
    operation = DispatchOperation(kernel, how, groups_of(groups, how.extent), group_size)
    there = _loaded(executor, kernel, uris)
    request = operation.request(tuple(on_host(how.given[at]) for at in how.arrays), {})
    request.terms = terms
    task = request.task
    if task is None:
        return operation.put(executor.run(request, (), there))
    kind, _ = operation.work_class(task)
    axes = tuple(how.axes.get(at) for at in how.arrays)
    key = uris, kind.name, how.extent, axes, () if terms is None else terms.key
    try:
        if terms is None:
            result = executor.run(request, key, uris)
        else:
            result = sharding.run(executor, request, key, uris)
    except Impossible:
        if operation.refused:
            raise next(iter(operation.refused.values())) from None
        raise
    finally:
        # `lacks` has the classes of work that a device cannot do. A probe that measures nothing
        # adds its class. On the devices in `refused` only the arguments were wrong, and they may
        # have the kernel. So the class is removed from their `lacks`.
        for uri in operation.refused:
            executor.costs.nodes[uri].lacks.discard(kind.name)
    return operation.put(result)


def _loaded(
    executor: LocalExecutor, kernel: UserKernel, uris: Sequence[str]
) -> tuple[str, ...]:  # fmt: skip
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
