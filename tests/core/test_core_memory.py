"""Memory on the cpu: alignment, sharing by descriptor, and descriptors that are something else.

When this fails, two processes that share memory by descriptor see different bytes.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from census import census, none_left

import sparkle_drv as sp


@pytest.mark.parametrize(
    "nbytes", [0, 1, 63, 64, 4096, 65535, 65536, 70_000, 2 << 20, (2 << 20) + 1]
)
def test_sizes_alignment_and_counts(cpu, nbytes):
    before = cpu.live_counts()
    with cpu.buffer(nbytes) as b:
        assert b.address % (4096 if nbytes >= 65536 else 64) == 0
        counts = cpu.live_counts()
        assert counts["native_allocations"] == before["native_allocations"] + 1
        assert counts["native_allocated_nbytes"] == before["native_allocated_nbytes"] + nbytes
        with b.map() as view:
            assert view == bytes(nbytes)
            view[:] = b"\xff" * nbytes
    assert cpu.live_counts() == before


def test_views_of_a_map_end_with_it(cpu):
    with cpu.buffer(16) as b:
        with b.map() as view:
            view[0] = 1
        with pytest.raises(ValueError, match="released"):
            view[0]


def test_sharing_leaves_no_descriptor(cpu):
    before = census()
    for _ in range(10):
        with cpu.buffer(1000, sp.Memory.SHARED) as b:
            fd = b.export()
            with cpu.import_buffer(fd, 1000) as other:
                assert other.address != b.address
                assert other.memory is sp.Memory.SHARED
                again = other.export()
                os.close(again)
            os.close(fd)
        assert b.closed
    assert none_left(before, threads=False)


def test_another_process_sees_shared_memory(cpu):
    with cpu.buffer(4096, sp.Memory.SHARED) as b:
        fd = b.export()
        pid = os.fork()
        if not pid:
            try:
                with sp.open("cpu") as mine, mine.import_buffer(fd, 4096) as theirs:
                    theirs.write(np.full(4096, 0x5A, np.uint8))
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        os.close(fd)
        assert (b.read(np.uint8, 4096) == 0x5A).all()


@pytest.mark.parametrize("what", ["folder", "read-only", "pipe", "short", "closed", "negative"])
def test_descriptors_that_are_no_memory(cpu, tmp_path, what):
    path = tmp_path / "file"
    path.write_bytes(bytes(8192))
    reader, writer = os.pipe()
    fd = {
        "folder": lambda: os.open("/", os.O_RDONLY),
        "read-only": lambda: os.open(path, os.O_RDONLY),
        "pipe": lambda: os.dup(reader),
        "short": lambda: os.open(path, os.O_RDWR),
        "closed": lambda: 10**6,
        "negative": lambda: -1,
    }[what]()
    before, counts = census(), cpu.live_counts()
    nbytes = 8193 if what == "short" else 1
    with pytest.raises((ValueError, OSError)) as caught:
        cpu.import_buffer(fd, nbytes)
    assert not isinstance(caught.value, MemoryError), "it is not memory that is lacking"
    assert none_left(before, threads=False)
    assert cpu.live_counts() == counts
    for descriptor in (reader, writer, *([fd] if what not in ("closed", "negative") else [])):
        os.close(descriptor)


@pytest.mark.parametrize(
    ("fd", "nbytes", "kind"),
    [("3", 10, TypeError), (None, 10, TypeError), (3, -1, ValueError), (3, "x", ValueError),
     (3, 2.5, ValueError)],
)  # fmt: skip
def test_import_arguments(cpu, fd, nbytes, kind):
    with pytest.raises((TypeError, kind)):
        cpu.import_buffer(fd, nbytes)


def test_a_size_of_numpy_is_a_size(cpu):
    with cpu.buffer(np.int64(4096), sp.Memory.SHARED) as b:
        fd = b.export()
        with cpu.import_buffer(fd, np.int64(4096)) as other:
            assert other.nbytes == 4096
        os.close(fd)


def test_more_memory_than_the_machine_has(cpu):
    with pytest.raises(sp.OutOfDeviceMemory, match="the machine has"):
        cpu.buffer(cpu.info.memory_nbytes + 1)
    with pytest.raises(MemoryError):
        cpu.buffer((1 << 63) - 1)


def test_memory_that_the_kernel_refuses():
    """Under a limit on address space: an error, and the device goes on."""
    code = """
import resource, sparkle_drv as sp
dev = sp.open("cpu")
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)
for memory in sp.Memory:
    try:
        dev.buffer(256 << 20, memory)
    except sp.OutOfDeviceMemory:
        print("refused")
    with dev.buffer(1 << 20, memory) as b:
        b.view(0, 8).close()
print(dev.live_counts()["native_allocations"])
dev.close()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["refused"] * 3 + ["0"]


def test_copies_between_two_devices_of_one_backend(cpu):
    with sp.open("cpu") as other, other.buffer(100) as src, cpu.buffer(100) as dst:
        src.write(np.arange(100, dtype=np.uint8))
        cpu.default_queue.copy_peer(dst, src).wait()
        assert (dst.read(np.uint8, 100) == np.arange(100)).all()
        with pytest.raises(ValueError, match="copy_peer"):
            cpu.default_queue.copy_peer(dst, src.view(0, 50))
        with pytest.raises(ValueError, match="dst"):
            cpu.default_queue.copy_peer(src, src)
        with pytest.raises(ValueError, match="dst: expected"):
            cpu.default_queue.copy_peer(dst.view(1), src)


def test_sensors_and_clock(cpu):
    assert all(isinstance(v, float) for v in cpu._backend.sensors().values())
    import time

    before = time.monotonic_ns()
    now = cpu._backend.timestamp()
    assert before <= now <= time.monotonic_ns()


def test_a_traceback_that_keeps_a_copy_is_collected():
    """A traceback keeps its callers' variables. CPython before 3.12.6 crashed in the collection,
    when these were a memoryview and a buffer of it (gh-77894).
    """
    code = (
        "import gc, numpy as np, sparkle_drv as sp\n"
        "from sparkle_drv.core.queue import Queue\n"
        "def order(queue):\n"
        "    try:\n"
        "        raise ValueError\n"
        "    except ValueError as error:\n"
        "        kept = error\n"  # a cycle: the error, its traceback, this frame
        "Queue._overtakes_nothing = order\n"
        "with sp.open('cpu') as dev:\n"
        "    x, out = dev.array(np.ones(1 << 16, 'f4')), np.empty(1 << 16, 'f4')\n"
        "    busy, y = dev.kernel('busy_u32'), dev.buffer(8)\n"
        "    for _ in range(8):\n"
        "        dev.default_queue.launch(busy, y, 1_000_000, groups=2)\n"
        "        dev.default_queue.read(x, out).wait()\n"
        "        dev.default_queue.write(x, out).wait()\n"
        "        gc.collect()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
