"""Machine, node and GPU of the emulator: closed by hand, by `with`, by forgetting, in a child.

When this fails, closing a device or an emulated machine leaks, or frees memory in use.
"""

import gc
import os
import time

import pytest
from census import census, none_left

import sparkle_drv as sp
from sparkle_drv.core.device import Device
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulator import EmulatedGpu, Machine

ROUNDS = 5


def worked(machine):
    """A node and a context that have run a job, whose IB is still there."""
    node = machine.open()
    gpu = EmulatedGpu(node)
    gpu.submit("compute", [0xFFFF1000] * 8)
    return node, gpu


def test_forgotten_machines_leave_no_threads_and_no_descriptors():
    gc.collect()
    before = census()
    for _ in range(ROUNDS):
        worked(Machine())
    assert none_left(before)


def test_a_machine_lives_as_long_as_its_nodes():
    node, gpu = worked(Machine())
    gc.collect()
    gpu.wait(gpu.submit("compute", [0xFFFF1000] * 8))
    assert node.machine.live_counts()["files"] == 1


def test_forgotten_nodes_and_contexts_leave_nothing_on_the_machine():
    with Machine() as machine:
        node = machine.open()
        for _ in range(ROUNDS):
            gpu = EmulatedGpu(node)
            gpu.wait(gpu.submit("compute", [0xFFFF1000] * 8))
            gpu.submit("gfx", [0xFFFF1000] * 8)
            del gpu
            gc.collect()
            until = time.monotonic() + 20
            while machine.live_counts()["contexts"] and time.monotonic() < until:
                time.sleep(0.001)  # the last job has yet to end
            assert machine.live_counts()["contexts"] == 0
        node.close()
        for _ in range(ROUNDS):
            worked(machine)
        gc.collect()
        assert machine.live_counts()["files"] == 0


def test_closed_twice_and_in_the_wrong_order():
    gc.collect()
    before = census()
    for _ in range(ROUNDS):
        with Machine() as machine:
            node, gpu = worked(machine)
            machine.close()
        with pytest.raises(ValueError, match="closed"):
            gpu.close()
        for _ in range(2):
            node.close()
            machine.close()
        assert node.fd == -1
        del machine, node, gpu
    assert none_left(before)


def test_a_descriptor_that_was_closed_behind_its_back_is_left_alone():
    with Machine() as machine:
        node = machine.open()
        os.close(node.fd)
        read, write = os.pipe()  # takes the number
        node.fd = -1
        del node
        gc.collect()
        os.write(write, b"x")
        assert os.read(read, 1) == b"x"
        os.close(read)
        os.close(write)


def test_a_forked_child_forgets_the_machine_and_the_parent_keeps_it():
    machine = Machine()
    node, gpu = worked(machine)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            del machine, node, gpu
            gc.collect()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    gpu.wait(gpu.submit("compute", [0xFFFF1000] * 8))
    assert machine.live_counts()["files"] == 1


def test_a_device_that_outlives_its_machine_is_lost():
    machine = Machine(["gfx1100"])
    dev = emu.open_device(machine, 0, "emu:gfx1100")
    queue, buffer = dev.queue(), dev.buffer(4096)
    busy = dev.kernel("busy_u32")
    queue.launch(busy, buffer, 100, groups=1).wait()
    machine.close()
    with pytest.raises(sp.DeviceLost):
        queue.launch(busy, buffer, 100, groups=1).wait()
    assert queue.reached <= queue.submitted
    for thing in (busy, buffer, queue, dev):
        thing.close()


def test_a_device_that_closes_waits_for_queues_that_were_forgotten():
    """Their work still writes to memory that closing frees."""
    with Machine() as machine, Device("emu:own", emu.open_card(machine, 0, "emu:own")) as dev:
        buffer = dev.buffer(1 << 16)
        machine.hold_jobs()
        dev.queue().submit(sp.Commands().fill(buffer, 7))
        gc.collect()
        with pytest.raises(sp.FenceTimeout, match="work of a queue did not end within"):
            dev.close(0.1)
        assert machine.live_counts()["bos"] > 0
        machine.hold_jobs(hold=False)
        dev.close()
        assert machine.live_counts()["files"] == 0
        assert machine.fault() is None
