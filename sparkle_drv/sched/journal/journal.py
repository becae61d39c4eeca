"""The journal of a scheduler: its costs at the beginning, each event since, and each decision.

A replay of the journal must decide the same. `choose` sees only `Costs`, and every change of
`Costs` is an event in the journal. The same events therefore give the same plans, byte for byte.
The journal has one JSON object per line, so that a journal that was cut off is still readable.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, fields
from typing import Any

from sparkle_drv.mesh.links.line import Line
from sparkle_drv.sched.decide.choose import Impossible, choose
from sparkle_drv.sched.decide.dag import TaskSchedule
from sparkle_drv.sched.decide.place_graph import placed
from sparkle_drv.sched.model.costs import Costs, DeviceCosts, Reliability, Unmeasured
from sparkle_drv.sched.model.plan import Plan
from sparkle_drv.sched.model.speed import WINDOW, Knot, Speed
from sparkle_drv.sched.model.work import Operand, Work
from sparkle_drv.sched.shard.divide import Axis, Divided, Wanted, divide

VERSION = 7
_CALLS = frozenset(
    {"ran", "failed", "explored", "probed", "predicted", "probe_failed", "linked", "lost", "queued"}
)
"""Methods of Costs that change it."""


class Journal:
    """A journal to which events are appended while a scheduler works. `lines` has all lines of
    text.
    """

    def __init__(self, costs: Costs) -> None:
        self.lines: list[str] = [_line({"journal": VERSION, "costs": _costs_out(costs)})]

    def decided(
        self,
        work: Work,
        devices: tuple[str, ...],
        plan: Plan,
        barred: Mapping[str, str] | None = None,
    ) -> None:
        """Records that `choose(costs, work, devices, barred)` returned this plan."""
        made = {"work": asdict(work), "devices": devices, "plan": _plan_out(plan)}
        self._add("decided", {**made, "barred": barred} if barred else made)

    def placed(
        self,
        works: Sequence[Work],
        reads: Sequence[Sequence[int]],
        uris: tuple[str, ...],
        refused: Mapping[tuple[int, str], str],
        index: int,
        schedule: TaskSchedule,
        layers: Sequence[int] = (),
    ) -> None:
        """Records the schedule that a graph's tasks got. It is the one with the number `index` in
        `Placed.order`, the candidates of decide/place_graph.py.
        """
        event = {
            "works": [asdict(work) for work in works],
            "reads": reads,
            "devices": uris,
            "refused": [[task, uri, why] for (task, uri), why in refused.items()],
            "index": index,
            "schedule": asdict(schedule),
        }
        self._add("placed", {**event, "layers": layers} if layers else event)

    def divided(
        self, work: Work, axes: Sequence[Axis], uris: Sequence[str], wanted: Wanted,
        divided: Divided,
    ) -> None:  # fmt: skip
        """Records that `divide(costs, work, axes, uris, wanted)` returned `divided`."""
        event = {
            "work": asdict(work), "axes": [asdict(axis) for axis in axes], "devices": uris,
            "wanted": asdict(wanted), "plan": _divided_out(divided),
        }  # fmt: skip
        self._add("divided", event)

    def record_call(self, call: str, *args: Any) -> None:
        """Records that the method `call` of Costs was called. A replay calls it again by `tell`."""
        self._add("told", {"call": call, "args": args})

    def _add(self, event: str, what: dict[str, Any]) -> None:
        self.lines.append(_line({event: what}))


def tell(costs: Costs, call: str, args: Iterable[Any]) -> None:
    """Calls the method of Costs that `Journal.record_call` recorded. Raises ValueError for an
    unknown method.
    """
    if call not in _CALLS:
        raise ValueError(f"journal: expected one of {', '.join(sorted(_CALLS))}, got {call!r}")
    getattr(costs, call)(*args)


def replay(
    lines: Iterable[str],
    change: Callable[[Costs], None] | None = None,
    alter: Callable[[str, list[Any]], list[Any]] | None = None,
) -> Iterator[tuple[str, str]]:
    """Yields for each decision: the plan in the journal, and the plan that is decided now, as JSON.

    The plan of a task graph is its schedule, which numbers the devices, and the list of their URIs.
    The plan of a call that several devices share is the number of the cut axis, and the shares.

    `change` is applied to the costs at the beginning. `alter(call, args)` gets each event and
    returns the arguments to use in place of `args`. Raises ValueError for text that is no journal.
    """
    costs: Costs | None = None
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
            if costs is None or "journal" in line:
                if line["journal"] != VERSION:
                    raise ValueError(f"journal: expected version {VERSION}, got {line['journal']}")
                costs = _costs_in(line["costs"])
                if change is not None:
                    change(costs)
            elif "told" in line:
                call, args = line["told"]["call"], line["told"]["args"]
                tell(costs, call, args if alter is None else alter(call, args))
            elif "placed" in line:
                event = line["placed"]
                stands = {"devices": event["devices"], **event["schedule"]}
                yield _line(stands), _line(_placed(costs, event))
            elif "divided" in line:
                event = line["divided"]
                yield _line(event["plan"]), _line(_divided(costs, event))
            else:
                event = line["decided"]
                try:
                    work, barred = _work_in(event["work"]), event.get("barred")
                    plan = _plan_out(choose(costs, work, event["devices"], barred))
                except Impossible as error:
                    plan = {"impossible": str(error)}
                yield _line(event["plan"]), _line(plan)
        except (
            LookupError, TypeError, AttributeError, RecursionError, json.JSONDecodeError
        ) as error:  # fmt: skip
            raise ValueError(f"journal, line {number}: {type(error).__name__}: {error}") from None


def _placed(costs: Costs, event: dict[str, Any]) -> dict[str, Any]:
    """Decides again where a graph's tasks run, by the inputs in the journal's `event`. Returns the
    schedule.
    """
    works = [_work_in(work) for work in event["works"]]
    refused = {(task, uri): why for task, uri, why in event["refused"]}
    try:
        given = works, event["reads"], event["devices"], refused, event.get("layers", ())
        found = placed(costs, *given).order
    except Impossible as error:
        return {"impossible": str(error)}
    return {"devices": event["devices"], **asdict(found[min(event["index"], len(found) - 1)])}


def _divided(costs: Costs, event: dict[str, Any]) -> dict[str, Any]:
    """Decides again how devices share a call, by the inputs that the journal's event `event` holds.
    Returns the shares.
    """
    axes = [Axis(**axis) for axis in event["axes"]]
    try:
        divided = divide(
            costs, _work_in(event["work"]), axes, event["devices"], Wanted(**event["wanted"])
        )
    except ValueError as error:
        return {"impossible": str(error)}
    return {"impossible": "no device can do the work"} if divided is None else _divided_out(divided)


def _divided_out(divided: Divided) -> dict[str, Any]:
    return {"axis": divided.at, "shared": asdict(divided.shares)}


def _line(what: Any) -> str:
    return json.dumps(what, sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, deque):
        return list(value)
    raise TypeError(f"journal: expected JSON data, a set or deque, got {type(value).__name__}")


def _costs_out(costs: Costs) -> dict[str, Any]:
    # Copies, because the originals change with each run.
    costs_now = {f.name: copy(getattr(costs, f.name)) for f in fields(costs)}
    return {
        **costs_now,
        "nodes": {uri: asdict(node) for uri, node in costs_now["nodes"].items()},
        "speeds": [[op, uri, asdict(speed)] for (op, uri), speed in costs_now["speeds"].items()],
        "links": [[source, to, asdict(line)] for (source, to), line in costs_now["links"].items()],
        "unmeasured": [[*key, one.times, one.why] for key, one in costs_now["unmeasured"].items()],
        "last": [[op, uri, run] for (op, uri), run in costs_now["last"].items()],
    }


def _costs_in(saved: dict[str, Any]) -> Costs:
    costs = Costs(spare_s=saved["spare_s"], runs=dict(saved["runs"]))
    for uri, node in saved["nodes"].items():
        reliability = Reliability(**node.pop("reliability"))
        node.update(shares=tuple(node["shares"]), lacks=set(node["lacks"]))
        costs.nodes[uri] = DeviceCosts(**node, reliability=reliability)
    for op, uri, speed in saved["speeds"]:
        speed["line"] = Line(**speed["line"])
        speed["knots"] = {int(at): Knot(**knot) for at, knot in speed["knots"].items()}
        speed["_recent"] = deque(speed["_recent"], WINDOW)
        costs.speeds[op, uri] = Speed(**speed)
    costs.parts = {op: tuple(parts) for op, parts in saved["parts"].items()}
    for source, to, line in saved["links"]:
        costs.links[source, to] = Line(**line)
    for what, uri, times, why in saved["unmeasured"]:
        costs.unmeasured[what, uri] = Unmeasured(times, why)
    for op, uri, run in saved["last"]:
        costs.last[op, uri] = run
    return costs


def _plan_out(plan: Plan) -> dict[str, Any]:
    """Returns the plan without its measurements, which a replay cannot repeat."""
    found = asdict(plan)
    del found["measured"]
    return found


def _work_in(given: dict[str, Any]) -> Work:
    operands = tuple(Operand(**{**x, "places": frozenset(x["places"])}) for x in given["operands"])
    return Work(**{**given, "operands": operands})
