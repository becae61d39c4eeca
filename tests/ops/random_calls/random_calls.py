"""Random calls of operations, plans and graphs, each compared with numpy: `make random-calls`.

    random_calls.py [--count 23000] [--seed 1] [--threads 3] [--only INDEX]

Every call is made up to four times, with new contents in the same memory: nothing may be remembered
of values. Several threads call at once. SIGINT comes in the middle of many calls of the main
thread; those are then made again. Of some, an operand is closed: the next call must raise. A call
that differs is printed with its index, which --only repeats; the exit code is 1.
"""

from __future__ import annotations

import argparse
import gc
import queue
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

import composed
import drawing
import numpy as np

import sparkle_drv as sp
import sparkle_drv.testing  # makes emu: known

SHARES = {"cpu": 60, "context": 25, "context of two": 4, "egl": 7, "amdgpu": 4}
SMALL = (1, 2, 3, 5, 8)  # extents for devices on which a call is slow
REFUSED = (ValueError, sp.SparkleError)  # what a closed operand may raise
MOST_WRONG = 10


class Interrupted(Exception):
    """A call was ended by Ctrl-C."""


class CtrlC:
    """Sends SIGINT to this process in the middle of a call of the main thread."""

    def __init__(self) -> None:
        self._armed = False
        self._delays: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self._sent = threading.Event()
        self._before = signal.signal(signal.SIGINT, self._raise)
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _raise(self, *_: object) -> None:
        if self._armed:
            self._armed = False
            raise KeyboardInterrupt

    def _send(self) -> None:
        while (delay := self._delays.get()) is not None:
            time.sleep(delay)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            self._sent.set()

    def during(self, call, delay: float):
        """The result of `call`. Raises Interrupted if the signal came before its end."""
        self._sent.clear()
        self._delays.put(delay)
        try:
            try:
                self._armed = True  # the signal before this one may come as late as now
                result = call()
            finally:
                self._armed = False
        except KeyboardInterrupt:
            self._armed = False
            raise Interrupted from None
        finally:
            self._sent.wait()
        return result

    def end(self) -> None:
        self._delays.put(None)
        self._thread.join()
        time.sleep(0.01)  # until the last signal has come
        signal.signal(signal.SIGINT, self._before)


@dataclass
class Found:
    """What a run has seen."""

    seen: Counter = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, *what: str) -> None:
        with self.lock:
            self.seen.update(what)


def places(names) -> list[drawing.Place]:
    """Those of `names` that this machine has."""
    made = []
    for name in names:
        try:
            if name == "cpu":
                made.append(drawing.Place(name, dev=sp.open("cpu", threads=2)))
            elif name == "context":
                made.append(drawing.Place(name, ctx=sp.init(devices=["cpu"])))
            elif name == "context of two":
                ctx = sp.init(devices=["cpu", "egl:0"])
                made.append(drawing.Place(name, ctx=ctx, extents=SMALL, everything=False))
            else:
                dev = sp.open({"egl": "egl:0", "amdgpu": "emu:gfx1100"}[name])
                made.append(drawing.Place(name, dev=dev, extents=SMALL, everything=False))
        except sp.DeviceNotFound as error:
            print(f"without {name}: {error}", file=sys.stderr)
    return made


def unraisable(found: Found, usual, what) -> None:
    """Python cannot raise in a finalizer: there, it prints Ctrl-C and forgets it."""
    if what.exc_type is KeyboardInterrupt:
        found.note("interrupted in a finalizer")
    else:
        usual(what)


def settle(place: drawing.Place) -> None:
    """What an interrupted call has begun is done: only then its memory is anybody's."""
    for dev in [place.dev] if place.ctx is None else place.ctx.devices:
        dev.wait_idle()


def differs(call: drawing.Call, result, value, bound, stored) -> str:
    """ "": the result is numpy's, within its bound."""
    if tuple(result.shape) != tuple(np.shape(value)):
        return f"shape {result.shape}, expected {np.shape(value)}"
    pairs = [(result, value, bound)]
    if stored is not None:  # nothing beside `out` may have changed either
        around = np.zeros(call.base.shape)
        call.stored(around)[...] = bound
        pairs = [(call.base, stored, around)]
    for got, want, most in pairs:
        off = np.abs(np.asarray(got, np.float64) - want)
        if not (off <= most).all():
            at = np.unravel_index(np.argmax(np.where(off <= most, -1, off)), off.shape)
            allowed = np.broadcast_to(most, off.shape)[at]
            return f"at {at}: {got[at]}, expected {want[at]} within {allowed}"
    return ""


