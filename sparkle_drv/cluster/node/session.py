"""NodeSession: one client's requests, in order. The session's own thread runs quick requests. The
lane of a queue runs requests of that queue. The transport's thread only queues requests.

The error of a failed request goes into its reply, or onto the timeline of its queue. If a failed
request has neither reply nor queue, the session ends: its client would otherwise use objects that
do not exist.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

from sparkle_drv import assets, plugin
from sparkle_drv.cluster.channel.channel import Channel
from sparkle_drv.cluster.node import commands, faults
from sparkle_drv.cluster.node.accounts import Account
from sparkle_drv.cluster.node.lane import LaneWork, NodeLane, await_room
from sparkle_drv.cluster.node.submissions import Download, Runs, Submission
from sparkle_drv.cluster.node.tables import Launch, Tables
from sparkle_drv.cluster.node.transfers import ROOM_S, SILENT_S, Room
from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.wire.dataclass_codec import from_mapping, to_mapping
from sparkle_drv.cluster.wire.requests import MOST_RUNS, QUEUED, request
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.core.queue import Queue
from sparkle_drv.errors import DeviceLost, FenceTimeout, SparkleError
from sparkle_drv.types import Memory, TilePlan

log = logging.getLogger("sparkle_drv.cluster")

END_S = 5.0
"""Seconds that work of a departed client has to end; then it is abandoned."""
_COST = 512  # bytes that a waiting request takes of the quota `waiting`, beside its data


class Lender(Protocol):
    """The part of a NodeServer that a session uses."""

    def open(self, uri: str, threads: int, deterministic: bool, isa: str) -> Device:
        """Opens a device that is lent. Raises DeviceNotFound for any other device."""

    def trusts(self, key: str) -> bool:
        """Returns whether the owner of this public key may load kernel images."""

    def renew(self, channel: Channel, request: dict[str, Any]) -> dict[str, Any]:
        """Returns a new certificate for the session's client. Raises Refused if this node makes
        none, or for a bad request.
        """

    def granted(self, grant: dict[str, Any]) -> None:
        """Takes the new certificate that `NodeSession.ask_renewal` asked for. Raises Refused if the
        node did not ask for a certificate, or if this one is not valid for the node's key.
        """

    def ended(self, session: NodeSession, words: str) -> None:
        """Called when the session has released everything."""


class NodeSession:
    """The node's side of one client's session, over one channel."""

    def __init__(self, channel: Channel, lender: Lender, account: Account) -> None:
        self.channel, self._lender, self.account = channel, lender, account
        self._quotas = account.quotas
        self.device: Device | None = None
        self.lanes: dict[int, NodeLane] = {}
        self._tables = Tables(account)
        self._ending = threading.Event()  # set before the lanes stop; ends their waits for bytes
        self._closed: dict[int, None] = {}  # numbers of queues that have ended
        self._items: SimpleQueue[tuple[Any, int] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._over = False  # whether the account has got back what `_waiting` counted
        self._words = ""
        channel.deliver, channel.lost = self._deliver, self._lost
        self.thread = threading.Thread(target=self._run, name="sparkle-session", daemon=True)
        self.thread.start()

    def counts(self) -> dict[str, int]:
        """Returns how much of each quota this session holds, by the name of the quota. "flight" is
        what all sessions of the client hold.
        """
        return {
            **self._tables.counts(), "queues": len(self.lanes),
            "flight": self.account.held("flight"), "waiting": self._waiting,
        }  # fmt: skip

    def ask_renewal(self, request: dict[str, Any]) -> None:
        """Asks the client for a new certificate for the node, in case the client has the CA."""
        self.channel.post({"on": "renew", "request": request}, "renew")
        self.channel.flush()

    # Called by the transport's thread

    def _deliver(self, item: Any) -> None:
        cost = _COST + _nbytes(item)
        try:
            self.account.take("waiting", cost)
        except ValueError:
            self.channel.end(f"quota waiting: {self._quotas.waiting} bytes of requests wait")
            return
        with self._lock:
            over = self._over
            self._waiting += 0 if over else cost
        if over:
            self.account.give("waiting", cost)
        else:
            self._items.put((item, cost))

    def _lost(self, words: str) -> None:
        self._words = words
        self._items.put(None)

    # Run by the session's thread

    def _run(self) -> None:
        try:
            while (taken := self._items.get()) is not None and not self.channel.ended:
                item, cost = taken
                self._item(item, partial(self._done, cost))
                del item, taken
        except Exception as error:
            log.exception("a session failed")
            self.channel.end(f"the session failed: {type(error).__name__}")
        finally:
            self._end()
            with self._lock:
                self._over, waiting, self._waiting = True, self._waiting, 0
            self.account.give("waiting", waiting)
            self._lender.ended(self, self._words)

    def _done(self, cost: int) -> None:
        with self._lock:
            if self._over:
                return
            self._waiting -= cost
        self.account.give("waiting", cost)

    def _item(self, item: Any, done: Callable[[], None]) -> None:
        reply, name = 0, ""
        try:
            name, reply, fields = request(item)
            if self.device is None and name not in ("open", "bye", "renew", "granted"):
                raise ValueError(f"{name}: expected the request 'open' first, got {name}")
            if name in QUEUED:
                self._queued(name, reply, fields, done)
                return
            answer = getattr(self, f"_do_{name}")(**fields)
        except Exception as error:
            done()
            self._refuse(item, name, reply, error)
        else:
            done()
            if reply:
                self._reply({"re": reply, "ok": answer or {}})
            if name == "bye":
                self.channel.flush()

    def _refuse(self, item: Any, name: str, reply: int, error: Exception) -> None:
        if faults.errno_of(error) == errno.EIO:
            log.warning("%s: %s failed", self.channel.keys.peer, name, exc_info=True)
        if not reply and type(item) is dict and type(item.get("re")) is int:
            reply = item["re"]
        if 0 < reply < 2**53:
            self._reply(faults.reply(reply, error))
        else:
            self.channel.end(f"{name or 'request'}: {faults.words_of(error)[:200]}")

    def _reply(self, item: dict[str, Any]) -> None:
        await_room(self.channel)
        self.channel.post(item)
        self.channel.flush()

    # The following methods handle requests of a queue.

    def _queued(
        self, name: str, reply: int, fields: dict[str, Any], done: Callable[[], None]
    ) -> None:
        number = fields.pop("queue")
        lane = self.lanes.get(number)
        if lane is None:
            raise ValueError(f"{name}: expected an open queue, got {number}")
        if name == "close_queue":
            lane.close(partial(self._close_queue, lane, reply))
            done()
            return
        value = fields.pop("value")
        count = 1
        if name == "run":
            fields["count"] = count = min(max(1, value - lane.given), MOST_RUNS)
        work: LaneWork | Exception
        try:
            work = _WORK[name](self, lane, done, **fields)
        except Exception as error:
            done()
            work = error
        lane.give(value, work, count)

    def _close_queue(self, lane: NodeLane, reply: int) -> None:
        try:
            lane.queue.close(END_S)
        except FenceTimeout as error:
            answer = faults.reply(reply, error)
        else:
            answer = {"re": reply, "ok": {}}
        self.lanes.pop(lane.number, None)
        self._closed[lane.number] = None
        if reply:
            self._reply(answer)

    def _submit(
        self, lane: NodeLane, done: Callable[[], None], records: bytes | None, transfer: int,
        nbytes: int,
    ) -> LaneWork:  # fmt: skip
        newest = {number: other.given for number, other in self.lanes.items()}
        coming = self._coming(records, transfer, nbytes)

        def wait_for(number: int, value: int) -> Fence | None:
            if number == lane.number or number in self._closed:
                # Nothing to wait for: work of one queue runs in order, and all work of a closed
                # queue has ended.
                return None
            if value > newest.get(number, -1):
                raise ValueError(f"wait: expected a submitted value of queue {number}, got {value}")
            other = self.lanes.get(number)
            return None if other is None else other.fence(value, SILENT_S + ROOM_S)

        def go() -> Fence:
            return commands.submit(self._tables, lane.queue, bytes(coming()), wait_for)

        return Submission(go, done)

    def _run_prepared(self, lane: NodeLane, launch: Launch) -> Fence:
        run = launch.runs.get(lane.number)
        if run is None:
            run = launch.runs[lane.number] = lane.queue.prepare(
                launch.kernel, *launch.args, groups=launch.groups, group_size=launch.group_size,
                shared=launch.shared,
            )  # fmt: skip
        return lane.queue.fence(run())

    def _run_work(
        self, lane: NodeLane, done: Callable[[], None], prepared: int, count: int
    ) -> LaneWork:
        return Runs(partial(self._run_prepared, lane, self._launch(prepared)), count, done)

    def _launch(self, number: int) -> Launch:
        found = self._tables.prepared.get(number)
        if found is None:
            raise ValueError(f"prepared: expected the number of a prepared launch, got {number}")
        return found

    def _write(
        self, lane: NodeLane, done: Callable[[], None], address: int, data: bytes | None,
        transfer: int, nbytes: int,
    ) -> LaneWork:  # fmt: skip
        into = self._tables.memory.span("write", address, nbytes)
        coming = self._coming(data, transfer, nbytes)
        return Submission(lambda: lane.queue.write(into, coming()), done)

    def _read(
        self, lane: NodeLane, done: Callable[[], None], address: int, nbytes: int, transfer: int
    ) -> LaneWork:
        source = self._tables.memory.span("read", address, nbytes)
        room = Room(self.channel, self.account.flight, self._ending, nbytes)
        return Download(self.channel, lane.queue, source, room, transfer, done)

    def _coming(self, data: bytes | None, transfer: int, nbytes: int) -> Callable[[], Any]:
        """Returns a function that returns the bytes that the client sends with a request.

        These are `data`, or if `data` is None, the bytes of the transfer number `transfer`.
        """
        if (data is None) != bool(transfer):
            raise ValueError("expected bytes in the item or a transfer, got both or neither")
        if data is None:
            return self._upload(nbytes, transfer).take
        if len(data) != nbytes:
            raise ValueError(f"nbytes: expected the {len(data)} bytes of the item, got {nbytes}")
        return lambda: data

    def _upload(self, nbytes: int, transfer: int) -> Room:
        return Room(self.channel, self.account.flight, self._ending, nbytes, transfer)

    # The following methods handle requests that belong to no queue.

    def _do_open(self, device: str, threads: int, deterministic: bool, isa: str) -> dict[str, Any]:
        if self.device is not None:
            raise ValueError(
                f"open: expected one device per session, got another after {self.device.uri}"
            )
        opened = self.device = self._lender.open(device, threads, deterministic, isa)
        listed = assets.manifest()
        names = [*listed["kernels"], *listed["packing"]]
        return {
            "info": to_mapping(opened.info), "clock": self._has_clock(opened),
            "kernels": [name for name in names if opened.provides(name)],
            "most": self._quotas.by_name(),
        }  # fmt: skip

    @staticmethod
    def _has_clock(device: Device) -> bool:
        try:
            device._backend.timestamp()
        except SparkleError:
            return False
        return True

    def _open_device(self) -> Device:
        assert self.device is not None  # _item has checked that the device is open
        return self.device

    def _do_alloc(self, nbytes: int, memory: str) -> dict[str, Any]:
        address = self._tables.memory.alloc(self._open_device(), nbytes, Memory(memory))
        return {"address": address}

    def _do_free(self, address: int) -> None:
        self._tables.memory.free(address)

    def _do_load(
        self, name: str, entry: str, args: list[Any], plan: dict[str, Any] | None, transfer: int,
        nbytes: int, suffix: str, spirv: bool,
    ) -> dict[str, Any]:  # fmt: skip
        device = self._open_device()
        make: Callable[[], Kernel]
        if transfer:
            if not self._lender.trusts(self.channel.keys.trusted):
                raise Refused("image: expected a client that --trust-code names, got another")
            types = ", ".join(str(arg) for arg in args)
            image = self._upload(nbytes, transfer).take().tobytes()
            make = partial(device.kernel, image=image, entry=entry, args=types, allow_spirv=spirv)
        else:
            shaped = None if plan is None else from_mapping(TilePlan, plan)
            make = partial(device.kernel, name, plan=shaped)
        number, kernel = self._tables.add_kernel(make)
        return {
            "kernel": number, "form": kernel.form, "resources": to_mapping(kernel.resources),
            "groups": list(kernel.groups),
            "group_size": None if kernel.own_size is None else list(kernel.own_size),
        }  # fmt: skip

    def _do_unload(self, kernel: int) -> None:
        self._tables.unload(kernel)

    def _do_queue(self, queue: int, timing: bool) -> None:
        if queue in self.lanes:
            raise ValueError(f"queue: expected a new number, got {queue}, which is open")
        self._quotas.check("queues", len(self.lanes))
        made: Queue = self._open_device().queue(timing)
        self._closed.pop(queue, None)
        self.lanes[queue] = NodeLane(self.channel, queue, made)

    def _do_prepare(self, prepared: int, record: bytes) -> None:
        if prepared in self._tables.prepared:
            raise ValueError(
                f"prepare: expected a new number for the launch, got {prepared}, which is in use"
            )
        self._quotas.check("prepared", len(self._tables.prepared))
        given = commands.decode(record)
        if len(given) != 1 or not isinstance(given[0], plugin.Dispatch):
            raise ValueError("prepare: expected one dispatch record, got others")
        launch = commands.launch_of(self._tables, given[0])
        self._tables.prepared[prepared] = commands.checked(launch)

    def _do_forget(self, prepared: int) -> None:
        self._launch(prepared)
        del self._tables.prepared[prepared]

    def _do_ask(self, queue: int) -> None:
        lane = self.lanes.get(queue)
        if lane is None:
            raise ValueError(f"ask: expected an open queue, got {queue}")
        lane.say()

    def _do_timestamp(self) -> dict[str, Any]:
        return {"ns": self._open_device()._backend.timestamp()}

    def _do_sensors(self) -> dict[str, Any]:
        return {"sensors": self._open_device()._backend.sensors()}

    def _do_counts(self) -> dict[str, Any]:
        return {"counts": self.counts()}

    def _do_renew(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"grant": self._lender.renew(self.channel, request)}

    def _do_granted(self, grant: dict[str, Any]) -> None:
        self._lender.granted(grant)

    def _do_bye(self) -> None:
        self._end()

    def _end(self) -> None:
        """Releases everything that the session holds; idempotent."""
        self._ending.set()
        self.account.flight.advance()  # other sessions' transfers may have waited behind its own
        lanes, self.lanes = self.lanes, {}
        for lane in lanes.values():
            lane.stop()
        device, self.device = self.device, None
        if device is not None:
            self._tables.memory.end(device)
            try:
                device.close(END_S)
            except (FenceTimeout, DeviceLost) as error:
                log.warning("%s: its work is abandoned: %s", self.channel.keys.peer, error)
        for lane in lanes.values():
            for thread in lane.threads:
                thread.join(END_S)
        self._tables = Tables(self.account)


def _nbytes(item: Any) -> int:
    """Returns about how many bytes an item's data takes. A list of empty lists takes 60 times the
    bytes in which it arrived.
    """
    total, parts = 0, [item]
    while parts:
        part = parts.pop()
        if type(part) is bytes or type(part) is str:
            total += len(part)
        elif type(part) is dict or type(part) is list:
            total += 64 * len(part)
            parts += part.values() if type(part) is dict else part
    return total


_WORK: dict[str, Callable[..., LaneWork]] = {
    "submit": NodeSession._submit, "run": NodeSession._run_work, "write": NodeSession._write,
    "read": NodeSession._read,
}  # fmt: skip
