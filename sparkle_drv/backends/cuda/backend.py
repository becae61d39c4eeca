"""The cuda backend: thin typed calls into native/cuda, which calls NVIDIA's driver library."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from sparkle_drv._native import ffi, lib
from sparkle_drv.backends import abilities, machine
from sparkle_drv.backends.base import Allocation, Backend, KernelSpec, Loaded, Settings
from sparkle_drv.backends.cuda import driver, image, launch_refusal
from sparkle_drv.backends.cuda.memory import KINDS, MemoryHandle
from sparkle_drv.backends.native import Lent, Native
from sparkle_drv.errors import DeviceNotFound, OutOfDeviceMemory
from sparkle_drv.types import Found, Memory

_KDL_CUDA = 2


class CudaBackend:
    """One GPU, through its primary context."""

    # These methods are forwarded to `Native`, which all backends in native code share.
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

    def __init__(self, ordinal: int, uri: str, settings: Settings) -> None:
        self._limits = ffi.new("struct sp_cuda_info *")
        device = driver.opened(settings.libcuda, ordinal, uri)
        lib.sp_cuda_facts(device, self._limits)
        self.info = driver.info_of(self._limits, uri)
        self._host_nbytes = machine.memory_nbytes()
        self._native = native = Native("cuda", device, uri)
        self.launch, self.run, self.submit = native.launch, native.run, native.submit
        self.submitted, self.settled = native.submitted, native.settled
        self.reached, self.wait = native.reached, native.wait

    @staticmethod
    def discover(settings: Settings) -> Sequence[Found]:
        try:
            count, _, tried = driver.probe(settings.libcuda)
        except DeviceNotFound as error:
            return [Found("cuda", "cuda", reason=str(error), advice=driver.ADVICE)]
        devices = []
        for ordinal in range(count):
            uri = f"cuda:{ordinal}"
            try:
                info = driver.described(settings.libcuda, ordinal, uri)
            except DeviceNotFound as error:
                devices.append(Found("cuda", uri, reason=str(error), tried=tried))
            else:
                devices.append(Found("cuda", uri, info, tried=tried))
        return devices

    @staticmethod
    def open(uri: str, settings: Settings) -> CudaBackend:
        which = uri.partition(":")[2] or "0"
        if not (which.isascii() and which.isdigit()):
            raise DeviceNotFound(f"{uri}: expected 'cuda:0', 'cuda:1', ..., got this name")
        try:
            count, _, tried = driver.probe(settings.libcuda)
        except DeviceNotFound as error:
            raise DeviceNotFound(f"{error}. {driver.ADVICE}") from None
        if int(which) >= count:
            raise DeviceNotFound(
                f"{uri}: there are {count} device(s), expected at least {int(which) + 1}; "
                f"tried: {'; '.join(tried)}"
            )
        return CudaBackend(int(which), f"cuda:{int(which)}", settings)

    def open_queue(self, timing: bool) -> Any:
        out = ffi.new("struct sp_cuda_queue **")
        flags = lib.SP_QUEUE_TIMING if timing else 0
        rc = lib.sp_cuda_queue_open(self._native.device, flags, out)
        driver.checked(rc, "open a queue", self.info.uri)
        return ffi.gc(out[0], lib.sp_queue_release)

    # Memory

    def alloc(self, nbytes: int, memory: Memory) -> Allocation:
        return self._memory(nbytes, KINDS[memory.value])

    def alloc_exportable(self, nbytes: int) -> Allocation:
        """Allocates memory of the GPU that can be shared with other processes. Raises
        NotImplementedError if the driver cannot share memory.
        """
        if "ipc" not in self.info.features:
            raise NotImplementedError(
                f"{self.info.driver} cannot share the GPU's memory with other processes"
            )
        return self._memory(nbytes, lib.SP_CUDA_ALONE)

    def _memory(self, nbytes: int, kind: int) -> Allocation:
        on_host = kind in (lib.SP_CUDA_HOST, lib.SP_CUDA_SHARED)
        most = self._host_nbytes if on_host else self.info.memory_nbytes
        if nbytes > most:
            raise OutOfDeviceMemory(
                f"{self.info.uri}: {nbytes} bytes asked for, "
                f"the {'host' if on_host else 'device'} has {most}"
            )
        out = ffi.new("struct sp_cuda_memory **")
        rc = lib.sp_cuda_alloc(self._native.device, nbytes, kind, out)
        driver.checked(rc, f"buffer of {nbytes} bytes", self.info.uri)
        return MemoryHandle(out[0]).allocation()

    def free(self, handle: MemoryHandle) -> None:
        handle.drop()

    def map(self, handle: MemoryHandle, nbytes: int) -> Any:
        return handle.map(nbytes, self.info.uri)

    def wrap(self, pointer: int, nbytes: int, owner: object) -> Allocation:
        if not nbytes:
            return self.alloc(0, Memory.HOST)
        out = ffi.new("struct sp_cuda_memory **")
        address = ffi.cast("void *", pointer)
        rc = lib.sp_cuda_wrap(self._native.device, address, nbytes, False, out)
        if rc == -errno.EEXIST:
            raise ValueError(
                f"wrap: expected pageable memory, but it or a page of it is page-locked already "
                f"({driver.why()})"
            )
        # If this process may not write the pages at `pointer`, the device gets them read-only.
        if rc not in (0, -errno.ENODEV, -errno.ECHILD):
            rc = lib.sp_cuda_wrap(self._native.device, address, nbytes, True, out)
        driver.checked(rc, f"wrap of {nbytes} bytes", self.info.uri)
        return MemoryHandle(out[0], owner).allocation()

    def export(self, handle: MemoryHandle) -> int:
        fd: int = lib.sp_cuda_export(handle.pointer)
        if fd == -errno.EPERM:
            raise ValueError(
                "export: expected a Memory.SHARED buffer or one made with exportable=True, "
                "got another"
            )
        return driver.checked(fd, "export", self.info.uri)

    def import_(self, fd: int, nbytes: int) -> Allocation:
        out = ffi.new("struct sp_cuda_memory **")
        rc = lib.sp_cuda_import(self._native.device, fd, nbytes, out)
        if rc in (-errno.EINVAL, -errno.ENODEV, -errno.EACCES):
            size = os.fstat(fd).st_size
            raise ValueError(
                f"import of memory: expected a file descriptor of at least {nbytes} bytes that can "
                f"be mapped for reading and writing, got one of {size} bytes"
            )
        if rc == -errno.ENXIO:
            raise ValueError(f"import of memory: the export cannot be opened: {driver.why()}")
        driver.checked(rc, f"import of {nbytes} bytes", self.info.uri)
        unmapped = lib.sp_cuda_host(out[0]) == ffi.NULL
        return MemoryHandle(out[0]).allocation(Memory.DEVICE if unmapped else None)

    def upload(self, queue: Any, address: int, data: memoryview) -> tuple[int, object]:
        source = ffi.from_buffer(data)
        return lib.sp_cuda_upload(queue, address, source, data.nbytes), None

    def download(self, queue: Any, address: int, out: memoryview) -> tuple[int, object]:
        target = ffi.from_buffer(out, require_writable=bool(out.nbytes))
        return lib.sp_cuda_download(queue, address, target, out.nbytes), target

    def copy_peer(self, queue: Any, dst: int, src: int, nbytes: int, peer: Backend) -> int:
        if not isinstance(peer, CudaBackend):
            raise TypeError(f"peer: expected a device of cuda, got one of {peer.info.backend}")
        if peer is self:
            return self._native.copy(queue, dst, src, nbytes)
        value: int = lib.sp_cuda_copy_peer(queue, dst, peer._native.device, src, nbytes)
        return value

    def peer(self, other: Any) -> str:
        """Returns "direct" if cuDeviceCanAccessPeer allows access. Otherwise cuMemcpyPeerAsync
        stages bytes through the host.
        """
        if other is self:
            return "direct"
        if not isinstance(other, CudaBackend):
            return "staged"
        reaches = lib.sp_cuda_reaches(self._native.device, other._native.device)
        return "direct" if reaches else "staged"

    # The following methods let other libraries of this process use the memory and streams in place
    # (core/interop.py).

    @property
    def dlpack(self) -> tuple[int, int]:
        """DLPack's device type kDLCUDA, and the device's number."""
        return _KDL_CUDA, self._limits.ordinal

    def owns(self, address: int) -> bool:
        rc = lib.sp_cuda_owns(self._native.device, address)
        return driver.checked(rc, "cuPointerGetAttribute", self.info.uri) == 1

    def adopt(self, address: int, nbytes: int, owner: object) -> Allocation:
        if nbytes and not self.owns(address):
            raise ValueError(f"address: expected memory of {self.info.uri}, got {address:#x}")
        out = ffi.new("struct sp_cuda_memory **")
        driver.checked(
            lib.sp_cuda_adopt(self._native.device, address, nbytes, out), "adopt", self.info.uri
        )
        return MemoryHandle(out[0], owner).allocation()

    def share_stream(self, queue: Any) -> int:
        return int(ffi.cast("uintptr_t", lib.sp_cuda_stream(queue)))

    def wait_stream(self, queue: Any, stream: int) -> int:
        rc: int = lib.sp_cuda_wait_stream(queue, stream)
        return rc

    def order_stream(self, queue: Any, stream: int) -> int:
        rc: int = lib.sp_cuda_order_stream(queue, stream)
        return rc

    # Kernels

    def load(self, spec: KernelSpec) -> Loaded:
        return image.load(spec, self.info, self._native.device)

    def unload(self, handle: image.KernelHandle) -> None:
        handle.drop()

    # Explanations

    def refusal(self, record: bytes, rc: int) -> str:
        """Returns why `check` refused this dispatch record; "" if the reason is not specific to
        cuda.
        """
        return launch_refusal.words(self._limits, record, rc)

    def said(self) -> str:
        """Returns the driver's message about this thread's last call, if that call failed."""
        return driver.why()

    def fault(self, queue: Any, value: int) -> str:
        """Returns the driver's message about the failed submission `value`."""
        return driver.filled(lib.sp_cuda_fault, queue, value)

    def lost(self) -> str:
        """Returns why the device was lost; "" while it is not."""
        return driver.filled(lib.sp_cuda_lost, self._native.device)

    def sensors(self) -> dict[str, float]:
        """Returns the free memory in MiB."""
        free = ffi.new("uint64_t *")
        if lib.sp_cuda_free_nbytes(self._native.device, free):
            return {}
        return {"memory_free_mib": free[0] / (1 << 20)}

    def counters(self) -> dict[str, int]:
        """Returns counts since the device was opened: command lists replayed call by call, and
        graphs built, launched and updated.
        """
        out = ffi.new("struct sp_cuda_counts *")
        lib.sp_cuda_counts(self._native.device, out)
        fields = ffi.typeof("struct sp_cuda_counts").fields
        return {name: getattr(out, name) for name, _ in fields}

    def close(self) -> None:
        """Closes the device; idempotent. The CUDA context is released once the device's last queue
        and memory are freed.
        """
        self._native.close()


if TYPE_CHECKING:

    class _Claims(
        Backend,
        abilities.Exports,
        abilities.IsNative,
        abilities.SharesStreams,
        abilities.TellsError,
        abilities.TellsFailure,
        abilities.TellsFault,
        abilities.TellsLoss,
        abilities.TellsRefusal,
        Protocol,
    ):
        """Lets mypy check that the backend has every member of the Protocols inherited here."""

    _claims: type[_Claims] = CudaBackend
