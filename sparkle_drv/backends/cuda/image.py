"""Kernels of the cuda device: the manifest's image that fits the GPU, and users' images."""

from __future__ import annotations

import errno
import re
from io import BytesIO
from pathlib import Path
from typing import Any

from sparkle_drv import assets
from sparkle_drv._native import ffi, lib
from sparkle_drv.backends.base import KernelSpec, Loaded
from sparkle_drv.backends.cuda import driver
from sparkle_drv.backends.native import kernel_pointer
from sparkle_drv.backends.precompiled_plans import check_plan
from sparkle_drv.errors import ImageError
from sparkle_drv.types import DeviceInfo, Resources

_TARGET = re.compile(r"sm_(\d+)(a?)\Z")
_VERSION = re.compile(rb"\.version\s+([\d.]+)")
_PTX_TARGET = re.compile(rb"\.target\s+(\w+)")
_ELF, _FATBIN = b"\x7fELF", b"\x50\xed\x55\xba"
_EMPTY = "SHT_NOBITS"  # the type of a section without bytes in the file
_CUDA = (190, "EM_CUDA")  # values of e_machine, as pyelftools returns them


class KernelHandle:
    """A loaded kernel: the handle that `load` returns and `unload` takes."""

    __slots__ = ("kernel",)

    def __init__(self, kernel: Any) -> None:
        self.kernel = ffi.gc(kernel, lib.sp_cuda_unload)

    def drop(self) -> None:
        """Frees the kernel now."""
        kernel, self.kernel = self.kernel, None
        if kernel is not None:
            ffi.release(kernel)


def best(targets: list[str], isa: str) -> str:
    """Returns the newest of targets such as "sm_80" and "sm_90a" that runs on `isa`. Raises
    ValueError if none does.

    PTX for sm_80 is compiled for every later GPU, PTX for sm_90a only for compute capability 9.0.
    """
    own = _number(isa)
    fits = [
        (int(found[1]), found[2], name)
        for name in targets
        if (found := _TARGET.match(name))
        and (int(found[1]) == own if found[2] else int(found[1]) <= own)
    ]
    if not fits:
        raise ValueError(f"expected code for {isa}, got code for {', '.join(targets)}")
    return max(fits)[2]


def _number(isa: str) -> int:
    found = _TARGET.match(isa)
    return int(found[1]) if found else 0


def _manifest_blob(spec: KernelSpec, isa: str) -> tuple[bytes, str]:
    there = list(spec.manifest["variants"])
    while True:
        target = best(there, isa)
        file = f"{spec.manifest['image']}.{target}.ptx"
        try:
            return assets.image(file), file.rpartition("/")[2]
        except FileNotFoundError as error:
            # A wheel omits the file for sm_90a if it equals the one for sm_80 (setup.py).
            there.remove(target)
            if not there:
                raise ImageError(f"{error.filename}: {error.strerror}") from None


def _check_cubin(blob: bytes, what: str) -> None:
    """Raises ImageError for a truncated cubin: the driver gets no length and would read past its
    end.
    """
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(BytesIO(blob))
        bits, table = elf.elfclass, elf["e_shoff"] + elf["e_shnum"] * elf["e_shentsize"]
        machine = elf["e_machine"]
        ends = [s["p_offset"] + s["p_filesz"] for s in elf.iter_segments()]
        ends += [
            s["sh_offset"] + s["sh_size"] for s in elf.iter_sections() if s["sh_type"] != _EMPTY
        ]
    except Exception as error:  # invalid bytes raise many kinds of exceptions inside the parser
        raise ImageError(f"{what}: expected a readable cubin, got: {error}") from None
    if machine not in _CUDA:
        raise ImageError(f"{what}: expected a cubin, got an ELF file of machine {machine}")
    if bits != 64:
        raise ImageError(f"{what}: expected a 64-bit cubin, got one of {bits} bits")
    if (end := max([table, *ends])) > len(blob):
        raise ImageError(f"{what}: truncated: expected {end} bytes, got {len(blob)}")


