"""Runs one call on several devices: plans shares, and has threads of each device compute them.

A call that cannot be cut goes to one device as usual.

The result of a piece is computed in memory of its own, and copied to its place when the piece is
committed. So a device that was given up may still write, but never to the caller's memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.sched.decide.choose import Impossible, after
from sparkle_drv.sched.model.costs import Costs
from sparkle_drv.sched.model.work import Operand, Work
from sparkle_drv.sched.operations.operation import Request
from sparkle_drv.sched.shard.divide import Axis, Wanted, divide
from sparkle_drv.sched.shard.site import Pace
from sparkle_drv.sched.shard.terms import Terms

from . import ways
from .arrays import ContextArray, on_host
from .failures import FAILURES
from .local import LocalExecutor
from .operands import Operands
from .shards import Pieces
from .shared_plan import PATIENCE_S, SLACK_S, KeptShards

Uris = tuple[str, ...]
THREADS_S = 2e-4
"""Seconds for threads and for copying results, for any work: 0.2 ms on two cores of an EPYC."""
MOST_USES = 64
"""Most calls of one shape between two decisions. The first numbers are 1, 2, 4, ..."""


def run(executor: LocalExecutor, request: Request, key: tuple[Any, ...], uris: Uris) -> Any:
    """Makes a call that several devices may share, as LocalExecutor.run does. Raises Impossible if
    the wanted shares are not possible.
    """
    terms, operands, out = request.terms, request.operands, request.out
    assert terms is not None
    shared = plan(executor, request, uris, key)
    if shared is None or request.task is None:
        left = within(executor, request, uris)
        return executor.run(request, (left, *key[1:]), left)
    executor.last = shared
    moved = Operands(executor, operands, terms.prefer_p2p)
    inspector = executor.inspector
    chance = inspector.chance if inspector is not None and inspector.due() else None
    pieces = Pieces(executor, request, shared, moved, chance)
    shared.done = pieces.done
    direct = isinstance(out, np.ndarray) and not any(
        np.may_share_memory(out, x) for x in moved.host.values()
    )
    try:
        result = pieces.result(out if direct else None)
    except FAILURES as error:
        left = tuple(u for u in uris if u not in shared.shares.parts)
        if not terms.is_auto or not left:
            raise
        # All devices of the shared call failed. One device that had no share does the call.
        with after(error):
            left = within(executor, request, left)
            return executor.run(request, (left, *key[1:]), left)
    if isinstance(out, np.ndarray):
        if not direct:  # `out` overlaps operands, which all pieces have read now
            out[...] = result
        return out
    if not any(isinstance(x, ContextArray) for x in (*operands.values(), out)):
        return result
    if isinstance(out, ContextArray):
        return out.fill(result)
    return ContextArray(executor, shared.device, executor.devices[shared.device].array(result))


def within(executor: LocalExecutor, request: Request, uris: Uris) -> Uris:
    """Returns the devices that can do the whole call within `max_vram_nbytes`. Raises Impossible if
    there is none.
    """
    limit = 0 if request.terms is None else request.terms.max_vram_nbytes
    task = request.task
    if not limit or task is None:
        return uris
    needed = task.out.nbytes + sum(x.nbytes for x in request.operands.values())
    nodes = executor.costs.nodes
    left = tuple(uri for uri in uris if nodes[uri].unified or needed <= limit)
    if not left:
        raise Impossible(
            f"max_vram_gb: expected {needed} bytes or more on one of {', '.join(uris)}, got {limit}"
        )
    return left


def is_alone(executor: LocalExecutor, key: tuple[Any, ...], terms: Terms) -> bool:
    """Returns whether the kept decision for calls with this key is that one device does all. Counts
    the call if it is.
    """
    kept = executor.shared.get(key)
    if not terms.is_auto or terms.max_vram_nbytes:
        return False
    if kept is None or not kept.alone or kept.spare <= 0:
        return False
    kept.spare -= 1
    return True


def plan(
    executor: LocalExecutor, request: Request, uris: Uris, key: object = None
) -> KeptShards | None:
    """Returns how devices share the call, or None if one device does all of it. Keeps the decision
    under `key`, if one is given. Raises as `run` does.
    """
    terms = request.terms
    assert terms is not None
    away = any(_is_away(x) for x in request.operands.values())
    if request.conversion is not None or (terms.is_auto and away):
        return None
    kept = _decided(executor, request, uris, key)
    return None if kept is None or kept.alone else kept


def _decided(
    executor: LocalExecutor, request: Request, uris: Uris, key: object
) -> KeptShards | None:  # fmt: skip
    """Returns how the call is divided among devices, or None if it cannot be divided."""
    terms, operation = request.terms, request.operation
    assert terms is not None
    ready_s, late = executor.remains.ready_s(uris)
    weights = executor.health.weights(uris)
    usual = not (ready_s or late or weights)
    kept: KeptShards | None = executor.shared.get(key)
    if kept is not None and kept.spare > 0 and usual:
        kept.spare -= 1
        request.adopt(kept.task)
        return kept
    task = request.task
    if task is None:
        return None
    cuts = operation.cuts(task, terms.combine)
    if not cuts:
        return None
    kind, size = operation.work_class(task)
    auto = terms.is_auto
    barred = {**executor.hung(uris), **(late if auto else {})}
    barred |= executor.health.barred([uri for uri in uris if uri not in barred], auto)
    able = tuple(uri for uri in uris if uri not in barred) or uris
    host = {name: on_host(x) for name, x in request.operands.items()}
    read = sum(x.nbytes for x in host.values())
    if not _fits(executor.costs, read + task.out.nbytes, able):
        return None
    if kept is None:
        executor.know(kind, able)
        request.measured = True
    axes = [
        Axis(cut.name, cut.extent, cut.read_whole(host), cut.read_cut(host), cut.out is None)
        for cut in cuts
    ]
    work = Work(
        kind.name, size, tuple(Operand(x.nbytes) for x in host.values()), task.out.nbytes, HOST,
        executor.lacking(kind, able),
    )  # fmt: skip
    shares = terms.shares
    if not isinstance(shares, str):
        shares = {uri: share for uri, share in shares.items() if uri in able} or shares
    for uri in able:
        ready_s[uri] = ready_s.get(uri, 0.0) + executor.load.queued_s(executor.devices[uri])
    wanted = Wanted(shares, terms.max_vram_nbytes, weights, ready_s)
    with executor.deciding:
        divided = divide(executor.costs, work, axes, able, wanted)
        if executor.journal is not None and divided is not None:
            executor.journal.divided(work, axes, able, wanted, divided)
    if divided is None:
        return None
    divided.unable.update(barred)
    uses = 1 if kept is None else min(MOST_USES, 2 * kept.uses)
    shared = KeptShards(
        task, work, cuts[divided.at], axes[divided.at], divided,
        {site.uri: Pace(site) for site in divided.sites}, uses, uses - 1,
        auto and divided.alone_s <= divided.shares.predicted_s + THREADS_S,
        {site.uri: executor.costs.basis(work.op, site.uri) for site in divided.sites},
        SLACK_S if auto else PATIENCE_S,
    )  # fmt: skip
    if kept is None and not shared.alone and terms.prefer_p2p:
        _know_peers(executor, list(shared.shares.parts))
    if usual and key is not None:
        executor.shared[key] = shared
    return shared


def _know_peers(executor: LocalExecutor, uris: Sequence[str]) -> None:
    """Measures the links between devices that share a call and whose driver copies directly."""
    devices = executor.devices
    for uri in uris:
        peers = [u for u in uris if u != uri and devices[uri].is_peer(devices[u])]
        if not devices[uri].info.unified:
            ways.know(executor, peers, (uri,))


def _fits(costs: Costs, nbytes: int, uris: Sequence[str]) -> bool:
    """Returns whether these devices together have memory for `nbytes`."""
    apart = [costs.nodes[uri].memory_nbytes for uri in uris if not costs.nodes[uri].unified]
    host = [costs.nodes[uri].memory_nbytes for uri in uris if costs.nodes[uri].unified]
    return 0 in (*apart, *host) or nbytes <= sum(apart) + max(host, default=0)


def _is_away(x: Any) -> bool:
    """Returns whether `x` is a ContextArray without a copy in memory that the host shares."""
    if not isinstance(x, ContextArray):
        return False
    return not any(copy.device.info.unified for copy in x._copies.values())
