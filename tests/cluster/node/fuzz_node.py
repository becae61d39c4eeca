"""Hostile sessions beside healthy ones: mutated messages and requests made to do harm.

Each is refused by name or does what it may; a session beside it is answered, and its bytes stay.
Frames are mutated as bytes, with any sender; items inside proven frames by bytes and by fields;
requests are made of foreign addresses, stale numbers, absurd sizes and plans.

    fuzz_node.py [--mutated N] [--hostile N] [--seed S]
"""

from __future__ import annotations

import argparse
import itertools
import logging
import random
import struct
import time

from cluster_kit import NODE, Raw, lent, vecadd

from sparkle_drv.cluster.channel.channel import MOST_ITEM
from sparkle_drv.cluster.node.quotas import Quotas
from sparkle_drv.cluster.transport.base import MessageLane
from sparkle_drv.cluster.wire.requests import ERRORS
from sparkle_drv.cluster.wire.values import Damaged, pack, unpack
from sparkle_drv.core.abi import records

QUOTAS = Quotas(
    memory=64 << 20, buffers=256, queues=4, kernels=64, prepared=64, flight=4 << 20, sessions=6
)
SECRET = bytes(range(256)) * 64
NUMBERS = (0, 1, 2, 7, 63, 64, 4095, 2**31 - 1, 2**32 - 1, 2**32, 2**53, 2**62, 2**63, 2**64 - 1)
KERNELS = ("vecadd_f32", "gemm_f32", "conv2d_f32", "map_f32", "fused_map", "pack_gemm_f32",
           "strided_u8", "reduce_sum_i32", "nchw_to_blocked_f32")  # fmt: skip
TOGETHER = 40  # messages between two looks at the sessions beside


class Wrong(AssertionError):
    """The node did what it may not."""


