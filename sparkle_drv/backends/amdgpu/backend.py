"""The amdgpu backend: thin typed calls into native/amdgpu, which drives the card by DRM ioctls.

The same class drives the emulated GPU (sparkle_drv.testing.emu). `ops` has the ioctl, mmap, munmap
and close functions of the real or the emulated kernel driver.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sparkle_drv._native import ffi, lib
from sparkle_drv.amd.kmd import nodes
from sparkle_drv.amd.record import recorder
from sparkle_drv.backends import abilities, machine
from sparkle_drv.backends.amdgpu import info, launch_refusal, links, peer_queues
from sparkle_drv.backends.amdgpu.loader import KernelHandle, load
from sparkle_drv.backends.amdgpu.memory import KINDS, MemoryHandle
from sparkle_drv.backends.base import Allocation, Backend, KernelSpec, Loaded, Settings
from sparkle_drv.backends.native import Lent, Native
from sparkle_drv.errors import (
    DeviceLost,
    DeviceNotFound,
    OutOfDeviceMemory,
    SparkleError,
    check,
)
from sparkle_drv.types import Found, Memory

log = logging.getLogger("sparkle_drv.amdgpu")

_NO_CLOCK = (
    "the kernel does not tell the frequency of the GPU's clock (gpu_counter_freq of INFO DEV_INFO "
    "is 0): no timing queues, no timestamps"
)
_SENSORS = {
    "frequency_mhz": (lib.AMDGPU_INFO_SENSOR_GFX_SCLK, 1.0),
    "memory_frequency_mhz": (lib.AMDGPU_INFO_SENSOR_GFX_MCLK, 1.0),
    "temperature_c": (lib.AMDGPU_INFO_SENSOR_GPU_TEMP, 1e-3),
    "load_percent": (lib.AMDGPU_INFO_SENSOR_GPU_LOAD, 1.0),
    "power_w": (lib.AMDGPU_INFO_SENSOR_GPU_AVG_POWER, 1.0),
}


class AmdgpuBackend:
    """An open render node of an AMD GPU, as a Backend."""

    close_queue = Lent(Native.close_queue)
    queue_pointer = Lent(Native.queue_pointer)
    check = Lent(Native.check)
    epoch = Lent(Native.epoch)
    advance = Lent(Native.advance)
    times = Lent(Native.times)
    prepare = Lent(Native.prepare)
    describe = Lent(Native.describe)
    failure = Lent(Native.failure)

    def __init__(
        self, ops: Any, fd: int, uri: str, *, name: str = "", emulated: bool = False, slot: str = ""
    ) -> None:
        """Opens the device of `fd`, a descriptor of a render node, which the backend then owns.
        `slot` is the PCI address for DeviceInfo.

        Raises DeviceNotFound if the GPU cannot be used.
        """
        ops = recorder.around(ops)
        try:
            facts = info.ask(ops, fd, uri)
            self._chip = info.chip(facts, uri)
        except DeviceNotFound:
            ops.close(ops.self, fd)
            raise
        out = ffi.new("struct sp_amdgpu **")
        setup = info.setup(facts, self._chip)
        self._has_clock = bool(setup.counter_khz)
        self._engines = int(setup.engines)
        if not self._has_clock:
            log.warning("%s: %s", uri, _NO_CLOCK)
        check(lib.sp_amdgpu_open(ops, fd, setup, out), "open", uri)
        self.info = info.device_info(facts, self._chip, uri, name, emulated, slot)
        device = ffi.gc(out[0], lib.sp_amdgpu_close)
        self._native = native = Native("amdgpu", device, uri)
        self.hand_over = lib.sp_amdgpu_hand_over
        self.launch, self.run, self.submit = native.launch, native.run, native.submit
        self.submitted, self.settled = native.submitted, native.settled
        self.reached, self.wait = native.reached, native.wait

    @staticmethod
    def discover(settings: Settings, root: Path = Path("/")) -> Sequence[Found]:
        listed = nodes.listed(root)
        tried = tuple(map(str, listed))
        devices, usable = [], 0
        for node in filter(nodes.maybe_ours, listed):
            uri = f"amdgpu:{usable}"
            try:
                backend = AmdgpuBackend._at(node, uri)
            except DeviceNotFound as error:
                devices.append(Found("amdgpu", "amdgpu", reason=str(error), tried=tried))
                continue
            devices.append(Found("amdgpu", uri, backend.info, tried=(str(node),)))
            backend.close()
            usable += 1
        if devices:
            return devices
        reason = "no render node is driven by amdgpu" if listed else "no render node in /dev/dri"
        advice = "" if listed else nodes.NO_NODE
        return [Found("amdgpu", "amdgpu", None, reason, advice, tried)]

    @staticmethod
    def open(uri: str, settings: Settings) -> AmdgpuBackend:
        which = uri.partition(":")[2] or "0"
        if not which.isdigit():
            raise DeviceNotFound(f"{uri}: expected 'amdgpu:0', 'amdgpu:1', ..., got this name")
        listed, usable = nodes.listed(), 0
        tried = [str(n) for n in listed if not nodes.maybe_ours(n)]
        for node in filter(nodes.maybe_ours, listed):
            try:
                backend = AmdgpuBackend._at(node, f"amdgpu:{usable}")
            except DeviceNotFound as error:
                tried.append(str(error))
                continue
            if usable == int(which):
                return backend
            backend.close()
            usable += 1
        reasons = "; ".join(tried) or "no render node in /dev/dri"
        advice = "" if listed else f". {nodes.NO_NODE}"
        raise DeviceNotFound(
            f"{uri}: {usable} usable device(s), expected at least {int(which) + 1}; "
            f"tried: {reasons}{advice}"
        )

    @staticmethod
    def _at(node: nodes.RenderNode, uri: str) -> AmdgpuBackend:
        fd = nodes.open_node(node)
        return AmdgpuBackend(lib.sp_kmd_linux(), fd, uri, slot=machine.slot_of(node.path))

    def open_queue(self, timing: bool) -> Any:
        if timing:
            self._want_clock("queue")
        return self._native.open_queue(timing)

    def timestamp(self) -> int:
        self._want_clock("timestamp")
        return self._native.timestamp()

    def live_counts(self) -> dict[str, int]:
        peer_queues.sweep()
        return self._native.live_counts()

    def _want_clock(self, call: str) -> None:
        if not self._has_clock:
            raise SparkleError(f"{self.info.uri}: {call}: {_NO_CLOCK}")

    # Memory

    def alloc(self, nbytes: int, memory: Memory) -> Allocation:
        if nbytes > self.info.memory_nbytes:
            raise OutOfDeviceMemory(
                f"{self.info.uri}: {nbytes} bytes asked for, "
                f"the device has {self.info.memory_nbytes}"
            )
        return self._memory(nbytes, KINDS[memory.value]).allocation()

    def _memory(self, nbytes: int, kind: int) -> MemoryHandle:
        out = ffi.new("struct sp_amdgpu_memory **")
        check(
            lib.sp_amdgpu_alloc(self._native.device, nbytes, kind, out),
            f"buffer of {nbytes} bytes",
            self.info.uri,
        )
        if lib.sp_amdgpu_displaced(out[0]):
            log.info("%s: %d bytes are in another heap, for want of room", self.info.uri, nbytes)
        return MemoryHandle(out[0])

    def free(self, handle: MemoryHandle) -> None:
        handle.drop()

    def map(self, handle: MemoryHandle, nbytes: int) -> Any:
        return handle.map(nbytes, self.info.uri)

    def wrap(self, pointer: int, nbytes: int, owner: object) -> Allocation:
        if not nbytes:
            return self.alloc(0, Memory.HOST)
        out = ffi.new("struct sp_amdgpu_memory **")
        address = ffi.cast("void *", pointer)
        rc = lib.sp_amdgpu_wrap(self._native.device, address, nbytes, False, out)
        # If this process may not write the pages at `pointer`, the device gets them read-only.
        if rc in (-errno.EFAULT, -errno.EPERM):
            rc = lib.sp_amdgpu_wrap(self._native.device, address, nbytes, True, out)
        check(rc, f"wrap of {nbytes} bytes", self.info.uri)
        return MemoryHandle(out[0], owner).allocation()

    def export(self, handle: MemoryHandle) -> int:
        fd: int = lib.sp_amdgpu_export(handle.pointer)
        if fd == -errno.EPERM:
            raise ValueError("export: expected a Memory.SHARED buffer, got one in other memory")
        return check(fd, "export", self.info.uri)

    def import_(self, fd: int, nbytes: int) -> Allocation:
        out = ffi.new("struct sp_amdgpu_memory **")
        rc = lib.sp_amdgpu_import(self._native.device, fd, nbytes, out)
        if rc == -errno.EINVAL:
            size = os.fstat(fd).st_size
            raise ValueError(
                f"import of memory: expected a dma-buf of at least {nbytes} bytes, "
                f"got a file descriptor of {size} bytes"
            )
        check(rc, f"import of {nbytes} bytes", self.info.uri)
        return MemoryHandle(out[0]).allocation()

    def upload(self, queue: Any, address: int, data: memoryview) -> tuple[int, object]:
        source = ffi.from_buffer(data)
        return lib.sp_amdgpu_upload(queue, address, source, data.nbytes), None

    def download(self, queue: Any, address: int, out: memoryview) -> tuple[int, object]:
        target = ffi.from_buffer(out, require_writable=bool(out.nbytes))
        return lib.sp_amdgpu_download(queue, address, target, out.nbytes), target

    def copy_peer(self, queue: Any, dst: int, src: int, nbytes: int, peer: Backend) -> int:
        """Copies from `src` on `peer` to `dst` here. Between two devices, `peer` fills chunks in
        GTT that both map (links.py), and this device empties them. Does not wait. A failure of the
        peer shows at the fence.
        """
        if peer is self or not nbytes:
            return self._native.copy(queue, dst, src, nbytes)
        assert isinstance(peer, AmdgpuBackend)
        link = links.between(peer, self)
        value: int = lib.sp_amdgpu_copy_peer(queue, dst, link, src, nbytes)
        if value == -errno.ENODEV and (why := peer.lost()):
            raise DeviceLost(f"{peer.info.uri}: copy_peer: the peer device is lost: {why}")
        return value

    def peer(self, other: Any) -> str:
        """Returns "direct" for another amdgpu device: both map the same memory in GTT, so the host
        copies nothing.
        """
        return "direct" if isinstance(other, AmdgpuBackend) else "staged"

    # Kernels

    def load(self, spec: KernelSpec) -> Loaded:
        return load(spec, self._chip, self.info.uri, self._memory, self._native.device)

    def unload(self, handle: KernelHandle) -> None:
        handle.drop()

    # Explanations

    def refusal(self, record: bytes, rc: int) -> str:
        """Returns why `check` refused this dispatch record; "" if the reason is not specific to
        amdgpu.
        """
        return launch_refusal.words(record, rc, self._engines)

    def fault(self, queue: Any, value: int) -> str:
        """Returns why the submission `value` failed: the compute kernel in which it failed, and the
        message of the kernel driver.
        """
        text = ffi.new("char[]", 512)
        nbytes = lib.sp_amdgpu_fault(queue, value, text, len(text))
        return bytes(ffi.buffer(text, nbytes)).decode(errors="replace")

    def lost(self) -> str:
        """Returns why the device was lost; "" while it is not."""
        text = ffi.new("char[]", 512)
        lib.sp_amdgpu_lost(self._native.device, text, len(text))
        return bytes(ffi.string(text)).decode(errors="replace")

    def said(self) -> str:
        """Returns details of this thread's last failed call; "" if the call's -errno says
        everything.
        """
        text = ffi.new("char[]", 256)
        lib.sp_amdgpu_error_text(text, len(text))
        return bytes(ffi.string(text)).decode(errors="replace")

    def sensors(self) -> dict[str, float]:
        """Returns clocks, temperature, load and power, as far as the kernel driver reports them."""
        readings = {}
        value = ffi.new("uint32_t *")
        for name, (kind, scale) in _SENSORS.items():
            if lib.sp_amdgpu_info(self._native.device, lib.AMDGPU_INFO_SENSOR, kind, value, 4) >= 0:
                readings[name] = value[0] * scale
        return readings

    def counters(self) -> dict[str, int]:
        """Returns counts since the device was opened.

        Counted are submissions, jobs (CS ioctls), jobs of the copy ring, ioctls, dwords of IBs, and
        dispatches. Also counted are allocations that went to another heap for want of room, bytes
        of code in VRAM and in GTT, bytes that downloads staged by a GPU copy, and bytes that the
        CPU read.
        """
        out = ffi.new("struct sp_amdgpu_counts *")
        lib.sp_amdgpu_counts(self._native.device, out)
        return {
            name: getattr(out, name) for name, _ in ffi.typeof("struct sp_amdgpu_counts").fields
        }

    def close(self) -> None:
        """Closes the device; idempotent. The render node is closed once the device's last queue and
        memory are freed.
        """
        links.close(self)
        self._native.close()


if TYPE_CHECKING:

    class _Claims(
        Backend,
        abilities.IsNative,
        abilities.HandsOver,
        abilities.TellsError,
        abilities.TellsFailure,
        abilities.TellsFault,
        abilities.TellsLoss,
        abilities.TellsRefusal,
        Protocol,
    ):
        """Lets mypy check that the backend has every member of the Protocols inherited here."""

    _claims: type[_Claims] = AmdgpuBackend
