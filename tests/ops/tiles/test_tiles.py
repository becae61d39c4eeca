"""The tile model: what it promises about caches and registers, for many machines and sizes.

When this fails, gemm plans overflow caches or registers, and users lose speed.
"""

import itertools
import re

import pytest
from where import ROOT

from sparkle_drv.ops import tiles
from sparkle_drv.ops.shapes.geometry import geometry
from sparkle_drv.types import CacheLevel, DeviceInfo, TilePlan

KIB, MIB = 1 << 10, 1 << 20
HIERARCHIES = {
    "zen": (CacheLevel(1, 32 * KIB, 1), CacheLevel(2, MIB, 1), CacheLevel(3, 32 * MIB, 8)),
    "golden": (CacheLevel(1, 48 * KIB, 1), CacheLevel(2, 2 * MIB, 1), CacheLevel(3, 30 * MIB, 12)),
    "small": (CacheLevel(1, 16 * KIB, 1), CacheLevel(2, 128 * KIB, 4)),
    "shared": (CacheLevel(1, 64 * KIB, 1), CacheLevel(2, 4 * MIB, 4)),
    "unknown": (),
    "odd": (CacheLevel(1, 1, 1), CacheLevel(2, 1, 0), CacheLevel(3, 1, 0)),
}
REAL = ("zen", "golden", "shared")


def machine(isa="avx512", caches="zen", units=8):
    return DeviceInfo(
        "cpu", "cpu", "a cpu", "cpu", isa=isa, caches=HIERARCHIES[caches], compute_units=units
    )


EVERY = list(itertools.product(tiles.CORES, HIERARCHIES, (4, 8)))


