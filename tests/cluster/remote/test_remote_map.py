"""Mapped memory of a node behaves as memory that host and device share.

When this fails, writes to mapped memory of a remote device do not reach it.
"""

import gc

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.types import Memory


def test_the_host_sees_what_the_device_did(box):
    queue = box.default_queue
    with box.buffer(64, Memory.HOST) as buffer, buffer.map() as view:
        queue.submit(sp.Commands().fill(buffer, 7, 1)).wait()
        assert bytes(view) == bytes([7]) * 64
        fence = queue.submit(sp.Commands().fill(buffer.view(0, 32), 9, 1))
        while not fence.done:
            pass
        assert bytes(view) == bytes([9]) * 32 + bytes([7]) * 32


def test_the_device_sees_what_the_host_did(box):
    queue = box.default_queue
    with box.buffer(64, Memory.HOST) as buffer, box.buffer(64) as copy, buffer.map() as view:
        for byte in (1, 2, 3):
            view[byte * 10] = byte
            queue.submit(sp.Commands().copy(copy, buffer)).wait()
            assert copy.read(np.uint8, 64)[byte * 10] == byte
        assert np.count_nonzero(copy.read(np.uint8, 64)) == 3


def test_both_write_beside_each_other(box):
    """Bytes of the device between those of the host stay, also those that the host has not seen."""
    queue = box.default_queue
    with box.buffer(64, Memory.SHARED) as buffer, buffer.map() as view:
        fence = queue.submit(sp.Commands().fill(buffer.view(20, 4), 5, 1))
        view[16:20], view[24:28] = b"aaaa", b"bbbb"
        queue.submit(sp.Commands()).wait()
        assert fence.done
        assert bytes(view[16:28]) == b"aaaa\5\5\5\5bbbb"
        assert bytes(buffer.read(np.uint8, 12, 16)) == b"aaaa\5\5\5\5bbbb"


def test_an_array_over_it_counts_as_a_view(box):
    with box.buffer(4096, Memory.HOST) as buffer:
        numbers = np.frombuffer(buffer.map(), np.uint32)
        part = numbers[::2]
        del numbers
        gc.collect()
        part[:] = np.arange(512)
        assert (buffer.read(np.uint32, 1024)[::2] == np.arange(512)).all()
        part[0] = 77
        del part
        assert buffer.read(np.uint32, 1)[0] == 77
    assert not box._backend._mirrors, "a mirror that nobody looks at was kept"


def test_a_view_outlives_its_buffer(box):
    buffer = box.buffer(16, Memory.HOST)
    view = buffer.map()
    view[:4] = b"wxyz"
    box.default_queue.submit(sp.Commands()).wait()
    buffer.close()
    box.default_queue.submit(sp.Commands()).wait()
    assert bytes(view[:5]) == b"wxyz\0"


def test_many_small_changes_and_large_ones(box):
    n = 1 << 20
    with box.buffer(n, Memory.HOST) as buffer:
        with buffer.map() as view:
            numbers = np.frombuffer(view, np.float32)
            numbers[:] = np.arange(n // 4)
            want = numbers.copy()
            del numbers
        assert (buffer.read(np.float32, n // 4) == want).all()


def test_own_memory_of_the_device_is_not_mapped(box):
    with (
        box.buffer(16) as buffer,
        pytest.raises(ValueError, match=r"expected Memory.HOST, .* memory of box1/cpu:c0"),
    ):
        buffer.map()


def test_what_needs_one_machine(box):
    with pytest.raises(NotImplementedError, match="is on another machine; copy the array"):
        sp.wrap(box, np.ones(4, np.float32))
    with box.buffer(16, Memory.SHARED) as buffer, pytest.raises(NotImplementedError):
        buffer.export()
    with pytest.raises(NotImplementedError):
        box.import_buffer(0, 16)


def test_more_changes_than_a_queue_holds_while_others_work(box):
    """Each travels alone, because work in flight may change what lies between."""
    n = 6000
    with box.buffer(n, Memory.HOST) as buffer, box.queue() as other, box.buffer(4) as out:
        kernel = box.kernel("busy_u32")
        with buffer.map() as view:
            fence = other.launch(kernel, out, 200_000_000, groups=1)
            np.frombuffer(view, np.uint8)[::2] = 1
            box.default_queue.submit(sp.Commands().fill(buffer.view(1, 1), 9, 1)).wait()
            assert view[1] == 9
        fence.wait()
        kernel.close()
        want = (np.arange(n) % 2 == 0).astype(np.uint8)
        want[1] = 9
        assert (buffer.read(np.uint8, n) == want).all()
