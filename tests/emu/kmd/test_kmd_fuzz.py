"""Arbitrary arguments: the emulated kernel answers 0 or an errno, and neither crashes nor leaks.

When this fails, a wrong ioctl argument crashes the emulator's process.
"""

from __future__ import annotations

import errno
import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ioctls import address, leaks
from sparkle_drv._native import lib

from sparkle_drv.testing.emulator import EmulatedGpu, Machine, ffi

REQUESTS = sorted(getattr(lib, name) for name in dir(lib) if name.startswith("DRM_IOCTL_"))
# Write where their second or first word points to.
WRITES_AT_1 = {lib.DRM_IOCTL_AMDGPU_GEM_OP, lib.DRM_IOCTL_SYNCOBJ_QUERY}
WRITES_AT_0 = {lib.DRM_IOCTL_AMDGPU_INFO}
# Give a descriptor, 8 bytes into the argument.
DESCRIPTORS = {lib.DRM_IOCTL_PRIME_HANDLE_TO_FD, lib.DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD}
SMALL = st.integers(0, 8)
WORD = st.one_of(
    SMALL, SMALL, st.sampled_from([4096, 8192, 0x1000000, 0x1001000, 2**31, 2**32 - 1, 2**48])
)
CALL = st.tuples(
    st.sampled_from(REQUESTS), st.lists(WORD, min_size=10, max_size=10), st.integers(0, 3)
)
FUZZ = settings(
    max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)


def outcome(function, *args, **named):
    """0, or the errno of the OSError."""
    try:
        function(*args, **named)
    except OSError as error:
        return error.errno
    return 0


def argument(words, arena, pointers):
    """72 bytes from words; some 64-bit fields become pointers into `arena`, which is large."""
    arg = ffi.new("uint64_t[512]")
    for i, word in enumerate(words):
        arg[i] = word
    for i in range(pointers):
        arg[i] = address(arena) + 64 * i
    return arg


@FUZZ
@given(st.lists(CALL, min_size=1, max_size=30), st.lists(WORD, min_size=16, max_size=16))
def test_any_arguments(calls, memory):
    with Machine(["gfx1036"], job_limit_s=0.01) as machine:
        node = machine.open()
        gpu = EmulatedGpu(node)
        arena = ffi.new("uint64_t[262144]", memory)
        for request, words, pointers in calls:
            arg = argument(words, arena, pointers)
            for index, writers in enumerate((WRITES_AT_0, WRITES_AT_1)):
                if request in writers:
                    arg[index] = address(arena)
            if request == lib.DRM_IOCTL_VERSION:
                arg[3] = arg[5] = arg[7] = address(arena)
            rc = node.raw(request, arg)
            assert rc == 0 or -rc in errno.errorcode
            if rc == 0 and request in DESCRIPTORS:
                os.close(arg[1] & 0xFFFFFFFF)
        gpu.close()
        node.close()
        assert leaks(machine) == {}


@FUZZ
@given(st.lists(st.tuples(st.integers(0, 12), st.lists(WORD, max_size=12)), min_size=1, max_size=6))
def test_any_chunks(chunks):
    with Machine(["gfx1100"], job_limit_s=0.01) as machine:
        node = machine.open()
        gpu = EmulatedGpu(node)
        ib = gpu.buffer(4096, flags=0x40)
        good = ffi.new("struct drm_amdgpu_cs_chunk_ib *")
        good.va_start, good.ib_bytes, good.ip_type = ib.va, 32, 1
        ib.write([0xFFFF1000] * 8)
        given = [(1, good)]
        given += [
            (kind, ffi.new("uint32_t[]", [w & 0xFFFFFFFF for w in ws])) for kind, ws in chunks
        ]
        assert outcome(gpu.cs, given) in (0, errno.EINVAL, errno.ENOENT, errno.EFAULT)
        ib.close()
        gpu.close()
        node.close()
        assert leaks(machine) == {}


@FUZZ
@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 12), st.integers(0, 6), st.integers(0, 3)),
        max_size=40,
    )
)
def test_mappings_agree_with_a_plain_table(steps):
    """MAP, UNMAP, CLEAR and REPLACE of pages against a dict: page -> page of the BO."""
    base, page = 0x1000000, 4096
    with Machine(["gfx1036"]) as machine, machine.open() as node, EmulatedGpu(node) as gpu:
        bo = gpu.buffer(8 * page, va=0x7000000)
        gpu.va("UNMAP", bo, va=0x7000000, nbytes=8 * page)
        table, starts = {}, {}
        for op, first, count, offset in steps:
            name = ("", "MAP", "UNMAP", "CLEAR", "REPLACE")[op]
            at = {"va": base + first * page, "nbytes": count * page, "offset": offset * page}
            error = outcome(gpu.va, name, bo, **at)
            assert error in (0, errno.EINVAL, errno.ENOENT)
            assert error == 0 or name != "UNMAP" or first not in starts
            if error:
                continue
            gone = starts[first] if name == "UNMAP" else count
            for i in range(first, first + gone):
                table.pop(i, None)
            if name in ("MAP", "REPLACE"):
                table |= {first + i: offset + i for i in range(count)}
            starts = runs(table, starts, name, first, gone)
        for p in range(20):
            assert (p in table) == is_mapped(gpu, bo, base + p * page)
        bo.close()


def runs(table, starts, name, first, count):
    """Start page -> length of each mapping, after the step was done to `starts`, too."""
    out = {}
    for start, length in starts.items():
        if name == "UNMAP" and start == first:
            continue
        if name in ("CLEAR", "REPLACE"):
            left, right = (
                (start, min(start + length, first)),
                (max(start, first + count), start + length),
            )
            out |= {a: b - a for a, b in (left, right) if b > a}
        else:
            out[start] = length
    if name in ("MAP", "REPLACE"):
        out[first] = count
    return out


def is_mapped(gpu, bo, at):
    """Does MAP find something there? Leaves it as it was."""
    error = outcome(gpu.va, "MAP", bo, va=at, nbytes=4096)
    assert error in (0, errno.EINVAL)
    if error == 0:
        gpu.va("UNMAP", bo, va=at, nbytes=4096)
    return error != 0
