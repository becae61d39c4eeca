"""A backend whose name the manifest does not know is used by its abilities.

When this fails, operations do not run on devices of plug-ins.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sparkle_drv import TilePlan, assets, ops
from sparkle_drv.backends.cpu.backend import CpuBackend
from sparkle_drv.backends.egl.backend import EglBackend
from sparkle_drv.core import settings
from sparkle_drv.core.device import Device
from sparkle_drv.ops import ref
from sparkle_drv.ops.tiles import gpu as tiles_gpu


def renamed(backend):
    """A device of `backend` under a name that nothing knows."""
    backend.info = replace(backend.info, uri="other:0", backend="other")
    return Device("other:0", backend)


@pytest.fixture
def cpu():
    backend = CpuBackend.open("cpu", settings.read())
    manifest = assets.manifest()
    backend.kernels = {
        name: entry["backends"]["cpu"]
        for name, entry in {**manifest["kernels"], **manifest["packing"]}.items()
    }
    with renamed(backend) as dev:
        yield dev


@pytest.fixture
def egl(opened):
    opened("egl:0")
    with renamed(EglBackend.open("egl:0", settings.read())) as dev:
        yield dev


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_maps_are_fused(cpu):
    x, y = floats(40, 30)[::2].T, np.arange(20, dtype=np.int32)  # a portable map takes one type
    np.testing.assert_allclose(ops.map(cpu, "x*y", x, y), x * y, 1e-6)


def test_weights_are_packed(cpu):
    x, w = floats(1, 8, 12, 12), floats(8, 8, 3, 3, seed=1)
    want = ref.conv2d(x, w)
    np.testing.assert_allclose(ops.conv2d(cpu, x, w, algo="winograd"), want, 1e-3, 1e-4)
    with ops.constant(cpu, w) as held:
        made = ops.conv2d.plan(cpu, x.shape, held, algo="direct")
        assert made.tile.pack
    a, b = floats(300, 700), floats(700, 900, seed=1)
    made = ops.gemm.plan(cpu, 300, 900, 700, b=b)
    assert made.tile.algo == "blocked"
    assert made.weights.nbytes > b.nbytes  # a blob has a header
    out = np.empty((300, 900), np.float32)
    made(a, None, out).wait()
    np.testing.assert_allclose(out, a @ b, 1e-3, 1e-3)


def test_calls_are_made_again_in_c(cpu, slowly):
    a, b = floats(4, 8), floats(8, 4, seed=1)
    for _ in range(3):
        np.testing.assert_allclose(ops.gemm(cpu, a, b), a @ b, 1e-5, 1e-5)
    assert len(slowly) == 1


def test_a_device_that_takes_glsl_gets_it(egl):
    assert egl.provides("gemm_f32")
    assert not egl.provides("fused_map")
    assert not egl.provides("nonsense")
    a, b = floats(33, 20), floats(20, 17, seed=1)
    np.testing.assert_allclose(ops.gemm(egl, a, b), a @ b, 1e-4, 1e-4)
    x = floats(tiles_gpu.WORTH_COMPILING)
    np.testing.assert_allclose(ops.map(egl, "relu(x) + 1", x), np.maximum(x, 0) + 1, 1e-6)
    (plan,) = [plan for _, plan in egl.kept["ops expressions"]]
    assert plan.program
    assert plan.algo == "auto"
    with pytest.raises(ValueError, match="'1,1' is no program for map_f32"):
        egl.kernel("map_f32", plan=TilePlan(program=(1, 1)))


def test_a_device_without_an_ability_is_told_so(egl):
    x, w = floats(1, 8, 12, 12), floats(8, 8, 3, 3)
    with pytest.raises(ValueError, match="expected a cpu device for 'winograd', got other:0"):
        ops.conv2d(egl, x, w, algo="winograd")


def spoken(language, **more):
    """The cpu under another name, as a device that takes this language."""
    backend = CpuBackend.open("cpu", settings.read())
    backend.info = replace(backend.info, language=language, **more)
    return renamed(backend)


def test_a_device_that_takes_rdna_gets_the_images_of_amd_gpus():
    with spoken("rdna", isa="gfx1100") as dev:
        assert dev.provides("gemm_f32")
        assert dev._variant("gemm_f32") == assets.entry("gemm_f32")["backends"]["amdgpu"]
        assert not dev.provides("fused_map")


@pytest.mark.parametrize("language", ["ref", "sm_80", "avx512", "spirv", "GLSL"])
def test_nobody_speaks_an_instruction_set(language):
    with spoken(language) as dev:
        assert not dev.provides("gemm_f32")
        with pytest.raises(ValueError, match="other has no gemm_f32, only cpu"):
            dev.kernel("gemm_f32")


@pytest.mark.parametrize("program", [[1, 2], np.ones(2, np.uint32), None, 5, "ab", range(10**6)])
def test_a_program_is_a_tuple_on_every_device(cpu, program):
    with pytest.raises(ValueError, match="plan: program: expected a tuple of u32 words") as told:
        cpu.kernel("map_f32", plan=TilePlan(program=program))
    assert len(str(told.value)) < 150


@pytest.mark.parametrize("word", [-1, 1 << 32, 1.0, True, np.uint32(1), "1"])
def test_words_are_checked_where_kernels_are_made(word):
    with spoken("glsl") as dev, pytest.raises(ValueError, match="a tuple of u32 words") as told:
        dev.kernel("map_f32", plan=TilePlan(program=(1,) * 10**4 + (word,)))
    assert len(str(told.value)) < 150
