"""Repeats a recording on a render node, emulated or real: its ioctls and jobs, step by step.

The replay uses its own handles, descriptors, times and addresses of host memory. GPU addresses are
the recorded ones. After each job the memory of all BOs must be as recorded, except for clocks that
the job's packets write. The first difference ends the replay.
"""

from __future__ import annotations

import mmap
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.amd.kmd import nodes
from sparkle_drv.errors import DeviceNotFound

from . import args as replay_args
from . import read
from .args import HandlePlace, u32, u64
from .node import Bo, ReplayNode, errno_name, times
from .read import Close, IoctlCall, MemoryWrite, RecordingError, Unheld, read_recording

NOBODY = 0xFFFFFFF0  # a handle that no object has, for calls that the kernel driver refused
# Limit of the bytes to which one pointer in an ioctl's argument points. Real ioctls have far fewer.
MOST = 1 << 28
OpenNode = Callable[[read.NodeUse], tuple[Any, int]]


@dataclass
class Outcome:
    """The result of a replay. `difference` is "" if the replay matched the recording. `skipped`
    counts the calls that could not be repeated, by reason.

    >>> outcome = lowlevel.Outcome(calls=3, difference="call 3: expected 0, got -12")
    >>> outcome.same
    False
    """

    calls: int = 0
    jobs: int = 0
    nodes: int = 0
    difference: str = ""
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def same(self) -> bool:
        return not self.difference


class Different(Exception):
    """The replay differs from the recording."""


class _Skip(Exception):
    """Raised for a call that the replay cannot repeat. Its text is the reason."""


@dataclass
class _ReadyArgument:
    """An argument that is ready for the call: its bytes, the memory that it points to, and the
    places that may differ from the recording.
    """

    raw: Any
    memory: dict[int, Any] = field(default_factory=dict)
    own: list[tuple[int, int]] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)
    user: Any = None


def replay(recording: str, open_node: OpenNode, *, job_limit_s: float = 10.0) -> Outcome:
    """Repeats the calls of a recording's text, in their order, in one thread. For each render node
    of the recording, `open_node` returns the functions of the seam (`struct sp_kmd_ops`) and a
    descriptor. Raises RecordingError if the text is no recording, or if its lines contradict each
    other.

    >>> lowlevel.replay("# sparkle recording 1\\n", lowlevel.on_card)
    Outcome(calls=0, jobs=0, nodes=0, difference='', skipped=Counter())
    >>> lowlevel.replay("no recording\\n", lowlevel.on_card)
    Traceback (most recent call last):
        ...
    sparkle_drv.amd.record.read.RecordingError: line 1: expected a line that begins ...
    """
    again = _Replay(open_node, int(job_limit_s * 1e9))
    try:
        for event in read_recording(recording):
            try:
                again.event(event)
            except RecordingError:
                raise
            except (LookupError, ValueError, ArithmeticError, MemoryError) as error:
                raise RecordingError(
                    f"{_where(event)}: contradicts earlier lines: {error!r}"
                ) from error
        again.judge()
    except Different as error:
        again.outcome.difference = str(error)
    finally:
        again.close()
    return again.outcome


def _where(event: read.Event) -> str:
    return str(event) if isinstance(event, IoctlCall) else f"a line of {type(event).__name__}"


