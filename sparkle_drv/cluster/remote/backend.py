"""The backend of "box1/cuda:0": the Backend protocol over a session with the node box1.

plugin.Queues provides the queues. plugin.Kernels checks launches in the client, so that mistakes
are found without asking the node. Only calls that need an answer wait for the node: alloc, load,
open_queue, timestamp, sensors, live_counts, and waits for a fence.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from sparkle_drv import plugin
from sparkle_drv.cluster.remote import hosts
from sparkle_drv.cluster.remote.line import RemoteTimeline, RemoteWork
from sparkle_drv.cluster.remote.mirror import Mirrors
from sparkle_drv.cluster.remote.session import ClientSession, head
from sparkle_drv.cluster.remote.transfers import Transfers
from sparkle_drv.cluster.wire.dataclass_codec import from_mapping, to_mapping
from sparkle_drv.cluster.wire.requests import INLINE, MOST_IMAGE, MOST_RECORDS
from sparkle_drv.cluster.wire.values import Damaged, WireField, checked
from sparkle_drv.core import settings as environment
from sparkle_drv.errors import (
    DeviceLost,
    DeviceNotFound,
    ImageError,
    OutOfDeviceMemory,
    SparkleError,
)
from sparkle_drv.plugin import abilities
from sparkle_drv.types import DeviceInfo, Found, Memory, Resources

BYE_S = 2.0
"""Seconds that a node has to release a session; then the session just ends."""
_LEAVES_S = 10.0
_LOST_S = 0.2  # seconds that close waits for a lost session, which the node ends by itself
_MOST_NBYTES = 1 << 62

# Counts of the node that `live_counts` leaves out: bytes of requests and transfers on their way.
_PASSING = ("waiting", "flight")
_OPENED = {
    "info": WireField(dict, 0, 64), "kernels": WireField(list, 0, 1 << 16),
    "clock": WireField(bool), "most": WireField(dict, 0, 64, optional=True),
}  # fmt: skip
_ALLOCATED = {"address": WireField(int, 0)}
_LOADED = {
    "kernel": WireField(int, 1, 2**53), "form": WireField(str, 1, 16),
    "resources": WireField(dict, 0, 64), "groups": WireField(list, 0, 8),
    "group_size": WireField((list, type(None)), 3, 3),
}  # fmt: skip


class _RemoteBlock(NamedTuple):
    address: int
    memory: Memory


class RemoteBackend:
    """One open device of a node, as a Backend."""

    takes_threads = True

    def __init__(
        self, session: ClientSession, info: DeviceInfo, kernels: Sequence[str], clock: bool,
        release: Callable[[], None],
    ) -> None:  # fmt: skip
        self.info = info
        self.kernels = dict.fromkeys(kernels, "manifest")
        self._session, self._clock, self._release = session, clock, release
        self._closed = False
        self._mirrors = mirrors = Mirrors(session)
        self._loaded = plugin.Kernels(info, _refuses)
        queues = plugin.Queues(self._loaded, self._start, news=session)
        self._queues = queues
        self._transfers = Transfers(session, queues, mirrors)
        session.on_loss = queues.lose
        if session.words:
            queues.lose(session.words)
        mirrors.start()
        self.check, self.prepare = queues.check, queues.prepare
        self.epoch, self.advance = queues.epoch, queues.advance
        self.submitted, self.settled = queues.submitted, queues.settled
        self.reached, self.wait, self.failure = queues.reached, queues.wait, queues.failure
        self.times, self.describe, self.fault = queues.times, queues.describe, queues.fault
        self.lost, self.said, self.refusal = queues.lost, queues.said, self._loaded.refusal

    @staticmethod
    def discover(settings: plugin.Settings) -> Sequence[Found]:
        # no device is listed, since a connection is made only to a host that the user names
        return ()

    @staticmethod
    def open(uri: str, settings: plugin.Settings) -> RemoteBackend:
        name, slash, device = uri.partition("/")
        if not slash:
            raise DeviceNotFound(f"{uri}: expected a host and its device, such as box1/cuda:0")
        session, release = hosts.connect(settings.home, hosts.look_up(settings.home, name), uri)
        try:
            return RemoteBackend(session, *_opened(session, device, settings), release)
        except BaseException:
            session.channel.end("it was not opened")
            release()
            raise

    # Queues

    def open_queue(self, timing: bool) -> plugin.Timeline:
        return self._queues.open(self._session.open_line(timing), timing)

    def queue_pointer(self, queue: plugin.Timeline) -> int:
        return int(queue.own.number)

    def close_queue(self, queue: plugin.Timeline, timeout_ns: int) -> int:
        rc = self._queues.close_queue(queue, timeout_ns)
        if rc == 0:
            self._session.close_line(queue.own)
            self._mirrors.closed(queue.own)
        return rc

    def launch(self, queue: plugin.Timeline, record: bytes, nbytes: int, epoch: int) -> int:
        return self._sync(queue) or self._queues.launch(queue, record, nbytes, epoch)

    def run(self, prepared: Any) -> int:
        return self._sync(prepared[0]) or self._queues.run(prepared)

    def submit(self, queue: plugin.Timeline, data: Any, nbytes: int, epoch: int) -> int:
        return self._sync(queue) or self._queues.submit(queue, data, nbytes, epoch)

    def _sync(self, queue: plugin.Timeline) -> int:
        """Sends the client's changes of mapped memory to the node's device. Returns 0 or -errno."""
        if not self._mirrors:
            return 0
        # Notices ended work now, which makes room in the queue. During the uploads below, the
        # mirrors are locked, and no work can count as ended.
        self._queues.reached(queue)
        working = any(q.reached < q.submitted for q in self._queues.queues())
        return self._mirrors.send(
            lambda address, data: self._transfers.upload(queue, address, data), working
        )

    def _start(
        self, line: RemoteTimeline, commands: plugin.Given, awaited: Sequence[plugin.Work]
    ) -> plugin.Work:
        session = self._session
        session.check()
        if commands.prepared and (commands.kept or self._prepared(line, commands)):
            value = session.run(line, commands.kept, again=True)
        else:
            value = self._submit(line, self._lasting(commands))
        return RemoteWork(line, value, len(commands), self._mirrors)

    def _submit(self, line: RemoteTimeline, data: bytes) -> int:
        session, transfer = self._session, 0
        if len(data) > MOST_RECORDS:
            words = f"expected at most {MOST_RECORDS} bytes of records, got {len(data)}"
            raise plugin.Failed(errno.E2BIG, words)
        if len(data) > INLINE:
            transfer = session.number()
            session.channel.send_bulk(transfer, memoryview(data))
        return session.give(
            line, "submit", records=None if transfer else data, transfer=transfer, nbytes=len(data)
        )

    def _lasting(self, commands: plugin.Given) -> bytes:
        """Returns the command records of `commands`, except waits for queues that are closed. All
        work of those queues has ended, so nothing is left to wait for.
        """
        if all(self._session.has(wait.queue) for wait in commands.waits):
            return commands.data
        dropped = [
            at for at, command in zip(commands.offsets, commands, strict=True)
            if isinstance(command, plugin.Wait) and not self._session.has(command.queue)
        ]  # fmt: skip
        return b"".join(r for at, _, r in plugin.records.split(commands.data) if at not in dropped)

    def _prepared(self, line: RemoteTimeline, commands: plugin.Given) -> bool:
        """Asks the node, at the first call, to store the command record of a prepared launch.
        Returns whether the launch can name the stored record. If so, `commands.kept` is the
        packed request that runs it.
        """
        session = self._session
        if commands.kept is None:
            commands.kept = b""
            if len(commands.data) > INLINE:
                return False
            number = session.number()
            commands.kept = head(line, "run", prepared=number)
            forget = weakref.finalize(commands, session.post_later, "forget", prepared=number)
            forget.atexit = False
            kept = weakref.ref(commands)

            # Called if the node refuses to keep the record, because a quota is full. Each launch
            # then sends the record.
            def refused() -> None:
                forget.detach()
                if (there := kept()) is not None:
                    there.kept = b""

            session.ask_later("prepare", refused, prepared=number, record=commands.data)
        return bool(commands.kept)

    # Memory

    def alloc(self, nbytes: int, memory: Memory) -> plugin.Allocation:
        uri = self.info.uri
        if nbytes > _MOST_NBYTES:
            raise OutOfDeviceMemory(
                f"{uri}: alloc: expected at most {_MOST_NBYTES} bytes, got {nbytes}"
            )
        reply = self._ask("alloc", _ALLOCATED, nbytes=nbytes, memory=memory.value)
        return plugin.Allocation(_RemoteBlock(reply["address"], memory), reply["address"])

    def free(self, handle: _RemoteBlock) -> None:
        self._mirrors.forget(handle.address)
        self._session.post_later("free", address=handle.address)

    def map(self, handle: _RemoteBlock, nbytes: int) -> Any:
        if handle.memory is Memory.DEVICE:
            raise ValueError(
                f"map: expected Memory.HOST, since the host cannot reach memory of {self.info.uri};"
                " or use read and write"
            )
        return self._mirrors.map(handle.address, nbytes)

    def wrap(self, pointer: int, nbytes: int, owner: object) -> NoReturn:
        raise NotImplementedError(
            f"wrap: {self.info.uri} is on another machine; copy the array with Device.array"
        )

    def export(self, handle: _RemoteBlock) -> NoReturn:
        raise NotImplementedError(
            f"export: expected memory of this machine, got memory of {self.info.uri}"
        )

    def import_(self, fd: int, nbytes: int) -> NoReturn:
        raise NotImplementedError(
            f"import of memory: expected a device of this machine, got {self.info.uri}"
        )

    def upload(self, queue: plugin.Timeline, address: int, data: memoryview) -> tuple[int, object]:
        return self._sync(queue) or self._transfers.upload(queue, address, data), None

    def download(self, queue: plugin.Timeline, address: int, out: memoryview) -> tuple[int, object]:
        return self._sync(queue) or self._transfers.download(queue, address, out), out

    def copy_peer(
        self, queue: plugin.Timeline, dst: int, src: int, nbytes: int, peer: plugin.Backend
    ) -> int:
        if peer is not self:
            return -errno.EOPNOTSUPP
        return self._sync(queue) or self._queues.copy(queue, dst, src, nbytes)

    # Kernels

    def load(self, spec: plugin.KernelSpec) -> plugin.Loaded:
        manifest = spec.manifest is not None
        image = b"" if manifest else _image(spec)
        transfer = self._session.number() if image else 0
        if image:
            self._session.channel.send_bulk(transfer, memoryview(image))
        reply = self._ask(
            "load", _LOADED, name=spec.entry if manifest else spec.name,
            entry="" if manifest else spec.entry, args=[] if manifest else list(spec.args),
            plan=None if spec.plan is None else to_mapping(spec.plan), transfer=transfer,
            nbytes=len(image), suffix=os.path.splitext(spec.path)[1][:16],
            spirv=spec.allow_spirv,
        )  # fmt: skip
        resources = from_mapping(Resources, reply["resources"])
        entry = self._loaded.add(spec, resources, reply["form"], reply["kernel"])
        size = reply["group_size"]
        return plugin.Loaded(
            entry, entry.pointer, reply["form"], resources, tuple(map(str, reply["groups"])),
            None if size is None else (int(size[0]), int(size[1]), int(size[2])),
        )  # fmt: skip

    def unload(self, handle: plugin.Entry) -> None:
        self._loaded.remove(handle)
        self._session.post_later("unload", kernel=handle.pointer)

    def timestamp(self) -> int:
        if not self._clock:
            raise SparkleError(f"{self.info.uri}: the device has no clock")
        return int(self._ask("timestamp", {"ns": WireField(int)})["ns"])

    def sensors(self) -> dict[str, float]:
        found = self._ask("sensors", {"sensors": WireField(dict, 0, 256)})["sensors"]
        return {str(k): float(v) for k, v in found.items() if type(v) in (int, float)}

    def live_counts(self) -> dict[str, int]:
        with contextlib.suppress(DeviceLost):
            if not self._closed and not self._queues.forked:
                self._session.settle()
                counts = self._ask("counts", {"counts": WireField(dict, 0, 64)})["counts"]
                return {
                    str(k): n for k, n in counts.items() if type(n) is int and k not in _PASSING
                }
        return {}

    def _ask(self, do: str, fields: dict[str, WireField], **arguments: Any) -> dict[str, Any]:
        reply = self._session.ask(do, **arguments)
        try:
            return checked(reply, fields, do)
        except Damaged as error:
            raise SparkleError(f"{self.info.uri}: the node's answer is damaged: {error}") from None

    def close(self) -> None:
        self._queues.close()
        if self._closed or self._queues.forked:
            return
        self._closed = True
        # A finalizer may call `close` inside a call that holds a lock which the request "bye"
        # needs. So another thread sends "bye".
        leaves = threading.Thread(target=self._leave, name="sparkle-bye", daemon=True)
        # While the interpreter ends, no thread can start (RuntimeError). The process's end then
        # closes the connection.
        with contextlib.suppress(RuntimeError):
            leaves.start()
            leaves.join(_LOST_S if self._session.channel.ended else _LEAVES_S)

    def _leave(self) -> None:
        session = self._session
        with contextlib.suppress(SparkleError):
            session.ask("bye", BYE_S)
        session.channel.end("the device was closed")
        self._release()


def _refuses(entry: plugin.Entry, dispatch: plugin.Dispatch) -> str:
    if entry.own == "routine" and dispatch.groups != (1, 1, 1):
        return f"groups: a routine takes one group, got {dispatch.groups}"
    return ""


def _opened(
    session: ClientSession, device: str, settings: plugin.Settings
) -> tuple[DeviceInfo, list[str], bool]:
    """Opens the device at the node. Returns its description, the names of its kernels, and whether
    it has a clock. Raises DeviceNotFound if the node has no such device, or for a damaged answer.
    """
    host, cpu = session.uri.partition("/")[0], device.partition(":")[0] == "cpu"
    # SPARKLE_THREADS is for cpu devices only; an explicit `threads=` is for any device.
    asked = cpu or settings.threads != environment.read().threads
    reply = session.ask(
        "open", device=device, threads=settings.threads if asked else 0,
        deterministic=settings.deterministic, isa=settings.cpu_isa if cpu else "",
    )  # fmt: skip
    try:
        checked(reply, _OPENED, "open")
        info = from_mapping(DeviceInfo, reply["info"])
    except Damaged as error:
        raise DeviceNotFound(f"{session.uri}: the node's answer is damaged: {error}") from None
    most = reply.get("most", {}).get("memory")
    nbytes = min(info.memory_nbytes, most) if type(most) is int else info.memory_nbytes
    info = replace(
        info, uri=f"{host}/{info.uri}", unified=False, language="", slot="", p2p=(),
        memory_nbytes=nbytes,
        shares=tuple(f"{host}/{name}" for name in info.shares),
    )  # fmt: skip
    session.uri = info.uri
    return info, [name for name in reply["kernels"] if type(name) is str], reply["clock"]


def _image(spec: plugin.KernelSpec) -> bytes:
    image = spec.image
    if spec.path:
        with open(spec.path, "rb") as file:
            image = file.read(MOST_IMAGE + 1)
    if not 0 < len(image) <= MOST_IMAGE:
        raise ImageError(
            f"{spec.name}: expected an image of 1 to {MOST_IMAGE} bytes, got {len(image)} or more"
        )
    return image


if TYPE_CHECKING:

    class _Claims(
        plugin.Backend,
        abilities.BringsKernels,
        abilities.TakesThreads,
        abilities.TellsError,
        abilities.TellsFailure,
        abilities.TellsFault,
        abilities.TellsLoss,
        abilities.TellsRefusal,
        Protocol,
    ):
        """Lets mypy check that RemoteBackend has every member of the Protocols inherited here."""

    _claims: type[_Claims] = RemoteBackend
