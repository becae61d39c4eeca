"""GEM_CREATE, MMAP, CLOSE, USERPTR, METADATA, WAIT_IDLE, OP.

When this fails, buffer objects behave otherwise than in a real kernel.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os

import pytest
from ioctls import PAGE, address, close, create, refused, soon, store, va

from sparkle_drv.testing.emulator import BufferObject, EmulatedGpu, Machine, ffi, lib

VRAM, GTT, CPU = 4, 2, 1
MIB = 1 << 20


def info(node, handle):
    out = ffi.new("struct drm_amdgpu_gem_create_in *")
    node.call("AMDGPU_GEM_OP", "struct drm_amdgpu_gem_op", handle=handle, op=0, value=address(out))
    return out


def offset(node, handle):
    ctype = "union drm_amdgpu_gem_mmap"
    return node.call("AMDGPU_GEM_MMAP", ctype, handle=handle).out.addr_ptr


def usage(node, heap):
    return getattr(node.info("MEMORY", "struct drm_amdgpu_memory_info"), heap).heap_usage


@pytest.mark.parametrize("domain", [VRAM, GTT, CPU, 0, VRAM | GTT])
def test_sizes_are_rounded_up(node, domain):
    handle = create(node, 5000, domain)
    assert info(node, handle).bo_size == 8192
    assert info(node, handle).domains == domain
    assert info(node, handle).alignment == PAGE


def test_the_lowest_handle_is_taken_again(node):
    first, second = create(node), create(node)
    close(node, first)
    assert create(node) == first
    assert second == first + 1


def test_every_settable_flag(node):
    for bit in (0, 1, 2, 3, 6, 7, 12):
        close(node, create(node, flags=1 << bit))


@pytest.mark.parametrize("bit", [4, 5, 8, 9, 10, 11, 13, 14, 15, 16, 17, 63])
def test_other_flags_are_refused(node, bit):
    with refused(errno.EINVAL):
        create(node, flags=1 << bit)


def test_newer_kernels_allow_more_flags():
    with Machine(["gfx1036"], kms_minor=61) as machine, machine.open() as node:
        for bit in (9, 13, 14, 15, 16):
            assert info(node, create(node, flags=1 << bit)).domain_flags & 1 << bit


@pytest.mark.parametrize(
    ("nbytes", "domains", "error"),
    [
        (0, GTT, errno.EINVAL),
        (PAGE, 0x40, errno.EINVAL),
        (PAGE, 1 << 40, errno.EINVAL),
        (1 << 50, VRAM, errno.ENOMEM),
        (2**64 - 1, GTT, errno.ENOMEM),
    ],
)
def test_bad_sizes_and_domains(node, nbytes, domains, error):
    with refused(error):
        create(node, nbytes, domains)


@pytest.mark.parametrize(
    ("chip", "domain", "most"),
    [("gfx1036", 8, 0x10000), ("gfx1100", 8, 0x1000), ("gfx1036", 16, 64), ("gfx1100", 32, 16)],
)
def test_gds_gws_and_oa(chip, domain, most):
    """Linux, gfx_v10_0_set_gds_init, gfx_v11_0_set_gds_init: how much a card has of each."""
    with Machine([chip]) as machine, machine.open() as node:
        with refused(errno.EINVAL):
            create(node, most, domain, flags=1 << 6)
        with refused(errno.ENOMEM):
            create(node, most + 1, domain)
        whole = create(node, most, domain)
        with refused(errno.ENOMEM):
            create(node, 1, domain)
        with refused(errno.EPERM):
            node.call("AMDGPU_GEM_MMAP", "union drm_amdgpu_gem_mmap", handle=whole)
        close(node, whole)
        close(node, create(node, 1, domain))


def test_vram_that_is_full_falls_back_to_gtt():
    sizes = {"vram_nbytes": 4 * MIB, "gtt_nbytes": 8 * MIB}
    with Machine(["gfx1100"], **sizes) as machine, machine.open() as node:
        create(node, 3 * MIB, VRAM)
        create(node, 2 * MIB, VRAM)
        assert (usage(node, "vram"), usage(node, "gtt")) == (3 * MIB, 2 * MIB)
        create(node, 6 * MIB, VRAM | GTT)
        with refused(errno.ENOMEM):
            create(node, 2 * MIB, GTT)


def test_visible_vram_is_only_asked_for():
    with Machine(["gfx1100"], visible_nbytes=MIB) as machine, machine.open() as node:
        first, second = (create(node, MIB, VRAM, flags=1) for _ in range(2))
        assert usage(node, "cpu_accessible_vram") == MIB
        assert usage(node, "vram") == 2 * MIB
        assert info(node, first).domain_flags & 1
        assert not info(node, second).domain_flags & 1


def test_usage_comes_back(node):
    before = usage(node, "gtt")
    close(node, create(node, MIB, GTT))
    assert usage(node, "gtt") == before


def test_the_offset_is_good_for_a_plain_mmap(machine, node):
    """Without the emulator's help; and new memory is zero."""
    handle = create(node)
    with mmap.mmap(node.fd, PAGE, offset=offset(node, handle)) as plain:
        assert plain[:] == bytes(PAGE)
        plain[:4] = b"abcd"
        view = node.mmap(PAGE, offset(node, handle))
        assert view[:4] == b"abcd"
        node.munmap(view)
    close(node, handle)


