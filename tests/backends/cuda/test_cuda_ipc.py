"""The GPU's own memory in two processes, by CUDA's IPC handles: on the fake driver, whose memory is
really shared. The processes part before either has opened the device.

When this fails, two processes that share GPU memory see each other's memory freed or stale.
"""

from __future__ import annotations

import os

import pytest
from fakecuda import run

import sparkle_drv as sp

OWNER, OTHER = "owner", "other"
TWO = """
import socket
N = 3_000_000
here, there = socket.socketpair()
parted = os.fork()
me = here if parted else there
def say(word=b"x", fds=()): socket.send_fds(me, [word], fds)
def hear():
    word, fds, _, _ = socket.recv_fds(me, 64, 1)
    assert word, "the other process has ended"
    return fds[0] if fds else word
def owner():
    {owner}
def other():
    {other}
status = 1
try:
    (owner if parted else other)()
    status = 0
finally:
    sys.stdout.flush()
    if not parted:
        if status: import traceback; traceback.print_exc()
        os._exit(status)
assert os.waitpid(parted, 0)[1] == 0, "the other process failed"
"""
SHARE = """
dev = sp.open("cuda:0")
b = dev.buffer(N, exportable=True)
assert not b.read(np.uint8, N).any()
fd = b.export()
say(fds=[fd])
os.close(fd)
"""


def two(owner: str, other: str, *settings: str) -> str:
    def body(text):
        return "\n    ".join(text.strip().splitlines())

    return run(TWO.format(owner=body(owner), other=body(other)), *settings)


def test_two_processes_work_on_the_same_memory():
    two(
        SHARE
        + """
b.write(np.arange(N // 4, dtype=np.float32).view(np.uint8))
say(); hear()
got = b.read(np.uint8, N).view(np.float32)
assert (got == 3 * np.arange(N // 4, dtype=np.float32)).all()
before = tell("live allocations")
say(); hear()
b.close()
assert tell("live allocations") == before - 1
dev.close()
""",
        """
fd = hear()
dev = sp.open("cuda:0")
with dev.import_buffer(fd, N) as b:
    assert b.memory is sp.Memory.DEVICE
    hear()
    os.close(fd)
    x = b.array(np.float32, (N // 4,))
    with dev.array(x.numpy()) as two, dev.kernel("saxpy_f32") as k:
        dev.default_queue.launch(k, x, two, 2.0, N // 4, groups=-(-N // 1024)).wait()
    with pytest.raises(ValueError, match="does not reach"): b.map().__enter__()
    with pytest.raises(ValueError, match="expected a Memory.SHARED buffer"): b.export()
    say(); hear()
    assert tell("live imported") == 1
assert tell("live imported") == 0
dev.close()
say()
""",
    )


def test_what_cannot_be_imported_says_why():
    two(
        SHARE
        + """
with pytest.raises(ValueError, match="of this process"):
    dev.import_buffer(b.export(), N)
hear()
b.close()
say(); hear()
""",
        """
fd = hear()
with sp.open("cuda:1") as second, pytest.raises(ValueError, match="memory of the GPU at 0000:"):
    second.import_buffer(fd, N)
dev = sp.open("cuda:0")
with pytest.raises(ValueError, match=f"{N + 1} bytes asked for, the memory has {N}"):
    dev.import_buffer(fd, N + 1)
tell("fail cuIpcOpenMemHandle_v2 2")
with pytest.raises(sp.OutOfDeviceMemory, match="cuIpcOpenMemHandle"): dev.import_buffer(fd, N)
tell("fail cuIpcOpenMemHandle_v2 801")
with pytest.raises(sp.DriverCallError, match="cuIpcOpenMemHandle"): dev.import_buffer(fd, N)
assert dev.live_counts()["buffers"] == 0
say(); hear()
with pytest.raises(ValueError, match="which owned the memory, has freed it"):
    dev.import_buffer(fd, N)
assert tell("live imported") == 0
with sp.open("cpu") as cpu, pytest.raises(ValueError): cpu.import_buffer(fd, N)
dev.close()
say()
""",
    )


def test_memory_of_a_process_that_has_ended():
    two(
        """
fd = hear()
assert os.waitpid(parted, 0)[1] == 0
with sp.open("cuda:0") as dev, pytest.raises(ValueError, match="ended") as caught:
    dev.import_buffer(fd, N)
assert "cuIpcOpenMemHandle" in str(caught.value)
os._exit(0)  # the other was waited for
""",
        SHARE + "os._exit(0)  # as if it were killed: nothing is freed",
    )


def test_export_in_a_forked_child_is_refused():
    run("""
dev = sp.open("cuda:0")
b, early = dev.buffer(100, exportable=True), dev.buffer(100, exportable=True)
fd = early.export()
pid = os.fork()
if pid == 0:
    status = 1
    try:
        for use in (b.export, early.export, lambda: dev.buffer(4, exportable=True),
                    lambda: dev.import_buffer(fd, 100)):
            with pytest.raises(sp.DeviceLost, match="forked"): use()
        status = 0
    finally:
        os._exit(status)
assert os.waitpid(pid, 0)[1] == 0
os.close(fd)
""")


def test_a_driver_without_ipc_and_one_that_refuses():
    said = run(
        """
dev = sp.open("cuda:0")
with pytest.raises(NotImplementedError) as caught: dev.buffer(4, exportable=True)
print(caught.value)
""",
        FAKE_CUDA_MISSING="cuIpcGetMemHandle",
    )
    assert "CUDA 13.0 cannot share" in said


def test_exports_that_are_not_possible(cuda, tell):
    with cuda.buffer(64) as b, pytest.raises(ValueError, match="made with exportable=True"):
        b.export()
    with pytest.raises(ValueError, match="expected memory DEVICE or SHARED"):
        cuda.buffer(64, sp.Memory.HOST, exportable=True)
    with sp.open("cpu") as cpu, pytest.raises(NotImplementedError, match="cannot export"):
        cpu.buffer(64, exportable=True)
    with cuda.buffer(64, exportable=True) as b:
        tell("fail cuIpcGetMemHandle 801")
        with pytest.raises(sp.DriverCallError, match="cuIpcGetMemHandle"):
            b.export()
        for fd in (b.export(), b.export()):
            os.close(fd)
    with pytest.raises(ValueError, match="closed"):
        b.export()
    with pytest.raises(sp.OutOfDeviceMemory):
        cuda.buffer(1 << 50, exportable=True)
    cuda.buffer(0, exportable=True).close()
    with cuda.buffer(64, sp.Memory.SHARED, exportable=True) as b:
        os.close(b.export())


def test_a_damaged_file_is_refused(cuda, tell):
    with cuda.buffer(64, exportable=True) as b:
        fd = b.export()
        try:
            whole = os.pread(fd, 1000, 0)
            for start, end in ((16, 32), (16, 72), (80, len(whole))):
                forged = os.memfd_create("forged")
                damaged = bytearray(whole)
                damaged[16:32] = bytes(16)  # the owner's process
                damaged[start:end] = b"\xa5" * (end - start)
                os.pwrite(forged, damaged, 0)
                with pytest.raises(ValueError, match="import of memory: "):
                    cuda.import_buffer(forged, 64)
                os.ftruncate(forged, 100)
                with pytest.raises(ValueError, match="at least 128 bytes"):
                    cuda.import_buffer(forged, 128)
                os.close(forged)
        finally:
            os.close(fd)
    assert tell("live imported") == 0