class Attacker:
    """One session after the other, with something of everything in it."""

    def __init__(self, air, rng):
        self.air, self.rng, self.client = air, rng, None
        self.refused, self.ran, self.sessions = 0, 0, 0

    def session(self):
        """A client whose session is up."""
        if self.client is not None and not self.client.channel.ended:
            return self.client
        if self.client is not None:
            self.client.close()
        self.client = client = Raw(self.air, name="attacker")
        self.sessions += 1
        client.open()
        self.value = self.settled = 0
        client.ask("queue", queue=1, timing=True)
        self.at = [client.alloc(nbytes) for nbytes in (64, 4096, 1 << 16)]
        self.kernels = {name: client.load(name)["kernel"] for name in KERNELS}
        self.stale = client.alloc(64)
        client.ask("free", address=self.stale)
        return client

    def address(self):
        """Of its own, about its own, gone, or anywhere."""
        rng = self.rng
        near = rng.choice(self.at) + rng.choice((0, 0, 0, 4, 60, 64, 2, 4096, -1, -64))
        return rng.choice((near, near, near, near, self.stale, rng.choice(NUMBERS)))

    def sound(self):
        """A request as a client makes it."""
        rng, at = self.rng, self.at
        small = records.fill(at[0], 64, 5, 1) + records.copy(at[1], at[0], 64)
        launch = vecadd(self.kernels["vecadd_f32"], 16, at[0], at[1], at[2])
        queued = {"queue": 1, "value": self.value + 1}
        return rng.choice((
            {"do": "alloc", "nbytes": 256, "memory": "device"},
            {"do": "load", "name": "noop", "entry": "", "args": [], "plan": None, "transfer": 0,
             "nbytes": 0, "suffix": "", "spirv": False},
            {"do": "submit", **queued, "records": small, "transfer": 0, "nbytes": len(small)},
            {"do": "submit", **queued, "records": launch, "transfer": 0, "nbytes": len(launch)},
            {"do": "prepare", "prepared": rng.randrange(1, 99), "record": launch},
            {"do": "write", **queued, "address": at[1], "data": b"1234", "transfer": 0,
             "nbytes": 4},
            {"do": "read", **queued, "address": at[1], "nbytes": 64, "transfer": 9},
            {"do": "queue", "queue": rng.randrange(2, 9), "timing": False},
            {"do": "ask", "queue": 1}, {"do": "counts"}, {"do": "sensors"}, {"do": "timestamp"},
        ))  # fmt: skip

    def damaged(self, item):
        """The same with a field that is wrong, or bytes that are."""
        rng = self.rng
        kind = rng.random()
        name = rng.choice([key for key in item if key != "re"])
        if kind < 0.3:
            item[name] = rng.choice((*NUMBERS, -1, None, "", "x" * 300, b"", [], {}, 1.5, True))
        elif kind < 0.4:
            del item[name]
        elif kind < 0.5:
            item[rng.choice(("more", "", "queue", "do"))] = rng.choice(NUMBERS)
        elif kind < 0.75:
            blob = next((key for key in item if type(item[key]) is bytes and item[key]), None)
            if blob is not None:
                item[blob] = spoilt(rng, item[blob])
                item["nbytes"] = len(item[blob]) if "nbytes" in item else 0
        else:
            return spoilt(rng, pack(item))
        return pack(item)

    def hostile(self):
        """A request that wants what it may not have."""
        rng, value = self.rng, self.value + 1
        kind = rng.randrange(7)
        if kind == 0:
            listed = b"".join(self.record() for _ in range(rng.randrange(1, 4)))
            more = {"records": listed, "transfer": 0, "nbytes": len(listed)}
            return {"do": "submit", "queue": 1, "value": value, **more}
        if kind == 1:
            listed = self.launch()
            more = {"records": listed, "transfer": 0, "nbytes": len(listed)}
            return {"do": "submit", "queue": 1, "value": value, **more}
        if kind == 2:
            more = {"address": self.address(), "nbytes": rng.choice(NUMBERS[:-3])}
            return {"do": "read", "queue": 1, "value": value, "transfer": 4, **more}
        if kind == 3:
            data = SECRET[: rng.choice((0, 1, 64, 100, 4096))]
            more = {"data": data, "transfer": 0, "nbytes": len(data)}
            return {"do": "write", "queue": 1, "value": value, "address": self.address(), **more}
        if kind == 4:
            do = rng.choice(("free", "unload", "forget", "ask", "run", "renew", "bye2"))
            of = rng.choice(("address", "kernel", "prepared", "queue"))
            return {"do": do, of: self.address()}
        if kind == 5:
            return {"do": "prepare", "prepared": rng.randrange(1, 99), "record": self.launch()}
        plan = {
            "algo": rng.choice(("auto", "blocked", "direct", "winograd", "x")),
            "levels": [[rng.choice(NUMBERS) for _ in range(3)]], "pack": rng.random() < 0.5,
            "threads": rng.choice(NUMBERS), "program": [rng.choice(NUMBERS[:9])] * 2,
        }  # fmt: skip
        return {
            "do": "load", "name": rng.choice((*KERNELS, "../x", "noop")), "entry": "", "args": [],
            "plan": {key: plan[key] for key in rng.sample(sorted(plan), 2)}, "suffix": "",
            "transfer": rng.choice((0, 0, 7)), "nbytes": 4, "spirv": False,
        }  # fmt: skip

    def record(self):
        rng = self.rng
        size = rng.choice((0, 1, 64, 65, 4096, *NUMBERS))
        return rng.choice((
            records.fill(self.address(), size, rng.choice((0, 2**32 - 1)), rng.choice((1, 4, 9))),
            records.copy(self.address(), self.address(), size),
            records.wait(rng.choice((1, 2, 2**40)), rng.choice(NUMBERS)),
            records.timestamp(self.address()),
            spoilt(rng, records.fill(self.at[0], 64, 1, 4)),
        ))  # fmt: skip

    def launch(self):
        """A dispatch whose arguments are of the right number, or nearly."""
        rng, head = self.rng, records.DISPATCH_HEAD
        name = rng.choice(KERNELS)
        form, npointers = FORMS[name]
        small = (0, 1, 1, 2, 3, 4, 5, 8, 16)
        args = [
            self.address() if code == "Q" else 0.5 if code == "f"
            else rng.choice(small) if rng.random() < 0.97 else rng.choice(NUMBERS[:9])
            for code in form.replace("=", "")
        ]  # fmt: skip
        packed = struct.pack(form.replace("i", "I"), *args)
        nargs = -(-len(packed) // 8) * 8
        covered = [rng.choice((2**64 - 1, 64, 4096)) for _ in range(npointers)]
        packed = packed.ljust(nargs, b"\0") + struct.pack(f"={npointers}Q", *covered)
        groups = rng.choice(((1, 1, 1), (1, 1, 1), (2, 1, 1), (0, 1, 1), (2**32 - 1,) * 3))
        kernel = self.kernels[name] if rng.random() < 0.95 else rng.choice(NUMBERS)
        return head.pack(
            records.DISPATCH, head.size + len(packed), kernel, *groups, 256 if name == "vecadd_f32"
            else 1, 1, 1, 0, nargs,
        ) + packed  # fmt: skip

    def send(self, data):
        """Post an item with a reply number; None if it is no value at all (checked as the node
        does)."""
        try:
            item = unpack(data, MOST_ITEM)
        except Damaged:
            return
        client = self.session()
        if type(item) is dict:
            item["re"] = next(client._numbers)
            if item.get("value") == self.value + 1 and item.get("queue") == 1:
                self.value += 1
        try:
            client.channel.post(item)
        except (ValueError, TypeError, OverflowError):  # what cannot be packed again
            return
        client.channel.flush()

    def settle(self):
        """Wait until the node has answered all; each error has a name and words."""
        client = self.client
        if client is None:
            return
        try:
            client.ask("counts")
        except ConnectionError:
            if not client.ended:
                raise Wrong("a session ended without words") from None
        with client.told:
            replies, client.replies = client.replies, {}
            faults, client.faults = client.faults, {}
        for reply in replies.values():
            if "error" in reply:
                self.refused += 1
                if reply["error"] not in ERRORS or not reply["words"]:
                    raise Wrong(f"an error without a name: {reply}")
                if reply["error"] == "SparkleError":
                    raise Wrong(f"not refused by name: {reply}")
        self.ran += self.value - self.settled - len(faults)
        self.settled = self.value
        for code, words in faults.values():
            self.refused += 1
            if not code:
                raise Wrong(f"a fault without a name: {words}")


# struct formats of the arguments, and how many pointers there are
FORMS = {
    "vecadd_f32": ("=QQQI", 3), "gemm_f32": ("=QQQQ" + "I" * 9, 4),
    "conv2d_f32": ("=QQQQ" + "I" * 18, 4), "map_f32": ("=" + "Q" * 11 + "III", 11),
    "fused_map": ("=" + "Q" * 12 + "q" * 9 + "III", 12), "pack_gemm_f32": ("=QqQIIII", 2),
    "strided_u8": ("=QQ" + "I" * 4 + "i" * 8 + "I" * 4, 2), "reduce_sum_i32": ("=QQIII", 2),
    "nchw_to_blocked_f32": ("=QQIIIII", 2),
}  # fmt: skip


def spoilt(rng, data):
    """Bytes that were changed, cut, or made longer."""
    made = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        kind, at = rng.random(), rng.randrange(len(made) or 1)
        if kind < 0.6 and made:
            made[at] = rng.choice((0, 1, 127, 128, 255, made[at] ^ 1 << rng.randrange(8)))
        elif kind < 0.8:
            del made[at:]
        else:
            made[at:at] = rng.randbytes(rng.randrange(1, 9))
    return bytes(made)


class Beside:
    """A session that must not notice anything."""

    def __init__(self, air):
        self.client, self.value = Raw(air, name="healthy"), 0
        self.client.open()
        self.client.ask("queue", queue=1, timing=False)
        self.at = self.client.alloc(len(SECRET))
        self.client.write(1, 1, self.at, SECRET)
        self.value = 1

    def look(self):
        self.value += 1
        if self.client.read(1, self.value, self.at, len(SECRET)) != SECRET:
            raise Wrong("the memory of another session has changed")


def run(mutated, hostile, seed):
    """(messages, refusals, submissions that ran well, attackers' sessions)."""
    rng = random.Random(seed)
    with lent("cpu", quotas=QUOTAS) as node:
        beside, attacker = Beside(node.air), Attacker(node.air, rng)
        frames = recorded(node.air)
        stranger = node.air.endpoint("stranger")
        stranger.start(lambda sender, message: None, lambda name, alive: None)
        names = itertools.cycle(["mutated"] * mutated + ["hostile"] * hostile)
        for count in range(mutated + hostile):
            kind = next(names)
            client = attacker.session()
            if kind == "mutated" and rng.random() < 0.5:
                wire = rng.choice((stranger, client.endpoint.transport))
                wire.send(NODE, rng.choice(list(MessageLane)), spoilt(rng, rng.choice(frames)))
            elif kind == "mutated":
                attacker.send(attacker.damaged(attacker.sound()))
            else:
                attacker.send(pack(attacker.hostile()))
            if count % TOGETHER == TOGETHER - 1:
                attacker.settle()
                beside.look()
        attacker.settle()
        beside.look()
        attacker.client.close()
        beside.client.close()
        stranger.close()
    return mutated + hostile, attacker.refused, attacker.ran, attacker.sessions


def recorded(air):
    """Real frames of a session, its handshake among them."""
    client = Raw(air, name="recorded")
    frames, transport = [], client.endpoint.transport
    send = transport.send
    transport.send = lambda to, lane, message: (frames.append(message), send(to, lane, message))
    client.channel._send = lambda lane, message: transport.send(NODE, lane, message)
    client.open()
    client.ask("queue", queue=1, timing=False)
    at = client.alloc(1 << 18)
    client.write(1, 1, at, bytes(1 << 18), transfer=3)
    client.wait(1, 1)
    client.endpoint._hello(NODE, bytes(16), "hello", {"nonce": bytes(16)})
    client.endpoint._hello(NODE, bytes(16), "proof", {"ready": True})
    client.close()
    return frames


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mutated", type=int, default=20_000)
    parser.add_argument("--hostile", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    logging.getLogger("sparkle_drv").setLevel(logging.CRITICAL)  # thousands of refusals
    begin_s = time.monotonic()
    messages, refused, ran, sessions = run(args.mutated, args.hostile, args.seed)
    print(f"{messages} messages, {refused} refused by name, {ran} submissions ran")
    print(f"{sessions} sessions of attackers, {time.monotonic() - begin_s:.1f} s")


if __name__ == "__main__":
    main()
