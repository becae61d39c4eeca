"""Many threads on one machine; forked children; a machine that closes under a waiting thread.

When this fails, threads or forks crash the emulator, and tests fail at random.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from ioctls import FOREVER, Syncobj, await_word, create, store, wait_cs

from sparkle_drv.testing.emulator import EmulatedGpu, Machine, ffi, lib


def work(node, rounds):
    """Buffers, jobs and waits of one thread on a context of its own."""
    with EmulatedGpu(node) as gpu:
        for value in range(1, 20):
            out = gpu.buffer(4096)
            ring = value % 4
            gpu.wait(gpu.submit("compute", store(out, value), bos=[out], ring=ring))
            assert out.words() == [value]
            out.close()
    return rounds


def test_threads_share_one_open(node):
    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(work, [node] * 8, range(8))) == list(range(8))


def test_threads_open_and_close(machine):
    def one(index):
        with machine.open(index % 2) as node:
            return work(node, 1)

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(one, range(12))) == 12


def test_threads_submit_to_one_entity(machine, gpu):
    out = gpu.buffer(4096, flags=0x40)
    job = gpu.submit("compute", store(out, 1))
    gpu.wait(job)
    ib = gpu.buffer(4096, flags=0x40)
    ib.write([0xFFFF1000] * 8)

    def submit(_):
        return gpu.submit_ib("compute", ib, 8).seq

    with ThreadPoolExecutor(8) as pool:
        seqs = sorted(pool.map(submit, range(100)))
    assert seqs == list(range(2, 102))
    gpu.wait(job._replace(seq=101))
    out.close()
    ib.close()


def in_child(function):
    """Exit status of a forked child that runs `function`, which gives the status."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = function()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_forked_child_has_no_machine(machine, node):
    arg = ffi.new("struct drm_version *")

    def child():
        codes = {-node.raw(0xC0406400, arg)}
        try:
            machine.open()
        except OSError as error:
            codes.add(error.errno)
        handle = machine.handle
        codes.add(-lib.sp_emu_fd_card(handle, node.fd))
        told = lib.sp_emu_fd_is_ours(handle, node.fd), lib.sp_emu_fd_is_ours(handle, 0)
        told += (any(machine.live_counts().values()), list(machine.trace))
        machine.close()
        return 0 if codes == {errno.ENODEV} and told == (1, 0, False, []) else 1

    assert in_child(child) == 0
    create(node)


def test_a_child_may_make_a_machine_of_its_own(machine):
    def child():
        with Machine(["gfx1036"]) as own, own.open() as node:
            work(node, 1)
        return 0

    assert in_child(child) == 0


def test_a_childs_descriptor_keeps_the_node_open(machine):
    node = machine.open()
    create(node)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(read, 1)
        os._exit(0)
    node.close()
    assert machine.live_counts()["files"] == 1
    os.write(write, b"x")
    os.waitpid(pid, 0)
    assert machine.live_counts()["files"] == 0
    os.close(read)
    os.close(write)


def test_closing_the_machine_wakes_who_waits():
    machine = Machine(["gfx1036"])
    node = machine.open()
    gpu = EmulatedGpu(node)
    out = gpu.buffer(4096)
    job = gpu.submit("compute", await_word(out, 1), bos=[out])
    sync = Syncobj(node)
    errors = []

    def wait(function, *args, **named):
        try:
            function(*args, **named)
        except OSError as error:
            errors.append(error.errno)

    threads = [
        threading.Thread(target=wait, args=(wait_cs, gpu, job, FOREVER)),
        threading.Thread(target=wait, args=(sync.wait, 2**63 - 1), kwargs={"flags": 2}),
    ]
    for thread in threads:
        thread.start()
    threads[0].join(0.05)
    machine.close()
    for thread in threads:
        thread.join()
    assert set(errors) <= {errno.ENODEV, errno.ECANCELED}
    assert len(errors) == 2
    node.close()


NO_MEMORY = """
import resource
from sparkle_drv.testing.emulator import EmulatedGpu, Machine
with Machine() as machine, machine.open() as node, EmulatedGpu(node) as gpu:
    ib = gpu.buffer(4096)
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    some = 1 << 20  # for Python's own objects; the stack of a thread takes more
    resource.setrlimit(resource.RLIMIT_AS, (used + some, -1))
    try:
        gpu.submit_ib("compute", ib, 0)
    except OSError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    gpu.wait(gpu.submit_ib("compute", ib, 0), timeout_s=5)
"""


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="ASan lives on addresses")
def test_a_ring_that_has_no_memory_to_start_says_so():
    """And the next job starts it: none waits for ever for a thread that is not there."""
    told = subprocess.run([sys.executable, "-c", NO_MEMORY], capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, "")
    assert "ENOMEM" in told.stdout


def test_a_machine_may_close_under_threads_that_name_it():
    """They get ValueError; a job's error has no fault then. In a process of its own, lest a fault
    of this one end the tests."""
    done = subprocess.run(
        [sys.executable, "-c", CLOSES], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "160\n", "")


CLOSES = """
import sys, threading
from sparkle_drv.testing.emulator import Machine

sys.setswitchinterval(1e-6)
ended = []


def name(machine, node):
    try:
        while True:
            node.ops, machine.fault(), machine.fault_of(node.fd)
    except ValueError:
        ended.append(1)


for turn in range(40):
    machine = Machine(["gfx1100"])
    node = machine.open()
    threads = [threading.Thread(target=name, args=(machine, node)) for _ in range(4)]
    for thread in threads:
        thread.start()
    machine.close()
    for thread in threads:
        thread.join(10)
print(len(ended))
"""
