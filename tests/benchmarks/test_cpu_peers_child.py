"""benchmarks/cpu_peers.py: a library's own process, and the module that pins and ends it.

When this fails, a hung library blocks the whole comparison, or runs on other cores.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import types

import numpy as np
import pytest
from peerskit import SMALL, base, child, peer_process, reference

pytestmark = pytest.mark.setup


class Adder(base.Peer):
    """Computes right in one way, wrong in another, not at all in a third."""

    def start(self, threads):
        return f"1.{threads}"

    def ways(self, case, operands):
        c = np.zeros((8, 8), np.float32)
        names = {**operands, "c": c, "np": np}
        yield "good", lambda: base.Way("np.matmul(a, b, out=c)", names, lambda: c)
        yield "late", self.late
        yield "broken", lambda: base.Way("nonsense()", names, lambda: c)
        yield "absent", lambda: 1 // 0

    def late(self):
        """Two early calls, then what was there is spoiled, then the one that is verified."""
        calls = np.zeros(2)

        def once():
            calls[...] += 1

        def poison():
            assert calls.tolist() == [2, 2]

        return base.Way("once()", {"once": once}, lambda: calls, 2, poison)


def talk(monkeypatch, name, *requests):
    if name == "adder":
        monkeypatch.setitem(sys.modules, "_cpu_peers.adder", types.SimpleNamespace(PEER=Adder))
    lines, said = iter([*(json.dumps(request) for request in requests), ""]), []
    child.serve(name, 3, lambda: next(lines), said.append)
    return [json.loads(line) for line in said]


def test_a_child_prepares_and_times(monkeypatch, tmp_path):
    given = reference.operands(SMALL)
    reference.write(given, tmp_path)
    told = talk(
        monkeypatch, "adder", {"do": "prepare", "case": SMALL.name, "folder": str(tmp_path)},
        {"do": "time", "way": "good", "calls": 3, "blocks": 4, "warm": 1},
        {"do": "time", "way": "broken", "calls": 1, "blocks": 1, "warm": 0}, {"do": "drop"},
    )  # fmt: skip
    assert np.load(told[1]["late"]["file"]).tolist() == [3, 3]
    version, ways, timed, untimed, dropped = told
    assert version == {"version": "1.3"}
    assert ways["broken"] == {"error": "NameError: name 'nonsense' is not defined"}
    assert ways["absent"]["error"].startswith("ZeroDivisionError")
    result = np.load(ways["good"]["file"])
    assert reference.error(result, reference.expected(SMALL, given)) < 1e-5
    assert len(timed["ns"]) == 4
    assert min(timed["ns"]) > 0
    assert "error" in untimed
    assert dropped == {}


def test_a_library_that_is_not_there_is_absent(monkeypatch):
    broken = types.SimpleNamespace(PEER=lambda: importlib.import_module("no_such_library"))
    monkeypatch.setitem(sys.modules, "_cpu_peers.broken", broken)
    assert talk(monkeypatch, "broken") == [
        {"absent": "ModuleNotFoundError: No module named 'no_such_library'"}
    ]


CHILD = """
import json, os, sys, time
print(json.dumps({"version": "1"}), flush=True)
for line in sys.stdin:
    do = json.loads(line)["do"]
    if do == "die":
        print("a last word", file=sys.stderr)
        os.abort()
    if do == "sleep":
        time.sleep(60)
    print(json.dumps({"cpus": sorted(os.sched_getaffinity(0))}), flush=True)
"""


@pytest.fixture
def stationed(tmp_path):
    """A PeerProcess with CHILD behind it, on one CPU."""
    package = tmp_path / "_cpu_peers"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "child.py").write_text(CHILD)
    cpu = min(os.sched_getaffinity(0))
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    made = peer_process.PeerProcess("sparkle", 1, [cpu], env, tmp_path)
    yield made
    made.close()


def test_a_station_is_pinned_and_ends(stationed):
    before = os.sched_getaffinity(0)
    assert stationed.version == "1"
    assert stationed.ask("which")["cpus"] == [min(before)]
    assert os.sched_getaffinity(0) == before
    stationed.close()
    assert not stationed.alive
    with pytest.raises(peer_process.Lost, match="ended before"):
        stationed.ask("which")


def test_a_station_says_how_a_child_ended(stationed):
    with pytest.raises(peer_process.Lost, match="ended with signal 6, saying a last word"):
        stationed.ask("die")
    assert not stationed.alive


def test_a_station_does_not_wait_for_ever(stationed, monkeypatch):
    monkeypatch.setattr(peer_process, "ANSWER_S", 0.1)
    with pytest.raises(peer_process.Lost, match=r"no answer for 0\.1 s"):
        stationed.ask("sleep")
    assert not stationed.alive
