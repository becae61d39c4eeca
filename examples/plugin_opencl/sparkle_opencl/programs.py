"""Kernels: those of this package by their names in sparkle_drv's manifest, and users' own from
OpenCL C or SPIR-V.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyopencl as cl

import sparkle_drv as sp
from sparkle_drv.plugin import Dispatch, KernelSpec
from sparkle_opencl.memory import pointer
from sparkle_opencl.trouble import translated

_log = logging.getLogger("sparkle_opencl")

FOLDER = Path(__file__).parent / "kernels"
_OPTIONS = ["-cl-std=CL1.2", "-cl-kernel-arg-info"]
_UNCACHED: Any = False  # pyopencl would keep programs in a folder of the user's
_SPIRV = b"\x03\x02\x23\x07"
_ADDRESS = cl.kernel_arg_address_qualifier
_TYPES = {
    "char": "i8", "uchar": "u8", "short": "i16", "ushort": "u16", "int": "i32", "uint": "u32",
    "long": "i64", "ulong": "u64", "half": "f16", "float": "f32", "double": "f64",
}  # fmt: skip


@dataclass(frozen=True)
class Source:
    """Where a kernel of the manifest is, and its grid: `Loaded.groups` and `group_size`."""

    file: str
    groups: tuple[str, ...] = ()
    group_size: tuple[int, int, int] | None = None


def sources(info: sp.DeviceInfo) -> dict[str, Source]:
    """Manifest names and where their kernels are, those of f64 only where the device has them."""
    doubles = "f64" in info.features
    wide = 4 if info.kind == "cpu" else 256  # threads that keep a compute unit's FMAs busy
    line = (256, 1, 1)
    found = {name: Source("misc", ("1",), (1, 1, 1)) for name in ("noop", "busy_u32")}
    elementwise = ("copy", "fill", "vecadd", "axpby", "relu", "abs", "neg", "exp", "tanh")
    for kind in ("f32", "f64", "i32"):
        for name in elementwise:
            if kind != "i32" or name not in ("axpby", "exp", "tanh"):
                found[f"{name}_{kind}"] = Source("elementwise", ("n/256",), line)
        found[f"map_{kind}"] = Source("map", ("n/64",), (64, 1, 1))
        for name in ("sum", "max", "min"):
            found[f"reduce_{name}_{kind}"] = Source("reduce", ("outer*inner",), (64, 1, 1))
    found["saxpy_f32"] = Source("elementwise", ("n/256",), line)
    for kind, columns in (("f32", 32), ("f64", 16)):
        found[f"gemm_{kind}"] = Source("gemm", (f"n/{columns}", "m/16"), (4, 4, 1))
        found[f"peak_fma_{kind}"] = Source("misc", (str(4 * info.compute_units),), (wide, 1, 1))
    found["conv2d_f32"] = Source("conv2d", ("n*oc*oh*ow/64",), (64, 1, 1))
    for name in ("nchw_to_nhwc", "nhwc_to_nchw", "blocked_to_nchw"):
        found[f"{name}_f32"] = Source("layout", ("n*c*h*w/64",), (64, 1, 1))
    found["nchw_to_blocked_f32"] = Source("layout", ("n*(c/block)*block*h*w/64",), (64, 1, 1))
    return {n: s for n, s in found.items() if doubles or not n.endswith("_f64")}


class Program:
    """A kernel as OpenCL has it, with its arguments' places. Its lock is held from the first
    argument that is set until it is enqueued: OpenCL keeps them in the kernel."""

    def __init__(self, kernel: Any, spec: KernelSpec, local_at: int | None) -> None:
        self._kernel = kernel
        self._local_at = local_at
        self._slots = _slots(spec.args)
        self._set: list[bytes | int | None] = [None] * (len(self._slots) + 1)
        self._lock = threading.Lock()

    @property
    def takes_local(self) -> bool:
        """Has it a __local argument, whose size `shared=` of a launch is?"""
        return self._local_at is not None

    def enqueue(self, queue: Any, dispatch: Dispatch) -> Any:
        """Gives one dispatch to an OpenCL queue; its event."""
        with self._lock:
            for index, (is_pointer, at, nbytes) in enumerate(self._slots):
                self._give(index, is_pointer, dispatch.args[at : at + nbytes])
            if self._local_at is not None and self._set[-1] != dispatch.shared_nbytes:
                self._kernel.set_arg(self._local_at, cl.LocalMemory(dispatch.shared_nbytes))
                self._set[-1] = dispatch.shared_nbytes
            x, y, z = (n * s for n, s in zip(dispatch.groups, dispatch.group_size, strict=True))
            return cl.enqueue_nd_range_kernel(queue, self._kernel, (x, y, z), dispatch.group_size)

    def _give(self, index: int, is_pointer: bool, raw: bytes) -> None:
        if self._set[index] == raw:
            return
        self._set[index] = None  # should this fail, nothing is known
        address = int.from_bytes(raw, "little") if is_pointer else 0
        if not is_pointer:
            self._kernel.set_arg(index, raw)
        else:
            self._kernel.set_arg(index, pointer(address, 1) if address else None)
        self._set[index] = raw


def _slots(types: Sequence[str]) -> list[tuple[bool, int, int]]:
    """(is it a pointer, offset, bytes) of each argument in natural C alignment."""
    found, at = [], 0
    for kind in types:
        nbytes = 8 if kind.endswith("*") or kind.endswith("64") else 4
        at += -at % nbytes
        found.append((kind.endswith("*"), at, nbytes))
        at += nbytes
    return found


class Programs:
    """What one open device has built; each file of this package once."""

    def __init__(self, context: Any, device: Any, info: sp.DeviceInfo) -> None:
        self._context, self._device, self._info = context, device, info
        self.kernels = sources(info)
        self._built: dict[str, Any] = {}
        self._lock = threading.Lock()

    def load(self, spec: KernelSpec) -> tuple[Program, sp.Resources]:
        """Raises ImageError."""
        if spec.manifest is not None:
            built, what = self._file(spec.manifest.file), f"{spec.manifest.file}.cl"
        else:
            built, what = self._image(spec)
        names = built.get_info(cl.program_info.KERNEL_NAMES).split(";")
        if spec.entry not in names:
            raise sp.ImageError(f"{what}: no kernel {spec.entry!r}; there are: {', '.join(names)}")
        with translated(f"kernel {spec.entry}", self._info.uri):
            kernel = cl.Kernel(built, spec.entry)
            local_at = _checked(kernel, spec, what)
            return Program(kernel, spec, local_at), self._resources(kernel)

    def _resources(self, kernel: Any) -> sp.Resources:
        told, asked = cl.kernel_work_group_info, kernel.get_work_group_info
        return sp.Resources(
            asked(told.WORK_GROUP_SIZE, self._device),
            shared_nbytes=asked(told.LOCAL_MEM_SIZE, self._device),
            isa=self._info.name,
        )

    def _file(self, name: str) -> Any:
        with self._lock:
            if name not in self._built:
                parts = ("common.h", "vmath.h", f"{name}.cl")
                text = "\n".join((FOLDER / part).read_text() for part in parts)
                self._built[name] = self._build(text, f"{name}.cl")
            return self._built[name]

    def _image(self, spec: KernelSpec) -> tuple[Any, str]:
        blob = Path(spec.path).read_bytes() if spec.path else spec.image
        what = spec.path or f"image of {len(blob)} bytes"
        if not blob:
            raise sp.ImageError(f"{what}: it is empty")
        if blob.startswith(_SPIRV):
            if not spec.allow_spirv:
                raise sp.ImageError(f"{what}: SPIR-V; allow_spirv=True lets it be used")
            if not self._device.il_version:
                raise sp.ImageError(f"{what}: {self._info.driver} takes no SPIR-V")
            return self._build(blob, what), what
        try:
            text = blob.decode()
        except UnicodeDecodeError as error:
            raise sp.ImageError(f"{what}: neither OpenCL C nor SPIR-V ({error})") from None
        if "\0" in text:
            raise sp.ImageError(f"{what}: a zero byte within OpenCL C, which is text")
        return self._build(text, what), what

    def _build(self, code: str | bytes, what: str) -> Any:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", cl.CompilerWarning)
            try:
                program = cl.Program(self._context, code)
                return program.build(options=_OPTIONS, devices=[self._device], cache_dir=_UNCACHED)
            except cl.Error as error:
                raise sp.ImageError(f"{what}: {error}") from None
            finally:
                for warning in said:
                    _log.info("%s: %s: %s", self._info.uri, what, warning.message)


def _checked(kernel: Any, spec: KernelSpec, what: str) -> int | None:
    """The index of a last __local argument beyond those that `spec` tells; ImageError when the
    kernel takes others than these.
    """
    beyond = kernel.num_args - len(spec.args)
    last = kernel.num_args - 1
    is_local = beyond == 1 and _qualifier(kernel, last) == _ADDRESS.LOCAL
    if beyond and not is_local:
        raise sp.ImageError(
            f"{what}: {spec.entry} takes {kernel.num_args} arguments, {len(spec.args)} were told"
        )
    for index, kind in enumerate(spec.args):
        told = _qualifier(kernel, index)
        if told is None:  # SPIR-V without its names
            continue
        name = kernel.get_arg_info(index, cl.kernel_arg_info.TYPE_NAME).rstrip("*")
        known = _TYPES.get(name, kind.rstrip("*"))
        reached = told in (_ADDRESS.GLOBAL, _ADDRESS.CONSTANT)
        if reached != kind.endswith("*") or known != kind.rstrip("*"):
            star = "*" if told != _ADDRESS.PRIVATE else ""
            raise sp.ImageError(
                f"{what}: argument {index} of {spec.entry} is {name}{star}, {kind} was told"
            )
    return last if is_local else None


def _qualifier(kernel: Any, index: int) -> int | None:
    try:
        return int(kernel.get_arg_info(index, cl.kernel_arg_info.ADDRESS_QUALIFIER))
    except cl.Error:
        return None