def test_a_stale_mapping_never_sees_another_bo(node):
    handle = create(node)
    with mmap.mmap(node.fd, PAGE, offset=offset(node, handle)) as stale:
        stale[:4] = b"abcd"
        old = offset(node, handle)
        close(node, handle)
        fresh = create(node)
        assert offset(node, fresh) != old
        assert stale[:4] == bytes(4)


def test_mmap_checks_the_range(machine, node):
    handle = create(node)
    at = offset(node, handle)
    with refused(errno.EINVAL):
        node.mmap(2 * PAGE, at)
    with refused(errno.EACCES), machine.open(0) as other:
        other.mmap(PAGE, at)


def test_no_cpu_access_means_no_mmap(node):
    with refused(errno.EPERM):
        offset(node, create(node, flags=2))


@pytest.mark.parametrize("handle", [0, 1, 77, 2**32 - 1])
def test_unknown_handles(node, handle):
    with refused(errno.EINVAL):
        close(node, handle)
    with refused(errno.ENOENT):
        offset(node, handle)
    with refused(errno.ENOENT):
        info(node, handle)
    with refused(errno.ENOENT):
        node.call("AMDGPU_GEM_METADATA", "struct drm_amdgpu_gem_metadata", handle=handle, op=2)
    with refused(errno.ENOENT):
        node.call("AMDGPU_GEM_WAIT_IDLE", "union drm_amdgpu_gem_wait_idle", handle=handle)


def userptr(node, addr, size=PAGE, flags=8):
    ctype = "struct drm_amdgpu_gem_userptr"
    return node.call("AMDGPU_GEM_USERPTR", ctype, addr=addr, size=size, flags=flags).handle


