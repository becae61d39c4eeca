"""Device: the root of everything that lives on one device; made by `sparkle_drv.open`."""

from __future__ import annotations

import os
import reprlib
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from sparkle_drv import assets
from sparkle_drv._hot import DeviceBase
from sparkle_drv.backends import rates
from sparkle_drv.backends.abilities import Abilities
from sparkle_drv.backends.base import Allocation, Backend, KernelSpec, Lanes
from sparkle_drv.core.abi.signature import Arg, Signature, parse_args
from sparkle_drv.core.array import Array, extents, host_array
from sparkle_drv.core.buffer import Buffer
from sparkle_drv.core.closing import Closing
from sparkle_drv.core.deferred.pending_arrays import PendingArrays
from sparkle_drv.core.fence import timeout_ns
from sparkle_drv.core.interop import adopt
from sparkle_drv.core.kernel import Kernel, triple
from sparkle_drv.core.pipeline import Pipeline
from sparkle_drv.core.queue import Queue
from sparkle_drv.core.retire import BRIEFLY_S, RetireList
from sparkle_drv.core.storage import Storage
from sparkle_drv.core.timestamp import Timestamp
from sparkle_drv.core.whole_number import within
from sparkle_drv.errors import FORKED, DeviceLost, FenceTimeout, ImageError
from sparkle_drv.fork_lock import fork_lock
from sparkle_drv.telemetry import progress
from sparkle_drv.types import DeviceInfo, Memory, TilePlan

_T = TypeVar("_T", Storage, Queue, Kernel)
# Opening a kernel with a known signature takes 30 us instead of 150.
_signature = lru_cache(maxsize=256)(Signature)