class _Replay:
    def __init__(self, open_node: OpenNode, limit_ns: int) -> None:
        self.open_node, self.limit_ns = open_node, limit_ns
        self.outcome = Outcome()
        self.nodes: dict[int, ReplayNode] = {}
        self.memory: set[int] = set()  # numbers of the render nodes whose memory was recorded
        self.fds: dict[int, int] = {}
        # The last submitted job while the replay reads what that job wrote in the recording.
        self.job: tuple[IoctlCall, ReplayNode] | None = None

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()
        for fd in self.fds.values():
            os.close(fd)

    def event(self, event: read.Event) -> None:
        if isinstance(event, MemoryWrite):
            if event.who == "cpu":
                self.judge()
            self.nodes[event.node].hold(event)
            return
        self.judge()
        if isinstance(event, Unheld):
            self.nodes[event.node].bos[event.bo].unheld = True
        elif isinstance(event, read.NodeUse):
            if event.number in self.nodes:
                raise ValueError(f"node {event.number} was opened before")
            ops, fd = self.open_node(event)
            self.nodes[event.number] = ReplayNode(ops, fd)
            self.outcome.nodes += 1
            if event.memory:
                self.memory.add(event.number)
        elif isinstance(event, Close):
            self.nodes[event.node].close()
        else:
            self._call(event, self.nodes[event.node])

    def judge(self) -> None:
        """Compares the memory of all BOs after the newest job with the recording of that moment.
        Called when the job's recorded writes have been read. Raises Different if any byte differs.
        """
        if self.job is None:
            return
        (call, node), self.job = self.job, None
        for va in times(call.ibs):
            node.excuse(va)
        if difference := node.differs():
            raise Different(f"{call}: the memory differs after this job: {difference}")

    def _call(self, call: IoctlCall, node: ReplayNode) -> None:
        is_job = call.name == "AMDGPU_CS"
        try:
            call = _filled_up(call)
            if call.node not in self.memory:
                if is_job:
                    raise _Skip("the memory of this job was not recorded")
                if call.name in replay_args.OF_JOBS:
                    raise _Skip("the call may depend on a job whose memory was not recorded")
            arg = self._argument(call, node)
        except _Skip as reason:
            self.outcome.skipped[f"{call.name}: {reason}"] += 1
            return
        if is_job:
            node.fill()
        if call.name == "GEM_CLOSE" and call.rc >= 0:
            node.drop(u32(call.before, 0))
        deadline = time.monotonic_ns() + self.limit_ns
        rc = node.ioctl(call.request, arg.raw, deadline)
        self.outcome.calls += 1
        self._compare(call, arg, rc)
        if rc >= 0:
            self._learn(call, node, arg)
        if is_job and rc >= 0:
            self.outcome.jobs += 1
            self._end(call, node, arg)
            self.job = (call, node)

    def _compare(self, call: IoctlCall, arg: _ReadyArgument, rc: int) -> None:
        if call.name in replay_args.TIMEOUTS and call.rc < 0:
            return  # a wait that failed in the recording may end differently in the replay
        if rc != call.rc:
            was, now = errno_name(call.rc), errno_name(rc)
            raise Different(f"{call}: expected {was} as recorded, got {now}")
        if rc < 0:
            return
        there, own = bytes(ffi.buffer(arg.raw)), list(arg.own)
        own += [(p.offset, 4) for p in replay_args.made(call)]
        masked = _masked(call, own)
        if call.name in ("AMDGPU_GEM_MMAP", "SYNCOBJ_WAIT", "SYNCOBJ_TIMELINE_WAIT"):
            # The outputs of these ioctls are not compared. They are an address, or the index of the
            # syncobj that was signalled first.
            masked.update(range(len(there)))
        for i, (a, b) in enumerate(zip(call.after, there, strict=True)):
            if a != b and i not in masked:
                raise Different(
                    f"{call}: byte {i} of its argument: expected {a:#04x} as recorded, got {b:#04x}"
                )
        query = call.name == "AMDGPU_INFO" and u32(call.before, 12)
        if call.name == "SYNCOBJ_QUERY" or query in replay_args.UNSTEADY:
            return
        for address, data in call.got.items():
            answer = bytes(ffi.buffer(arg.memory[address]))[: len(data)]
            if answer != data:
                i = next(i for i, (a, b) in enumerate(zip(data, answer, strict=True)) if a != b)
                what = f" (query {query:#x})" if call.name == "AMDGPU_INFO" else ""
                raise Different(
                    f"{call}{what}: byte {i} of the answer: expected {data[i]:#04x} as recorded, "
                    f"got {answer[i]:#04x}"
                )

    def _end(self, call: IoctlCall, node: ReplayNode, arg: _ReadyArgument) -> None:
        """Waits for the job of a CS call. Raises Different if the job fails or does not end."""
        entity = next(
            (data for data in self._chunks(call) if data[0] == lib.AMDGPU_CHUNK_ID_IB), None
        )
        wait = ffi.new("union drm_amdgpu_wait_cs *")
        request = getattr(wait, "in")
        request.handle = u64(bytes(ffi.buffer(arg.raw)), 0)
        request.timeout = time.monotonic_ns() + self.limit_ns
        request.ctx_id = node.names["ctx"][u32(call.before, 0)]
        if entity:
            _whole(entity[1], "struct drm_amdgpu_cs_chunk_ib")
            ib = ffi.from_buffer("struct drm_amdgpu_cs_chunk_ib *", entity[1])
            request.ip_type, request.ip_instance, request.ring = ib.ip_type, ib.ip_instance, ib.ring
        rc = node.ioctl(lib.DRM_IOCTL_AMDGPU_WAIT_CS, wait, request.timeout)
        if rc < 0 or wait.out.status:
            why = f"ends with {errno_name(rc)}" if rc < 0 else "does not end"
            raise Different(f"{call}: expected its job to end without error, but it {why}")

    def _learn(self, call: IoctlCall, node: ReplayNode, arg: _ReadyArgument) -> None:
        now = bytes(ffi.buffer(arg.raw))
        for place in replay_args.made(call):
            old, new = u32(call.after, place.offset), u32(now, place.offset)
            if place.kind == "fd":
                if old in self.fds:
                    os.close(self.fds[old])
                self.fds[old] = new
            else:
                node.names[place.kind][old] = new
                if place.kind == "bo" and old not in node.bos:
                    node.bos[old] = Bo(new, _nbytes(call), arg.user)
        if call.name == "AMDGPU_GEM_VA":
            node.learn_va(ffi.from_buffer("struct drm_amdgpu_gem_va *", call.before))

    # Arguments

    def _argument(self, call: IoctlCall, node: ReplayNode) -> _ReadyArgument:
        raw = ffi.new("char[]", len(call.before))
        arg, view = _ReadyArgument(raw), ffi.buffer(raw)
        view[:] = call.before
        for place in replay_args.given(call):
            self._name(view, 0, place, call, node)
            arg.own.append((place.offset, 4))
        for array in replay_args.ARRAYS.get(call.name, []):
            n = u32(call.before, array.number)
            address = u64(call.before, array.pointer)
            self._pointer(arg, array.pointer, self._copy(call, arg, address, n * array.nbytes))
            for i in range(n if array.places else 0):
                for place in array.places:
                    self._name(ffi.buffer(arg.memory[address]), i * array.nbytes, place, call, node)
        if call.name in replay_args.TIMEOUTS:
            at = replay_args.TIMEOUTS[call.name]
            arg.own.append((at, 8))
            # The recorded timeout is a time of another machine's clock, so it is replaced. A call
            # that failed in the recording gets a time in the past: it need not wait.
            until = time.monotonic_ns() + self.limit_ns if call.rc >= 0 else 0
            view[at : at + 8] = until.to_bytes(8, "little")
        special = getattr(self, f"_{call.name.lower()}", None)
        if special:
            special(call, node, arg)
        return arg

    def _name(
        self, view: Any, base: int, place: HandlePlace, call: IoctlCall, node: ReplayNode
    ) -> None:
        at = base + place.offset
        old = u32(view[at : at + 4], 0)
        names = self.fds if place.kind == "fd" else node.names[place.kind]
        if old not in names and call.rc >= 0:
            raise _Skip(f"the recording has no call that made the {place.kind} of this call")
        view[at : at + 4] = names.get(old, NOBODY).to_bytes(4, "little")

    def _copy(self, call: IoctlCall, arg: _ReadyArgument, address: int, nbytes: int) -> Any:
        """Allocates memory in place of the program's memory at `address`, with the recorded
        content. For address 0 returns NULL.
        """
        if not address:
            return ffi.NULL
        if nbytes > MOST:
            raise ValueError(f"expected at most {MOST} bytes behind a pointer, got {nbytes}")
        memory = ffi.new("char[]", max(nbytes, 1))
        data = call.given.get(address, b"")[:nbytes]
        ffi.buffer(memory)[: len(data)] = data
        arg.memory[address] = memory
        # If two pointers of the ioctl have the same address, the later block has just replaced the
        # earlier one in arg.memory. Then only arg.kept keeps the earlier block alive.
        arg.kept.append(memory)
        return memory

    def _pointer(self, arg: _ReadyArgument, at: int, memory: Any) -> None:
        pointer = int(ffi.cast("uintptr_t", memory))
        ffi.buffer(arg.raw)[at : at + 8] = pointer.to_bytes(8, "little")
        arg.own.append((at, 8))

    def _version(self, call: IoctlCall, node: ReplayNode, arg: _ReadyArgument) -> None:
        for name in ("name", "date", "desc"):
            at = ffi.offsetof("struct drm_version", name)
            n = u64(call.before, ffi.offsetof("struct drm_version", f"{name}_len"))
            self._pointer(arg, at, self._copy(call, arg, u64(call.before, at), n))

    def _amdgpu_info(self, call: IoctlCall, node: ReplayNode, arg: _ReadyArgument) -> None:
        self._pointer(arg, 0, self._copy(call, arg, u64(call.before, 0), u32(call.before, 8)))

    def _amdgpu_gem_op(self, call: IoctlCall, node: ReplayNode, arg: _ReadyArgument) -> None:
        if u32(call.before, 4) == lib.AMDGPU_GEM_OP_GET_GEM_CREATE_INFO:
            nbytes = ffi.sizeof("struct drm_amdgpu_gem_create_in")
            self._pointer(arg, 8, self._copy(call, arg, u64(call.before, 8), nbytes))

    def _amdgpu_gem_userptr(self, call: IoctlCall, node: ReplayNode, arg: _ReadyArgument) -> None:
        nbytes = _nbytes(call)
        if call.rc < 0 or not nbytes:
            raise _Skip("the recorded GEM_USERPTR failed, or the size of its memory was 0")
        arg.user = mmap.mmap(-1, nbytes)  # mmap returns whole pages, as a userptr requires
        self._pointer(arg, 0, ffi.from_buffer(arg.user))

    def _amdgpu_bo_list(self, call: IoctlCall, node: ReplayNode, arg: _ReadyArgument) -> None:
        listed = ffi.from_buffer("struct drm_amdgpu_bo_list_in *", call.before)
        at = ffi.offsetof("struct drm_amdgpu_bo_list_in", "bo_info_ptr")
        self._pointer(arg, at, self._entries(call, node, arg, listed))

    def _entries(self, call: IoctlCall, node: ReplayNode, arg: _ReadyArgument, listed: Any) -> Any:
        nbytes = listed.bo_info_size
        entries = self._copy(call, arg, listed.bo_info_ptr, listed.bo_number * nbytes)
        for i in range(listed.bo_number):
            self._name(ffi.buffer(entries), i * nbytes, HandlePlace("bo", 0), call, node)
        return entries

    def _amdgpu_sched(self, call: IoctlCall, node: ReplayNode, arg: _ReadyArgument) -> None:
        raise _Skip("only a display server may make this call")

    def _chunks(self, call: IoctlCall) -> list[tuple[int, bytes]]:
        """Returns id and contents of each chunk of a CS call, as recorded."""
        args = ffi.from_buffer("union drm_amdgpu_cs *", call.before)
        cs = getattr(args, "in")
        chunks, pointers = [], call.given.get(cs.chunks, b"")
        for i in range(cs.num_chunks):
            chunk = call.given[u64(pointers, i * 8)]
            chunks.append((u32(chunk, 0), call.given.get(u64(chunk, 8), b"")[: 4 * u32(chunk, 4)]))
        return chunks

    def _amdgpu_cs(self, call: IoctlCall, node: ReplayNode, arg: _ReadyArgument) -> None:
        chunks = self._chunks(call)
        table = ffi.new("struct drm_amdgpu_cs_chunk[]", max(len(chunks), 1))
        pointers = ffi.new("uint64_t[]", max(len(chunks), 1))
        for i, (kind, data) in enumerate(chunks):
            contents = ffi.new("char[]", data or b"\0")
            view = ffi.buffer(contents)
            nbytes, places = replay_args.CHUNKS.get(kind, (0, ()))
            for base in range(0, len(data) if nbytes else 0, nbytes or 1):
                for place in places:
                    self._name(view, base, place, call, node)
            if kind == lib.AMDGPU_CHUNK_ID_BO_HANDLES:
                _whole(data, "struct drm_amdgpu_bo_list_in")
                listed = ffi.cast("struct drm_amdgpu_bo_list_in *", contents)
                entries = self._entries(call, node, arg, listed)
                listed.bo_info_ptr = int(ffi.cast("uintptr_t", entries))
            arg.kept.append(contents)
            table[i].chunk_id, table[i].length_dw = kind, len(data) // 4
            table[i].chunk_data = int(ffi.cast("uintptr_t", contents))
            pointers[i] = int(ffi.cast("uintptr_t", table + i))
        arg.kept += [table, pointers]
        self._pointer(arg, ffi.offsetof("struct drm_amdgpu_cs_in", "chunks"), pointers)