def protect(at, rights):
    """mprotect of one page."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(PAGE), rights) == 0


@pytest.fixture
def page():
    """A page of anonymous memory, and its address."""
    with mmap.mmap(-1, PAGE) as memory:
        view = ffi.from_buffer(memory)
        yield memory, address(view)
        ffi.release(view)


@pytest.mark.parametrize(
    ("more", "size", "flags", "error"),
    [
        (1, PAGE, 8, errno.EINVAL),
        (0, 100, 8, errno.EINVAL),
        (0, 0, 8, errno.EINVAL),
        (0, PAGE, 16, errno.EINVAL),
        (0, PAGE, 0, errno.EACCES),
        (0, PAGE, 4, errno.EACCES),
    ],
)
def test_bad_userptrs(node, page, more, size, flags, error):
    with refused(error):
        userptr(node, page[1] + more, size, flags)


def test_validated_pages_must_be_there(node):
    with refused(errno.EFAULT):
        userptr(node, 1 << 40, flags=8 | 4)


def test_a_job_writes_the_users_own_page(gpu, page):
    memory, at = page
    handle = userptr(gpu.node, at, flags=8 | 4)
    with refused(errno.EPERM):
        offset(gpu.node, handle)
    out = gpu.buffer(PAGE)
    va(gpu.node, "MAP", handle, at=0x7000000)
    saved, out.handle = out.handle, handle  # a buffer of the user's page
    out.va = 0x7000000
    gpu.wait(gpu.submit("compute", store(out, 0x01020304), bos=[out]))
    assert memory[:4] == b"\x04\x03\x02\x01"
    out.handle = saved
    out.close()
    close(gpu.node, handle)


def test_a_readonly_userptr_cannot_be_written(machine, gpu, page):
    handle = userptr(gpu.node, page[1], flags=1)
    va(gpu.node, "MAP", handle, at=0x7000000)
    out = gpu.buffer(PAGE)
    saved, out.handle = out.handle, handle
    out.va = 0x7000000
    with pytest.raises(OSError, match="rights"):
        gpu.wait(gpu.submit("compute", store(out, 1), bos=[out]))
    out.handle = saved
    out.close()
    close(gpu.node, handle)


def as_buffer(gpu, handle, nbytes=PAGE):
    """A userptr, mapped, as a buffer that closes itself."""
    buffer = BufferObject(gpu.node, handle, nbytes, gpu.node.take_va(nbytes + PAGE))
    gpu.va("MAP", buffer, va=buffer.va, nbytes=nbytes)
    return buffer


@pytest.mark.parametrize("bad", [0, 1029], ids=["first page", "a page of the second thousand"])
def test_a_userptr_on_pages_that_may_not_be_written(gpu, bad):
    """Without READONLY that is -EFAULT: when it is validated, and at each submission."""
    nbytes = 1030 * PAGE
    with mmap.mmap(-1, nbytes) as memory, ffi.from_buffer(memory) as view:
        at = address(view)
        handle = userptr(gpu.node, at, nbytes, flags=8 | 4)
        buffer = as_buffer(gpu, handle, nbytes)
        protect(at + bad * PAGE, mmap.PROT_READ)
        with refused(errno.EFAULT):
            userptr(gpu.node, at, nbytes, flags=8 | 4)
        with refused(errno.EFAULT):
            gpu.submit("compute", store(buffer, 1, bad * PAGE), bos=[buffer])
        close(gpu.node, userptr(gpu.node, at, nbytes, flags=1 | 4))  # reading is enough here
        protect(at + bad * PAGE, mmap.PROT_READ | mmap.PROT_WRITE)
        gpu.wait(gpu.submit("compute", store(buffer, 7, bad * PAGE), bos=[buffer]))
        assert memory[bad * PAGE] == 7
        buffer.close()


def test_no_leniency_lets_a_job_touch_an_unlisted_userptr():
    """Its pages were not looked at: here they are not even there."""
    with Machine(["gfx1100"], lenient=["unlisted"]) as machine, machine.open() as node:
        gpu = EmulatedGpu(node)
        buffer = as_buffer(gpu, userptr(node, 0x10000))
        with pytest.raises(OSError, match="unlisted"):
            gpu.wait(gpu.submit("compute", store(buffer, 1)))
        assert (machine.fault().kind, machine.fault().va) == ("unlisted", buffer.va)


def test_a_userptr_with_a_page_that_is_gone(gpu):
    nbytes = 1030 * PAGE
    with mmap.mmap(-1, nbytes) as memory, ffi.from_buffer(memory) as view:
        protect(address(view) + 1029 * PAGE, 0)
        for flags in (8 | 4, 1 | 4):
            with refused(errno.EFAULT):
                userptr(gpu.node, address(view), nbytes, flags)
        protect(address(view) + 1029 * PAGE, mmap.PROT_READ | mmap.PROT_WRITE)


def test_metadata_is_kept(node):
    handle = create(node)
    ctype = "struct drm_amdgpu_gem_metadata"
    data = {"flags": 5, "tiling_info": 6, "data_size_bytes": 8, "data": [1, 2]}
    node.call("AMDGPU_GEM_METADATA", ctype, handle=handle, op=1, data=data)
    got = node.call("AMDGPU_GEM_METADATA", ctype, handle=handle, op=2).data
    assert (got.flags, got.tiling_info, got.data_size_bytes) == (5, 6, 8)
    assert list(got.data)[:3] == [1, 2, 0]


@pytest.mark.parametrize(("op", "size"), [(1, 257), (0, 0), (3, 0)])
def test_bad_metadata(node, op, size):
    handle = create(node)
    data = {"data_size_bytes": size}
    ctype = "struct drm_amdgpu_gem_metadata"
    with refused(errno.EINVAL):
        node.call("AMDGPU_GEM_METADATA", ctype, handle=handle, op=op, data=data)


def wait_idle(node, handle, timeout):
    ctype = "union drm_amdgpu_gem_wait_idle"
    return node.call("AMDGPU_GEM_WAIT_IDLE", ctype, handle=handle, timeout=timeout).out.status


@pytest.mark.parametrize("flags", [0, 0x40], ids=["listed", "always valid"])
def test_wait_idle_waits_for_jobs(machine, gpu, flags):
    out = gpu.buffer(PAGE, flags=flags)
    assert wait_idle(gpu.node, out.handle, 0) == 0
    machine.hold_jobs()
    job = gpu.submit("compute", store(out, 1), bos=[] if flags else [out])
    assert wait_idle(gpu.node, out.handle, 0) == 1
    assert wait_idle(gpu.node, out.handle, soon(0.01)) == 1
    machine.hold_jobs(hold=False)
    assert wait_idle(gpu.node, out.handle, soon()) == 0
    assert out.words() == [1]
    gpu.wait(job)
    out.close()


def test_placement_can_be_changed(node):
    handle = create(node, domains=GTT)
    ctype = "struct drm_amdgpu_gem_op"
    node.call("AMDGPU_GEM_OP", ctype, handle=handle, op=1, value=VRAM | 0x40)
    assert info(node, handle).domains == VRAM
    with refused(errno.EINVAL):
        node.call("AMDGPU_GEM_OP", ctype, handle=handle, op=2)


def test_closing_a_handle_leaves_jobs_alone(machine, node):
    with EmulatedGpu(node) as gpu:
        out, seen = gpu.buffer(PAGE), gpu.buffer(PAGE)
        machine.hold_jobs()
        job = gpu.submit("compute", store(out, 1) + store(seen, 2), bos=[out, seen])
        out.close()
        machine.hold_jobs(hold=False)
        gpu.wait(job)
        assert seen.words() == [2]
        seen.close()


def test_a_plain_close_of_the_descriptor_is_noticed(machine):
    node = machine.open(0)
    create(node)
    os.close(node.fd)
    node.fd = -1
    assert machine.live_counts()["bos"] == 0
    assert lib.sp_emu_fd_card(machine.handle, node.fd) == -errno.EBADF
