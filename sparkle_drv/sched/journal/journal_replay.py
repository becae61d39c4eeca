"""Makes the decisions of a saved journal again. Says whether each plan is the same, and what plans
other costs would give.
"""

from __future__ import annotations

import json
import math
import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkle_drv.errors import DeviceNotFound
from sparkle_drv.sched.model.costs import Costs

from . import journal


class NotInJournal(DeviceNotFound, ValueError):
    """A device that is not in the journal."""


@dataclass(frozen=True)
class Decision:
    """One decision: what the journal has, and what `replay` decided."""

    op: str
    """The class of work; "graph" for a task graph, "shares" for a call that devices share."""
    size: float
    """Size of the work: operations for products, bytes for other classes. For a graph the number of
    tasks, for shares the number of units."""
    device: str
    """The URI in the journal; for a graph or shares all URIs, joined by "+"."""
    predicted_s: float
    """The predicted seconds in the journal."""
    now_device: str
    """The URI that is decided now; "" if no device can do the work."""
    now_predicted_s: float
    same: bool
    """Whether the whole plan is the same, byte for byte."""
    why: str = ""
    """Why no device can do the work now; "" if one can."""


def replay(
    path: str | os.PathLike[str],
    *,
    without: Sequence[str] = (),
    rate: Mapping[str, float] | None = None,
) -> list[Decision]:
    """Decides a journal again from what was known then.

    `path` is a trace that `Context.save_trace` wrote, with its journal beside it, or the journal
    itself. Without further arguments each decision must come out the same. `without` lists URIs to
    leave out. `rate` maps a URI to a factor above 0 by which that device is faster at everything.
    Times in the journal are divided by that factor: nothing is run.

    Raises OSError if there is no such file. Raises TypeError or ValueError for a wrong argument or
    a file that is no journal. Raises DeviceNotFound (also a ValueError) for a URI that the journal
    does not have.

    >>> a = np.ones((64, 64), np.float32)
    >>> with sp.init(["cpu"]) as ctx:
    ...     with ctx.trace("products"):
    ...         c = ctx.gemm(a, a)
    ...     ctx.save_trace("trace.json")
    >>> [(decision.op, decision.same) for decision in sp.replay("trace.json")]
    [('gemm_f32', True)]
    """
    if isinstance(without, str) or not isinstance(without, Sequence):
        raise TypeError(f"without: expected a list of URIs, got {without!r}")
    if rate is not None and not isinstance(rate, Mapping):
        raise TypeError(f"rate: expected a dict of factors by URI, got {rate!r}")
    factors = dict(rate or {})
    for uri, factor in factors.items():
        if isinstance(factor, bool) or not isinstance(factor, numbers.Real):
            raise TypeError(f"rate: expected a factor above 0 for {uri}, got {factor!r}")
        if not 0 < factor < math.inf:
            raise ValueError(f"rate: expected a factor above 0 for {uri}, got {factor!r}")
    lines = _lines(Path(path))

    def change(costs: Costs) -> None:
        for uri in (*without, *factors):
            if uri not in costs.nodes:
                raise NotInJournal(
                    f"journal: expected one of its devices {', '.join(costs.nodes)}, got {uri}"
                )
        for uri in without:
            costs.nodes[uri].lost = "it is left out"
        for (_, uri), speed in costs.speeds.items():
            speed.pace -= math.log(factors.get(uri, 1.0))

    def alter(call: str, args: list[Any]) -> list[Any]:
        if call == "ran" and args[1] in factors:
            return [*args[:3], args[3] / factors[args[1]], *args[4:]]
        if call == "probed" and args[1] in factors:
            return [*args[:2], [(size, t / factors[args[1]]) for size, t in args[2]]]
        return args

    asked = without or factors
    pairs = journal.replay(lines, change if asked else None, alter if factors else None)
    return [_decision(number, *pair) for number, pair in enumerate(pairs, 1)]


def _lines(path: Path) -> Iterable[str]:
    beside = path.with_name(path.name + ".journal")
    source = beside if beside.is_file() else path
    try:
        text = source.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{source}: expected a journal, got a file that is no text") from None
    if not text.startswith('{"costs"'):
        raise ValueError(f"{source}: expected a journal, or {beside.name} beside it, got neither")
    return text.splitlines()


def _decision(number: int, stands: str, now: str) -> Decision:
    before, after = json.loads(stands), json.loads(now)
    why = after.get("impossible", "")
    device, seconds = ("", math.inf) if why else _chosen(after)
    try:
        slots, shared = before.get("slots"), before.get("shared")
        work: dict[str, Any] = (
            {"op": "graph", "size": len(slots)} if slots is not None
            else {"op": "shares", "size": shared["count"]} if shared
            else before["work"]
        )  # fmt: skip
        chosen, predicted_s = _chosen(before)
        op, size = work["op"], work["size"]
    except (LookupError, TypeError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise ValueError(f"journal, decision {number}: {what}") from None
    return Decision(op, size, chosen, predicted_s, device, seconds, stands == now, why)


def _chosen(plan: dict[str, Any]) -> tuple[str, float]:
    if "slots" in plan:
        uris = sorted({plan["devices"][slot["device"]] for slot in plan["slots"]})
        return "+".join(uris), max((slot["end"] for slot in plan["slots"]), default=0.0)
    if "shared" in plan:
        return "+".join(sorted(plan["shared"]["parts"])), plan["shared"]["predicted_s"]
    chosen = plan["candidates"][0]
    return chosen["device"], sum((chosen["cost"] or {}).values())
