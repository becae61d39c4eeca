"""Syncobjs: binary and timelines, their waits, descriptors.

When this fails, waits that a real kernel ends differently pass on the emulator.
"""

from __future__ import annotations

import errno
import os
import select
import threading

import pytest
from ioctls import Syncobj, address, refused, soon

from sparkle_drv.testing.emulator import ffi

ALL, FOR_SUBMIT, AVAILABLE = 1, 2, 4


@pytest.fixture
def sync(node):
    made = Syncobj(node)
    yield made
    made.destroy()


def test_one_without_a_fence_cannot_be_waited_for(sync):
    with refused(errno.EINVAL):
        sync.wait(soon())
    with refused(errno.ETIME):
        sync.wait(soon(0.01), flags=FOR_SUBMIT)
    with refused(errno.EINVAL):
        sync.to_fd(flags=1)


def test_signal_and_reset(sync):
    sync.signal()
    sync.wait()
    sync.reset()
    with refused(errno.EINVAL):
        sync.wait()


def test_created_signalled(node):
    sync = Syncobj(node, flags=1)
    sync.wait()
    assert sync.query() == 0
    sync.destroy()
    with refused(errno.EINVAL):
        Syncobj(node, flags=2)


def test_a_wait_for_submission_sleeps(sync):
    threading.Timer(0.02, sync.signal).start()
    sync.wait(soon(), flags=FOR_SUBMIT)


def test_timeouts_that_are_negative_do_not_wait(sync):
    with refused(errno.ETIME):
        sync.wait(-1, flags=FOR_SUBMIT)


@pytest.mark.parametrize("flags", [4, 16, 2**31])
def test_bad_wait_flags(sync, flags):
    with refused(errno.EINVAL):
        sync.wait(flags=flags)


def wait_many(node, syncs, flags, timeout=0):
    handles = ffi.new("uint32_t[]", [s.handle for s in syncs])
    args = node.call(
        "SYNCOBJ_WAIT",
        "struct drm_syncobj_wait",
        handles=address(handles),
        count_handles=len(syncs),
        flags=flags,
        timeout_nsec=timeout,
    )
    return args.first_signaled


def test_any_and_all(node, sync):
    done = Syncobj(node, flags=1)
    assert wait_many(node, [sync, done], FOR_SUBMIT) == 1
    with refused(errno.ETIME):
        wait_many(node, [sync, done], FOR_SUBMIT | ALL)
    sync.signal()
    assert wait_many(node, [sync, done], ALL) == 0
    assert wait_many(node, [], 0) == 0
    done.destroy()


def test_unknown_handles(node):
    gone = Syncobj(node, handle=77)
    for call in (gone.wait, gone.reset, gone.signal, gone.query):
        with refused(errno.ENOENT):
            call()
    for call in (gone.destroy, gone.to_fd):
        with refused(errno.EINVAL):
            call()
    with refused(errno.ENOENT):
        gone.to_fd(flags=1)


@pytest.mark.parametrize("name", ["RESET", "SIGNAL"])
def test_bad_arrays(node, name):
    ctype = "struct drm_syncobj_array"
    for fields in ({"count_handles": 0}, {"count_handles": 1, "pad": 1}):
        with refused(errno.EINVAL):
            node.call(f"SYNCOBJ_{name}", ctype, **fields)


def test_a_timeline_counts(sync):
    for point in (3, 5, 9):
        sync.signal(point)
        assert sync.query() == point
    sync.wait(point=4)
    with refused(errno.EINVAL):
        sync.wait(point=10)
    with refused(errno.ETIME):
        sync.wait(soon(0.01), flags=FOR_SUBMIT, point=10)
    sync.reset()
    assert sync.query() == 0


def test_a_timeline_never_goes_back(sync):
    sync.signal(9)
    sync.signal(5)
    assert sync.query() == 9


def test_a_timeline_wait_sleeps(sync):
    sync.signal(1)
    threading.Timer(0.02, sync.signal, [2]).start()
    sync.wait(soon(), flags=FOR_SUBMIT, point=2)


def test_available_is_enough(sync):
    with refused(errno.ETIME):
        sync.wait(flags=AVAILABLE, point=1)
    sync.signal(1)
    sync.wait(flags=AVAILABLE, point=1)


def test_a_point_of_a_binary_one(sync):
    sync.signal()
    sync.wait(point=0)
    with refused(errno.EINVAL):
        sync.wait(point=1)


def transfer(node, src, src_point, dst, dst_point, flags=0):
    node.call(
        "SYNCOBJ_TRANSFER",
        "struct drm_syncobj_transfer",
        src_handle=src.handle,
        src_point=src_point,
        dst_handle=dst.handle,
        dst_point=dst_point,
        flags=flags,
    )


def test_transfer_between_kinds(node, sync):
    box = Syncobj(node, flags=1)
    transfer(node, box, 0, sync, 7)
    assert sync.query() == 7
    box.reset()
    transfer(node, sync, 7, box, 0)
    box.wait()
    with refused(errno.EINVAL):
        transfer(node, sync, 8, box, 0)
    gone = Syncobj(node, handle=77)
    for pair in ((gone, 0, box, 0), (box, 0, gone, 0), (box, 0, gone, 1)):
        with refused(errno.ENOENT):
            transfer(node, *pair)
    box.destroy()


def test_a_descriptor_carries_the_object_to_another_open(machine, node, sync):
    fd = sync.to_fd()
    with machine.open(1) as other:  # another card, even
        got = other.call("SYNCOBJ_FD_TO_HANDLE", "struct drm_syncobj_handle", fd=fd)
        theirs = Syncobj(other, handle=got.handle)
        sync.signal()
        theirs.wait()
        theirs.reset()
        with refused(errno.EINVAL):
            sync.wait()
        theirs.destroy()
    os.close(fd)


def test_a_sync_file_is_the_fence_of_that_moment(node, sync):
    sync.signal()
    fd = sync.to_fd(flags=1)
    sync.reset()
    assert select.select([fd], [], [], 0)[0]
    ctype = "struct drm_syncobj_handle"
    node.call("SYNCOBJ_FD_TO_HANDLE", ctype, fd=fd, flags=1, handle=sync.handle)
    sync.wait()
    os.close(fd)


def test_bad_descriptors(node, sync):
    ctype = "struct drm_syncobj_handle"
    sync.signal()
    file, whole = sync.to_fd(flags=1), sync.to_fd()
    for fd, flags in ((file, 0), (whole, 1), (node.fd, 0), (-1, 0), (99999, 1), (whole, 2)):
        with refused(errno.EINVAL):
            node.call("SYNCOBJ_FD_TO_HANDLE", ctype, fd=fd, flags=flags, handle=sync.handle)
    with refused(errno.ENOENT):
        node.call("SYNCOBJ_FD_TO_HANDLE", ctype, fd=file, flags=1, handle=77)
    with refused(errno.EINVAL):
        sync.to_fd(flags=2)
    os.close(file)
    os.close(whole)
