"""Likely causes on cuda. The sources are NVIDIA's public documents, named in docs/bringup.md.

"driver API" is the CUDA Driver API reference (the enum CUresult, unless a call is named). "install"
is the CUDA installation guide for Linux, "compatibility" is CUDA Compatibility, "container" is the
documentation of the NVIDIA Container Toolkit, "xid" is XID Errors.

Results mean what the enum says (nvidia.github.io/cuda-python, driver.CUresult): 46 a compute mode,
102 a licence, 209 no image for the device, 218 a failed JIT, 709 a destroyed context, 714 an error
in the GPU's stack, 804 a compatibility package. Xid 48, 74, 79: docs.nvidia.com/deploy/xid-errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .api import CAUSES as API
from .matching import Cause

SMI = "nvidia-smi"
LOG = "dmesg | grep -i -e nvrm -e xid | tail -50"
INFO = "python tools/sparkle.py info"
MODULE = "lsmod | grep nvidia; cat /proc/driver/nvidia/version; ls -l /dev/nvidia*"


def says(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    """Returns a condition: true if the driver's result is CUDA_ERROR_ followed by one
    of these names.
    """
    return lambda f: str(f.get("cuda_result", "")).removeprefix("CUDA_ERROR_") in names


CAUSES = (
    Cause("no-driver", "NVIDIA's driver is not installed: libcuda.so.1 comes with it, not with the "
          "toolkit", "install, 'Driver Installer'", ("library",),
          when=lambda f: f.get("no_library"),
          next="lspci -nn | grep 10de:; ldconfig -p | grep libcuda"),
    Cause("not-passed-through", "this is a container that was started without the GPU", "container",
          ("library",), when=lambda f: f.get("no_library"), weight=-1,
          next="docker run --gpus all ..."),
    Cause("named-wrong", "SPARKLE_LIBCUDA names no driver library", "docs/bringup.md", ("library",),
          when=lambda f: f.get("named"), next="ls -l $SPARKLE_LIBCUDA"),
    Cause("too-old-library", "the library lacks a function: a driver older than CUDA 11.0, or a "
          "stub of the toolkit", "driver API, cuGetProcAddress", ("library",),
          when=lambda f: f.get("lacks_symbol"), weight=2, next="cat /proc/driver/nvidia/version"),
    Cause("no-gpu", "the driver sees no GPU: there is none, or CUDA_VISIBLE_DEVICES hides it",
          "driver API: CUDA_ERROR_NO_DEVICE", ("init", "devices"), when=says("NO_DEVICE"),
          next="echo \"$CUDA_VISIBLE_DEVICES\"; nvidia-smi -L"),
    Cause("module-not-loaded", "the kernel module is not loaded, or its nodes are missing",
          "install, 'Verify the driver'", ("init",),
          when=says("UNKNOWN", "NO_DEVICE", "OPERATING_SYSTEM"), weight=-1, next=MODULE),
    Cause("mismatch", "the library and the kernel module are of different versions: an update "
          "without a reboot", "driver API: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", ("init",),
          when=says("SYSTEM_DRIVER_MISMATCH"), next=MODULE),
    Cause("forward-compat", "the forward compatibility package (cuda-compat) is installed, but "
          "does not support this GPU",
          "driver API: CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", ("init",),
          when=says("COMPAT_NOT_SUPPORTED_ON_DEVICE"),
          next="ls -d /usr/local/cuda*/compat; nvidia-smi -L"),
    Cause("fabric", "the fabric manager of an NVSwitch machine does not run",
          "driver API: CUDA_ERROR_SYSTEM_NOT_READY", ("init",), when=says("SYSTEM_NOT_READY"),
          next="systemctl status nvidia-fabricmanager"),
    Cause("stub", "this is the toolkit's stub library", "driver API: CUDA_ERROR_STUB_LIBRARY",
          ("init",), when=says("STUB_LIBRARY"), next="ldconfig -p | grep libcuda"),
    Cause("old-driver", "the driver is older than CUDA 11.0", "compatibility", ("version",),
          when=lambda f: f.get("old"), next="cat /proc/driver/nvidia/version"),
    Cause("fewer-devices", "the URI's number exceeds the number of devices",
          "driver API, cuDeviceGetCount", ("devices",), when=lambda f: f.get("no_device"),
          next="nvidia-smi -L; " + INFO),
    Cause("exclusive", "another process has the device to itself, or its mode forbids contexts",
          "driver API: CUDA_ERROR_DEVICE_UNAVAILABLE", ("context",),
          when=says("DEVICE_UNAVAILABLE"), next="nvidia-smi -q -d COMPUTE; nvidia-smi"),
    Cause("unlicensed", "a virtual GPU without its licence",
          "driver API: CUDA_ERROR_DEVICE_NOT_LICENSED", when=says("DEVICE_NOT_LICENSED"),
          next="nvidia-smi -q | grep -i -A2 license"),
    Cause("memory-taken", "other processes hold the GPU's memory",
          "driver API: CUDA_ERROR_OUT_OF_MEMORY", when=says("OUT_OF_MEMORY"), next=SMI),
    Cause("pinning-forbidden", "memory cannot be locked: the limit, or a container's rules",
          "driver API, cuMemHostAlloc", ("pinned", "copies"), when=says("OUT_OF_MEMORY"), weight=1,
          next="ulimit -l; free -m"),
    Cause("ptx-newer", "the driver's compiler is older than the PTX",
          "driver API: CUDA_ERROR_UNSUPPORTED_PTX_VERSION", when=says("UNSUPPORTED_PTX_VERSION"),
          next=SMI),
    Cause("no-jit", "the driver has no PTX compiler: libnvidia-ptxjitcompiler.so is not installed",
          "driver API: CUDA_ERROR_JIT_COMPILER_NOT_FOUND", when=says("JIT_COMPILER_NOT_FOUND"),
          next="ldconfig -p | grep ptxjit"),
    Cause("no-code", "no code for this GPU's compute capability",
          "driver API: CUDA_ERROR_NO_BINARY_FOR_GPU", when=says("NO_BINARY_FOR_GPU"), next=INFO),
    Cause("bad-ptx", "the driver's compiler found an error in the PTX: its log says where",
          "driver API: CUDA_ERROR_INVALID_PTX", when=says("INVALID_PTX"), next=INFO),
    Cause("illegal-address", "a kernel or a copy left its memory: the context is lost with it",
          "driver API: CUDA_ERROR_ILLEGAL_ADDRESS",
          when=says(
              "ILLEGAL_ADDRESS", "MISALIGNED_ADDRESS", "INVALID_ADDRESS_SPACE", "LAUNCH_FAILED",
          ), next=LOG),
    Cause("bad-code", "a kernel reached an invalid instruction of this GPU, or left its stack",
          "driver API: CUDA_ERROR_ILLEGAL_INSTRUCTION, _INVALID_PC, _HARDWARE_STACK_ERROR",
          when=says("ILLEGAL_INSTRUCTION", "INVALID_PC", "HARDWARE_STACK_ERROR"), next=LOG),
    Cause("context-reset", "another library of the process destroyed or reset the context",
          "driver API: CUDA_ERROR_CONTEXT_IS_DESTROYED", when=says("CONTEXT_IS_DESTROYED"),
          next=INFO),
    Cause("ecc", "the GPU's memory has errors that cannot be corrected",
          "driver API: CUDA_ERROR_ECC_UNCORRECTABLE; xid 48",
          when=says("ECC_UNCORRECTABLE"),
          next="nvidia-smi -q -d ECC; " + LOG),
    Cause("nvlink", "a link between the devices failed",
          "driver API: CUDA_ERROR_NVLINK_UNCORRECTABLE; xid 74",
          when=says("NVLINK_UNCORRECTABLE"), next="nvidia-smi nvlink -s"),
    Cause("no-peer", "these two devices do not reach each other's memory",
          "driver API, cuDeviceCanAccessPeer", ("peer",),
          when=says("PEER_ACCESS_UNSUPPORTED", "PEER_ACCESS_NOT_ENABLED"),
          next="nvidia-smi topo -m"),
    Cause("watchdog", "a kernel took longer than a display GPU allows",
          "driver API: CUDA_ERROR_LAUNCH_TIMEOUT", when=says("LAUNCH_TIMEOUT"), next=LOG),
    Cause("gone", "the GPU fell off the bus, or its driver was reset", "xid 79",
          when=says("UNKNOWN"), weight=-2, next=LOG),
    *API,
)  # fmt: skip
