"""PRIME: BOs as descriptors, on one card and between two; how descriptors are recognised.

When this fails, memory shared between cards behaves otherwise than in a real kernel.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import socket

import pytest
from ioctls import PAGE, address, close, create, refused, store, va

from sparkle_drv.testing.emulator import EmulatedGpu, ffi, lib

CLOEXEC, RDWR = 0x80000, 2


def export(node, handle, flags=CLOEXEC | RDWR):
    args = node.call("PRIME_HANDLE_TO_FD", "struct drm_prime_handle", handle=handle, flags=flags)
    return args.fd


def take(node, fd):
    return node.call("PRIME_FD_TO_HANDLE", "struct drm_prime_handle", fd=fd).handle


@pytest.fixture
def shared(node):
    """(handle, descriptor) of a BO of three pages in VRAM."""
    handle = create(node, 3 * PAGE, domains=4)
    fd = export(node, handle)
    yield handle, fd
    os.close(fd)


def test_the_size_is_what_seek_end_says(shared):
    assert os.lseek(shared[1], 0, os.SEEK_END) == 3 * PAGE


def test_flags_are_those_of_the_descriptor(node):
    handle = create(node)
    for flags, cloexec, mode in ((0, 0, os.O_RDONLY), (CLOEXEC | RDWR, 1, os.O_RDWR)):
        fd = export(node, handle, flags)
        assert fcntl.fcntl(fd, fcntl.F_GETFD) & 1 == cloexec
        assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == mode
        os.close(fd)
    with refused(errno.EINVAL):
        export(node, handle, 1)


def test_the_same_open_gets_its_own_handle_back(node, shared):
    assert take(node, shared[1]) == shared[0]
    duplicate = os.dup(shared[1])
    assert take(node, duplicate) == shared[0]
    os.close(duplicate)


def test_another_open_shares_the_memory(machine, node, shared):
    with machine.open(0) as other:
        handle = take(other, shared[1])
        assert take(other, shared[1]) == handle
        assert machine.live_counts()["bos"] == 1
        close(node, shared[0])
        assert machine.live_counts()["bos"] == 1


def test_the_descriptor_alone_keeps_the_memory(machine, node):
    handle = create(node)
    fd = export(node, handle)
    close(node, handle)
    assert machine.live_counts()["bos"] == 1
    again = take(node, fd)
    close(node, again)
    os.close(fd)
    assert machine.live_counts()["bos"] == 0


def test_a_passed_descriptor_is_recognised(node, shared):
    """Through SCM_RIGHTS, as between processes."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(ours, [b"x"], [shared[1]])
        _, (fd,), _, _ = socket.recv_fds(theirs, 1, 1)
    assert take(node, fd) == shared[0]
    os.close(fd)


def test_two_cards_share_memory_through_gtt(machine, node, gpu):
    out = gpu.buffer(PAGE, domain="vram")
    fd = export(node, out.handle)
    before = node.info("MEMORY", "struct drm_amdgpu_memory_info").vram.heap_usage
    with machine.open(1) as other, EmulatedGpu(other) as second:
        theirs = second.buffer(PAGE)
        mine, theirs.handle = theirs.handle, take(other, fd)
        theirs.va = 0x7000000
        va(other, "MAP", theirs.handle, at=theirs.va)
        second.wait(second.submit("compute", store(theirs, 77), bos=[theirs]))
        assert out.words() == [77]
        assert theirs.words() == [77]
        after = node.info("MEMORY", "struct drm_amdgpu_memory_info")
        assert after.vram.heap_usage == before - PAGE
        assert after.gtt.heap_usage >= PAGE
        with refused(errno.EINVAL):  # it stays there
            args = {"handle": out.handle, "op": 1, "value": 4}
            node.call("AMDGPU_GEM_OP", "struct drm_amdgpu_gem_op", **args)
        theirs.close()
        theirs.handle = mine
        theirs.close()
    os.close(fd)
    out.close()


def test_private_memory_is_not_exported(node):
    with refused(errno.EPERM):
        export(node, create(node, flags=0x40))
    with mmap.mmap(-1, PAGE) as memory:
        view = ffi.from_buffer(memory)
        ctype = "struct drm_amdgpu_gem_userptr"
        args = {"addr": address(view), "size": PAGE, "flags": 8}
        made = node.call("AMDGPU_GEM_USERPTR", ctype, **args)
        with refused(errno.EPERM):
            export(node, made.handle)
        close(node, made.handle)
        ffi.release(view)
    with refused(errno.ENOENT):
        export(node, 77)


def test_what_is_no_dma_buf(node):
    with open(os.devnull) as other:
        for fd in (other.fileno(), node.fd):
            with refused(errno.EINVAL):
                take(node, fd)
    for fd in (-1, 99999):
        with refused(errno.EBADF):
            take(node, fd)


def test_a_dma_buf_can_be_mapped_through_the_seam(machine, node, shared):
    ops = machine.ops
    at = ops.mmap(ops.self, 3 * PAGE, 3, 1, shared[1], 0)
    assert at > 0
    ffi.buffer(ffi.cast("void *", at), 4)[:] = b"wxyz"
    offset = node.call("AMDGPU_GEM_MMAP", "union drm_amdgpu_gem_mmap", handle=shared[0])
    view = node.mmap(PAGE, offset.out.addr_ptr)
    assert view[:4] == b"wxyz"
    node.munmap(view)
    assert ops.munmap(ops.self, ffi.cast("void *", at), 3 * PAGE) == 0
    assert ops.mmap(ops.self, 4 * PAGE, 3, 1, shared[1], 0) == -errno.EINVAL


def test_duplicates_of_a_node_are_the_node(machine):
    node = machine.open(1)
    twin = os.dup(node.fd)
    handle = create(node)
    node.close()
    assert lib.sp_emu_fd_card(machine.handle, twin) == 1
    node.fd = twin
    close(node, handle)
    node.close()
    assert machine.live_counts()["files"] == 0


def test_which_descriptors_are_ours(machine, node, shared):
    ours = [node.fd, shared[1]]
    assert [lib.sp_emu_fd_is_ours(machine.handle, fd) for fd in ours] == [1, 1]
    with open(os.devnull) as other:
        assert lib.sp_emu_fd_is_ours(machine.handle, other.fileno()) == 0
    assert lib.sp_emu_fd_is_ours(machine.handle, -1) == 0