class Device(DeviceBase, Closing):
    """An open device, made by `sparkle_drv.open`. Any thread may use it; one thread calls `close`.

    `uri` is its full name. Buffers, kernels and queues keep the device alive. After `close`, and in
    a forked child, calls that need the device raise DeviceLost.

    >>> with sp.open("cpu") as cpu:
    ...     cpu.info.kind, cpu.buffer(64).nbytes, cpu.kernel("saxpy_f32").name
    ('cpu', 64, 'saxpy_f32')
    """

    BRIEFLY = (BRIEFLY_S,)

    def __init__(
        self, uri: str, backend: Backend, home: str = "", deterministic: bool = False
    ) -> None:
        self.uri = uri
        self.home = home
        """The folder of the device's profile files, SPARKLE_HOME at opening; "" for none
        (@private)."""
        self.deterministic = deterministic
        """True if the device was opened with `deterministic=True`."""
        self.closed = False
        self._abilities = able = Abilities(backend)
        timed = able.keeps_time
        self.clock: Callable[[], float] | None = None if timed is None else timed.clock
        """A clock in seconds that times the device's work, if it has its own time (@private)."""
        laned = able.keeps_lanes
        self.lanes: Lanes | None = None if laned is None else laned.lanes
        """The object to which threads report when they run and wait, if the clock needs that."""
        self._backend = backend
        shown = rates.known(backend.info, home)
        # `info` with the measured rates, or None if no rates were measured.
        self._shown = None if shown is backend.info else shown
        self._epoch = backend.epoch()  # the epoch that launches send; `_advance` changes it
        self._pending = PendingArrays(uri)
        self._pid = os.getpid()
        self._retired = RetireList(backend)
        self._provided: dict[str, bool] = {}
        self._lock = fork_lock()  # guards `closed`, _children and _default_queue
        self._children: weakref.WeakSet[Storage | Queue | Kernel] = weakref.WeakSet()
        self._default_queue: Queue | None = None
        self.kept = {}
        self._finalizer = weakref.finalize(self, self._retired.abandon, self._children)

    def __repr__(self) -> str:
        return f"<Device {self.uri} {self.info.name!r}{' closed' if self.closed else ''}>"

    def _advance(self) -> None:
        """Advances the epoch, so that launches that were packed before a close are checked again.

        sp_queue.h explains epochs.
        """
        if self._finalizer.alive and os.getpid() == self._pid:
            self._pending.advance(self)

    def _renew(self, queue: Queue) -> int:
        """Orders the next work of `queue` behind all expressions, and returns the present epoch.

        A caller whose work was refused as stale packs it again with this epoch.
        """
        return self._pending.renew(self, queue) if self._finalizer.alive else self._epoch

    def _living(self, kind: type[_T]) -> list[_T]:
        """Returns the existing objects of class `kind` that this device made.

        `kind` is Storage, Queue or Kernel. Other threads may open more objects meanwhile.
        """
        with self._lock:
            return [child for child in self._children if isinstance(child, kind)]

    def _open_queues(self) -> list[Queue]:
        return [queue for queue in self._living(Queue) if not queue.closed]

    def _working(self) -> list[Queue]:
        """Returns the open queues with submissions that have not ended."""
        return [queue for queue in self._open_queues() if queue.reached < queue.submitted]

    def _adopt(self, child: _T) -> _T:
        """Returns `child`, which this device has just opened, after `close` can see it.

        If `close` came first, in another thread, closes `child` and raises DeviceLost.
        """
        with self._lock:
            if not self.closed:
                self._children.add(child)
                return child
        child.close()
        raise DeviceLost(f"{self.uri}: the device is closed")

    def _another(self, given: Device) -> str:
        """Returns how an error names device `given`, which may have the same URI as this device."""
        return given.uri if given.uri != self.uri else f"another opening of {self.uri}"

    def _check_own(self, what: str, given: Device, ours: str = "queue") -> None:
        """Raises ValueError, which names `what`, if `given` is not this device."""
        if given is not self:
            raise ValueError(f"{what} belongs to {self._another(given)}, this {ours} to {self.uri}")

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise DeviceLost(f"{self.uri}: {FORKED}")

    def _check_open(self) -> None:
        if self.closed or os.getpid() != self._pid:
            self._check_process()
            raise DeviceLost(f"{self.uri}: the device is closed")

    @property
    def info(self) -> DeviceInfo:
        """The facts about the device, with the rates that were measured."""
        return self._shown or self._backend.info

    def learned(self, keep: bool = True, **rates_seen: float) -> None:
        """Adds measured rates (fields of backends/rates.py) to `info` (@private).

        With `keep` the rates are stored for later processes.
        """
        shown = rates.raised(self.info, rates_seen)
        if shown is not self.info:
            self._shown = shown
            if keep:
                rates.keep(shown, self.home)

    def reaches(self, others: Iterable[Device]) -> None:
        """Lists in `info` those of `others` whose memory this device reads directly (@private)."""
        near = [d.uri for d in others if d is not self and self.peer(d) == "direct"]
        if near:
            self._shown = replace(self.info, p2p=tuple(near))

    @property
    def healthy(self) -> bool:
        """True if the device takes work: it is open, not known to be lost, and of this process.

        Never blocks or raises. A device that hangs counts as healthy until a wait fails.
        """
        if self.closed or not self._finalizer.alive or os.getpid() != self._pid:
            return False
        loss = self._abilities.tells_loss
        try:
            return loss is None or not loss.lost()
        except Exception:  # the device is being closed, or a plug-in has a bug
            return False

    def _store(
        self,
        allocation: Allocation,
        nbytes: int,
        memory: Memory,
        readonly: bool = False,
        exposed: bool = True,
    ) -> Buffer:
        storage = self._adopt(
            Storage(self, allocation.handle, allocation.address, nbytes, memory, exposed)
        )
        return Buffer(storage, 0, nbytes, readonly=readonly)

    def buffer(
        self, nbytes: int, memory: Memory = Memory.DEVICE, *, exportable: bool = False
    ) -> Buffer:
        """Returns a buffer of `nbytes` (0 or more) bytes of zeroed memory, 64-byte aligned.

        With `exportable`, `Buffer.export` also works for Memory.DEVICE. On CUDA devices such memory
        takes 2 MiB at least, and the allocation is slow. Devices that cannot export memory raise
        NotImplementedError. Raises OutOfDeviceMemory if the memory does not suffice (the device
        stays usable). Raises TypeError or ValueError for a wrong argument.
        """
        self._check_open()
        n = within("nbytes", nbytes, 0, 2**63 - 1)
        if not isinstance(memory, Memory):
            raise TypeError(
                f"memory: expected one of {', '.join(map(str, Memory))}, got {memory!r}"
            )
        self._retired.drain()
        if not exportable or memory is Memory.SHARED:
            allocation = self._backend.alloc(n, memory)
        elif memory is not Memory.DEVICE:
            raise ValueError(f"exportable: expected memory DEVICE or SHARED, got {memory}")
        elif self._abilities.exports is None:
            raise NotImplementedError(f"{self.uri}: cannot export Memory.DEVICE; use Memory.SHARED")
        else:
            allocation = self._abilities.exports.alloc_exportable(n)
        return self._store(allocation, n, memory, exposed=False)

    def import_buffer(self, fd: int, nbytes: int) -> Buffer:
        """Returns a buffer over the first `nbytes` bytes of memory that `Buffer.export` shared.

        Any process may have exported Memory.SHARED. Only other processes can import an exported
        Memory.DEVICE; the exporter must keep the buffer as long as they use it. The caller still
        owns the descriptor `fd`. Raises ValueError if the memory is smaller or cannot be mapped,
        OSError if `fd` is not a descriptor, TypeError if an argument is not a whole number.
        """
        self._check_open()
        n = within("nbytes", nbytes, 1, 2**63 - 1)
        allocation = self._backend.import_(within("fd", fd, -(2**31), 2**31 - 1), n)
        return self._store(allocation, n, allocation.memory or Memory.SHARED)

    def wrap(self, array: Any) -> Buffer:
        """Returns host memory (a numpy array, any CPU `__dlpack__`) as a buffer, without a copy.

        CUDA devices also take arrays of other libraries in the device's memory (core/interop.py).
        The array is kept alive; a read-only array makes a read-only buffer. Raises TypeError for
        any other object, ValueError for an array that is not C-contiguous.
        """
        self._check_open()
        adopted = adopt(self, array)
        if adopted is not None:
            return adopted[0]
        host = host_array("array", array)
        if not host.flags.c_contiguous:
            raise ValueError("array: expected a C-contiguous array: wrap makes no copies")
        pointer = host.__array_interface__["data"][0]
        allocation = self._backend.wrap(pointer, host.nbytes, host)
        return self._store(allocation, host.nbytes, Memory.HOST, not host.flags.writeable)

    def array(self, data: Any, layout: str | None = None) -> Array:
        """Returns a row-major copy of a numpy array (or CPU DLPack exporter) on the device.

        The copy has the dtype and shape of `data`. Raises TypeError for any other object, and
        OutOfDeviceMemory.
        """
        self._check_open()
        host = host_array("data", data)
        array = self.empty(host.shape, host.dtype, layout)
        if host.size:
            self.default_queue.write(array.buffer, host).wait()
        return array

    def empty(self, shape: Any, dtype: Any, layout: str | None = None) -> Array:
        """Returns a new array of `shape` (an int or several) and `dtype`, filled with zeros.

        Raises TypeError, ValueError (a negative dimension), OutOfDeviceMemory.
        """
        dims, kind, nbytes = extents(shape, dtype)
        return Array(self.buffer(nbytes), kind, dims, layout)

    def kernel(
        self,
        name: str | None = None,
        *,
        plan: TilePlan | None = None,
        image: str | os.PathLike[str] | bytes | None = None,
        entry: str | None = None,
        args: str | None = None,
        group_size: Any = None,
        allow_spirv: bool = False,
    ) -> Kernel:
        """Returns a kernel of the manifest by `name`, or a user kernel from an image.

        `plan` sets the tiles of a manifest kernel; None means the kernel's defaults.

        `image` is a path or bytes. `entry` is the kernel's symbol in the image. `args` has the
        types in order, with or without names: "f32* y, f32* x, u32 n" or "f32* f32* u32".
        `group_size` is the number of threads in a workgroup for launches that give none (an int or
        up to three; None: 1). With `allow_spirv`, backends that compile images at load time also
        take SPIR-V.

        Raises ImageError with the loader's message, ValueError (unknown name or type, invalid
        plan), TypeError (an argument of a wrong type), FileNotFoundError.
        """
        self._check_open()
        if (name is None) == (image is None):
            raise TypeError("kernel: expected either a manifest name or image=, entry= and args=")
        self._retired.drain()
        if name is not None:
            return self._manifest_kernel(name, plan, group_size)
        if not isinstance(entry, str) or not isinstance(args, str):
            raise TypeError(
                'kernel: expected entry="name" and args="f32* u32" (types in order) with image='
            )
        if not entry or "\0" in entry:
            raise ImageError(f"entry: expected the name of a function, got {entry!r}")
        source = {**_image(image), "allow_spirv": allow_spirv}
        return self._load(entry, parse_args(args), source, group_size, 1, 3)

    def _manifest_kernel(self, name: str, plan: TilePlan | None, group_size: Any) -> Kernel:
        if not isinstance(name, str):
            raise TypeError(f"kernel: expected a name, got {name!r}")
        if plan is not None and not isinstance(plan, TilePlan):
            raise TypeError(f"plan: expected a TilePlan, got {type(plan).__name__}")
        if plan is not None and not isinstance(plan.program, tuple):
            wrong = reprlib.repr(plan.program)
            raise ValueError(f"plan: program: expected a tuple of u32 words, got {wrong}")
        entry = assets.entry(name)
        if entry is None:
            kernels = assets.manifest()["kernels"]
            close = [k for k in kernels if k.startswith(name.split("_")[0])]
            hint = f"; did you mean {', '.join(close)}?" if close else ""
            raise ValueError(f"kernel: {name!r} is not in the manifest{hint}")
        variant = self._variant(name)
        if variant is None:
            raise ValueError(
                f"kernel: {self.info.backend} has no {name}, "
                f"only {', '.join(entry['backends'])} have it"
            )
        source = {"manifest": variant, "plan": plan}
        usual, dims = entry.get("group_size", 1), entry.get("dims", 3)
        args = tuple(Arg(**arg) for arg in entry["args"])
        return self._load(name, args, source, group_size, usual, dims)

    def provides(self, name: str) -> bool:
        """Returns whether this device can load the manifest's kernel `name`."""
        found = self._provided.get(name)
        if found is None:
            found = self._provided[name] = self._variant(name) is not None
        return found

    def is_peer(self, other: Device) -> bool:
        """Returns whether `Queue.copy_peer` can copy from memory of `other` to this device.

        The two devices must have the same backend. They must both be on this machine, or both on
        other machines. Raises TypeError if `other` is not a Device.
        """
        if not isinstance(other, Device):
            raise TypeError(f"other: expected a Device, got {other!r}")
        alike = type(self._backend) is type(other._backend)
        return alike and self.info.backend == other.info.backend

    def peer(self, other: Device) -> str:
        """Returns how `Queue.copy_peer` copies from `other` to this device.

        The result is "direct", "staged" (through the host), or "" if no copy is possible. Raises
        TypeError if `other` is not a Device.
        """
        if not self.is_peer(other):
            return ""
        own = self._abilities.tells_peer
        return own.peer(other._backend) if own else "staged"

    def _variant(self, name: str) -> Any:
        """Returns what the backend's `load` needs for kernel `name`, such as its manifest entry.

        Returns None if the device does not have the kernel.
        """
        own = self._abilities.brings_kernels
        if own is not None:
            return own.kernels.get(name)
        if self.info.language:
            from sparkle_drv.codegen import kernels  # imported late: most devices do not need it

            return kernels.variant(name, self.info)
        entry = assets.entry(name)
        return entry["backends"].get(self.info.backend) if entry else None

    def _load(
        self, name: str, args: tuple[Arg, ...], source: dict[str, Any], wanted: Any, usual: Any,
        dims: int,
    ) -> Kernel:  # fmt: skip
        size = triple("group_size", usual if wanted is None else wanted)
        signature = _signature(args)
        types = tuple(arg.type for arg in args)
        spec = KernelSpec(name, name, signature.native, args=types, **source)
        with progress.reported(f"compiling {name} for {self.uri}"):
            spec, note = self._made(spec)
            loaded = self._backend.load(spec)
        if note:
            loaded = replace(loaded, resources=replace(loaded.resources, note=note))
        if wanted is not None and loaded.group_size not in (None, size):
            self._backend.unload(loaded.handle)
            raise ValueError(
                f"group_size: expected {loaded.group_size}, the size that {name} is compiled for, "
                f"got {size}"
            )
        return self._adopt(Kernel(self, name, signature, loaded, loaded.group_size or size, dims))

    def _made(self, spec: KernelSpec) -> tuple[KernelSpec, str]:
        """Returns `spec` with its generated code, and a note.

        A TilePlan may have the map program of an expression (`plan.program`), which becomes part of
        the generated code. If that is impossible, the note says why. Otherwise the note is "".
        """
        if spec.manifest is None or not self.info.language:
            return spec, ""
        from sparkle_drv.codegen import kernels

        made, note = kernels.make(spec.name, spec.plan, self.info)
        plan = replace(spec.plan, program=()) if spec.plan and note else spec.plan
        return replace(spec, plan=plan, made=made), note

    def _kernel_at(self, pointer: int) -> Kernel | None:
        """The kernel whose native object is at `pointer`, or None.

        If several match, an open kernel comes first: once the object of a closed kernel is freed,
        another kernel can get its address.
        """
        there = [kernel for kernel in self._living(Kernel) if kernel._pointer == pointer]
        return min(there, key=lambda kernel: kernel.closed, default=None)

    def queue(self, timing: bool = False) -> Queue:
        """Returns a new queue. With `timing=True` it keeps device times for `Fence.time_ns`.

        Raises SparkleError, also for `timing=True` if the device has no clock.
        """
        self._check_open()
        queue = self._adopt(Queue(self, bool(timing)))
        self._pending.opened(self)
        return queue

    @property
    def default_queue(self) -> Queue:
        """The queue that buffers and operations use; opened at its first use."""
        with self._lock:
            if self._default_queue is None or self._default_queue.closed:
                self._check_open()
                self._default_queue = self._adopt(Queue(self, False))
            return self._default_queue

    def pipeline(
        self,
        depth: int = 3,
        make: Callable[..., Any] | None = None,
        queue: Queue | None = None,
        overlap: bool = False,
    ) -> Pipeline:
        """Returns a ring of `depth` slots (1 to 1024), each made by `make(device)` or `make()`.

        Without `make` a slot has only an `index`. Without `queue` the pipeline opens a queue of its
        own. With `overlap` it opens a queue for each slot; the work of different slots is then not
        ordered. Raises TypeError for an argument of a wrong type. Raises ValueError for a wrong
        `depth`, for a `queue` with `overlap`, and if `make` returns the same slot twice.
        """
        self._check_open()
        return Pipeline(self, depth, make, queue, overlap)

    def timestamp(self) -> Timestamp:
        """Returns eight bytes of memory, into which `Commands.timestamp` writes the device clock.

        Raises SparkleError if the device has no clock.
        """
        self._check_open()
        self._backend.timestamp()
        return Timestamp(self.buffer(8, Memory.HOST))

    def wait_idle(self, timeout_s: float = 30) -> None:
        """Waits until every queue has finished its work; `timeout_s` applies to each queue.

        Raises the errors of `Fence.wait`: FenceTimeout, KernelFault, DeviceLost.
        """
        self._check_open()
        for queue in self._open_queues():
            queue.fence(queue.submitted).wait(timeout_s)
        self._end(self._retired.ownerless(), timeout_s)

    @property
    def idle(self) -> bool:
        """True if every queue has finished its work; reading it never blocks."""
        backend = self._backend
        late = (backend.reached(q) < backend.submitted(q) for q in self._retired.ownerless())
        return not self._working() and not any(late)

    def live_counts(self) -> dict[str, int]:
        """Returns the numbers of live objects, to find leaks.

        "buffers", "kernels" and "queues" count open objects of this device. "retired" counts closed
        objects that are not freed yet. "native_..." counts objects of the whole process.
        """
        self._retired.retire_forgotten()
        self._retired.drain()
        counts = {
            "buffers": sum(storage.device is not None for storage in self._living(Storage)),
            "kernels": sum(not kernel.closed for kernel in self._living(Kernel)),
            "queues": len(self._open_queues()),
            "retired": len(self._retired),
        }
        return {**counts, **{f"native_{k}": v for k, v in self._backend.live_counts().items()}}

    def close(self, timeout_s: float = 30) -> None:
        """Waits for the queues, then closes everything on the device; a second call does nothing.

        Raises FenceTimeout if a submission still runs. The submission's memory is kept, the device
        takes no more work, and `close` may be called again. In a forked child `close` frees
        nothing, because the parent owns everything. Raises TypeError or ValueError for an invalid
        timeout.
        """
        timeout_ns(timeout_s)  # raises for an invalid one
        if not self._finalizer.alive:
            return
        with self._lock:  # `_adopt` lets no further object in
            self.closed = True
        if os.getpid() != self._pid:
            return
        self._advance()
        for queue in self._living(Queue):
            queue.close(timeout_s)
        for kernel in self._living(Kernel):
            kernel.close()
        for storage in self._living(Storage):
            storage.close()
        # The call table, `_calls`, is dropped too, because it refers to the default queue.
        with self._lock:
            self._default_queue = self._calls = None
        self._pending.newest = None
        self._end([queue for queue, *_ in list(self._retired.queues.values())], timeout_s)
        self._retired.drain()
        self._finalizer()

    def _end(self, queues: list[Any], timeout_s: float) -> None:
        """Closes queues whose Python objects were freed while the queues had work."""
        for queue in queues:
            if not self._retired.end(queue, timeout_ns(timeout_s)):
                raise FenceTimeout(f"{self.uri}: work of a queue did not end within {timeout_s} s")


def _image(image: Any) -> dict[str, Any]:
    """Returns a user's image as {"path": ...} or {"image": ...}.

    Raises TypeError unless `image` is a path or bytes, ValueError for an invalid path. Raises
    FileNotFoundError if there is no such file, ImageError if it is not a regular file.
    """
    if isinstance(image, (bytes, bytearray, memoryview)):
        return {"image": bytes(image)}
    if not isinstance(image, (str, os.PathLike)):
        raise TypeError(f"image: expected a path or bytes, got {type(image).__name__}")
    path = os.fspath(image)
    if not isinstance(path, str) or "\0" in path:
        raise ValueError(f"image: expected a path as text, got {path!r}")
    if not os.path.exists(path):
        raise FileNotFoundError(f"image: no such file: {path}")
    if not os.path.isfile(path):
        raise ImageError(f"image: {path} is not a regular file")
    return {"path": path}
