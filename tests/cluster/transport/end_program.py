"""One endpoint as a program: it answers every message and obeys lines on its standard input.

    end_program.py '{"name": ..., "folder": ..., "node": ..., "listen": [...], "connect": [...],
                     "naive": {"transport/link/tx/lease": 10000}, "flat": false}'

`naive` replaces settings of Zenoh; `flat` sends all on one lane of normal priority, as a program
that knows no lanes does. Lines: `watch NAME`; `ask NAME COUNT GAP_S`;
`load NAME NBYTES COUNT WINDOW`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

from sparkle_drv.cluster.transport import config
from sparkle_drv.cluster.transport.base import MessageLane, Stalled
from sparkle_drv.cluster.transport.engine import Engine

asked = json.loads(sys.argv[1])
answered = threading.Semaphore(0)
credit = threading.Semaphore(0)


def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def replace(settings):
    def replaced(*arguments, **named):
        made = settings(*arguments, **named)
        for path, value in asked.get("naive", {}).items():
            at = made
            *parents, last = path.split("/")
            for parent in parents:
                at = at.setdefault(parent, {})
            at[last] = value
        return made

    return replaced


def flat(engine):
    """A put without lanes, on the caller's thread."""
    import zenoh

    def put(key, lane, message):
        engine._session.put(key, message, congestion_control=zenoh.CongestionControl.BLOCK)

    engine._put = put


def receive(sender, message):
    if message[:1] == b"?":
        engine.send(sender, MessageLane.CONTROL, b"!" + message[1:])
    elif message[:1] == b"!":
        answered.release()
    elif message[:1] == b"#":
        engine.send(sender, MessageLane.CONTROL, b"+")
    elif message[:1] == b"+":
        credit.release()


def ask(to, count, gap_s):
    """Requests of 100 bytes, one after the other; what each took in ms."""
    took = []
    for _ in range(int(count)):
        began = time.monotonic()
        engine.send(to, MessageLane.CONTROL, b"?" + bytes(99))
        there = answered.acquire(timeout=10)
        took.append((time.monotonic() - began) * 1e3 if there else 1e9)
        time.sleep(float(gap_s))
    took.sort()
    quick = sum(each < 1000 for each in took)
    say("asked", len(took), quick, f"{took[len(took) // 2]:.3f} {took[-1]:.3f}")


def load(to, nbytes, count, window):
    """Bulk; at most `window` messages are not yet acknowledged (0: no limit)."""
    left = int(window) or 1 << 30
    began = time.monotonic()
    for number in range(int(count)):
        if left:
            left -= 1
        elif not credit.acquire(timeout=20):
            say("loaded", number, "no credit")
            return
        try:
            engine.send(to, MessageLane.BULK, b"#" + bytes(int(nbytes) - 1))
        except Stalled as error:
            say("loaded", number, error)
            return
    for _ in range(int(window)):
        credit.acquire(timeout=20)
    say("loaded", count, f"{int(nbytes) * int(count) / (time.monotonic() - began) / 1e6:.1f}")


config.settings = replace(config.settings)
how = {key: asked[key] for key in ("listen", "connect", "node") if key in asked}
engine = Engine(asked["name"], Path(asked["folder"]), **how)
if asked.get("flat"):
    flat(engine)
    engine._senders._put = engine._put
engine.start(receive, lambda name, alive: say("seen", name, alive))
say("up")
for line in sys.stdin:
    command, *arguments = line.split()
    if command == "watch":
        engine.watch(*arguments)
    else:
        action = {"ask": ask, "load": load}[command]
        threading.Thread(target=action, args=arguments, daemon=True).start()
engine.close()
