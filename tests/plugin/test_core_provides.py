"""A backend that brings manifest kernels of its own, as a plug-in does.

When this fails, a plug-in's own kernels are not found.
"""

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.backends.cpu.backend import CpuBackend
from sparkle_drv.core import registry


class Partial(CpuBackend):
    """The cpu with two kernels of the manifest only; keeps what load was given."""

    def __init__(self, settings):
        super().__init__(settings)
        self.kernels = {"noop": {"how": "anything"}, "copy_f32": {"how": "else"}}
        self.loaded = []

    @staticmethod
    def open(uri, settings):
        return Partial(settings)

    def load(self, spec):
        self.loaded.append((spec.name, spec.manifest))
        return super().load(spec)


@pytest.fixture
def partial():
    registry.register("partial", lambda: Partial)
    with sp.open("partial") as dev:
        yield dev
    registry.unregister("partial")


def test_its_own_kernels_are_what_it_provides(partial):
    assert partial.provides("noop")
    assert not partial.provides("saxpy_f32")
    assert not partial.provides("nonsense")
    with pytest.raises(ValueError, match="has no saxpy_f32"):
        partial.kernel("saxpy_f32")


def test_load_gets_what_it_said(partial):
    y = partial.array(np.zeros(4, np.float32))
    x = partial.array(np.arange(4, dtype=np.float32))
    partial.default_queue.launch(partial.kernel("copy_f32"), y, x, 4, groups=1).wait()
    assert y.numpy().tolist() == [0, 1, 2, 3]
    assert partial._backend.loaded == [("copy_f32", {"how": "else"})]


def test_the_manifest_says_it_for_the_others(cpu):
    assert cpu.provides("gemm_f32")
    assert not cpu.provides("nonsense")


def test_a_group_size_of_ones_own_for_a_manifest_kernel(cpu):
    with cpu.kernel("fill_f32", group_size=64) as k:
        assert k.group_size == (64, 1, 1)
        y = cpu.array(np.zeros(128, np.float32))
        cpu.default_queue.launch(k, y, 3.0, 128, groups=2).wait()
        assert (y.numpy() == 3).all()


def test_a_timestamp_is_wanted(cpu):
    with pytest.raises(TypeError, match="expected a Timestamp, got int"):
        sp.Commands().timestamp(7)