def once(call: drawing.Call, make) -> str:
    """Makes a call; "", or how its result differs. What to expect is settled before."""
    value, bound = call.expect()
    stored = None
    if call.base is not None:
        stored = call.base.astype(np.float64)
        call.stored(stored)[...] = value
    return differs(call, make(), value, bound, stored)


def judge(index: int, seed: int, place: drawing.Place, found: Found, ctrl_c: CtrlC | None) -> int:
    """Draws call `index` and makes it some times. Returns how many calls that were."""
    kind, call, rng = composed.drawn(seed, index, place)
    times = int(rng.integers(1, 5))
    for at in range(times):
        if at:
            for operand in call.operands:
                operand.refill(rng)
        chance, delay = rng.random(2)
        if ctrl_c is not None and chance < 0.3:
            try:
                ctrl_c.during(call.make, float(delay**3 * 1e-3))
                found.note("interrupted too late")
            except Interrupted:
                found.note("interrupted")
            settle(place)
        wrong = once(call, call.make)
        if wrong:
            raise AssertionError(f"{call.text}, time {at + 1}: {wrong}")
        found.note(kind, place.name, *(["out over an operand"] if call.base is not None else []))
    able = [operand for operand in call.operands if operand.filled is None]
    if able and rng.random() < 0.2:
        able[rng.integers(len(able))].close()
        try:
            call.make()
        except REFUSED:
            found.note("refused: closed")
            times += 1
        else:
            raise AssertionError(f"{call.text}: an operand is closed, and nothing is raised")
    for thing in call.closes:
        thing.close()
    for operand in call.operands:
        operand.close()
    return times


def work(indices, seed: int, chosen: list, found: Found, until: int, ctrl_c=None) -> None:
    """Makes calls until as many as wanted are done, by all threads together."""
    shares = np.array([SHARES[place.name] for place in chosen], float)
    for index in indices:
        with found.lock:
            if found.seen["calls"] >= until or len(found.wrong) >= MOST_WRONG:
                return
        which = np.random.default_rng((seed, index, 1)).choice(len(chosen), p=shares / shares.sum())
        try:
            made = judge(index, seed, chosen[which], found, ctrl_c)
        except Exception:
            with found.lock:
                said = traceback.format_exc(limit=-16)
                found.wrong.append(f"--seed {seed} --only {index} ({chosen[which].name}): {said}")
        else:
            with found.lock:
                found.seen["calls"] += made


def run(
    count: int, seed: int, threads: int, names=tuple(SHARES), only: int | None = None,
    interrupts: bool = True,
) -> Found:  # fmt: skip
    """`count` calls on the places of these names. Must be called by the main thread.

    interrupts: Ctrl-C comes in the middle of calls. Not under coverage, which takes a lock between
    any two lines and keeps it for ever when it is interrupted there.
    """
    found, chosen = Found(), places(names)
    if only is not None:
        work([only], seed, chosen, found, 1)
        return found
    others = [
        threading.Thread(target=work, args=(range(at, 10**9, threads), seed, chosen, found, count))
        for at in range(1, threads)
    ]
    for thread in others:
        thread.start()
    ctrl_c = CtrlC() if interrupts else None
    usual, switch = sys.unraisablehook, sys.getswitchinterval()
    sys.unraisablehook = partial(unraisable, found, usual)
    sys.setswitchinterval(1e-5)  # the signal comes in time, and threads meet more often
    try:
        work(range(0, 10**9, threads), seed, chosen, found, count, ctrl_c)
    finally:
        if ctrl_c is not None:
            ctrl_c.end()
        for thread in others:
            thread.join()
        for place in chosen:
            (place.dev or place.ctx).close()
        gc.collect()
        sys.setswitchinterval(switch)
        sys.unraisablehook = usual
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=23_000, help="calls; the default is 23000")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=3, help="that call at once")
    parser.add_argument("--only", type=int, metavar="INDEX", help="this call alone")
    parser.add_argument("--places", nargs="+", choices=tuple(SHARES), default=tuple(SHARES))
    args = parser.parse_args()
    begun = time.monotonic()
    found = run(args.count, args.seed, args.threads, tuple(args.places), args.only)
    for what, times in found.seen.most_common():
        print(f"{times:>8} {what}")
    print(*found.wrong, sep="\n\n")
    print(f"{len(found.wrong)} wrong, seed {args.seed}, {time.monotonic() - begun:.0f} s")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
