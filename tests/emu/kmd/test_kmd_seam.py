"""The seam: the real kernel's side on descriptors that every machine has, and the retry loop above
it on injected errors.

When this fails, an interrupted ioctl on a real kernel is not repeated, and a call fails.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
import time

import pytest
from ioctls import refused
from sparkle_drv._native import ffi, lib

from sparkle_drv.testing import emulator

GET_CAP = emulator.lib.DRM_IOCTL_GET_CAP
FIONREAD = 0x541B


@pytest.fixture
def ops():
    return lib.sp_kmd_linux()


def test_an_ioctl_of_the_real_kernel(ops):
    read, write = os.pipe()
    os.write(write, b"12345")
    count = ffi.new("int *")
    assert ops.ioctl(ops.self, read, FIONREAD, count) == 0
    assert count[0] == 5
    assert ops.close(ops.self, read) == 0
    assert ops.close(ops.self, read) == -errno.EBADF
    assert ops.ioctl(ops.self, read, FIONREAD, count) == -errno.EBADF
    os.close(write)


def test_maps_of_the_real_kernel(ops):
    with open(os.memfd_create("x"), "r+b") as file:
        file.truncate(8192)
        address = ops.mmap(ops.self, 4096, mmap.PROT_WRITE, mmap.MAP_SHARED, file.fileno(), 4096)
        assert address > 0
        ffi.buffer(ffi.cast("void *", address), 4)[:] = struct.pack("I", 7)
        assert os.pread(file.fileno(), 4, 4096) == struct.pack("I", 7)
        assert ops.munmap(ops.self, ffi.cast("void *", address), 4096) == 0
        assert ops.munmap(ops.self, ffi.cast("void *", 1), 4096) == -errno.EINVAL
    assert ops.mmap(ops.self, 4096, 1, mmap.MAP_SHARED, -1, 0) == -errno.EBADF
    assert -4096 < ops.mmap(ops.self, 0, 1, mmap.MAP_SHARED, -1, 0) < 0


def retried(node, deadline_ns=0):
    arg = ffi.new("struct drm_get_cap *", {"capability": 5})
    rc = lib.sp_kmd_ioctl(node.machine.ops, node.fd, GET_CAP, arg, deadline_ns)
    return rc, arg.value


@pytest.mark.parametrize("error", [errno.EINTR, errno.EAGAIN])
def test_interrupted_calls_are_made_again(machine, node, error):
    machine.fail_ioctl(GET_CAP, error, count=5)
    assert retried(node) == (0, 3)


def test_not_for_longer_than_the_deadline(machine, node):
    machine.fail_ioctl(GET_CAP, errno.EAGAIN, count=1000)
    began = time.monotonic_ns()
    assert retried(node, began + 20_000_000)[0] == -errno.EAGAIN
    assert time.monotonic_ns() - began >= 20_000_000


def test_a_node_retries_no_longer_either(machine, node):
    arg = ffi.new("struct drm_get_cap *", {"capability": 5})
    machine.fail_ioctl(GET_CAP, errno.EINTR, count=2**32 - 1)
    with refused(errno.EINTR):
        node.ioctl("GET_CAP", arg, timeout_s=0.02)


@pytest.mark.parametrize("error", [errno.ENOMEM, errno.EINVAL, errno.ENODEV])
def test_other_errors_are_told_at_once(machine, node, error):
    machine.fail_ioctl(GET_CAP, error)
    assert retried(node)[0] == -error
    assert retried(node) == (0, 3)


def test_injected_errors_come_in_order_and_only_to_their_ioctl(machine, node):
    machine.fail_ioctl(GET_CAP, errno.ENOMEM)
    machine.fail_ioctl(GET_CAP, errno.EIO)
    node.ioctl("VERSION", ffi.new("struct drm_version *"))
    for error in (errno.ENOMEM, errno.EIO):
        with refused(error):
            node.call("GET_CAP", "struct drm_get_cap", capability=5)
    assert node.call("GET_CAP", "struct drm_get_cap", capability=5).value == 3


def test_what_goes_through_the_seam_is_counted():
    with emulator.Machine(["gfx1100"]) as machine, machine.open() as node:
        gpu = emulator.EmulatedGpu(node)
        before = emulator.seam()
        node.call("GET_CAP", "struct drm_get_cap", capability=0x13)
        asked = emulator.seam().since(before)
        assert (asked.ioctls, asked.submissions) == (1, 0)
        assert asked.ns > 0
        machine.hold_jobs()
        seq = gpu.submit("compute", [emulator.NOP] * 8)
        assert emulator.seam().since(before).submissions == 1
        before, start = emulator.seam(), time.monotonic_ns()
        with pytest.raises(TimeoutError):
            gpu.wait(seq, timeout_s=0.05)
        waited = emulator.seam().since(before)
        assert 40_000_000 < waited.ns <= time.monotonic_ns() - start
        machine.hold_jobs(hold=False)
        gpu.wait(seq)
