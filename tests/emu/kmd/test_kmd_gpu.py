"""The helper that other tests of the emulator stand on: Machine, EmulatedNode, EmulatedGpu.

When this fails, every other test of the emulator may fail for a reason of its equipment.
"""

from __future__ import annotations

import numpy as np
import pytest
from ioctls import await_word, store

from sparkle_drv.testing.emulated_options import FAULT_KINDS, LENIENT, RECOVERY, words
from sparkle_drv.testing.emulator import EmulatedGpu, Machine, lib


def test_a_job_writes_memory(gpu):
    out = gpu.buffer(4096)
    job = gpu.submit("compute", store(out, 42), bos=[out])
    gpu.wait(job)
    assert out.words(0, 2) == [42, 0]
    out.close()


@pytest.mark.parametrize("ip", ["gfx", "compute"])
@pytest.mark.parametrize("card", [0, 1])
def test_every_card_and_ring_runs(machine, ip, card):
    with machine.open(card) as node, EmulatedGpu(node) as gpu:
        out = gpu.buffer(4096, domain="vram")
        gpu.wait(gpu.submit(ip, store(out, 7, 8), bos=[out]))
        assert out.words(0, 3) == [0, 0, 7]
        out.close()


def test_dma_writes_memory(gpu):
    out = gpu.buffer(4096)
    write = [2, out.lo, out.hi, 1, 11, 12]  # SDMA WRITE of two dwords
    gpu.wait(gpu.submit("dma", write, bos=[out]))
    assert out.words(0, 3) == [11, 12, 0]
    out.close()


def test_the_map_is_memory_for_numpy(gpu):
    out = gpu.buffer(100)
    assert out.nbytes == 4096
    view = np.frombuffer(out.map, np.uint32)
    gpu.wait(gpu.submit("compute", store(out, 5), bos=[out]))
    assert view[0] == 5
    del view
    out.close()


def test_an_unlisted_buffer_is_a_fault(machine, gpu):
    out = gpu.buffer(4096)
    with pytest.raises(OSError, match="unlisted"):
        gpu.wait(gpu.submit("compute", store(out, 42)))
    fault = machine.fault()
    assert (fault.kind, fault.va, fault.access) == ("unlisted", out.va, 2)
    assert machine.fault_count() == 1
    assert machine.fault(1) is None
    out.close()


def test_lenient_allows_unlisted_buffers():
    with Machine(["gfx1036"], lenient=["unlisted"]) as machine, machine.open() as node:
        gpu = EmulatedGpu(node)
        out = gpu.buffer(4096)
        gpu.wait(gpu.submit("compute", store(out, 42)))
        assert out.words() == [42]


def test_a_job_that_never_ends_is_timed_out():
    with Machine(["gfx1100"], job_limit_s=0.05) as machine, machine.open() as node:
        gpu = EmulatedGpu(node)
        out = gpu.buffer(4096)
        with pytest.raises(OSError, match="ETIME"):
            gpu.wait(gpu.submit("compute", await_word(out, 1), bos=[out]))
        assert machine.fault().kind == "timeout"


def test_wait_times_out_while_the_job_goes_on(gpu):
    out = gpu.buffer(4096, rights="rwu")
    job = gpu.submit("compute", await_word(out, 1), bos=[out])
    with pytest.raises(TimeoutError):
        gpu.wait(job, timeout_s=0.02)
    out.write([1])
    gpu.wait(job)
    out.close()


@pytest.mark.parametrize("chips", [[], ["gfx1100"] * 33])
def test_too_few_and_too_many_cards(chips):
    with pytest.raises(ValueError, match=f"1 to 32 cards, got {len(chips)}"):
        Machine(chips)


@pytest.mark.parametrize(
    ("name", "value", "error", "wanted"),
    [
        ("recovery", "rign", ValueError, "'rign'"),
        ("recovery", 1, TypeError, "int"),
        ("lenient", ["nope"], ValueError, "'nope'"),
        ("lenient", "unlisted", TypeError, "str"),
        ("lenient", 1.5, TypeError, "float"),
        ("lenient", 1024, ValueError, "1024"),
        ("job_limit_s", -1, ValueError, "-1"),
        ("job_limit_s", float("nan"), ValueError, "nan"),
        ("job_limit_s", 1e-10, ValueError, "1e-10"),
        ("delay_s", float("inf"), ValueError, "inf"),
        ("delay_s", "1", TypeError, "str"),
        ("threads", 65, ValueError, "0 to 64, got 65"),
        ("threads", -1, ValueError, "-1"),
        ("threads", 1.0, TypeError, "float"),
        ("kms_minor", 2**31, ValueError, "2147483648"),
        ("seed", -1, ValueError, "-1"),
        ("vram_nbytes", 2**64, ValueError, "18446744073709551616"),
        ("trace", 3, ValueError, "0 to 2, got 3"),
        ("chips", "gfx1100", TypeError, "'gfx1100'"),
        ("chips", [1100], TypeError, "int"),
        ("chips", None, TypeError, "None"),
    ],
)
def test_bad_options_are_named(name, value, error, wanted):
    with pytest.raises(error, match=f"^{name}( must be|: expected) .*{wanted}"):
        Machine(**{name: value})


def test_bad_arguments_of_a_context_are_named(machine, gpu):
    before = machine.live_counts()
    with pytest.raises(ValueError, match=r"^domain: expected one of cpu, gtt, vram, got 'vrma'"):
        gpu.buffer(4096, domain="vrma")
    with pytest.raises(ValueError, match=r"^rights: expected letters of 'rwxu', got 'rq'"):
        gpu.buffer(4096, rights="rq")
    for ip in ("sdma", "", "GFX"):
        with pytest.raises(ValueError, match=f"^ip: expected one of gfx, compute, dma, got '{ip}'"):
            gpu.submit(ip, [0])
    out = gpu.buffer(4096)
    with pytest.raises(ValueError, match=r"^op: expected one of MAP, .*'map'"):
        gpu.va("map", out, va=out.va, nbytes=4096)
    out.close()
    assert machine.live_counts() == before


def test_a_closed_machine_says_so():
    machine = Machine(["gfx1036"])
    node = machine.open()
    machine.close()
    machine.close()
    for call in (machine.open, machine.live_counts, lambda: node.raw(0, None), lambda: machine.ops):
        with pytest.raises(ValueError, match="closed"):
            call()
    node.close()


def test_the_log_tells_ioctls_jobs_and_faults(machine, gpu):
    out = gpu.buffer(4096)
    with pytest.raises(OSError, match="unlisted"):
        gpu.wait(gpu.submit("compute", store(out, 42)))
    out.close()
    log = list(machine.trace)
    assert any("AMDGPU_CS -> 0" in line for line in log)
    assert any(line.startswith("job ") and "queued" in line for line in log)
    assert any(line.startswith("fault ") and "BO" in line for line in log)
    assert list(machine.trace) == []


def test_the_words_are_those_of_the_header():
    """Kinds are looked up by place: there is one for each number."""
    numbers = words("sp_emu_fault_kind", "SP_FAULT_")
    assert [numbers[kind] for kind in FAULT_KINDS] == [*range(len(FAULT_KINDS))]
    assert FAULT_KINDS[lib.SP_FAULT_TIMEOUT] == "timeout"
    assert LENIENT["order"] == lib.SP_LENIENT_ORDER
    assert RECOVERY["vram_lost"] == lib.SP_EMU_RECOVER_VRAM_LOST
