"""The sizes that bench.py chooses, on made-up machines: 1 to 512 MiB of L3, 1 to 256 cores.

When this fails, `make bench` shows the rate of a cache as that of memory, or a row fails because
the device cannot take its operands.
"""

from __future__ import annotations

import itertools

import pytest
from _bench.jobs import cache_reach, catalog
from _bench.measure import timing

from sparkle_drv import assets
from sparkle_drv.backends import machine
from sparkle_drv.types import CacheLevel, DeviceInfo

MANIFEST = assets.manifest()["kernels"]
MIB, GIB = 1 << 20, 1 << 30
L3 = (None, 1 * MIB, 32 * MIB, 300 * MIB, 512 * MIB)
CORES = (1, 2, 256)
SHARERS = (256, 8)
ROOM = ((24 * GIB, 0), (24 * GIB, 128 * MIB), (1 * GIB, 0), (1536 * GIB, 0))
MACHINES = list(itertools.product(L3, CORES, SHARERS, ROOM))
STREAMS = ("saxpy_f32", "exp_f64", "reduce_sum_i32")


def tell(root, l3, cores, sharers):
    """What Linux tells of the caches of the first core."""
    levels = [(1, "48K", 1), (2, "2048K", 1), (3, f"{(l3 or 0) >> 10}K", min(cores, sharers))]
    for level, size, shared in levels if l3 else ():
        folder = root / f"sys/devices/system/cpu/cpu0/cache/index{level}"
        folder.mkdir(parents=True)
        (folder / "level").write_text(f"{level}\n")
        (folder / "type").write_text("Unified\n")
        (folder / "size").write_text(f"{size}\n")
        (folder / "shared_cpu_list").write_text(f"0-{shared - 1}\n")
    return machine.caches(root)


def jobs(info):
    for kernel in STREAMS:
        (point,) = catalog.expand(kernel, {}, info)
        yield catalog.make(kernel, point, info, MANIFEST, 1)


@pytest.mark.parametrize("l3", L3)
def test_operands_are_beyond_all_caches_or_the_row_says_not(tmp_path, l3):
    """And within what pointers and memory allow, and no larger than needed."""
    honest = 0
    for at, (_, cores, sharers, room) in enumerate(m for m in MACHINES if m[0] == l3):
        memory, pointer = room
        caches = tell(tmp_path / str(at), l3, cores, sharers)
        info = DeviceInfo(
            "cpu", "cpu", "x", "cpu", isa="avx2", compute_units=cores, caches=caches,
            memory_nbytes=memory, max_pointer_nbytes=pointer,
        )  # fmt: skip
        domains = len({core // sharers for core in range(cores)})
        cached = max(domains * l3, cores * 2 * MIB) if l3 else 64 * MIB
        for job in jobs(info):
            assert job.footprint <= memory // 16
            assert max(operand.nbytes for operand in job.operands) <= (pointer or memory)
            assert job.footprint <= 2 * max(4 * cached, 8 * MIB)
            assert job.footprint <= 2 * max(GIB, 2 * cached)
            doubted = any("may stay in" in note for note in job.notes)
            assert doubted == (job.footprint < 2 * cached)
            assert ("the device does not tell its caches" in job.notes) == (l3 is None)
            n = job.axes["n"]
            assert n & (n - 1) == 0
            if doubted and n < 1 << 31:
                longer = catalog.make(job.kernel, {**job.axes, "n": 2 * n}, info, MANIFEST, 1)
                largest = max(operand.nbytes for operand in longer.operands)
                assert longer.footprint > memory // 16 or largest > (pointer or memory)
            honest += not doubted
    assert honest


def test_a_size_that_somebody_gives_is_not_doubted():
    info = DeviceInfo("cpu", "cpu", "x", "cpu", isa="avx2", caches=(CacheLevel(3, GIB, 1),))
    (point,) = catalog.expand("saxpy_f32", {"n": "4096"}, info)
    assert catalog.make("saxpy_f32", point, info, MANIFEST, 1).notes == ()


def test_a_tiny_device_gets_a_tiny_length():
    info = DeviceInfo("egl:0", "egl", "x", "gpu", memory_nbytes=64 * MIB, max_pointer_nbytes=MIB)
    assert {job.axes["n"] for job in jobs(info) if job.kernel == "saxpy_f32"} == {MIB // 4}


def test_one_rule_for_lengths_and_for_sets_of_buffers():
    """Cold rows rotate through all caches of a machine, not through one of them."""
    info = DeviceInfo(
        "cpu", "cpu", "x", "cpu", compute_units=96, caches=(CacheLevel(3, 32 * MIB, 8),)
    )
    assert cache_reach.caches_nbytes(info) == 12 * 32 * MIB
    assert timing.cold_sets(64 * MIB, info) * 64 * MIB > 2 * 12 * 32 * MIB
