"""Which OpenCL devices there are, and what they tell of themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyopencl as cl

import sparkle_drv as sp

ADVICE = "install an OpenCL driver (ICD); for the CPU: apt-get install pocl-opencl-icd"
_SVM = cl.device_svm_capabilities


@dataclass(frozen=True)
class Node:
    """One device of one platform; `why` is empty where it can be used."""

    device: Any
    info: sp.DeviceInfo
    why: str


def nodes() -> list[Node]:
    """All devices of all platforms: those that can be used first, numbered "opencl:0", ... .

    Raises DeviceNotFound when there is no platform or no loader.
    """
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise sp.DeviceNotFound(f"opencl: no platform: {error}") from None
    found = []
    for platform in platforms:
        try:
            found += platform.get_devices()
        except cl.Error:  # CL_DEVICE_NOT_FOUND: a driver without hardware for it
            continue
    if not found:
        raise sp.DeviceNotFound(f"opencl: {len(platforms)} platform(s), no device on any")
    good = [device for device in found if not _lacks(device)]
    bad = [device for device in found if _lacks(device)]
    return [
        Node(device, info_of(device, f"opencl:{i}"), _lacks(device))
        for i, device in enumerate([*good, *bad])
    ]


def _lacks(device: Any) -> str:
    if not device.available or not device.compiler_available:
        return "the device or its compiler is not available"
    if not _svm(device) & _SVM.FINE_GRAIN_BUFFER:
        return (
            "it has no fine-grained shared virtual memory: buffers of sparkle_drv have addresses, "
            "and the host reads and writes Memory.HOST while the device does"
        )
    if device.address_bits != 64 or not device.endian_little:
        return "expected a 64-bit little-endian device"
    return ""


def _svm(device: Any) -> int:
    try:
        return int(device.svm_capabilities)
    except cl.Error:  # before OpenCL 2.0
        return 0


def info_of(device: Any, uri: str) -> sp.DeviceInfo:
    """What the device says of itself, in the words of sparkle_drv."""
    on_cpu = bool(device.type & cl.device_type.CPU)
    gpu = bool(device.type & cl.device_type.GPU)
    features = ["f64"] if "cl_khr_fp64" in device.extensions else []
    kib = device.global_mem_cache_size
    caches = (sp.CacheLevel(2, kib, device.max_compute_units),) if kib else ()
    return sp.DeviceInfo(
        uri=uri,
        backend="opencl",
        name=device.name.strip(),
        kind="cpu" if on_cpu else "gpu" if gpu else "other",
        vendor=device.vendor.strip(),
        driver=f"{device.platform.name} {device.driver_version}, {device.version}",
        memory_nbytes=device.global_mem_size,
        unified=bool(_svm(device) & _SVM.FINE_GRAIN_SYSTEM),
        software=on_cpu,
        compute_units=device.max_compute_units,
        max_group_size=device.max_work_group_size,
        max_groups=(2**32 - 1, 2**32 - 1, 2**32 - 1),
        max_shared_nbytes=device.local_mem_size,
        caches=caches,
        # The cpu device and software OpenGL run on the same cores: this name is how both say so.
        shares=("cpu",) if on_cpu else (),
        features=tuple(features),
    )
