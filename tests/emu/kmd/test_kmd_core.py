"""Dispatch as drm_ioctl does it: by number, any struct size, bad pointers; VERSION, GET_CAP, VM.

When this fails, ioctls that a real kernel refuses pass on the emulator.
"""

from __future__ import annotations

import errno
import os
import platform
import subprocess
import sys

import pytest
from ioctls import address, create, refused

from sparkle_drv.testing.emulator import Machine, ffi, lib


def test_version(node):
    text = {name: ffi.new("char[]", 64) for name in ("name", "date", "desc")}
    args = ffi.new("struct drm_version *", text | {f"{name}_len": 63 for name in text})
    node.ioctl("VERSION", args)
    assert (args.version_major, args.version_minor) == (3, 54)
    assert ffi.string(args.name) == b"amdgpu"
    assert args.name_len == 6
    assert ffi.string(args.desc) == b"AMD GPU"


def test_version_first_asks_for_lengths(node):
    args = node.ioctl("VERSION", ffi.new("struct drm_version *"))
    assert (args.name_len, args.desc_len) == (6, 7)


def test_the_kernel_can_be_another():
    with Machine(["gfx1036"], kms_minor=61) as machine, machine.open() as node:
        assert node.ioctl("VERSION", ffi.new("struct drm_version *")).version_minor == 61


@pytest.mark.parametrize(("cap", "value"), [(5, 3), (6, 1), (0x10, 1), (0x13, 1), (0x14, 1)])
def test_caps(node, cap, value):
    assert node.call("GET_CAP", "struct drm_get_cap", capability=cap).value == value


def test_an_unknown_cap(node):
    with refused(errno.EINVAL):
        node.call("GET_CAP", "struct drm_get_cap", capability=99)


@pytest.mark.parametrize(
    ("request_word", "error"),
    [
        (0x4010640D, errno.EACCES),  # SET_CLIENT_CAP: for the primary node
        (0x40106455, errno.EACCES),  # SCHED: for the DRM master
        (0xC0486456, errno.EINVAL),  # USERQ: this kernel has none
        (0xC0306457, errno.EINVAL),
        (0xC0106459, errno.EINVAL),  # GEM_LIST_HANDLES
        (0xC01064FF, errno.EINVAL),
        (0xC0106505, errno.ENOTTY),  # type 'e'
        (0, errno.ENOTTY),
    ],
)
def test_what_is_not_there(node, request_word, error):
    assert node.raw(request_word, ffi.new("char[256]")) == -error


def test_a_shorter_struct_is_filled_up_with_zeros(node):
    """8 of 32 bytes: size alone, in no domain."""
    arg = ffi.new("uint64_t *", 4096)
    assert node.raw(0xC0086440, arg) == 0
    assert arg[0] == 1  # the handle


def test_a_longer_struct_is_understood(node):
    arg = ffi.new("uint64_t[8]", [4096, 0, 2, 0, 9, 9, 9, 9])
    assert node.raw(0xC0406440, arg) == 0
    assert arg[0] == 1
    assert list(arg)[4:] == [9] * 4


def test_no_more_than_the_given_size_comes_back(node):
    arg = ffi.new("uint64_t[2]", [4096, 0x5555])
    assert node.raw(0xC0086440, arg) == 0
    assert arg[1] == 0x5555


@pytest.mark.parametrize("pointer", [0, 8, 2**47 - 4096, 2**64 - 8])
def test_a_bad_pointer_is_efault(node, pointer):
    assert node.raw(lib.DRM_IOCTL_AMDGPU_GEM_CREATE, ffi.cast("void *", pointer)) == -errno.EFAULT


def test_bad_pointers_inside_structs_are_efault(node):
    with refused(errno.EFAULT):
        node.call("AMDGPU_INFO", "struct drm_amdgpu_info", return_pointer=8, return_size=4, query=0)
    with refused(errno.EFAULT):
        node.call("SYNCOBJ_RESET", "struct drm_syncobj_array", handles=8, count_handles=1)


def test_another_descriptor_is_none(machine, node):
    with open(os.devnull) as other:
        ops = machine.ops
        arg = ffi.new("struct drm_get_cap *", {"capability": 5})
        assert ops.ioctl(ops.self, other.fileno(), lib.DRM_IOCTL_GET_CAP, arg) == -errno.EBADF
        assert lib.sp_emu_fd_card(machine.handle, other.fileno()) == -errno.EBADF
    assert lib.sp_emu_fd_card(machine.handle, node.fd) == 0


def test_a_card_that_is_not_there(machine):
    with refused(errno.ENODEV):
        machine.open(2)


@pytest.mark.parametrize(("op", "flags", "error"), [(1, 0, 0), (2, 0, 0), (3, 0, 22), (1, 1, 22)])
def test_vmid_reservation(node, op, flags, error):
    arg = ffi.new("union drm_amdgpu_vm *")
    getattr(arg, "in").op, getattr(arg, "in").flags = op, flags
    assert node.raw(lib.DRM_IOCTL_AMDGPU_VM, arg) == -error


def test_each_open_has_handles_of_its_own(machine, node):
    assert create(node) == create(node) - 1
    with machine.open(0) as other:
        assert create(other) == 1
    assert address(ffi.NULL) == 0


FORBIDDEN = """
import ctypes, struct
from sparkle_drv.testing.emulator import Machine
steps = [(0x20, 0, 0, 0), (0x15, 1, 0, 310), (0x15, 0, 1, 311)]
steps += [(6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 5, ctypes.addressof(code)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
try:
    Machine()
except PermissionError as error:
    print(error)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86-64 system calls")
def test_a_process_that_may_not_copy_is_told_when_it_opens_a_machine():
    """seccomp forbids process_vm_readv and writev: EPERM at once, no bad addresses later."""
    told = subprocess.run([sys.executable, "-c", FORBIDDEN], capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, "")
    assert "sp_emu_machine_open: EPERM" in told.stdout
