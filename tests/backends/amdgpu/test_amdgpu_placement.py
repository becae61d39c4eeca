"""Where memory is put: code in VRAM that the CPU can write, and an APU's memory in GTT. Also how
bytes come to the host. The emulated kernel tells what is in which heap, and where the waves'
code was.

When this fails, AMD GPUs fetch code and data over PCIe and are slow.
"""

from __future__ import annotations

import numpy as np
import pytest
from emulated_cards import own_card

import sparkle_drv as sp
from sparkle_drv.testing.emulator import EmulatedGpu

MIB = 1 << 20
CPU_ACCESS = 1  # AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED
N = 1 << 16


def counters(dev):
    return dev._backend.counters()


def heaps(machine):
    """Bytes in use: VRAM, GTT."""
    with machine.open() as node:
        memory = node.info("MEMORY", "struct drm_amdgpu_memory_info")
        return memory.vram.heap_usage, memory.gtt.heap_usage


def computes(dev):
    with dev.kernel("saxpy_f32") as k, dev.array(np.zeros(N, np.float32)) as y:
        with dev.array(np.ones(N, np.float32)) as x:
            dev.default_queue.launch(k, y, x, 2.0, N, groups=N // 256).wait()
        return bool((y.numpy() == 2).all())


@pytest.mark.parametrize(
    ("options", "in_vram"),
    [
        ({}, True),
        ({"visible_nbytes": 256 * MIB}, True),  # the window of a card without resizable BAR
        ({"visible_nbytes": 2048}, False),  # a window that code does not fit into
        ({"visible_nbytes": 1}, False),
    ],
    ids=["bar", "window", "small window", "no window"],
)
def test_code_is_in_vram_where_the_cpu_writes_it_there(options, in_vram):
    with own_card(**options) as (machine, dev):
        assert computes(dev)
        vram, other = machine.dispatches()
        assert (vram > 0, other > 0) == (in_vram, not in_vram)
        now = counters(dev)
        assert (now["code_vram_nbytes"] > 0, now["code_gtt_nbytes"] > 0) == (in_vram, not in_vram)


def test_code_that_finds_no_room_in_vram_is_in_gtt():
    size = 64 * MIB
    with own_card(vram_nbytes=size, visible_nbytes=size) as (machine, dev), dev.buffer(size):
        assert computes(dev)
        assert machine.dispatches() == (0, 1)


def test_code_whose_window_is_full_is_in_gtt():
    """The kernel puts it where the CPU does not reach, which is no place for code."""
    with (
        own_card(visible_nbytes=MIB) as (machine, dev),
        machine.open() as node,
        EmulatedGpu(node) as gpu,
    ):
        gpu.buffer(MIB, flags=CPU_ACCESS, domain="vram")
        assert computes(dev)
        assert machine.dispatches() == (0, 1)


def test_code_of_an_apu_is_in_gtt():
    with own_card("gfx1036") as (machine, dev):
        assert computes(dev)
        assert machine.dispatches()[0] == 0 < machine.dispatches()[1]
        assert counters(dev)["code_vram_nbytes"] == 0


def test_code_that_leaves_gives_its_room_back():
    with own_card() as (machine, dev):
        before = heaps(machine)[0]
        with dev.kernel("noop"):
            assert heaps(machine)[0] > before
        assert heaps(machine)[0] == before


def test_a_small_carve_out_is_left_to_others():
    with own_card("gfx1036", vram_nbytes=512 * MIB) as (machine, dev):
        vram, gtt = heaps(machine)
        with dev.buffer(64 * MIB) as buffer:
            assert heaps(machine) == (vram, gtt + 64 * MIB)
            with buffer.map() as view:  # the CPU reaches all of it
                assert len(view) == 64 * MIB
        assert counters(dev)["displaced"] == 0


def test_a_large_carve_out_is_used():
    with own_card("gfx1036", vram_nbytes=512 * MIB, gtt_nbytes=256 * MIB) as (machine, dev):
        vram, _ = heaps(machine)
        with dev.buffer(64 * MIB):
            assert heaps(machine)[0] == vram + 64 * MIB


def test_an_apu_whose_gtt_is_full_goes_on_in_the_carve_out():
    with (
        own_card("gfx1036", vram_nbytes=64 * MIB, gtt_nbytes=96 * MIB) as (machine, dev),
        dev.buffer(80 * MIB),
        dev.buffer(32 * MIB) as second,
    ):
        assert heaps(machine)[0] >= 32 * MIB
        second.write(np.full(32 * MIB, 7, np.uint8))
        assert (second.read(np.uint8, 32 * MIB) == 7).all()


@pytest.mark.parametrize(
    ("chip", "options", "staged"),
    [
        ("gfx1100", {}, True),
        ("gfx1036", {}, False),
        ("gfx1036", {"gtt_nbytes": 256 * MIB}, True),  # in the carve-out: write-combined there, too
    ],
)
def test_the_cpu_does_not_read_write_combined_memory(chip, options, staged):
    data = np.arange(N, dtype=np.uint8)
    with own_card(chip, **options) as (_, dev), dev.array(data) as a:
        before = counters(dev)
        assert (a.numpy() == data).all()
        now = counters(dev)
        moved = [now[name] - before[name] for name in ("staged_nbytes", "direct_nbytes")]
        assert moved == ([N, 0] if staged else [0, N])


def test_memory_of_the_host_is_read_at_once():
    with own_card() as (_, dev), dev.buffer(N, sp.Memory.HOST) as a:
        before = counters(dev)
        a.read(np.uint8, N)
        now = counters(dev)
        assert now["direct_nbytes"] - before["direct_nbytes"] == N
        assert now["staged_nbytes"] == before["staged_nbytes"]
