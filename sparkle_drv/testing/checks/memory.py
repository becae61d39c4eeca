"""Memory: each kind, zeroed and aligned; views, mapping, copies in and out, wrapped host memory,
sharing by file descriptor, and exhaustion.
"""

from __future__ import annotations

import os

import numpy as np

import sparkle_drv as sp
from sparkle_drv.testing.checks.base import NotProvided, check, kernel, raises, seeded


@check("memory")
def check_each_kind_is_zeroed_aligned_and_counted(dev: sp.Device) -> None:
    before = dev.live_counts()["buffers"]
    for memory in sp.Memory:
        for nbytes in (1, 64, 4096, 70_001):
            with dev.buffer(nbytes, memory) as buffer:
                assert (buffer.nbytes, buffer.memory) == (nbytes, memory)
                assert buffer.device is dev
                assert not buffer.readonly
                assert buffer.address % 64 == 0, f"{memory} at {buffer.address:#x}"
                assert not buffer.read(np.uint8, nbytes).any(), f"new {memory} is not zeroed"
                assert dev.live_counts()["buffers"] == before + 1
            assert buffer.closed


@check("memory")
def check_memory_used_before_comes_back_zeroed(dev: sp.Device) -> None:
    for _ in range(4):
        with dev.buffer(8192) as buffer:
            assert not buffer.read(np.uint8, 8192).any()
            buffer.write(np.full(8192, 0xEE, np.uint8))


@check("memory")
def check_write_and_read_at_offsets(dev: sp.Device) -> None:
    with seeded() as rng:
        for memory in sp.Memory:
            with dev.buffer(1000, memory) as buffer:
                want = np.zeros(1000, np.uint8)
                for offset, n in ((0, 1000), (1, 3), (13, 500), (999, 1), (1000, 0)):
                    data = rng.integers(0, 256, n, np.uint8)
                    buffer.write(data, offset)
                    want[offset : offset + n] = data
                    assert (buffer.read(np.uint8, n, offset) == data).all(), f"at {offset}"
                assert (buffer.read(np.uint8, 1000) == want).all(), f"{memory}"


@check("memory")
def check_queue_write_and_read_are_ordered_and_staged(dev: sp.Device) -> None:
    queue = dev.default_queue
    data, out = np.arange(500, dtype=np.int32), np.zeros(500, np.int32)
    with dev.buffer(data.nbytes) as buffer:
        queue.write(buffer, data)
        data += 1  # `queue.write` has already copied the old content of `data`
        first = queue.read(buffer, out)
        queue.write(buffer, data).wait()
        assert first.done
        assert (out == np.arange(500)).all()
        assert (buffer.read(np.int32, 500) == data).all()


@check("memory")
def check_a_megabyte_survives_a_round_trip(dev: sp.Device) -> None:
    with seeded() as rng:
        data = rng.integers(0, 2**63, 1 << 17)
        with dev.buffer(data.nbytes) as a, dev.buffer(data.nbytes) as b:
            a.write(data)
            dev.default_queue.submit(sp.Commands().copy(b, a)).wait()
            assert (b.read(np.int64, data.shape) == data).all()


@check("memory")
def check_views_see_their_parent(dev: sp.Device) -> None:
    with dev.buffer(1024) as parent:
        view = parent.view(256, 512)
        inner = view.view(256)
        assert (view.nbytes, inner.nbytes) == (512, 256)
        assert view.address == parent.address + 256
        assert inner.address == parent.address + 512
        inner.write(np.arange(256, dtype=np.uint8))
        assert (parent.read(np.uint8, 256, 512) == np.arange(256)).all()
        inner.close()
        inner.close()
        assert inner.closed
        assert not parent.closed
        assert not view.closed
        empty = parent.view(1024)
        assert empty.nbytes == 0
    assert view.closed, "a view outlived its parent"


@check("memory")
def check_map_reads_and_writes_the_bytes(dev: sp.Device) -> None:
    kinds = list(sp.Memory) if dev.info.unified else [sp.Memory.HOST, sp.Memory.SHARED]
    for memory in kinds:
        with dev.buffer(300, memory) as buffer:
            with buffer.map() as view:
                assert (len(view), view.readonly, view.format) == (300, False, "B")
                view[7:10] = b"abc"
            assert bytes(buffer.read(np.uint8, 3, 7)) == b"abc"
            buffer.write(np.full(4, 9, np.uint8), 100)
            with buffer.view(100, 5).map() as view:
                assert bytes(view) == b"\x09\x09\x09\x09\x00"


@check("memory")
def check_buffers_of_no_bytes(dev: sp.Device) -> None:
    for memory in sp.Memory:
        with dev.buffer(0, memory) as buffer:
            assert buffer.nbytes == 0
            buffer.write(np.empty(0, np.float32))
            assert buffer.read(np.float32, (0, 3)).shape == (0, 3)
            with buffer.view() as view:
                dev.default_queue.submit(sp.Commands().copy(view, buffer).fill(view, 1)).wait()


@check("memory")
def check_too_much_memory_is_an_error_and_no_end(dev: sp.Device) -> None:
    for memory in sp.Memory:
        with raises(sp.OutOfDeviceMemory):
            dev.buffer(1 << 60, memory)
        with dev.buffer(64, memory) as buffer:
            buffer.write(np.ones(64, np.uint8))
            assert buffer.read(np.uint8, 64).all()


@check("memory")
def check_wrapped_host_memory_is_shared_both_ways(dev: sp.Device) -> None:
    if not dev.info.unified:
        raise NotProvided("expected a device that can use host memory in place, this one cannot")
    host = np.arange(100, dtype=np.float32)
    with sp.wrap(dev, host) as x, dev.buffer(400) as y, kernel(dev, "copy_f32") as copy:
        assert x.nbytes == 400
        assert x.memory is sp.Memory.HOST
        dev.default_queue.launch(copy, y, x, 100, groups=1).wait()
        assert (y.read(np.float32, 100) == host).all()
        y.write(host * 2)
        dev.default_queue.launch(copy, x, y, 100, groups=1).wait()
        assert (host == 2 * np.arange(100)).all()
    host[:] = 1  # after close the memory belongs to its owner again


@check("memory")
def check_shared_memory_through_a_descriptor(dev: sp.Device) -> None:
    with dev.buffer(5000, sp.Memory.SHARED) as mine:
        try:
            fd = mine.export()
        except NotImplementedError as error:
            raise NotProvided(f"memory cannot be exported: {error}") from None
        try:
            with dev.import_buffer(fd, 5000) as theirs:
                mine.write(np.full(10, 3, np.uint8), 4000)
                assert (theirs.read(np.uint8, 10, 4000) == 3).all()
                theirs.write(np.full(10, 4, np.uint8))
                assert (mine.read(np.uint8, 10) == 4).all()
                mine.close()
                assert (theirs.read(np.uint8, 10) == 4).all(), "an import died with its exporter"
        finally:
            os.close(fd)


@check("memory")
def check_only_shared_memory_is_exported(dev: sp.Device) -> None:
    with dev.buffer(64) as buffer, raises(ValueError, NotImplementedError):
        buffer.export()
