"""Traces: what is covered, the document that is made of one, and the check that judges it.

When this fails, a trace that a user opens lacks work that ran.
"""

import json
import threading

import pytest

from sparkle_drv.telemetry import chrome
from sparkle_drv.telemetry.trace import Trace

PLAN, GPU = ("host", "plan"), ("gpu", "compute")


def made():
    trace = Trace("train", 1000, 2000)
    first = trace.span(PLAN, "decide", 1000, 1100, why="fast")
    second = trace.span(GPU, "gemm", 1100, 1900)
    trace.span(("gpu", "h2d"), "operand", 1050, 1200)
    trace.flow("operand", first, second)
    return trace


def test_what_is_covered():
    assert made().covered() == pytest.approx(0.9)
    assert Trace("empty", 5, 5).covered() == 0
    outside = Trace("outside", 1000, 2000)
    outside.span(PLAN, "before and after", 0, 9000)
    assert outside.covered() == 1


def test_a_document_is_valid_and_says_what_was_recorded():
    document = json.loads(json.dumps(chrome.document([made()], {"seed": 7})))
    assert chrome.problems(document) == []
    events = document["traceEvents"]
    (gemm,) = [e for e in events if e["name"] == "gemm"]
    assert (gemm["ph"], gemm["ts"], gemm["dur"], gemm["cat"]) == ("X", 1.1, 0.8, "train")
    (decide,) = [e for e in events if e["name"] == "decide"]
    assert decide["args"] == {"why": "fast"}
    assert decide["pid"] != gemm["pid"]
    names = {(e["name"], e["args"]["name"]) for e in events if e["ph"] == "M"}
    assert names == {
        ("process_name", "host"), ("process_name", "gpu"),
        ("thread_name", "plan"), ("thread_name", "compute"), ("thread_name", "h2d"),
    }  # fmt: skip
    assert document["otherData"] == {"seed": 7}


def test_what_was_noted_becomes_spans():
    trace = made()
    trace.noted.append((PLAN, "late", 1900, 2000))
    assert trace.covered() == pytest.approx(1.0)
    assert trace.noted == []
    assert trace.spans[-1].name == "late"
    trace.settle()
    assert len(trace.spans) == 4


def test_what_threads_do_at_once_is_on_tracks_beside_one_another():
    trace = Trace("threads", 0, 100)
    spans = [trace.span(PLAN, name, begin, end) for name, begin, end in
             (("a", 0, 50), ("a1", 10, 20), ("b", 30, 70), ("b1", 55, 60), ("c", 40, 90),
              ("d", 50, 70), ("e", 95, 99))]  # fmt: skip
    trace.flow("x", spans[0], spans[2])
    document = chrome.document([trace])
    assert chrome.problems(document) == []
    rows = {e["tid"]: e["args"]["name"] for e in document["traceEvents"]
            if e["name"] == "thread_name"}  # fmt: skip
    where = {e["name"]: rows[e["tid"]] for e in document["traceEvents"] if e["ph"] == "X"}
    assert where == {"a": "plan", "a1": "plan", "b": "plan 2", "b1": "plan", "c": "plan 3",
                     "d": "plan", "e": "plan"}  # fmt: skip


def test_a_trace_to_which_threads_still_append():
    """What had begun in it ends after it: a document is of one moment."""
    trace = Trace("t", 0, end_ns=10)
    before = trace.span(PLAN, "a", 0, 1)
    copies = trace.copies

    def late():
        spans, flows = copies()
        after = trace.span(PLAN, "b", 2, 3)
        trace.flow("x", before, after)
        trace.noted.append((PLAN, "c", 4, 5))
        return spans, flows

    trace.copies = late
    first = chrome.document([trace])
    trace.copies = copies
    second = chrome.document([trace])
    assert [chrome.problems(d) for d in (first, second)] == [[], []]
    assert [sum(e["ph"] == "X" for e in d["traceEvents"]) for d in (first, second)] == [1, 3]
    assert trace.noted == []


def test_flows_of_several_traces_have_ids_of_their_own():
    document = chrome.document([made(), made()])
    assert chrome.problems(document) == []
    assert {e["id"] for e in document["traceEvents"] if e["ph"] in "sf"} == {1, 2}


def span(begin, end, name="x", track=1):
    return {"ph": "X", "name": name, "pid": 1, "tid": track, "ts": begin, "dur": end - begin}


@pytest.mark.parametrize(
    ("events", "what"),
    [
        ([span(0, 10, "a"), span(5, 15, "b")], "'b' overlaps 'a' in part"),
        ([span(0, 10), span(2, 4), span(3, 5, "c")], "'c' overlaps"),
        ([span(5, 3)], "ends before it begins"),
        ([{"ph": "X", "name": "x", "pid": 1}], "expected ts, dur, tid"),
        ([{"ph": "Q"}], "got 'Q'"),
        (["text"], "got None"),
        ([{**span(1, 2), "ts": "soon"}], "expected ts of the right type"),
        ([{**span(1, 2), "dur": float("nan")}], "expected dur of"),
        ([{**span(1, 2), "tid": []}], "expected tid of"),
        ([{**span(1, 2), "name": 5}], "expected name of"),
        ([{**span(1, 2), "args": 5}], "expected args of"),
        ([{"ph": "M", "name": "process_name", "pid": 1}], "expected args.name of"),
        ([{"ph": "s", "name": "x", "pid": 1, "tid": 1, "ts": 0, "id": {}}], "expected id of"),
        ([{"ph": "s", "name": "x", "pid": 1, "tid": 1, "ts": 0, "id": 3}], "got 1 ends"),
        (
            [
                {"ph": ph, "name": "x", "pid": 1, "tid": 1, "ts": ts, "id": 3}
                for ph, ts in (("s", 5), ("f", 1))
            ],
            "flow 3: it ends before it begins",
        ),
    ],
)
def test_the_check_finds_what_is_wrong(events, what):
    (found,) = chrome.problems({"traceEvents": events})
    assert what in found


def test_spans_that_nest_or_follow_are_well():
    events = [span(0, 10), span(0, 4), span(4, 10), span(5, 6), span(10, 12), span(3, 20, track=2)]
    assert chrome.problems({"traceEvents": events}) == []


@pytest.mark.parametrize("given", [[], {}, {"traceEvents": 5}, None])
def test_what_is_no_document(given):
    assert chrome.problems(given) == ['expected an object with a list "traceEvents"']


def test_each_thread_has_calls_of_its_own():
    trace = Trace("t", 5)
    trace.call_ns = 10
    found = []

    def other():
        found.append(trace.call_ns)
        trace.call_ns = 20
        found.append(trace.call_ns)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [5, 20]  # a call that began before the trace did is in it from there
    assert trace.call_ns == 10


def test_a_handler_of_a_signal_is_traced_too():
    trace = Trace("t", 0)

    class Interrupted(tuple):
        def __iter__(self):
            trace.span(("host", "handler"), "it", 1, 2)
            return super().__iter__()

    trace.noted.append(Interrupted((("host", "calls"), "call", 0, 3)))
    settles = threading.Thread(target=trace.settle, daemon=True)
    settles.start()
    settles.join(20)
    assert not settles.is_alive()
    assert sorted(s.name for s in trace.spans) == ["call", "it"]
