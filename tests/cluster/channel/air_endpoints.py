"""Two endpoints on the in-process wire, one of them a node that takes every session."""

from __future__ import annotations

import contextlib
import threading
import time

from cluster_kit import NODE, answerer, caller

from sparkle_drv.cluster.channel.endpoint import Endpoint
from sparkle_drv.cluster.transport.air import Air

ROUGH = {"lose": 0.05, "repeat": 0.1, "reorder": 0.2, "delay_s": (0.0, 0.002)}


class Wire:
    """`channel` is the client's end, `other` the node's; what they got is in `back` and `got`."""

    def __init__(self, air, **how):
        self.air = air
        self.got, self.back, self.lost = [], [], []
        self.heard = threading.Condition()
        self.others = []
        self.node = Endpoint(air.endpoint(NODE), answerer=answerer(), accept=self._accept, **how)
        self.client = Endpoint(air.endpoint("client"), **how)
        self.channel = self.client.connect(NODE, caller())
        self.channel.deliver = self._taking(self.back)
        self.channel.lost = lambda words: self._note("client", words)
        assert self.until(lambda: self.others)
        self.other = self.others[0]

    def _accept(self, channel):
        channel.deliver = self._taking(self.got)
        channel.lost = lambda words: self._note("node", words)
        self.others.append(channel)

    def _taking(self, items):
        def deliver(item):
            with self.heard:
                items.append(item)
                self.heard.notify_all()

        return deliver

    def _note(self, who, words):
        with self.heard:
            self.lost.append((who, words))
            self.heard.notify_all()

    def until(self, true, timeout_s=20.0):
        end = time.monotonic() + timeout_s
        while not true() and time.monotonic() < end:
            with self.heard:
                self.heard.wait(0.01)
        return true()

    def close(self):
        self.client.close()
        self.node.close()


@contextlib.contextmanager
def wired(seed=None, air=None, **how):
    """A session; with a seed the wire loses, repeats, reorders and delays."""
    rough = seed is not None
    air = air or Air(seed, **(ROUGH if rough else {}))
    made = Wire(air, **{"rto_s": 0.02 if rough else 0.25, **how})
    try:
        yield made
    finally:
        made.close()
