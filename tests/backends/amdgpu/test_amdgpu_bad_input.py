"""Each bad input to an amdgpu device ends in an error within a bounded time, and the device works
on.

When this fails, one bad argument hangs an AMD device or makes it useless.
"""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import numpy as np
import pytest
from sparkle_drv._native import ffi
from where import CODE_OBJECTS

import sparkle_drv as sp
from sparkle_drv.backends.amdgpu.backend import AmdgpuBackend
from sparkle_drv.core.device import Device
from sparkle_drv.lowlevel import elf
from sparkle_drv.testing import emu, emulator
from sparkle_drv.testing.emulator import Machine

VERSION = emulator.lib.DRM_IOCTL_VERSION
SIMPLE = "f32* f32* i32"
KERNARG_AT, LDS_AT = 8, 0  # in a descriptor, AMDGPU_FACTS 5.2


@pytest.fixture(params=["gfx1036", "gfx1100"])
def card(request):
    """A device of its own, which must still compute when the test is over."""
    with (
        Machine([request.param], job_limit_s=0.3) as machine,
        Device("emu:own", emu.open_card(machine, 0, "emu:own")) as dev,
    ):
        yield dev
        with dev.kernel("fill_f32") as k, dev.empty(64, np.float32) as y:
            dev.default_queue.launch(k, y, 3.0, 64, groups=1).wait(10)
            assert (np.asarray(y) == 3).all()


def blob(dev):
    return bytearray((CODE_OBJECTS / f"features.v5.{dev.info.isa}.hsaco").read_bytes())


def put(data, entry, at, value):
    """A dword of a kernel's descriptor changed."""
    file = elf.Elf(bytes(data))
    address = file.find(f"{entry}.kd").value
    segment = next(s for s in file.loads if s.vaddr <= address < s.vaddr + s.filesz)
    start = segment.offset + address - segment.vaddr + at
    data[start : start + 4] = value.to_bytes(4, "little")
    return data


def refused(dev, data, words, entry="simple", args=SIMPLE):
    with pytest.raises(sp.ImageError, match=words):
        dev.kernel(image=bytes(data), entry=entry, args=args)
    assert dev.live_counts()["kernels"] == 0


def test_another_driver_behind_the_node():
    """Its name in sysfs said amdgpu, or nothing; VERSION says what it is."""

    with Machine(["gfx1100"]) as machine:
        real = machine.ops

        @ffi.callback("int(void *, int, uint32_t, void *)")
        def ioctl(itself, fd, request, arg):
            rc = real.ioctl(itself, fd, request, arg)
            version = ffi.cast("struct drm_version *", arg)
            if request == VERSION and version.name:
                ffi.memmove(version.name, b"radeon", 6)
            return rc

        ops = ffi.new("struct sp_kmd_ops *", (real.self, ioctl, real.mmap, real.munmap, real.close))
        fd = emulator.check(emulator.lib.sp_emu_open(machine.handle, 0), "open")
        with pytest.raises(sp.DeviceNotFound, match="expected the driver amdgpu, got 'radeon'"):
            AmdgpuBackend(ops, fd, "amdgpu:0")
        assert machine.live_counts()["files"] == 0


@pytest.mark.parametrize("call", ["VERSION", "AMDGPU_INFO"])
@pytest.mark.parametrize("error", [errno.EACCES, errno.ENODEV])
def test_a_node_that_does_not_answer(call, error):
    with Machine(["gfx1100"]) as machine:
        machine.fail_ioctl(getattr(emulator.lib, f"DRM_IOCTL_{call}"), error, 100)
        with pytest.raises(sp.DeviceNotFound, match=errno.errorcode[error]):
            emu.open_card(machine, 0, "emu:own")
        assert machine.live_counts()["files"] == 0


@pytest.mark.parametrize("kept", [0, 3, 64, 0.5, 0.6])
def test_a_truncated_image(card, kept):
    data = blob(card)
    refused(card, data[: kept if isinstance(kept, int) else int(len(data) * kept)], "ELF|truncated")


def test_an_elf_of_another_machine(card):
    refused(card, Path(sys.executable).read_bytes(), r"machine \d+, expected 224")


def test_a_code_object_for_another_chip(card):
    data = (CODE_OBJECTS / "features.v5.gfx90a.hsaco").read_bytes()
    refused(card, data, f"made for gfx90a; this device runs {card.info.isa}")


def test_metadata_that_disagrees_with_the_descriptor(card):
    refused(card, put(blob(card), "lds", LDS_AT, 512), "4000.*512|512.*4000", "lds", "u32* i32")


def test_a_segment_of_arguments_that_is_too_small(card):
    refused(card, put(blob(card), "simple", KERNARG_AT, 8), r"kernarg|argument")


def test_more_arguments_than_the_kernel_has(card):
    refused(card, blob(card), "argument", args=f"{SIMPLE} i32")


def test_more_than_64_kib_of_local_memory(card):
    data = put(blob(card), "lds", LDS_AT, 65537)
    refused(card, data, "65537", "lds", "u32* i32")


def test_a_kernel_out_of_bounds_is_named(card):
    with (
        card.kernel(image=bytes(blob(card)), entry="xyz", args="u32*", group_size=(4, 3, 2)) as k,
        card.buffer(4) as out,
        pytest.raises(sp.KernelFault, match="xyz"),
    ):
        card.default_queue.launch(k, out, groups=(64, 64, 2)).wait(10)


def test_a_kernel_that_computes_for_ever(card):
    """No injected hang: it loops until the kernel driver's limit ends it."""
    with card.kernel("busy_u32") as k, card.buffer(4) as out, card.queue() as q:
        fence = q.launch(k, out, 0xFFFFFFFF, groups=1)
        with pytest.raises(sp.FenceTimeout, match="busy_u32"):
            fence.wait(0.05)
        with pytest.raises(sp.KernelFault, match="busy_u32: it hung"):
            fence.wait(10)
