"""The cpu backend: thin typed calls into native/cpu, with the protocol of backends/base.py.

Handles are cffi objects that free their native object.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sparkle_drv._native import ffi, lib
from sparkle_drv.backends import abilities, machine
from sparkle_drv.backends.base import Allocation, Backend, KernelSpec, Loaded, Settings
from sparkle_drv.backends.cpu import image
from sparkle_drv.backends.cpu.cores import Named, named
from sparkle_drv.backends.native import Lent, Native, kernel_pointer
from sparkle_drv.errors import DeviceNotFound, ImageError, OutOfDeviceMemory, check
from sparkle_drv.types import DeviceInfo, Found, Memory, Resources, TilePlan

log = logging.getLogger("sparkle_drv.cpu")

URI = "cpu"
_PAGES = 1 << 16  # an allocation of this size or more comes from mmap (native/cpu/runtime/alloc.c)
_MUCH = 1 << 28  # `alloc` of more bytes checks that all allocations together fit the machine
MAX_GROUP_SIZE = 65536  # the limit of native/cpu/runtime/replay.c
ISAS = {
    lib.SP_ISA_REF: "ref",
    lib.SP_ISA_NEON: "neon",
    lib.SP_ISA_AVX2: "avx2",
    lib.SP_ISA_AVX512: "avx512",
}
_ALGOS = {
    "auto": lib.SP_ALGO_AUTO,
    "naive": lib.SP_ALGO_NAIVE,
    "blocked": lib.SP_ALGO_BLOCKED,
    "direct": lib.SP_ALGO_DIRECT,
    "im2col": lib.SP_ALGO_IM2COL,
    "winograd": lib.SP_ALGO_WINOGRAD,
    "winograd2": lib.SP_ALGO_WINOGRAD2,
    "winograd6": lib.SP_ALGO_WINOGRAD6,
}


def _best_isa() -> int:
    best: int = max(isa for isa in ISAS if lib.sp_cpu_isa_mask() >> isa & 1)
    return best


def _wanted_isa(name: str) -> int:
    isa: int = next(i for i, n in ISAS.items() if n == name) if name else _best_isa()
    if not lib.sp_cpu_isa_mask() >> isa & 1:
        raise DeviceNotFound(
            f"cpu: expected an instruction set of this CPU, got SPARKLE_CPU_ISA={name}"
        )
    return isa


def _isa_of(which: Named) -> int:
    """Returns the instruction set that the URI of named cores contains."""
    there = {name: int(isa) for isa, name in ISAS.items() if lib.sp_cpu_isa_mask() >> isa & 1}
    if which.isa in there:
        return there[which.isa]
    kind = DeviceNotFound if which.isa in ISAS.values() else ValueError
    raise kind(
        f"{which.uri}: expected an instruction set of this CPU ({', '.join(there)}), "
        f"got {which.isa!r}"
    )


def _info(isa: int, threads: int, which: Named | None = None) -> DeviceInfo:
    name, vendor = machine.name_and_vendor()
    return DeviceInfo(
        uri=which.uri if which else URI,
        backend="cpu",
        name=name,
        kind="cpu",
        vendor=vendor,
        driver=f"sparkle_drv native/cpu, Linux {os.uname().release}",
        memory_nbytes=machine.memory_nbytes(),
        unified=True,
        compute_units=threads,
        max_group_size=MAX_GROUP_SIZE,
        max_groups=(2**32 - 1,) * 3,
        isa=ISAS[isa],
        caches=machine.caches(cpu=which.cores[0] if which else 0),
        shares=tuple(f"cpu:{core}" for core in which.cores) if which else ("cpu",),
        features=tuple(n for i, n in ISAS.items() if lib.sp_cpu_isa_mask() >> i & 1),
    )


class CpuBackend:
    """One thread pool, on all cores or on named cores.

    `launch`, `run`, `submit`, `submitted`, `reached` and `wait` are C functions themselves, not
    Python methods that call them.
    """

    takes_threads = True
    # These methods are forwarded to `Native`, which all backends in native code share.
    open_queue = Lent(Native.open_queue)
    close_queue = Lent(Native.close_queue)
    queue_pointer = Lent(Native.queue_pointer)
    check = Lent(Native.check)
    epoch = Lent(Native.epoch)
    advance = Lent(Native.advance)
    times = Lent(Native.times)
    prepare = Lent(Native.prepare)
    describe = Lent(Native.describe)
    timestamp = Lent(Native.timestamp)
    live_counts = Lent(Native.live_counts)
    failure = Lent(Native.failure)

    def __init__(
        self, settings: Settings, root: Path = Path("/"), which: Named | None = None
    ) -> None:
        isa = _isa_of(which) if which and which.isa else _wanted_isa(settings.cpu_isa)
        usable = machine.thread_count(root)
        threads = which.threads(settings.threads) if which else settings.threads or usable
        self._uri = which.uri if which else URI
        self._sensed = which.cores[0] if which else 0
        lib.sp_cores_limit(usable)
        out = ffi.new("struct sp_cpu **")
        check(lib.sp_cpu_open(isa, threads, out), "open", self._uri)
        self._native = native = Native("cpu", ffi.gc(out[0], lib.sp_cpu_close), self._uri)
        self._flags = lib.SP_PLAN_DETERMINISTIC if settings.deterministic else 0
        nodes = which.nodes if which else machine.nodes(root)
        # Whether sp_cpu_first_touch places new memory. That function also touches memory in the
        # calling thread, which may run on a NUMA node without named cores. So a device on named
        # cores does not call it: the device's threads touch new memory first when they use it.
        self._placed = which is None and threads > 1 and len(nodes) > 1
        if self._placed or which:
            check(_place(native.device, nodes, threads), "place threads on cores", self._uri)
        if which:
            check(lib.sp_cpu_confine(native.device), "keep threads on named cores", self._uri)
        self._node = which.node if which else None
        self._said: set[str] = set()
        self.info = _info(isa, threads, which)
        self.launch, self.run, self.submit = native.launch, native.run, native.submit
        self.submitted, self.settled = native.submitted, native.settled
        self.reached, self.wait = native.reached, native.wait

    @staticmethod
    def discover(settings: Settings) -> Sequence[Found]:
        try:
            isa = _wanted_isa(settings.cpu_isa)
        except DeviceNotFound as error:
            return [Found("cpu", URI, reason=str(error), advice="unset SPARKLE_CPU_ISA")]
        return [Found("cpu", URI, info=_info(isa, settings.threads or machine.thread_count()))]

    @staticmethod
    def open(uri: str, settings: Settings) -> CpuBackend:
        return CpuBackend(settings, which=None if uri in (URI, "cpu:0") else named(uri))

    # Memory: an address is a host pointer. A handle has a cffi pointer that frees the memory when
    # its last user drops the pointer.

    def alloc(self, nbytes: int, memory: Memory) -> Allocation:
        taken = self.live_counts()["allocated_nbytes"] if nbytes > _MUCH else 0
        # Linux would grant the memory, and kill the process later
        if nbytes + taken > self.info.memory_nbytes:
            raise OutOfDeviceMemory(
                f"cpu: {nbytes} bytes asked for and {taken} taken, "
                f"the machine has {self.info.memory_nbytes}"
            )
        if memory is Memory.SHARED:
            return self._shared(nbytes)
        device = self._native.device
        self._tell_pins(device)
        pointer = lib.sp_cpu_alloc(nbytes)
        if nbytes >= _PAGES:
            self._prefer(pointer, nbytes)
        if self._placed:
            lib.sp_cpu_first_touch(device, pointer, nbytes)
        return self._owned(pointer, nbytes, None)

    def _shared(self, nbytes: int) -> Allocation:
        fd = ffi.new("int *")
        size = max(nbytes, 1)
        pointer = lib.sp_cpu_alloc_shared(size, fd)
        self._prefer(pointer, size)
        return self._owned(pointer, size, fd[0] if pointer != ffi.NULL else None)

    def _prefer(self, pointer: Any, nbytes: int) -> None:
        """Places new memory on the NUMA node of the cores that the device's URI names, whichever
        thread touches the memory first. Does nothing if the device has no such node.
        """
        if self._node is None or pointer == ffi.NULL:
            return
        rc = lib.sp_cpu_prefer_node(pointer, nbytes, self._node)
        if rc:
            why = f"its memory is on any NUMA node, not on node {self._node}: mbind: {_name(rc)}"
            self._say(logging.DEBUG, why)

    def _tell_pins(self, device: Any) -> None:
        """Logs that Linux refused to pin threads. Threads pin themselves at their first job, so
        that a refusal shows only later.
        """
        if rc := lib.sp_cpu_unpinned(device):
            why = f"threads run on any core, not on their own: sched_setaffinity: {_name(rc)}"
            self._say(logging.WARNING, why)

    def _say(self, level: int, why: str) -> None:
        if why not in self._said:
            self._said.add(why)
            log.log(level, "%s: %s", self._uri, why)

    def _owned(self, pointer: Any, nbytes: int, fd: int | None) -> Allocation:
        if pointer == ffi.NULL:
            raise OutOfDeviceMemory(f"cpu: no memory for {nbytes} bytes")
        owned = ffi.gc(pointer, lib.sp_cpu_free)
        return Allocation(_MemoryHandle(owned, fd), int(ffi.cast("uintptr_t", pointer)))

    def free(self, handle: _MemoryHandle) -> None:
        handle.drop()

    def map(self, handle: _MemoryHandle, nbytes: int) -> Any:
        return ffi.buffer(handle.pointer, nbytes)

    def wrap(self, pointer: int, nbytes: int, owner: object) -> Allocation:
        return Allocation(_MemoryHandle(_Wrapped(pointer, owner).pointer, None, owner), pointer)

    def export(self, handle: _MemoryHandle) -> int:
        if handle.fd is None:
            raise ValueError("export: expected a Memory.SHARED buffer, got one in other memory")
        return os.dup(handle.fd)

    def import_(self, fd: int, nbytes: int) -> Allocation:
        size = os.fstat(fd).st_size
        if size < nbytes:
            raise ValueError(
                f"import of memory: expected at most {size} bytes, the size of the file, "
                f"got {nbytes}"
            )
        own = os.dup(fd)
        pointer = lib.sp_cpu_map_shared(own, nbytes)
        if pointer == ffi.NULL:
            os.close(own)
            raise ValueError(
                "import of memory: expected a file descriptor that can be mapped to read and "
                "write, got another"
            )
        return self._owned(pointer, nbytes, own)

    def upload(self, queue: Any, address: int, data: memoryview) -> tuple[int, object]:
        return lib.sp_cpu_upload(queue, address, ffi.from_buffer(data), data.nbytes), None

    def room(self, queue: Any, timeout_ns: int) -> int:
        """Waits for room in a queue that returned -EAGAIN (core/queue.py)."""
        rc: int = lib.sp_cpu_room(queue, timeout_ns)
        return rc

    def download(self, queue: Any, address: int, out: memoryview) -> tuple[int, object]:
        if not out.nbytes:
            return lib.sp_queue_submitted(queue), None
        target = ffi.from_buffer(out, require_writable=True)
        if lib.sp_cpu_reached(queue) == lib.sp_queue_submitted(queue):
            ffi.memmove(target, ffi.cast("char *", address), out.nbytes)
            return lib.sp_queue_submitted(queue), None
        return self._native.copy(
            queue, int(ffi.cast("uintptr_t", target)), address, out.nbytes
        ), target

    def copy_peer(self, queue: Any, dst: int, src: int, nbytes: int, peer: Backend) -> int:
        return self._native.copy(queue, dst, src, nbytes)

    def peer(self, other: Any) -> str:
        """Returns "direct", since all memory is the host's."""
        return "direct"

    # Kernels

    def load(self, spec: KernelSpec) -> Loaded:
        out = ffi.new("struct sp_cpu_kernel **")
        device = self._native.device
        if spec.manifest is not None:
            plan = _plan(spec.plan or TilePlan(), self._flags)
            check(
                lib.sp_cpu_load(device, spec.entry.encode(), spec.native, plan, out),
                f"load {spec.name}",
                self._uri,
            )
        else:
            self._load_library(device, spec, out)
        kernel = ffi.gc(out[0], lib.sp_cpu_unload)
        form = "routine" if lib.sp_cpu_kernel_form(kernel) == lib.SP_FORM_ROUTINE else "grid"
        resources = Resources(MAX_GROUP_SIZE, isa=ISAS[lib.sp_cpu_kernel_isa(kernel)])
        return Loaded(_KernelHandle(kernel, device), kernel_pointer(kernel), form, resources)

    def _load_library(self, device: Any, spec: KernelSpec, out: Any) -> None:
        why = ffi.new("char[]", 512)
        what = spec.path or f"image of {len(spec.image)} bytes"
        with image.loadable(spec.path, spec.image, spec.entry) as path:
            rc = lib.sp_cpu_load_library(
                device, path.encode(), spec.entry.encode(), spec.native, why, len(why), out,
            )  # fmt: skip
        if rc in (-errno.ENOEXEC, -errno.ENOENT):
            said = ffi.string(why).decode(errors="replace").replace(path, what)
            raise ImageError(f"{what}: the library cannot be loaded: {said}")
        check(rc, f"load {what}", self._uri)

    def unload(self, handle: _KernelHandle) -> None:
        handle.drop()

    def sensors(self) -> dict[str, float]:
        """Returns the clock of the device's first core in MHz, if Linux reports it."""
        readings = {}
        cpu = Path(f"/sys/devices/system/cpu/cpu{self._sensed}")
        mhz = cpu / "cpufreq/scaling_cur_freq"
        if mhz.is_file():
            readings["frequency_mhz"] = int(mhz.read_text()) / 1000
        return readings

    def close(self) -> None:
        device = self._native.close()
        if device is not None:
            self._tell_pins(device)


