"""Faults that are planned: each happens at its moment, as often as it should, and is counted.

When this fails, tests of failures inject none, and pass.
"""

import errno

import numpy as np
import pytest
from ioctls import leaks
from sparkle_drv._emu import ffi, lib

from sparkle_drv.testing.emulated_faults import apply, happened
from sparkle_drv.testing.emulator import EmulatedGpu, Machine
from sparkle_drv.testing.faults import CALLS, Fault, Schedule

WRITE_DATA = [0xC0033700, 0x00100500]


@pytest.fixture
def machine():
    """As the others', but jobs end soon."""
    with Machine(["gfx1100", "gfx1036"], trace=1, job_limit_s=0.2) as made:
        yield made
        assert leaks(made) == {}


def plan(machine, *faults, card=0):
    apply(Schedule(0, faults), machine, card)


def store(gpu, out, value, timeout_s=5.0):
    gpu.wait(gpu.submit("compute", [*WRITE_DATA, out.lo, out.hi, value], bos=[out]), timeout_s)


def test_calls_fail_from_the_nth_on(machine, gpu):
    plan(machine, Fault("alloc", 3, "fail", error="ENOMEM", count=2))
    made = []
    for attempt in range(1, 7):
        try:
            made.append((attempt, gpu.buffer(4096)))
        except OSError:
            continue
    assert [attempt for attempt, _ in made] == [1, 2, 5, 6]
    assert happened(machine) == {**dict.fromkeys(happened(machine), 0), "fail": 2}
    for _, buffer in made:
        buffer.close()


@pytest.mark.parametrize("call", CALLS)
def test_every_kind_of_call(machine, gpu, call):
    out = gpu.buffer(4096)
    plan(machine, Fault(call, 1, "fail", error="EACCES"))

    def one_of_each():
        other = gpu.buffer(4096)
        try:
            store(gpu, out, 1)
        finally:
            other.close()
        EmulatedGpu(gpu.node)

    with pytest.raises(OSError, match="EACCES"):
        one_of_each()
    assert happened(machine)["fail"] == 1
    out.close()


def test_a_storm_of_interruptions_is_weathered(machine, gpu):
    out = gpu.buffer(4096)
    plan(machine, Fault("any", 1, "fail", error="EINTR", count=200))
    store(gpu, out, 5)
    assert out.words() == [5]
    out.close()


def test_for_ever_means_for_ever(machine, gpu):
    planned = ffi.new("struct sp_emu_planned *")
    planned.action, planned.at, planned.value = lib.SP_EMU_DO_FAIL, 1, errno.EPERM
    planned.nrs = [2**64 - 1] * 4
    assert lib.sp_emu_plan(machine.handle, 0, planned) == 0
    for _ in range(20):
        with pytest.raises(OSError, match="EPERM"):
            gpu.buffer(4096)
    assert happened(machine)["fail"] == 20
    gpu.ctx = 0  # nor does it close


@pytest.mark.parametrize("recovery", ["ring", "soft", "full", "vram_lost"])
def test_the_nth_job_hangs_and_is_recovered_from_as_planned(machine, gpu, recovery):
    plan(machine, Fault("job", 2, "hang", recovery=recovery))
    out = gpu.buffer(4096)
    store(gpu, out, 1)
    with pytest.raises(OSError, match="injected hang"):
        store(gpu, out, 2, 20)
    assert happened(machine)["hang"] == 1
    out.close()


def test_the_nth_job_reads_what_is_not_there(machine, gpu):
    plan(machine, Fault("job", 1, "pagefault", va=0x7654_3210_0000))
    out = gpu.buffer(4096)
    with pytest.raises(OSError, match="no page at 0x765432100000"):
        store(gpu, out, 1)
    assert machine.fault().va == 0x7654_3210_0000
    out.close()


@pytest.mark.parametrize("on", ["job", "submit"])
def test_resets_and_the_loss_of_memory(machine, gpu, on):
    plan(machine, Fault(on, 2, "reset", vram_lost=1))
    out = gpu.buffer(4096, domain="vram")
    store(gpu, out, 1)
    with pytest.raises(OSError, match="ECANCELED"):
        store(gpu, out, 2)
    assert out.words(1) == [0xDDDDDDDD]
    assert happened(machine)["reset"] == 1
    out.close()