def _filled_up(call: IoctlCall) -> IoctlCall:
    """Returns the call with its argument extended by zeros to the size of our struct declaration. A
    program that was built for an older Linux passes fewer bytes, and Linux takes the rest as zeros
    too (drm_ioctl). Raises _Skip for an unknown ioctl. Raises ValueError if the request number
    belongs to another ioctl, or if it names another length than the argument has.
    """
    known = getattr(lib, f"DRM_IOCTL_{call.name}", None)
    if known is None:
        raise _Skip("this version of sparkle_drv does not know the call")
    # A request encodes the ioctl's type, its number and the size of its argument
    # (asm-generic/ioctl.h). Type and number must be those of our declaration, and the size must be
    # that of the recorded argument.
    if (known ^ call.request) & 0xFFFF or len(call.before) != call.request >> 16 & 0x3FFF:
        raise ValueError(
            f"{call.name}: expected a request like {known:#x}, and as many bytes as it says, "
            f"got request {call.request:#x} with {len(call.before)} bytes"
        )
    missing = bytes(max(0, (known >> 16 & 0x3FFF) - len(call.before)))
    return replace(call, before=call.before + missing, after=call.after + missing)


def _whole(data: bytes, ctype: str) -> None:
    if len(data) < ffi.sizeof(ctype):
        raise ValueError(
            f"expected at least {ffi.sizeof(ctype)} bytes of a {ctype}, got {len(data)}"
        )


