"""The workload table against the manifest, and the way from names and axes to jobs.

When this fails, a name on the command line benchmarks another kernel.
"""

from __future__ import annotations

import numpy as np
import pytest
from _bench.commands import listing
from _bench.jobs import catalog, workloads
from _bench.jobs.job import Operand, Scalar
from _bench.jobs.roofs import Roof
from _console.problems import UsageError

from sparkle_drv import assets
from sparkle_drv.types import CacheLevel, DeviceInfo

MANIFEST = assets.manifest()["kernels"]
INFO = DeviceInfo("cpu", "cpu", "x", "cpu", caches=(CacheLevel(3, 32 << 20, 2),), isa="avx2")
SMALL = {"n": "6", "size": "5", "iters": "3", "c": "4", "h": "5", "w": "6", "oc": "2"}


def small(kernel, **axes):
    known = {axis.name for axis in workloads.table()[kernel].axes}
    given = {name: str(v) for name, v in {**SMALL, **axes}.items() if name in known}
    (point,) = catalog.expand(kernel, given, INFO)
    return catalog.make(kernel, point, INFO, MANIFEST, seed=1)


def test_every_manifest_kernel_can_be_benched():
    assert set(workloads.table()) == set(MANIFEST)


@pytest.mark.parametrize("kernel", MANIFEST)
def test_job_matches_the_manifest(kernel):
    """Arguments in order and of the right type; some cost where there is work; a judge."""
    job = small(kernel)
    spec = MANIFEST[kernel]["args"]
    assert [arg.name for arg in job.args] == [arg["name"] for arg in spec]
    for arg, entry in zip(job.args, spec, strict=True):
        if isinstance(arg, Operand):
            assert (arg.type + "*", arg.access) == (entry["type"], entry["access"])
        elif isinstance(arg, Scalar):
            assert arg.type == entry["type"]
        else:
            assert entry["optional"]
    assert job.oracle or job.invariant
    assert job.flops or job.nbytes or kernel in ("noop", "busy_u32", "peak_fma_f32", "peak_fma_f64")
    assert (job.groups is not None) == (MANIFEST[kernel]["backends"]["cpu"]["form"] == "grid")


def test_costs():
    job = small("gemm_f64", m=2, n=3, k=4)
    assert (job.flops, job.nbytes) == (2 * 2 * 3 * 4, 8 * (8 + 12 + 6))
    job = small("conv2d_f32", kh=3, kw=3, pad=0, groups=2)
    assert job.flops == 2 * 6 * 2 * (3 * 4) * (2 * 9)
    assert job.nbytes == 4 * (6 * 4 * 5 * 6 + 2 * 2 * 9 + 6 * 2 * 3 * 4)
    assert small("saxpy_f32").nbytes == 12 * 6
    assert small("reduce_sum_i32").nbytes == 4 * 7
    assert small("copy_f64").groups == (1,)
    assert small("copy_f64", n=257).groups == (2,)


def test_scalars_are_drawn_by_seed_and_rounded():
    a = [small("saxpy_f32").scalars["a"] for _ in range(2)]
    assert a[0] == a[1] == float(np.float32(a[0]))
    other = catalog.make("saxpy_f32", {"n": 6}, INFO, MANIFEST, seed=2)
    assert other.scalars["a"] != a[0]


def test_names():
    def select(*names):
        return catalog.select(names, MANIFEST, "cpu")

    assert select("saxpy_f32") == ["saxpy_f32"]
    assert select("gemm", "saxpy") == ["gemm_f32", "gemm_f64", "saxpy_f32"]
    assert select("reduce_*_f64", "reduce_sum_f64") == [
        *("reduce_sum_f64", "reduce_max_f64", "reduce_min_f64"),
    ]
    assert select("noop") == ["noop"]
    with pytest.raises(
        UsageError, match="no kernel is called 'gem'; expected one of gemm_f32, gemm_f64"
    ):
        select("gem")
    with pytest.raises(UsageError, match=r"'sgemm'.*saxpy_f32"):
        select("sgemm")
    with pytest.raises(UsageError, match="no kernel"):
        catalog.select(["saxpy"], MANIFEST, "a backend without kernels")
    assert catalog.select(workloads.DEFAULT, MANIFEST, "cpu") == list(workloads.DEFAULT)


def test_axes_go_to_the_kernels_that_have_them():
    given = catalog.given_axes(["saxpy_f32", "gemm_f32"], ["n=8", "k=2"])
    assert given == {"saxpy_f32": {"n": "8"}, "gemm_f32": {"n": "8", "k": "2"}}
    with pytest.raises(UsageError, match="-a q: unknown axis; saxpy_f32 know n"):
        catalog.given_axes(["saxpy_f32"], ["q=1"])


def sizes(given):
    return [(p["m"], p["n"], p["k"]) for p in catalog.expand("gemm_f32", given, INFO)]


def test_size_stands_for_what_is_not_given():
    assert sizes({"size": "8,16"}) == [(8, 8, 8), (16, 16, 16)]
    assert sizes({"size": "8", "k": "2"}) == [(8, 8, 2)]
    assert sizes({"m": "1", "n": "2", "k": "3,4"}) == [(1, 2, 3), (1, 2, 4)]


def test_auto_length_exceeds_the_caches():
    """Other machines are in test_cache_reach.py."""
    for kernel in ("copy_f32", "saxpy_f32", "copy_f64", "reduce_sum_i32"):
        (point,) = catalog.expand(kernel, {}, INFO)
        assert 4 * (32 << 20) <= catalog.cost(kernel, point)[1] <= 8 * (32 << 20) + 8


def test_axes_that_do_not_fit_together():
    with pytest.raises(UsageError, match="groups=3 does not divide"):
        small("conv2d_f32", groups=3)
    with pytest.raises(UsageError, match="kh=9 dil=1 exceeds the padded h=5"):
        small("conv2d_f32", kh=9)


def test_list_names_every_kernel():
    entries = listing.entries(MANIFEST)
    assert [entry["kernel"] for entry in entries] == list(MANIFEST)
    saxpy = next(entry for entry in entries if entry["kernel"] == "saxpy_f32")
    assert saxpy["axes"] == {"n": ["auto"]}
    assert saxpy["args"] == ["f32* y", "f32* x", "f32 a", "u32 n"]


def test_raised_roof_is_the_higher_of_each():
    a = Roof({"f32": 5.0, "f64": 1.0}, {"copy": 3.0})
    b = Roof({"f32": 4.0}, {"copy": 9.0, "read": 2.0})
    higher = Roof({"f32": 5.0, "f64": 1.0}, {"copy": 9.0, "read": 2.0})
    assert a.raised_to(b) == b.raised_to(a) == higher
