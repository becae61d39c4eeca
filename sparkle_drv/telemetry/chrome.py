"""Traces as trace-event JSON in its object form, and a check of such a document.

Format: "Trace Event Format", the document of the Chrome project. It has complete events ("X") with
times in microseconds and metadata ("M"). It has flow events: "s" begins a flow, "f" ends it and is
bound to the enclosing slice by "bp": "e". Spans on one track must nest. A trace's node becomes a
process of the document, and each of the node's tracks a thread. If spans of several threads overlap
on a track such as "calls", they go to a second one, "calls 2", and so on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from .trace import Span, Trace, Track


def document(traces: Iterable[Trace], about: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns {"traceEvents": [...], ...} of all traces. `about` goes to "otherData"."""
    copies = [(trace.name, *trace.copies()) for trace in traces]
    lanes = _lanes(span for _, spans, _ in copies for span in spans)
    tracks = _numbered(lanes[id(span)] for _, spans, _ in copies for span in spans)
    events = _names(tracks)
    flow_id = 0
    for name, spans, flows in copies:
        for span in spans:
            pid, tid = tracks[lanes[id(span)]]
            events.append(
                {
                    "ph": "X",
                    "name": span.name,
                    "cat": name,
                    "pid": pid,
                    "tid": tid,
                    "ts": span.begin_ns / 1e3,
                    "dur": (span.end_ns - span.begin_ns) / 1e3,
                    "args": span.args,
                }
            )
        for flow in flows:
            flow_id += 1
            for ph, span, at in (
                ("s", flow.source, flow.source.begin_ns),
                ("f", flow.to, flow.to.begin_ns),
            ):
                pid, tid = tracks[lanes[id(span)]]
                event = {"ph": ph, "name": flow.name, "cat": "flow", "id": flow_id, "pid": pid,
                         "tid": tid, "ts": at / 1e3}  # fmt: skip
                events.append({**event, "bp": "e"} if ph == "f" else event)
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": dict(about or {})}


def _lanes(spans: Iterable[Span]) -> dict[int, Track]:
    """Returns a dict from the id of each span to the track on which the viewer shows it.

    This is the span's own track, unless the span would partly overlap another one there. It is then
    a further track with a number, such as "calls 2".
    """
    tracks: dict[int, Track] = {}
    ends: dict[Track, list[list[int]]] = {}
    for span in sorted(spans, key=lambda s: (s.begin_ns, -s.end_ns)):
        lanes = ends.setdefault(span.track, [])
        at = 0
        while at < len(lanes):
            open_ = lanes[at]
            while open_ and open_[-1] <= span.begin_ns:
                open_.pop()
            if not open_ or span.end_ns <= open_[-1]:
                break
            at += 1
        else:
            lanes.append([])
        lanes[at].append(span.end_ns)
        node, queue = span.track
        tracks[id(span)] = (node, f"{queue} {at + 1}" if at else queue)
    return tracks


def _numbered(tracks: Iterable[Track]) -> dict[Track, tuple[int, int]]:
    """Returns (pid, tid) of each track. Nodes and tracks are numbered from 1, in order of first
    appearance.
    """
    numbers: dict[Track, tuple[int, int]] = {}
    nodes: dict[str, int] = {}
    for track in tracks:
        if track not in numbers:
            pid = nodes.setdefault(track[0], len(nodes) + 1)
            numbers[track] = pid, 1 + sum(1 for other in numbers if other[0] == track[0])
    return numbers


def _names(tracks: dict[Track, tuple[int, int]]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for node, pid in dict.fromkeys((track[0], ids[0]) for track, ids in tracks.items()):
        events.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": node}})
    for (_, queue), (pid, tid) in tracks.items():
        events.append(
            {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": queue}}
        )
    return events


def problems(trace: Any) -> list[str]:
    """Returns the errors of a document, [] if there are none. Errors are: no object with a list
    "traceEvents", events without required members, spans that partly overlap on a track, unpaired
    flows.
    """
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        return ['expected an object with a list "traceEvents"']
    wrong: list[str] = []
    tracks: dict[tuple[Any, Any], list[tuple[float, float, str]]] = {}
    flows: dict[Any, list[tuple[str, float]]] = {}
    for i, event in enumerate(trace["traceEvents"]):
        ph = event.get("ph") if isinstance(event, dict) else None
        if ph not in ("X", "s", "f", "M"):
            wrong.append(f"event {i}: expected ph X, s, f or M, got {ph!r}")
            continue
        wanted = {"X": ("ts", "dur", "tid"), "s": ("ts", "id", "tid"), "f": ("ts", "id", "tid")}
        missing = [k for k in ("name", "pid", *wanted.get(ph, ())) if not _sane(k, event.get(k))]
        if not isinstance(event.get("args", {}), dict):
            missing.append("args")
        if event.get("name") in ("process_name", "thread_name") and not missing:
            missing += [f"args.{k}" for k in ("name",) if k not in event.get("args", {})]
        if missing:
            wrong.append(f"event {i}: expected {', '.join(missing)} of the right type")
        elif ph == "X":
            if event["dur"] < 0:
                wrong.append(f"event {i}: it ends before it begins")
            spans = tracks.setdefault((event["pid"], event["tid"]), [])
            spans.append((event["ts"], event["ts"] + event["dur"], event["name"]))
        elif ph in ("s", "f"):
            flows.setdefault(event["id"], []).append((ph, event["ts"]))
    for track, spans in tracks.items():
        wrong += [f"track {track}: {what}" for what in _partial(spans)]
    for flow, ends in flows.items():
        if sorted(ph for ph, _ in ends) != ["f", "s"]:
            wrong.append(f"flow {flow}: expected one beginning and one end, got {len(ends)} ends")
        elif dict(ends)["f"] < dict(ends)["s"]:
            wrong.append(f"flow {flow}: it ends before it begins")
    return wrong


def _sane(key: str, value: Any) -> bool:
    """Returns whether the value has the type that this key of an event needs."""
    if isinstance(value, bool):
        return False
    if key in ("ts", "dur"):
        return isinstance(value, (int, float)) and math.isfinite(value)
    return isinstance(value, str) or (key != "name" and isinstance(value, int))


def _partial(spans: list[tuple[float, float, str]]) -> list[str]:
    """Describes the spans that begin within another one and end after it. Rounding errors of 1 ns
    are ignored.
    """
    wrong = []
    open_: list[tuple[float, float, str]] = []
    for span in sorted(spans, key=lambda s: (s[0], -s[1])):
        while open_ and open_[-1][1] <= span[0] + 1e-3:
            open_.pop()
        if open_ and span[1] > open_[-1][1] + 1e-3:
            wrong.append(f"{span[2]!r} overlaps {open_[-1][2]!r} in part")
        open_.append(span)
    return wrong