def _target_of(blob: bytes) -> str:
    """Returns the target that the image names, as text; "" if it names none."""
    if blob[:4] == _ELF:
        flags = int.from_bytes(blob[48:52], "little")  # e_flags of a 64-bit ELF file
        # nvcc 13.0 writes ABI version 8 (byte 8) and has the target in bits 8 to 15; earlier
        # versions have it in bits 0 to 7.
        return f"a cubin for sm_{flags >> 8 & 0xFF if blob[8] >= 8 else flags & 0xFF}, "
    version, target = _VERSION.search(blob), _PTX_TARGET.search(blob)
    if blob[:4] == _FATBIN or not version or not target:
        return ""
    return f"PTX {version[1].decode()} for {target[1].decode()}, "


def _check_fatbin(blob: bytes, what: str) -> None:
    """Raises ImageError for a truncated fatbin. Its length is bytes 6-7 plus bytes 8-15, as nvcc
    13.0 writes it.
    """
    end = int.from_bytes(blob[6:8], "little") + int.from_bytes(blob[8:16], "little")
    if max(end, 16) > len(blob):
        raise ImageError(f"{what}: truncated: expected {max(end, 16)} bytes, got {len(blob)}")


def _user_blob(spec: KernelSpec) -> tuple[bytes, str]:
    blob = Path(spec.path).read_bytes() if spec.path else spec.image
    what = spec.path or f"image of {len(blob)} bytes"
    if blob[:4] in (_ELF, _FATBIN):
        (_check_cubin if blob[:4] == _ELF else _check_fatbin)(blob, what)
        return blob, what
    if b".version" not in blob or b".target" not in blob:
        raise ImageError(f"{what}: expected PTX (.version and .target) or a cubin, got neither")
    if b"\0" in blob.rstrip(b"\0"):
        raise ImageError(f"{what}: expected PTX, which is text, got a zero byte")
    return blob, what


def load(spec: KernelSpec, info: DeviceInfo, device: Any) -> Loaded:
    """Loads a kernel of the manifest, or of a user's PTX, cubin or fatbin. Raises ImageError if the
    image cannot be loaded, and ValueError for a plan that the kernel cannot follow.
    """
    check_plan(spec, "cuda")
    manifest = spec.manifest
    blob, what = _manifest_blob(spec, info.isa) if manifest is not None else _user_blob(spec)
    out, why = ffi.new("struct sp_cuda_kernel **"), ffi.new("char[]", 16384)
    image = ffi.new("char[]", blob)  # ffi.new adds a zero byte, which ends PTX text
    rc = lib.sp_cuda_load_image(
        device,
        image,
        len(blob),
        spec.entry.encode(),
        spec.name.encode(),
        spec.native,
        why,
        len(why),
        out,
    )
    if rc == -errno.ENOEXEC:
        mine = f"{_target_of(blob)}on {info.name}, {info.isa}, {info.driver}"
        raise ImageError(f"{what}: not loadable: {driver.text(why)} ({mine})")
    if rc == -errno.ENOENT:
        raise ImageError(f"{what}: it has no entry {spec.entry!r} ({driver.why()})")
    if rc == -errno.EINVAL:
        raise ImageError(f"{what}: not loadable: {driver.text(why) or driver.why()}")
    driver.checked(rc, f"load {what}", info.uri)
    handle = KernelHandle(out[0])
    groups: tuple[str, ...] = ()
    size = None
    if manifest is not None:
        groups = tuple(manifest.get("groups", ()))
        if manifest["form"] == "routine" and "group_size" in manifest:
            size = tuple(manifest["group_size"])
    return Loaded(handle, kernel_pointer(handle.kernel), "grid", _resources(out[0]), groups, size)


def _resources(kernel: Any) -> Resources:
    shape = ffi.new("struct sp_cuda_shape *")
    lib.sp_cuda_kernel_shape(kernel, shape)
    return Resources(
        shape.max_threads,
        registers=shape.registers,
        shared_nbytes=shape.shared_nbytes,
        spill_nbytes=shape.local_nbytes,
        isa=f"sm_{shape.binary_version}",
    )
