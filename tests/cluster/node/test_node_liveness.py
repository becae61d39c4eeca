"""Work on all cores does not keep a node from saying that it is alive.

When this fails, a busy node is taken for a dead one, and its work is done elsewhere.
"""

from __future__ import annotations

import struct
import threading
import time

from cluster_kit import lent, raw, vecadd

from sparkle_drv.cluster.channel.channel import PING_S
from sparkle_drv.core.abi import records

BUSY_S, LATE_S = 2.5, 1.0
SIDE = 768


def product(client):
    """A record of gemm_f32 over memory of the session."""
    kernel, nbytes = client.load("gemm_f32")["kernel"], 4 * SIDE * SIDE
    at = [client.alloc(nbytes) for _ in range(3)]
    sizes = (SIDE, SIDE, SIDE, SIDE, 1, SIDE, 1, SIDE, 0)
    packed = struct.pack("=4Q9I4x4Q", *at, 0, *sizes, nbytes, nbytes, nbytes, 0)
    head = records.DISPATCH_HEAD
    whole = head.size + len(packed)
    made = head.pack(records.DISPATCH, whole, kernel, 1, 1, 1, 1, 1, 1, 0, len(packed) - 32)
    return made + packed


def keep_busy(client, record, together, end_s):
    value = 0
    while time.monotonic() < end_s:
        for _ in range(together):
            value += 1
            client.submit(1, value, record)
        assert client.wait(1, value) is None


def test_an_idle_session_hears_of_a_saturated_node_in_time():
    with lent("cpu") as node, raw(node.air) as idle, raw(node.air) as large, raw(node.air) as many:
        for client in (idle, large, many):
            client.open()
            client.ask("queue", queue=1, timing=False)
        end_s, heard = time.monotonic() + BUSY_S, []
        at = many.alloc(4096)
        small = vecadd(many.load("vecadd_f32")["kernel"], 64, at, at, at)
        threads = [
            threading.Thread(target=keep_busy, args=(large, product(large), 4, end_s)),
            threading.Thread(target=keep_busy, args=(many, small, 50, end_s)),
        ]
        for thread in threads:
            thread.start()
        while time.monotonic() < end_s:
            heard.append(time.monotonic() - idle.channel.heard_at)
            time.sleep(0.02)
        for thread in threads:
            thread.join()
        assert max(heard) < PING_S + LATE_S
        assert [idle.ended, large.ended, many.ended] == ["", "", ""]
