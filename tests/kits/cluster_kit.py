"""Nodes and clients on the in-process wire, without certificates.

`answerer()` and `caller()` stand in for trust/handshake.py: two messages of random bytes, from
which both ends make the same keys. `lent("cpu")` is a node; `Raw` speaks to it in plain requests.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import struct
import threading

from sparkle_drv.cluster.channel.endpoint import Endpoint
from sparkle_drv.cluster.node.server import NodeServer
from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.transport.air import Air
from sparkle_drv.cluster.trust.keys import Keys
from sparkle_drv.cluster.wire.seal import Opener, Sealer
from sparkle_drv.core.abi import records

NODE = "box1"
_count = itertools.count()


def _keys(hello, welcome, is_node, **more):
    secret = hello["nonce"] + welcome["nonce"]

    def derived(use):
        return hashlib.sha256(use + secret).digest()

    session, epoch = derived(b"session")[:16], welcome["epoch"]
    ours, theirs = (b"to client", b"to node") if is_node else (b"to node", b"to client")
    outgoing, incoming = Sealer(derived(ours), session, epoch), Opener(derived(theirs))
    return Keys(session, epoch, outgoing, incoming, **more)


class _Caller:
    @classmethod
    def of(cls, name="tester", trusted=""):
        return cls(name, trusted)

    def __init__(self, name, trusted):
        self._hello = {"nonce": os.urandom(16), "name": name, "trusted": trusted}

    def hello(self):
        return self._hello

    def prove(self, welcome):
        return {"ready": True}, _keys(self._hello, welcome, False, peer=welcome["name"])


class _Answerer:
    def __init__(self, name, epoch):
        self._name, self._epoch = name, epoch

    def welcome(self, hello):
        wanted = {"nonce": bytes, "name": str, "trusted": str}
        if {name: type(value) for name, value in hello.items()} != wanted:
            raise Refused("the hello is not one")
        reply = {"nonce": os.urandom(16), "epoch": self._epoch, "name": self._name}
        return reply, (hello, reply)

    def admit(self, pending, proof):
        hello, reply = pending
        return _keys(hello, reply, True, peer=hello["name"], trusted=hello["trusted"])


def caller(name="tester", trusted=""):
    """A client's half of a handshake."""
    return _Caller.of(name, trusted)


def answerer(name=NODE, epoch=1):
    """A node's half."""
    return _Answerer(name, epoch)


class Lent:
    """A node on the wire: `air`, `node`, `endpoint`."""

    def __init__(self, air, uris, name=NODE, epoch=1, endpoint=None, **how):
        self.air, self.said = air, []
        self.node = NodeServer(uris, say=self.said.append, **how)
        self.endpoint = Endpoint(
            air.endpoint(name), answerer=answerer(name, epoch), accept=self.node.accept,
            **(endpoint or {}),
        )  # fmt: skip

    def close(self):
        self.node.close()
        self.endpoint.close()


@contextlib.contextmanager
def lent(*uris, air=None, **how):
    """A node that lends these devices, for a `with` block."""
    made = Lent(air or Air(), list(uris) or ["cpu"], **how)
    try:
        yield made
    finally:
        made.close()


class Answer(Exception):
    """An error that a node replied with."""

    def __init__(self, kind, words):
        super().__init__(f"{kind}: {words}")
        self.kind, self.words = kind, words


