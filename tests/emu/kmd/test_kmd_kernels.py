"""Kernels from Linux 5.15 to 6.16: a KMS version has what it had, and nothing that came later.

When this fails, the driver uses what the kernel of a user's distribution does not have.

The numbers are of the list at the top of Linux amdgpu_drv.c.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager

import pytest
from ioctls import address, create, ctx, refused, va

from sparkle_drv.testing.emulator import EmulatedGpu, Machine, ffi

WHOLE = 448  # bytes of DEV_INFO as of KMS 3.64


@contextmanager
def kernel(minor, chip="gfx1100"):
    with Machine([f"{chip}:kms-3.{minor}"]) as machine, machine.open() as node:
        yield node


def reply(node, query, room=512, ip=0):
    """What INFO wrote into `room` bytes of 0xaa."""
    out = ffi.new("unsigned char[]", b"\xaa" * room)
    arg = {"return_pointer": address(out), "return_size": room, "query": query}
    asked = ffi.new("struct drm_amdgpu_info *", arg)
    asked.query_hw_ip.type = ip
    node.ioctl("AMDGPU_INFO", asked)
    return bytes(ffi.buffer(out, room))


def written(node, query, ip=0):
    """How many bytes INFO writes: a reply's own last byte is 0 in all that are asked here."""
    return len(reply(node, query, ip=ip).rstrip(b"\xaa"))


@pytest.mark.parametrize(
    ("minor", "nbytes"),
    [(42, 368), (49, 368), (50, 384), (51, 384), (52, 424), (53, 440), (63, 440), (64, WHOLE)],
)
def test_dev_info_is_as_long_as_the_kernel_knows(minor, nbytes):
    with kernel(minor) as node:
        assert written(node, 0x16) == nbytes
        assert len(reply(node, 0x16, 100)) == 100
    with kernel(minor) as node:  # the shorter answer is the beginning of the longer
        info = node.info("DEV_INFO", "struct drm_amdgpu_info_device")
        assert bool(info.min_engine_clock) == (minor >= 50)
        assert bool(info.pcie_gen) == (minor >= 51)
        assert bool(info.gl2c_cache_size) == (minor >= 52)


@pytest.mark.parametrize(("minor", "nbytes"), [(47, 32), (48, 32), (63, 32), (64, 40)])
def test_hw_ip_info(minor, nbytes):
    with kernel(minor) as node:
        for ip in (0, 1, 2, 6):
            assert written(node, 2, ip) == nbytes
            one = node.info("HW_IP_INFO", "struct drm_amdgpu_info_hw_ip", query_hw_ip__type=ip)
            assert bool(one.ip_discovery_version) == (minor >= 48 and ip < 3)


@pytest.mark.parametrize(
    ("query", "since"),
    [("MAX_IBS", 54), ("GPUVM_FAULT", 55), ("VIDEO_CAPS", 0), ("VRAM_LOST_COUNTER", 0)],
)
def test_queries(query, since):
    ctype = {"GPUVM_FAULT": "struct drm_amdgpu_info_gpuvm_fault"}.get(query, "uint32_t")
    for minor in {42, 64, max(since - 1, 42), max(since, 42)}:
        with kernel(minor) as node:
            if minor >= since:
                node.info(query, ctype)
            else:
                with refused(errno.EINVAL):
                    node.info(query, ctype)


@pytest.mark.parametrize("sensor", [0xA, 0xB])
def test_sensors_of_the_peak(sensor):
    with kernel(49) as node, refused(errno.EINVAL):
        node.info("SENSOR", "uint32_t", sensor_info__type=sensor)
    with kernel(50) as node:
        assert node.info("SENSOR", "uint32_t", sensor_info__type=sensor) > 1000


@pytest.mark.parametrize(
    ("bit", "since"), [(12, 47), (16, 58), (9, 59), (13, 59), (14, 59), (15, 59), (0, 0), (7, 0)]
)
def test_flags_of_gem_create(bit, since):
    for minor in {42, 64, max(since - 1, 42), max(since, 42)}:
        with kernel(minor) as node:
            if minor >= since:
                create(node, flags=1 << bit)
            else:
                with refused(errno.EINVAL):
                    create(node, flags=1 << bit)


def test_noalloc_of_gem_va():
    with kernel(46) as node:
        handle = create(node)
        with refused(errno.EINVAL):
            va(node, "MAP", handle, flags=0xE | 0x200)
        va(node, "MAP", handle)
    with kernel(47) as node:
        va(node, "MAP", create(node), flags=0xE | 0x200)


def test_stable_pstates_of_a_context():
    for minor in (44, 45):
        with kernel(minor) as node:
            made = ctx(node, "ALLOC_CTX").alloc.ctx_id
            for op, flags in (("GET_STABLE_PSTATE", 0), ("SET_STABLE_PSTATE", 1)):
                if minor == 45:
                    ctx(node, op, ctx_id=made, flags=flags)
                else:
                    with refused(errno.EINVAL):
                        ctx(node, op, ctx_id=made, flags=flags)


@pytest.mark.parametrize(
    ("minor", "low", "high"),
    [
        (57, 0x200000, 0xFFFFFFFFFFE00000),
        (58, 0x10000, 0xFFFFFFFFFFBFE000),
        (64, 0x10000, 0xFFFFFFFFFFBF0000),
    ],
)
def test_addresses(minor, low, high):
    with kernel(minor) as node:
        info = node.info("DEV_INFO", "struct drm_amdgpu_info_device")
        assert (info.virtual_address_offset, info.high_va_max) == (low, high)
        handle = create(node)
        va(node, "MAP", handle, at=low)
        with refused(errno.EINVAL):
            va(node, "MAP", handle, at=low - 4096)
        with refused(errno.EINVAL):
            va(node, "MAP", handle, at=high)
        va(node, "MAP", handle, at=high - 4096)


@pytest.mark.parametrize("minor", [42, 54, 64])
def test_chunks_and_ioctls_that_no_such_kernel_has(minor):
    with kernel(minor) as node, EmulatedGpu(node):
        for request in (0xC0486456, 0xC0306457, 0xC0306458, 0xC0106459):  # USERQ*, LIST_HANDLES
            assert node.raw(request, ffi.new("char[256]")) == -errno.EINVAL
        assert node.version()[2] == minor
