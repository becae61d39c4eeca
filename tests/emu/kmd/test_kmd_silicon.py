"""What a card does and a model easily leaves out: a clock that drifts, a ring that a reset leaves
dead, the heap of code. Drivers that know none of it are told by name.

When this fails, known traits of real cards are missing, and first contact with one goes wrong.
"""

from __future__ import annotations

import errno
import time

import pytest
from ioctls import refused, soon, store, wait_cs

from sparkle_drv.testing.emulated_dispatch import launch
from sparkle_drv.testing.emulator import EmulatedGpu, Machine

COMPUTE = 1  # AMDGPU_HW_IP_COMPUTE
ENDPGM = 0xBFB00000
PGM_RSRC1 = 0x60AF0040


def ticks(node):
    """Of the GPU, and the host's ns."""
    pairs = []
    for _ in range(5):
        before = time.monotonic_ns()
        value = node.info("TIMESTAMP", "uint64_t")
        after = time.monotonic_ns()
        pairs.append((after - before, value, (before + after) // 2))
    return min(pairs)[1:]


def ppm(node, seconds=0.2):
    (ticks0, ns0), _ = ticks(node), time.sleep(seconds)
    ticks1, ns1 = ticks(node)
    return ((ticks1 - ticks0) * 10 / (ns1 - ns0) - 1) * 1e6


@pytest.mark.parametrize(("planted", "seen"), [((), 40), ((-3000,), -3000), ((20000,), 20000)])
def test_a_clock_drifts(planted, seen):
    with Machine(["gfx1100"]) as machine:
        if planted:
            machine.plant("drift", *planted)
        with machine.open() as node:
            assert ppm(node) == pytest.approx(seen, abs=1000 if planted else 39)


def test_a_clock_leaps():
    with Machine(["gfx1100"]) as machine, machine.open() as node:
        before, _ = ticks(node)
        machine.plant("drift", 40, -(10**9))
        assert -1.0e8 <= ticks(node)[0] - before < -0.9e8


@pytest.fixture
def dying():
    with Machine(["gfx1100"], job_limit_s=0.2, trace=1) as machine:
        machine.plant("reset", COMPUTE, 1)
        with machine.open() as node:
            yield machine, node


def test_a_ring_is_dead_after_a_reset_that_succeeded(dying):
    machine, node = dying
    with EmulatedGpu(node) as gpu:
        out = gpu.buffer(4096)
        gpu.wait(gpu.submit("compute", store(out, 1), bos=[out]))
        machine.hang_next_job()
        stuck = gpu.submit("compute", store(out, 2), bos=[out])
        with refused(errno.ETIME):
            wait_cs(gpu, stuck, soon())
    with EmulatedGpu(node) as gpu:  # as a driver does that takes the reset at its word
        with pytest.raises(OSError, match="ring 0 is dead since a reset") as caught:
            gpu.wait(gpu.submit("compute", store(out, 3), bos=[out]))
        assert caught.value.errno == errno.ETIME
        assert out.words()[0] == 1


def test_what_hangs_on_a_dead_ring_sends_the_next_job_to_another(dying):
    machine, node = dying
    machine.reset()
    with EmulatedGpu(node) as one, EmulatedGpu(node) as other:
        out = one.buffer(4096)
        one.submit("compute", store(out, 1), bos=[out])
        other.wait(other.submit("compute", store(out, 2), bos=[out], ring=1))
        assert out.words()[0] == 2
        lines = [line for line in machine.trace if "queued on ring" in line]
        assert [line.split()[-1] for line in lines] == ["0", "1"]


def run(machine, node, domain):
    """One wave of nothing, whose code is in this heap."""
    with EmulatedGpu(node) as gpu:
        code = gpu.buffer(4096, domain=domain, rights="rx")
        code.write([ENDPGM] * 64)
        before = machine.lane_ops()
        words = launch(11, code=code.va, rsrc1=PGM_RSRC1, rsrc2=0)
        gpu.wait(gpu.submit("compute", words, bos=[code]))
        return machine.lane_ops() - before


def test_code_is_counted_by_the_heap_that_it_is_in():
    with Machine(["gfx1100"]) as machine, machine.open() as node:
        assert run(machine, node, "gtt") > 0
        assert machine.dispatches() == (0, 1)  # fetched over the bus, in each submission
        assert run(machine, node, "vram") > 0
        assert machine.dispatches() == (1, 1)


def test_code_in_vram_that_does_not_run():
    with Machine(["gfx1100"]) as machine, machine.open() as node:
        machine.plant("code")
        assert run(machine, node, "gtt") > 0
        assert run(machine, node, "vram") == 0