class Raw:
    """A client that sends what it is told to: no checks, no retries."""

    def __init__(
        self, air=None, node=NODE, *, timeout_s=10.0, endpoint=None, transport=None,
        caller=None, **how,
    ):  # fmt: skip
        self.timeout_s = timeout_s
        transport = transport or air.endpoint(f"raw-{next(_count)}")
        self.endpoint = Endpoint(transport, **(endpoint or {}))
        try:
            self.channel = self.endpoint.connect(node, caller or _Caller.of(**how))
        except BaseException:
            self.endpoint.close()
            raise
        self.told = threading.Condition()
        self.replies, self.reached, self.faults, self.times = {}, {}, {}, {}
        self.bytes, self.news, self.ended = {}, [], ""
        self._numbers = itertools.count(1)
        self.channel.deliver, self.channel.lost = self._deliver, self._lost

    def _deliver(self, item):
        with self.told:
            if "re" in item:
                self.replies[item["re"]] = item
            elif item["on"] == "timeline":
                self.reached[item["queue"]] = item["reached"]
                self.faults.update(((item["queue"], v), (e, w)) for v, e, w in item["faults"])
                self.times.update(((item["queue"], v), (a, b)) for v, a, b in item["times"])
            elif item["on"] == "bytes":
                self.bytes[item["transfer"]] = item["data"]
            elif item["on"] == "ready" and item["transfer"] in self.bytes:
                into = self.bytes[item["transfer"]]
                self.channel.expect(item["transfer"], memoryview(into), self._arrived)
            self.news.append(item)
            self.told.notify_all()

    def _arrived(self):
        with self.told:
            self.news.append({"on": "arrived"})
            self.told.notify_all()

    def _lost(self, words):
        with self.told:
            self.ended = words
            self.told.notify_all()

    def until(self, ready, what="news"):
        """Wait until `ready()`; the end of the session is an error."""
        with self.told:
            assert self.told.wait_for(lambda: ready() or self.ended, self.timeout_s), what
            if not ready():
                raise ConnectionError(self.ended)

    def post(self, do, **fields):
        """A request without a reply."""
        self.channel.post({"do": do, **fields})
        self.channel.flush()

    def ask(self, do, **fields):
        """A request; its reply, or Answer."""
        number = next(self._numbers)
        self.channel.post({"do": do, "re": number, **fields})
        self.channel.flush()
        self.until(lambda: number in self.replies, do)
        reply = self.replies.pop(number)
        if "error" in reply:
            raise Answer(reply["error"], reply["words"])
        return reply["ok"]

    def open(self, device="cpu", threads=0):
        return self.ask("open", device=device, threads=threads, deterministic=False, isa="")

    def alloc(self, nbytes, memory="device"):
        return self.ask("alloc", nbytes=nbytes, memory=memory)["address"]

    def load(self, name, **how):
        """The whole reply."""
        usual = {
            "entry": "", "args": [], "plan": None, "transfer": 0, "nbytes": 0, "suffix": "",
            "spirv": False,
        }  # fmt: skip
        return self.ask("load", name=name, **{**usual, **how})

    def wait(self, queue, value):
        """(errno, words) of a value's fault once it is reached; None: it went well."""
        self.until(lambda: self.reached.get(queue, 0) >= value, f"value {value} of {queue}")
        return self.faults.get((queue, value))

    def write(self, queue, value, address, data, transfer=0):
        inline = None if transfer else bytes(data)
        if transfer:
            self.channel.send_bulk(transfer, memoryview(data).cast("B"))
        self.post(
            "write", queue=queue, value=value, address=address, data=inline, transfer=transfer,
            nbytes=len(data),
        )  # fmt: skip

    def read(self, queue, value, address, nbytes, transfer=None):
        """The bytes, once they are there."""
        transfer = transfer or next(self._numbers)
        if nbytes > 32 << 10:
            self.bytes[transfer] = bytearray(nbytes)
        self.post(
            "read", queue=queue, value=value, address=address, nbytes=nbytes, transfer=transfer
        )
        fault = self.wait(queue, value)
        if fault is not None:
            raise Answer(*map(str, fault))
        if nbytes > 32 << 10:
            self.until(lambda: {"on": "arrived"} in self.news, "bulk")
            self.news.remove({"on": "arrived"})
        return bytes(self.bytes.pop(transfer))

    def submit(self, queue, value, records, transfer=0):
        inline = None if transfer else bytes(records)
        self.post(
            "submit", queue=queue, value=value, records=inline, transfer=transfer,
            nbytes=len(records),
        )  # fmt: skip

    def close(self):
        self.endpoint.close()


@contextlib.contextmanager
def raw(air, **how):
    """A Raw for a `with` block."""
    client = Raw(air, **how)
    try:
        yield client
    finally:
        client.close()


def vecadd(
    kernel, n, z, x, y, covered=None, groups=None, size=(256, 1, 1), axis=1, shared=0, cut=0
):
    """A dispatch record of vecadd_f32(z, x, y, n); `cut`: so many bytes are missing."""
    covered = 4 * n if covered is None else covered
    packed = struct.pack("=QQQI4xQQQ", z, x, y, n, covered, covered, covered)
    head = records.DISPATCH_HEAD
    grid = (-(-n // 256) if groups is None else groups, 1, groups or 1 if axis == 3 else 1)
    nbytes = head.size + len(packed) - cut
    made = head.pack(records.DISPATCH, nbytes, kernel, *grid, *size, shared, 32) + packed
    return made[:nbytes]
