"""The process of one peer with one number of threads. It serves requests for a whole run.

`-m _cpu_peers.child NAME THREADS` reads one request, a JSON object, per line and answers with one
JSON object. It sleeps between requests: only the peer whose turn it is uses the cores. NAME is a
module of this package, or of another one if it has a dot.

    {"do": "prepare", "case": NAME, "folder": F}    reads the operands from F/x.npy, ...; computes
                                                    the case once in each way of the peer (`Way` of
                                                    base.py); writes results that are to be compared
                                                    to F/<peer>.<number of the way>.npy
    {"do": "time", "way": W, "calls": n, "blocks": b, "warm": w}    ns of a call in each block
    {"do": "drop"}                                 frees the case's operands and results
"""

from __future__ import annotations

import json
import os
import sys
import timeit
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from .base import Peer, Way


def told(error: BaseException) -> str:
    """Returns the text of an error of a library's code, in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


class Worker:
    """The handlers of the requests. The name of a method is the name of its request."""

    def __init__(self, name: str, peer: Peer) -> None:
        self.name, self.peer = name, peer
        self.timers: dict[str, timeit.Timer] = {}

    def prepare(self, case: str, folder: str) -> dict[str, Any]:
        """Prepares each way in which the peer computes the case (`Way` of base.py). Makes the
        way's `early` calls, then the call whose result is verified.

        Returns a dict for each way, by the way's name. The dict has "statement" (the Python
        statement that is timed), and "file" if there is a result to compare. If the way failed,
        the dict has only "error", the reason.
        """
        numpy = import_module("numpy")
        self.timers.clear()
        where = Path(folder)
        # numpy.load() returns a view of a buffer. A peer that packs weights only once needs an
        # array that owns its data, so copy() makes one.
        operands = {path.stem: numpy.load(path).copy() for path in sorted(where.glob("?.npy"))}
        found: dict[str, Any] = {}
        for at, (name, make) in enumerate(self.peer.ways(self.peer.find(case), operands)):
            try:
                way = make()
                for _ in range(way.early):
                    self._once(way)
                way.poison()
                self._once(way)
                found[name] = {"statement": way.statement}
                result = way.result()
                if result is not None:
                    file = where / f"{self.name}.{at}.npy"
                    numpy.save(file, result)
                    found[name]["file"] = str(file)
            # a library may raise anything; the peer's other ways (class Way) to compute this case
            # are still measured
            except Exception as error:
                found[name] = {"error": told(error)}
                continue
            self.timers[name] = timeit.Timer(
                way.statement, timer=way.clock, globals=dict(way.names)
            )
        return found

    @staticmethod
    def _once(way: Way) -> None:
        exec(way.statement, dict(way.names))

    def time(self, way: str, calls: int, blocks: int, warm: int) -> dict[str, Any]:
        """Times `blocks` blocks of `calls` calls each, after `warm` calls that do not count."""
        timer = self.timers[way]
        timer.timeit(warm)
        return {"ns": [timer.timeit(calls) / calls * 1e9 for _ in range(blocks)]}

    def drop(self) -> dict[str, Any]:
        self.timers.clear()
        return {}


def serve(name: str, threads: int, ask: Callable[[], str], say: Callable[[str], None]) -> None:
    """Answers requests until `ask` returns an empty line."""
    try:
        peer = import_module(name if "." in name else f".{name}", __package__).PEER()
        say(json.dumps({"version": peer.start(threads)}))
    except (ImportError, OSError) as error:  # not installed, or one of its libraries does not load
        say(json.dumps({"absent": told(error)}))
        return
    worker = Worker(name, peer)
    while line := ask():
        request = json.loads(line)
        do: Callable[..., dict[str, Any]] = getattr(worker, request.pop("do"))
        try:
            say(json.dumps(do(**request)))
        except Exception as error:  # a library may raise anything
            say(json.dumps({"error": told(error)}))


def main(argv: list[str]) -> int:
    name, threads = argv
    # Libraries may print anything to stdout, so stdout becomes a copy of stderr. Only answers go to
    # the pipe that was stdout.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    serve(name, int(threads), sys.stdin.readline, lambda text: print(text, file=answers))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
