"""Hangs, faults, resets and removal of a card: which error each caller gets, and what is left.

When this fails, the driver's handling of hangs and resets is tested against the wrong errors.
"""

from __future__ import annotations

import errno
import threading

import pytest
from ioctls import (
    PAGE,
    Syncobj,
    await_word,
    create,
    ctx,
    leaks,
    refused,
    soon,
    state,
    store,
    wait_cs,
)

from sparkle_drv.testing.emulator import EmulatedGpu, Machine, ffi

RESET, LOST, GUILTY = 1, 2, 4


@pytest.fixture
def machine():
    """One card whose jobs may run for a tenth of a second."""
    with Machine(["gfx1100"], job_limit_s=0.1, kms_minor=55, trace=1) as made:
        yield made
        assert leaks(made) == {}


@pytest.fixture
def out(gpu):
    made = gpu.buffer(PAGE, flags=0x40, domain="vram", rights="rwu")
    yield made
    made.close()


def lost_counter(gpu):
    return gpu.node.info("VRAM_LOST_COUNTER", "uint32_t")


def test_a_hang_makes_its_context_guilty(machine, gpu, out):
    with EmulatedGpu(gpu.node) as bystander:
        machine.hang_next_job()
        first = gpu.submit("compute", store(out, 1))
        second = gpu.submit("compute", store(out, 2))
        beside = gpu.submit("gfx", store(out, 3, 64), chunks=[])
        with refused(errno.ETIME):
            wait_cs(gpu, first, soon())
        with refused(errno.ECANCELED):
            wait_cs(gpu, second, soon())
        gpu.node.call(
            "AMDGPU_GEM_WAIT_IDLE",
            "union drm_amdgpu_gem_wait_idle",
            handle=out.handle,
            timeout=soon(),
        )
        assert out.words() == [0]
        with refused(errno.ECANCELED):
            gpu.submit("compute", store(out, 4))
        assert state(gpu) == RESET | GUILTY
        assert state(bystander) == RESET
        assert ctx(gpu.node, "QUERY_STATE", ctx_id=gpu.ctx).state.reset_status == 3
        assert ctx(gpu.node, "QUERY_STATE", ctx_id=gpu.ctx).state.reset_status == 0
        bystander.wait(bystander.submit("compute", store(out, 5)))
        assert out.words() == [5]
        assert machine.fault().kind == "timeout"
        assert beside.seq == 1
    with EmulatedGpu(gpu.node) as fresh:
        assert state(fresh) == 0
        fresh.wait(fresh.submit("compute", store(out, 6)))


def test_soft_recovery_blames_nobody_but_the_entity_is_broken(machine, gpu, out):
    machine.hang_next_job(recovery="soft")
    job = gpu.submit("compute", store(out, 1))
    with refused(errno.ENODATA):
        wait_cs(gpu, job, soon())
    assert state(gpu) == RESET
    with refused(errno.ENODATA):
        gpu.submit("compute", store(out, 1))
    gpu.wait(gpu.submit("gfx", store(out, 2)))
    assert out.words() == [2]


def test_a_full_reset_keeps_memory(machine, gpu, out):
    out.write([7], 5)
    machine.hang_next_job(recovery="full")
    with refused(errno.ETIME):
        wait_cs(gpu, gpu.submit("compute", store(out, 1)), soon())
    assert (out.words(5), lost_counter(gpu)) == ([7], 0)
    assert state(gpu) == RESET | GUILTY


def test_lost_vram_is_garbage_and_gtt_is_not(machine, gpu, out):
    kept = gpu.buffer(PAGE)
    out.write([7])
    kept.write([7])
    with EmulatedGpu(gpu.node) as bystander:
        machine.hang_next_job(recovery="vram_lost")
        with refused(errno.ETIME):
            wait_cs(gpu, gpu.submit("compute", store(out, 1)), soon())
        assert (out.words(), kept.words()) == ([0xDDDDDDDD], [7])
        assert lost_counter(gpu) == 1
        assert state(bystander) == RESET | LOST
        with refused(errno.ECANCELED):
            bystander.submit("compute", store(out, 1))
    kept.close()


