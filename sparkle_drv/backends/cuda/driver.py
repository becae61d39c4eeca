"""NVIDIA's driver library: its devices, and messages about failures."""

from __future__ import annotations

import errno
from typing import Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.backends import machine
from sparkle_drv.errors import DeviceLost, DeviceNotFound, OutOfDeviceMemory, check
from sparkle_drv.types import CacheLevel, DeviceInfo

ADVICE = "with an NVIDIA GPU: install its driver; in a container pass it through"
_FEATURES = {
    "pools": lib.SP_CUDA_POOLS,
    "graphs": lib.SP_CUDA_GRAPHS,
    "params": lib.SP_CUDA_PARAMS,
    "ipc": lib.SP_CUDA_IPC,
}


def text(field: Any) -> str:
    """Converts a char array of a native struct to str."""
    raw: bytes = ffi.string(field)
    return raw.decode(errors="replace")


def filled(function: Any, *args: Any, nbytes: int = 1024) -> str:
    """Returns the text that a native function `(..., char *out, size_t capacity)` writes."""
    out = ffi.new("char[]", nbytes)
    used = function(*args, out, nbytes)
    return bytes(ffi.buffer(out, used)).decode(errors="replace")


def why() -> str:
    """Returns the message about this thread's last failure."""
    return filled(lib.sp_cuda_why)


def checked(rc: int, call: str, uri: str) -> int:
    """Checks a result as errors.check does, and puts the driver's message into the error."""
    if rc == -errno.ENOMEM:
        raise OutOfDeviceMemory(f"{uri}: {call}: out of memory ({why()})")
    if rc == -errno.ENODEV:
        raise DeviceLost(f"{uri}: {call}: the device is lost: {why()}")
    return check(rc, f"{call}: {why()}" if rc < 0 else call, uri)


def paths(first: str) -> Any:
    """Returns the paths to try, as a char pointer: `first` (SPARKLE_LIBCUDA) if given, then the
    usual ones.
    """
    usual: bytes = ffi.string(lib.sp_dl_cuda_paths())
    return ffi.new("char[]", b"\n".join([first.encode(), usual]) if first else usual)


def asked(first: str) -> tuple[int, Any]:
    """Calls cuInit of the first driver library of `paths(first)` that works. Returns 0 or -errno,
    and a struct sp_dl_cuda with the paths tried and the result of cuInit.
    """
    out = ffi.new("struct sp_dl_cuda *")
    return lib.sp_dl_probe_cuda(paths(first), out), out


def probe(first: str) -> tuple[int, str, tuple[str, ...]]:
    """Returns the number of devices, the driver's CUDA version, and the paths tried. `first` is
    the path to try first, or "". Raises DeviceNotFound with the reason if there is no device.
    """
    if lib.sp_cuda_forked():
        raise DeviceNotFound(
            "cuda: this process was forked from one that uses the driver: start "
            "the child before cuda is first used, or spawn it"
        )
    rc, out = asked(first)
    tried = tuple(text(out.report).splitlines())
    if rc:
        raise DeviceNotFound(
            "cuda: expected an NVIDIA driver library, got none: " + "; ".join(tried)
        )
    library = text(out.library)
    major, minor = divmod(out.driver_version, 1000)
    version = f"{major}.{minor // 10}"
    if out.init_result:
        name = text(out.init_name) or f"error {out.init_result}"
        raise DeviceNotFound(f"cuda: {library} (CUDA {version}) says {name} to cuInit")
    if not out.device_count:
        raise DeviceNotFound(f"cuda: {library} (CUDA {version}) knows no device")
    return out.device_count, version, tried


def info_of(raw: Any, uri: str) -> DeviceInfo:
    """Converts a struct sp_cuda_info to DeviceInfo."""
    major, minor = divmod(raw.driver_version, 1000)
    return DeviceInfo(
        uri=uri,
        backend="cuda",
        name=text(raw.name),
        kind="gpu",
        vendor="NVIDIA",
        driver=f"CUDA {major}.{minor // 10}",
        memory_nbytes=raw.memory_nbytes,
        emulated=bool(raw.features & lib.SP_CUDA_EMULATED),
        compute_units=raw.units,
        max_group_size=raw.max_threads,
        max_groups=tuple(raw.max_groups),
        max_shared_nbytes=raw.shared_nbytes,
        isa=f"sm_{raw.major}{raw.minor}",
        caches=(CacheLevel(2, raw.l2_nbytes, raw.units),) if raw.l2_nbytes else (),
        features=tuple(name for name, bit in _FEATURES.items() if raw.features & bit),
        slot=machine.slot(text(raw.pci)),
    )


def described(first: str, ordinal: int, uri: str) -> DeviceInfo:
    """Returns the DeviceInfo of a device that is not open. Raises DeviceNotFound with the driver's
    message.
    """
    raw = ffi.new("struct sp_cuda_info *")
    if lib.sp_cuda_describe(paths(first), ordinal, raw):
        raise DeviceNotFound(f"{uri}: the device cannot be described: {why()}")
    return info_of(raw, uri)


def opened(first: str, ordinal: int, uri: str) -> Any:
    """Opens a device. Returns a `struct sp_cuda *`. Raises DeviceNotFound with the driver's
    message.
    """
    out = ffi.new("struct sp_cuda **")
    if lib.sp_cuda_open(paths(first), ordinal, out):
        raise DeviceNotFound(f"{uri}: the device cannot be opened: {why()}")
    return ffi.gc(out[0], lib.sp_cuda_close)