@pytest.mark.parametrize("on", ["job", "wait"])
def test_a_card_that_goes(machine, gpu, on):
    plan(machine, Fault(on, 1, "unplug"))
    out = gpu.buffer(4096)
    with pytest.raises(OSError, match="ENODEV"):
        store(gpu, out, 1)
    assert happened(machine)["unplug"] == 1
    gpu.ctx = 0


def test_slow_jobs_end_right_or_at_their_limit(machine, gpu):
    plan(machine, Fault("job", 1, "slow", factor=3), Fault("job", 2, "slow", factor=10**6))
    out = gpu.buffer(4096)
    store(gpu, out, 1)
    assert out.words() == [1]
    big = gpu.buffer(1 << 20)
    words = [w for i in range(256) for w in (*WRITE_DATA, big.lo + 4 * i, big.hi, i)]
    with pytest.raises(OSError, match="longer than its limit"):
        gpu.wait(gpu.submit("compute", words, bos=[big]), 20)
    for buffer in (out, big):
        buffer.close()


def test_one_dword_of_what_a_job_changes_is_corrupted(machine, gpu):
    plan(machine, Fault("job", 2, "corrupt", mask=0x40000000, seed=5))
    out = gpu.buffer(4096)
    words = [w for i in range(100) for w in (*WRITE_DATA, out.lo + 4 * i, out.hi, i + 1)]
    gpu.wait(gpu.submit("compute", [0xFFFF1000] * 8, bos=[out]))
    assert happened(machine)["corrupt"] == 0
    gpu.wait(gpu.submit("compute", words, bos=[out]))
    found = np.array(out.words(0, 1024), np.uint32)
    want = np.zeros(1024, np.uint32)
    want[:100] = np.arange(1, 101)
    (at,) = np.flatnonzero(found != want)
    assert at < 100
    assert found[at] == want[at] ^ 0x40000000
    assert happened(machine)["corrupt"] == 1
    out.close()


def test_a_corruption_waits_for_a_job_that_changes_something(machine, gpu):
    plan(machine, Fault("job", 1, "corrupt", mask=0x80))
    out = gpu.buffer(4096)
    for _ in range(3):
        gpu.wait(gpu.submit("compute", [0xFFFF1000] * 8, bos=[out]))
    assert happened(machine)["corrupt"] == 0
    store(gpu, out, 1)
    assert out.words(0, 2) == [0x81, 0]
    assert happened(machine)["corrupt"] == 1
    out.close()


def test_cards_count_for_themselves(machine, gpu, gfx10):
    plan(machine, Fault("job", 1, "unplug"), card=1)
    out = gpu.buffer(4096)
    store(gpu, out, 1)
    assert happened(machine, 0)["unplug"] == happened(machine, 1)["unplug"] == 0
    out.close()


@pytest.mark.parametrize(
    ("action", "of_jobs", "at", "value"),
    [
        (0, 0, 1, 1),
        (8, 0, 1, 1),
        (lib.SP_EMU_DO_FAIL, 0, 1, 0),
        (lib.SP_EMU_DO_FAIL, 0, 1, 4096),
        (lib.SP_EMU_DO_FAIL, 1, 1, 5),
        (lib.SP_EMU_DO_HANG, 0, 1, 0),
        (lib.SP_EMU_DO_HANG, 1, 1, 9),
        (lib.SP_EMU_DO_SLOW, 1, 0, 2),
    ],
)
def test_what_cannot_be_planned(machine, action, of_jobs, at, value):
    planned = ffi.new("struct sp_emu_planned *")
    planned.action, planned.of_jobs, planned.at, planned.value = action, of_jobs, at, value
    assert lib.sp_emu_plan(machine.handle, 0, planned) == -errno.EINVAL
    assert lib.sp_emu_plan(machine.handle, 7, planned) == -errno.EINVAL
    assert lib.sp_emu_plan_done(machine.handle, 7, ffi.new("uint64_t[]", 16)) == -errno.EINVAL