def _name(rc: int) -> str:
    return errno.errorcode.get(-rc, str(-rc))


class _MemoryHandle:
    """Memory and, if the memory is shared, its file descriptor.

    numpy views keep `pointer` alive past `drop`.
    """

    __slots__ = ("fd", "owner", "pointer")

    def __init__(self, pointer: Any, fd: int | None, owner: object = None) -> None:
        self.pointer, self.fd, self.owner = pointer, fd, owner

    def drop(self) -> None:
        self.pointer = self.owner = None
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


class _Wrapped:
    """A cffi pointer to another object's memory, which keeps that object alive."""

    def __init__(self, pointer: int, owner: object) -> None:
        self.pointer = ffi.gc(ffi.cast("char *", pointer), lambda _, kept=owner: None)


class _KernelHandle:
    """A kernel handle, and its device, which must not be freed before the kernel."""

    __slots__ = ("dev", "kernel")

    def __init__(self, kernel: Any, dev: Any) -> None:
        self.kernel, self.dev = kernel, dev

    def drop(self) -> None:
        self.kernel = self.dev = None


def _place(device: Any, nodes: Sequence[machine.NumaNode], threads: int) -> int:
    """Assigns each of the device's threads to the NUMA node that machine.spread chooses for the
    thread. Returns 0 or -errno.
    """
    node_of = {cpu: index for index, node in enumerate(nodes) for cpu in node.cpus}
    cpus = [node_of.get(cpu, 2**32 - 1) for cpu in range(max(node_of) + 1)]
    placed: int = lib.sp_cpu_place(
        device, len(nodes), machine.spread(nodes, threads), len(cpus), cpus
    )
    return placed


def _plan(plan: TilePlan, flags: int) -> Any:
    """Converts a TilePlan to a struct sp_tile_plan: levels are (mc, nc, kc), then (mr, nr, 1)."""
    if plan.algo not in _ALGOS:
        raise ValueError(f"plan: expected algo {' or '.join(_ALGOS)} on cpu, got {plan.algo!r}")
    if plan.program:
        raise ValueError("plan: expected no program, since map on cpu reads it at each launch")
    (mc, nc, kc), (mr, nr, _) = (*plan.levels, (0, 0, 0), (0, 0, 0))[:2]
    fields = dict(mc=mc, nc=nc, kc=kc, mr=mr, nr=nr, threads=plan.threads, pack=plan.pack)
    return ffi.new("struct sp_tile_plan *", {"algo": _ALGOS[plan.algo], "flags": flags, **fields})


if TYPE_CHECKING:

    class _Claims(
        Backend,
        abilities.IsNative,
        abilities.MakesRoom,
        abilities.TakesThreads,
        abilities.TellsFailure,
        Protocol,
    ):
        """Lets mypy check that the backend has every member of the Protocols inherited here."""

    _claims: type[_Claims] = CpuBackend