def test_a_reset_from_outside_leaves_running_jobs(machine, gpu):
    word = gpu.buffer(PAGE, rights="rwu")  # in GTT: a job may wait for what the CPU stores there
    job = gpu.submit("compute", await_word(word, 1), bos=[word])
    machine.reset()
    word.write([1])
    gpu.wait(job)
    word.close()
    assert state(gpu) == RESET


def test_lost_vram_from_outside_cancels_what_runs_and_waits(machine, gpu, out):
    running = gpu.submit("compute", await_word(out, 1))
    waiting = gpu.submit("compute", store(out, 2))
    machine.reset(vram_lost=True)
    for job in (running, waiting):
        with refused(errno.ECANCELED):
            wait_cs(gpu, job, soon())
    assert state(gpu) == RESET | LOST


def test_a_page_fault_ends_the_job_and_is_told(machine, gpu, out):
    machine.fault_next_job(va=0x123456789000)
    with pytest.raises(OSError, match=r"ETIME.*unmapped"):
        gpu.wait(gpu.submit("compute", store(out, 1)))
    told = gpu.node.info("GPUVM_FAULT", "struct drm_amdgpu_info_gpuvm_fault")
    assert told.addr == 0x123456789000
    assert told.status
    assert out.words() == [0]


@pytest.mark.parametrize("recovery", ["soft", "full", "vram_lost"])
def test_the_recovery_of_all_failures_can_be_chosen(recovery):
    with Machine(["gfx1100"], recovery=recovery) as made, made.open() as node:
        gpu = EmulatedGpu(node)
        error = errno.ENODATA if recovery == "soft" else errno.ETIME
        with refused(error):
            wait_cs(gpu, gpu.submit("compute", [0xC0003300, 0]), soon())
        assert made.fault().kind == "packet"


def test_syncobjs_of_failed_jobs_signal(machine, gpu, out):
    sync = Syncobj(gpu.node)
    machine.hang_next_job()
    gpu.submit("compute", store(out, 1), chunks=[(5, ffi.new("uint32_t[]", [sync.handle]))])
    sync.wait(soon())
    sync.destroy()


def test_an_unplugged_card_is_enodev_for_all(machine, gpu, out):
    job = gpu.submit("compute", await_word(out, 1))
    errors = []

    def wait():
        with pytest.raises(OSError, match="ENODEV") as caught:
            wait_cs(gpu, job, 2**64 - 1)
        errors.append(caught.value.errno)

    thread = threading.Thread(target=wait)
    thread.start()
    machine.unplug()
    thread.join()
    assert errors == [errno.ENODEV]
    with refused(errno.ENODEV):
        create(gpu.node)
    with refused(errno.ENODEV):
        machine.open()
    for thing in (gpu, out):  # what is left of them goes with the node
        thing.ctx = thing.handle = 0
    for _, ib in gpu._kept.ibs:
        ib.handle = 0


def test_closing_the_machine_stops_a_hung_job():
    machine = Machine(["gfx1036"], job_limit_s=1000)
    node = machine.open()
    gpu = EmulatedGpu(node)
    out = gpu.buffer(PAGE)
    gpu.submit("compute", await_word(out, 1), bos=[out])
    machine.hang_next_job()
    gpu.submit("gfx", store(out, 1), bos=[out])
    machine.close()
    node.close()


def test_bad_injections(machine):
    for call in (machine.unplug, machine.reset, machine.hold_jobs, machine.fault, machine.lane_ops):
        with refused(errno.EINVAL):
            call(1)
    with refused(errno.EINVAL):
        machine.fail_ioctl(1, errno.EIO, count=0)
    with refused(errno.EINVAL):
        machine.fail_ioctl(1, -1)
    with pytest.raises(ValueError, match=r"recovery: expected one of ring, soft.*'prayer'"):
        machine.hang_next_job(recovery="prayer")