@pytest.mark.parametrize(("isa", "caches", "itemsize"), EVERY)
def test_blocks_fit(isa, caches, itemsize):
    core = tiles.CORES[isa]
    b = tiles.blocks(core, HIERARCHIES[caches], itemsize)
    accumulators = b.mr * b.nr // b.vector
    assert accumulators + 4 <= core.registers
    # Low et al.: enough independent FMAs to hide the latency of one.
    assert accumulators >= core.fma_latency * core.fma_per_cycle
    assert b.vector * itemsize == core.vector_nbytes
    assert b.nr % b.vector == b.mc % b.mr == b.nc % b.nr == 0
    assert min(b.mc, b.nc) > 0
    assert b.kc >= 64
    assert b.kc * b.nc * itemsize <= max(tiles.MAX_PACKED, b.kc * b.nr * itemsize)
    if caches in REAL:
        l1, own_l2 = (c.nbytes // c.shared_by for c in HIERARCHIES[caches][:2])
        assert b.kc * b.nr * itemsize <= max(l1, own_l2 // 8)
        l2 = HIERARCHIES[caches][1]
        own = l2.nbytes // l2.shared_by
        assert b.kc * (b.mc + b.nr) * itemsize <= own
        assert b.mc * b.kc * itemsize >= own // 4


@pytest.mark.parametrize("isa", tiles.CORES)
def test_without_an_l3_the_block_of_b_is_that_of_four_l2(isa):
    """Small ARM cores have no L3: a block of b sized for none at all would be one column."""
    without = (CacheLevel(1, 32 * KIB, 1), CacheLevel(2, 256 * KIB, 1))
    beside = (*without, CacheLevel(3, MIB, 1))
    core = tiles.CORES[isa]
    assert tiles.blocks(core, without, 4) == tiles.blocks(core, beside, 4)


@pytest.mark.parametrize(("isa", "itemsize"), list(itertools.product(tiles.CORES, (4, 8))))
def test_a_larger_cache_holds_a_larger_block(isa, itemsize):
    core = tiles.CORES[isa]
    small = HIERARCHIES["zen"]
    one = tiles.blocks(core, small, itemsize)
    for level, block in enumerate((lambda b: b.kc, lambda b: b.mc * b.kc, lambda b: b.nc * b.kc)):
        larger = list(small)
        larger[level] = CacheLevel(level + 1, 4 * small[level].nbytes, small[level].shared_by)
        other = tiles.blocks(core, tuple(larger), itemsize)
        # A block may end short of its cache by one micro-tile; kc has a floor of its own.
        assert block(other) >= (1 if level == 0 else 1.5) * block(one)


def test_it_agrees_with_the_blocks_that_were_measured_best():
    # Measured on Zen 4: kc = 1024 with a 14 x 32 tile of f32; 6 x 16 is the classic AVX2 tile.
    zen = tiles.blocks(tiles.CORES["avx512"], HIERARCHIES["zen"], 4)
    assert (zen.mr, zen.nr, zen.kc) == (14, 32, 1024)
    haswell = tiles.blocks(tiles.CORES["avx2"], HIERARCHIES["zen"], 4)
    assert (haswell.mr, haswell.nr) == (6, 16)
    assert haswell.kc == 1024
    assert tiles.micro_tile(tiles.CORES["avx2"], 8) == (6, 8, 4)


def test_gemm_plans():
    info = machine()
    plan = tiles.gemm(info, 1000, 1000, 1000)
    assert isinstance(plan, TilePlan)
    assert plan.levels == tiles.blocks(tiles.CORES["avx512"], info.caches, 4).levels
    assert (plan.algo, plan.vector, plan.threads) == ("blocked", 16, 0)
    assert tiles.gemm(info, 9, 9, 9, 8, "naive").algo == "naive"
    assert tiles.gemm(info, 9, 9, 9).threads == 1
    assert tiles.gemm(machine(units=1), 1000, 1000, 1000).threads == 1
    assert tiles.core_of(machine("something new")) is tiles.CORES["ref"]
    # One kernel is loaded per plan: sizes must not make new ones.
    assert tiles.gemm(info, 999, 5000, 700) == plan


@pytest.mark.parametrize(("isa", "itemsize"), list(itertools.product(tiles.CORES, (4, 8))))
def test_a_narrow_product_reads_each_row_of_a_in_one_go(isa, itemsize):
    info = machine(isa)
    usual = tiles.blocks(tiles.CORES[isa], info.caches, itemsize)
    for n in (1, usual.nr, 2 * usual.nr):
        (mc, nc, kc), _ = tiles.gemm(info, 2000, n, 2000, itemsize).levels
        assert (mc, nc) == (usual.mc, usual.nc)
        assert kc >= usual.kc
        assert kc * usual.nr * itemsize <= MIB // 2  # b's panel, in half of L2
    assert kc > usual.kc
    wider = tiles.gemm(info, 2000, 2 * usual.nr + 1, 2000, itemsize)
    assert wider.levels == usual.levels


@pytest.mark.parametrize("isa", tiles.CORES)
def test_an_a_whose_rows_do_not_lie_along_memory_is_packed_in_the_usual_slices(isa):
    info = machine(isa)
    usual = tiles.blocks(tiles.CORES[isa], info.caches, 4)
    assert tiles.gemm(info, 512, 2 * usual.nr, 20000, a_rows=False).levels == usual.levels
    assert tiles.gemm(info, 512, 2 * usual.nr, 20000, b_rows=False).levels != usual.levels


def far(isa, m, n, k, stays=False, itemsize=4, b_rows=True):
    """Is it read as a b from memory is?"""
    info = machine(isa)
    usual = tiles.blocks(tiles.CORES[isa], info.caches, itemsize)
    kc = tiles.gemm(info, m, n, k, itemsize, stays=stays, b_rows=b_rows).levels[0][2]
    assert kc == usual.kc or kc < usual.kc
    return kc < usual.kc


@pytest.mark.parametrize("isa", ["avx512", "avx2"])
def test_few_rows_read_a_b_from_memory_a_few_of_its_rows_at_a_time(isa):
    core, info = tiles.CORES[isa], machine(isa)
    assert far(isa, 8, 2048, 2048)
    assert far(isa, 8, 1024, 2048, itemsize=8)
    (_, nc, kc), (_, nr, _) = tiles.gemm(info, 8, 2048, 2048).levels
    if core.far_rows:
        assert kc == core.far_rows
        assert kc * nc * 4 <= MIB // 4
    else:
        assert kc * nr * 4 <= 16 * KIB  # a panel, in half of L1
    assert not far(isa, 8, 2048, 200)  # it stays in the last cache
    assert not far(
        isa, 2 * tiles.micro_tile(core, 4)[0] + 1, 512, 8192
    )  # worth packing in the call
    assert not far(isa, 8, 8192, 2048)  # c does not stay in L2
    # What will be packed is read in the same order before; four rows are not worth packing.
    assert not far(isa, 8, 2048, 2048, stays=True)
    assert far(isa, tiles.FEW_ROWS, 2048, 2048, stays=True)
    assert not far(isa, 8, 2048, 2048, b_rows=False)  # it is not read in place


def native(file, name):
    """A constant of native/cpu, `1 << 2` as 4."""
    (path,) = (ROOT / "native/cpu").rglob(file)
    text = path.read_text()
    value, shift = re.search(rf"\b{name} = (\d+)(?: << (\d+))?", text).groups()
    return int(value) << int(shift or 0)


@pytest.mark.parametrize("caches", ["zen", "golden"])
def test_a_few_rows_of_b_are_no_more_than_what_is_read_along_them(caches):
    info = machine(caches=caches, units=1)
    (_, nc, kc), _ = tiles.gemm(info, 2, 8192, 4096).levels
    assert kc == tiles.CORES["avx512"].far_rows
    assert nc * kc * 4 == native("gemm/slice.c", "ALONG_NBYTES") == tiles.ALONG_NBYTES
    assert kc <= native("gemm/slice.c", "ALONG_TERMS")


def test_shapes_need_few_kernels():
    sizes = (1, 3, 8, 20, 100, 700, 3000)
    for isa, itemsize in itertools.product(tiles.CORES, (4, 8)):
        plans = {
            tiles.gemm(machine(isa, units=1), m, n, k, itemsize)
            for m, n, k in itertools.product(sizes, repeat=3)
        }
        assert len(plans) <= 3


def test_geometry_of_a_plan():
    shape = geometry((2, 9, 11, 6), (4, 3, 3, 2), (2, 1), "same", 1, 2, "NHWC")
    assert shape.out_shape == (2, 5, 11, 4)
    assert shape.pad == (1, 0)
    assert shape.terms == 18
    assert shape.arguments() == (2, 6, 9, 11, 4, 3, 2, 5, 11, 2, 1, 1, 0, 1, 1, 2, 1)