def _masked(call: IoctlCall, own: list[tuple[int, int]]) -> set[int]:
    """Returns the offsets of the argument's bytes that are not compared with the recording. These
    are the handles that the call made, and the handles, pointers and times that the replay put into
    the argument (`own`) and the call left unchanged.
    """
    handles = {p.offset for p in replay_args.made(call)}
    offsets: set[int] = set()
    for at, nbytes in own:
        span = slice(at, at + nbytes)
        if at in handles or call.before[span] == call.after[span]:
            offsets.update(range(at, at + nbytes))
    return offsets


def _nbytes(call: IoctlCall) -> int:
    """Returns the size of the BO that a call made, or 0 if the argument does not have it."""
    if call.name == "AMDGPU_GEM_CREATE":
        return u64(call.before, 0)
    return u64(call.before, 8) if call.name == "AMDGPU_GEM_USERPTR" else 0


def on_card(uri: str) -> OpenNode:
    """Returns a function that opens, for `replay`, the N-th render node of this machine that amdgpu
    may drive: "amdgpu:N".

    >>> lowlevel.on_card("amdgpu:99")
    Traceback (most recent call last):
        ...
    sparkle_drv.errors.DeviceNotFound: amdgpu:99: expected more than 99 amdgpu nodes, got 0
    """
    which = uri.partition(":")[2] or "0"
    if not which.isdigit():
        raise DeviceNotFound(f"expected 'amdgpu:0', 'amdgpu:1', ..., got {uri}")
    cards = [node for node in nodes.listed() if nodes.maybe_ours(node)]
    if int(which) >= len(cards):
        raise DeviceNotFound(f"{uri}: expected more than {which} amdgpu nodes, got {len(cards)}")
    return lambda _: (lib.sp_kmd_linux(), nodes.open_node(cards[int(which)]))
