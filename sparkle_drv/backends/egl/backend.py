"""The egl backend: thin typed calls into native/egl. The handle of memory is its address. Handles
of kernels and queues are cffi objects that free their native object.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from sparkle_drv._native import ffi, lib
from sparkle_drv.backends import abilities
from sparkle_drv.backends.base import Allocation, Backend, KernelSpec, Loaded, Settings
from sparkle_drv.backends.egl import launch_refusal, nodes, spirv
from sparkle_drv.backends.egl.cache import ProgramCache
from sparkle_drv.backends.egl.source import explained, with_version
from sparkle_drv.backends.native import Lent, Native, kernel_pointer
from sparkle_drv.errors import DeviceNotFound, ImageError, OutOfDeviceMemory, check
from sparkle_drv.types import DeviceInfo, Found, Memory, Resources

_CLOSE_NS = 10_000_000_000
_LETTERS = {"f32": "f", "f64": "d", "i32": "i", "u32": "u", "i64": "I", "u64": "U"}
_log = logging.getLogger("sparkle_drv.egl")


class EglBackend:
    """One OpenGL context, which has its own thread."""

    info: DeviceInfo

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

    def __init__(self, dev: Any, uri: str, settings: Settings, node: nodes.EglNode) -> None:
        self._native = native = Native("egl", dev, uri)
        self.info, self._raw = nodes.info_of(dev, uri, node)
        self._files: dict[int, int] = {}  # address -> file descriptor of shared memory
        self._kept: dict[int, Any] = {}  # address -> object that frees the memory once it is unused
        self._cache = ProgramCache(
            settings.home, (self.info.vendor, self.info.name, self.info.driver, self.info.isa)
        )
        self.launch, self.run, self.submit = native.launch, native.run, native.submit
        self.submitted, self.settled = native.submitted, native.settled
        self.reached, self.wait = native.reached, native.wait

    @staticmethod
    def discover(settings: Settings) -> Sequence[Found]:
        try:
            listed, report = nodes.listed()
        except nodes.Forked as error:
            return [Found("egl", "egl", reason=str(error))]
        except DeviceNotFound as error:
            return [Found("egl", "egl", reason=str(error), advice=nodes.ADVICE)]
        devices: list[Found] = []
        usable = 0
        for node in listed:
            if node.index == nodes.SURFACELESS and usable:
                continue
            try:
                dev = nodes.open_node(node)
            except DeviceNotFound as error:
                said = Found("egl", "egl", None, str(error), nodes.ADVICE, tuple(report))
                devices.append(said)
                continue
            uri = f"egl:{usable}"
            info, _ = nodes.info_of(dev, uri, node)
            check(lib.sp_egl_close(dev, _CLOSE_NS), "close", uri)
            devices.append(Found("egl", uri, info, tried=(*report, str(node))))
            usable += 1
        return devices or [
            Found("egl", "egl", None, "EGL lists no device", nodes.ADVICE, tuple(report))
        ]

    @staticmethod
    def open(uri: str, settings: Settings) -> EglBackend:
        which = uri.partition(":")[2] or "0"
        if not which.isdigit():
            raise DeviceNotFound(f"{uri}: expected 'egl:0', 'egl:1', ..., got this name")
        listed, report = nodes.listed()
        tried, left = list(report), int(which)
        usable = 0
        for node in listed:
            if node.index == nodes.SURFACELESS and usable:
                continue
            try:
                dev = nodes.open_node(node)
            except DeviceNotFound as error:
                tried.append(str(error))
                continue
            if usable == left:
                return EglBackend(dev, f"egl:{which}", settings, node)
            check(lib.sp_egl_close(dev, _CLOSE_NS), "close", str(node))
            usable += 1
        raise DeviceNotFound(
            f"{uri}: {usable} usable device(s), expected at least {left + 1}; "
            f"tried: {'; '.join(tried)}. {nodes.ADVICE}"
        )

    def _heed(self) -> None:
        """Logs the driver's new messages."""
        text = ffi.new("char[]", 8192)
        nbytes = lib.sp_egl_messages(self._native.device, text, len(text))
        for line in bytes(ffi.buffer(text, nbytes)).decode(errors="replace").splitlines():
            level = logging.ERROR if line.startswith("error") else logging.WARNING
            _log.log(level, "%s: %s", self.info.uri, line)

    # Methods for memory. The handle of an allocation is its address.

    def alloc(self, nbytes: int, memory: Memory) -> Allocation:
        if nbytes > self.info.memory_nbytes:
            raise OutOfDeviceMemory(
                f"{self.info.uri}: {nbytes} bytes asked for, "
                f"the device has {self.info.memory_nbytes}"
            )
        if memory is Memory.SHARED:
            fd = os.memfd_create("sparkle-shared", os.MFD_CLOEXEC)
            os.ftruncate(fd, max(nbytes, 1))
            return self._shared(fd, nbytes)
        return self._allocated(nbytes, lib.SP_EGL_HOST if memory is Memory.HOST else 0)

    def _allocated(self, nbytes: int, kind: int) -> Allocation:
        out = ffi.new("uint64_t *")
        device = self._native.device
        rc = lib.sp_egl_alloc(device, nbytes, kind, out)
        if rc:
            self._heed()
        check(rc, f"buffer of {nbytes} bytes", self.info.uri)
        address = out[0]
        # a closed device has freed the memory already; then sp_egl_free does nothing
        free = lambda _: lib.sp_egl_free(device, address)  # noqa: E731
        self._kept[address] = ffi.gc(ffi.cast("char *", address), free)
        return Allocation(address, address)

    def _shared(self, fd: int, nbytes: int) -> Allocation:
        """Allocates memory that shares its bytes with the file `fd`. Keeps `fd`, or closes it on
        failure.
        """
        try:
            allocation = self._allocated(nbytes, lib.SP_EGL_SHARED)
            rc = lib.sp_egl_share(self._native.device, allocation.handle, fd)
            if rc:
                self.free(allocation.handle)
                check(rc, "mapping the descriptor", self.info.uri)
        except BaseException:
            os.close(fd)
            raise
        self._files[allocation.handle] = fd
        return allocation

    def free(self, handle: int) -> None:
        fd = self._files.pop(handle, None)
        if fd is not None:
            os.close(fd)
        self._kept.pop(handle, None)

    def map(self, handle: int, nbytes: int) -> Any:
        """Maps memory as the protocol says. The GL context, to which the memory belongs, lives
        until the last object is gone.
        """
        out = ffi.new("void **")
        device, kept = self._native.device, self._kept[handle]
        check(lib.sp_egl_map(device, handle, out), "map", self.info.uri)

        def let_go(_: Any, kept: Any = kept) -> None:
            lib.sp_egl_unmap(device)

        return ffi.buffer(ffi.gc(ffi.cast("char *", out[0]), let_go), nbytes)

    def wrap(self, pointer: int, nbytes: int, owner: object) -> Allocation:
        raise ValueError(
            f"wrap: {self.info.uri} cannot use host memory in place; copy it with Device.array"
        )

    def export(self, handle: int) -> int:
        if handle not in self._files:
            raise ValueError("export: expected a Memory.SHARED buffer, got one in other memory")
        return os.dup(self._files[handle])

    def import_(self, fd: int, nbytes: int) -> Allocation:
        size = os.fstat(fd).st_size
        if size < nbytes:
            raise ValueError(
                f"import of memory: expected at most {size} bytes, the size of the file, "
                f"got {nbytes}"
            )
        return self._shared(os.dup(fd), nbytes)

    def upload(self, queue: Any, address: int, data: memoryview) -> tuple[int, object]:
        source = ffi.from_buffer(data)
        return lib.sp_egl_upload(queue, address, source, data.nbytes), None

    def download(self, queue: Any, address: int, out: memoryview) -> tuple[int, object]:
        target = ffi.from_buffer(out, require_writable=bool(out.nbytes))
        return lib.sp_egl_download(queue, address, target, out.nbytes), target

    def copy_peer(self, queue: Any, dst: int, src: int, nbytes: int, peer: Backend) -> int:
        """Copies within one device. Returns -EOPNOTSUPP for another device, since the two GL
        contexts share no memory.
        """
        return self._native.copy(queue, dst, src, nbytes) if peer is self else -errno.EOPNOTSUPP

    def peer(self, other: Any) -> str:
        """Returns how `copy_peer` moves bytes: "direct" within this device, otherwise "staged"."""
        return "direct" if other is self else "staged"

    # Kernels

    def load(self, spec: KernelSpec) -> Loaded:
        made = spec.made
        kernel = self._compiled(spec, made.code, spec.name) if made else self._image(spec)
        groups = made.groups if made else ()
        shape = ffi.new("struct sp_egl_shape *")
        lib.sp_egl_kernel_shape(kernel, shape)
        x, y, z = shape.group_size
        grid = (2**32 - 1,) * 3 if shape.any_grid else self.info.max_groups
        resources = Resources(x * y * z, isa=self.info.isa, max_groups=grid)
        pointer = kernel_pointer(kernel)
        return Loaded(_KernelHandle(kernel), pointer, "grid", resources, groups, (x, y, z))

    def _image(self, spec: KernelSpec) -> Any:
        blob = spec.image
        if spec.path:
            with open(spec.path, "rb") as file:
                blob = file.read()
        what = spec.path or f"image of {len(blob)} bytes"
        if spirv.is_spirv(blob):
            if not spec.allow_spirv:
                raise ImageError(
                    f"{what}: expected allow_spirv=True for SPIR-V, got False. Drivers crash on "
                    "invalid SPIR-V, and the checks of this package do not find every error in it"
                )
            if "spirv" not in self.info.features:
                raise ImageError(f"{what}: {self.info.uri} does not accept SPIR-V")
            words = spirv.validated(blob, spec.entry, what)
            return self._load(spec, lib.SP_EGL_SPIRV_IMAGE, words, 0, "", what)
        try:
            text = blob.decode("utf-8-sig")  # some editors write a byte order mark
        except UnicodeDecodeError:
            raise ImageError(f"{what}: expected GLSL (UTF-8 text) or SPIR-V, got neither") from None
        if "\0" in text:
            raise ImageError(f"{what}: expected GLSL, got a zero byte")
        if not text.strip():
            raise ImageError(f"{what}: expected GLSL, got an empty text")
        if spec.entry != "main":
            raise ImageError(f"{what}: expected the entry 'main' of GLSL, got {spec.entry!r}")
        return self._compiled(spec, text, what)

    def _compiled(self, spec: KernelSpec, text: str, what: str) -> Any:
        """Returns the linked program from the cache. Compiles and stores a program that the cache
        lacks.
        """
        source = with_version(text, self.info.isa)
        blob = source.encode()
        if "binaries" not in self.info.features:
            return self._load(spec, lib.SP_EGL_GLSL, blob, 0, source, what)
        path = self._cache.path(blob)
        kept = self._cache.get(path)
        if kept is not None:
            try:
                return self._load(spec, lib.SP_EGL_BINARY, kept[1], kept[0], source, what)
            except _Stale:
                self._cache.drop(path)
        kernel = self._load(spec, lib.SP_EGL_GLSL, blob, 0, source, what)
        out, number, nbytes = ffi.new("void **"), ffi.new("uint32_t *"), ffi.new("size_t *")
        if lib.sp_egl_binary(kernel, number, out, nbytes) == 0:
            self._cache.put(path, number[0], bytes(ffi.buffer(out[0], nbytes[0])))
            lib.sp_egl_binary_free(out[0])
        return kernel

    def _load(
        self, spec: KernelSpec, kind: int, blob: bytes, number: int, text: str, what: str
    ) -> Any:
        out = ffi.new("struct sp_egl_kernel **")
        why = ffi.new("char[]", 8192)
        scalars = [a for a in spec.args if not a.endswith("*")]
        for scalar in scalars:
            if scalar not in _LETTERS:
                raise ImageError(f"{what}: expected scalars of 32 or 64 bits, got {scalar}")
        letters = "".join(_LETTERS[scalar] for scalar in scalars)
        rc = lib.sp_egl_load(
            self._native.device, kind, blob, len(blob), number, spec.entry.encode()[:255],
            spec.native, letters.encode(), why, len(why), out,
        )  # fmt: skip
        self._heed()
        if rc == -errno.ESTALE:
            raise _Stale
        if rc == -errno.ENOEXEC:
            log = ffi.string(why).decode(errors="replace").strip()
            raise ImageError(f"{what}: the driver rejects the shader: {explained(log, text)}")
        check(rc, f"load {what}", self.info.uri)
        return ffi.gc(out[0], lib.sp_egl_unload)

    def unload(self, handle: _KernelHandle) -> None:
        handle.drop()

    # Explanations

    def refusal(self, record: bytes, rc: int) -> str:
        """Returns why `check` refused this dispatch record; "" if the reason is not specific to
        egl.
        """
        return launch_refusal.words(self._raw, record, rc)

    def fault(self, queue: Any, value: int) -> str:
        """Returns the driver's message about the failed submission `value`."""
        self._heed()
        text = ffi.new("char[]", 512)
        nbytes = lib.sp_egl_fault(queue, value, text, len(text))
        return bytes(ffi.buffer(text, nbytes)).decode(errors="replace")

    def sensors(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        """Closes the device; idempotent. Abandons a driver that does not return within 10 s, and
        logs that.
        """
        dev = self._native.close()
        if dev is None:
            return
        for handle in list(self._files):
            # another thread's finalizer may have closed the descriptor
            fd = self._files.pop(handle, None)
            if fd is not None:
                os.close(fd)
        rc = lib.sp_egl_close(dev, _CLOSE_NS)
        if rc not in (0, -errno.ECHILD):
            _log.error("%s: not closed (%s)", self.info.uri, errno.errorcode.get(-rc, -rc))


class _Stale(Exception):
    """Raised when the driver no longer accepts a stored program."""


class _KernelHandle:
    __slots__ = ("kernel",)

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def drop(self) -> None:
        self.kernel = None


if TYPE_CHECKING:

    class _Claims(
        Backend,
        abilities.IsNative,
        abilities.TellsFailure,
        abilities.TellsFault,
        abilities.TellsRefusal,
        Protocol,
    ):
        """Lets mypy check that the backend has every member of the Protocols inherited here."""

    _claims: type[_Claims] = EglBackend
