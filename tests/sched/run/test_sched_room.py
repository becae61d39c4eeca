"""An array without a named device goes to the first device that has room.

When this fails, an array fails for want of memory although another device has room.
"""

import random

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.errors import DeviceLost, OutOfDeviceMemory
from sparkle_drv.testing import sim
from sparkle_drv.testing.simulated import Rate, SimDevice, SimMachine

RATES = {"gemm_f32": Rate(1e-6, 1e10)}
F32 = np.float32
ONE = (256, 256)


@pytest.fixture
def ctx():
    """Room for one array of 256 KiB on sim:near, and for two on sim:far."""
    near = SimDevice("sim:near", RATES, memory_nbytes=300_000)
    far = SimDevice("sim:far", RATES, to_s=(1e-5, 1e10), memory_nbytes=600_000)
    machine = SimMachine({d.uri: d for d in (near, far)}, random.Random(1))
    with sim.on(machine), sp.init(["sim:near", "sim:far"], profile=False) as made:
        yield made


def test_the_next_device_is_taken_when_one_is_full(ctx):
    arrays = [ctx.array(ONE, F32) for _ in range(3)]
    assert [x.places for x in arrays] == [("sim:near",), ("sim:far",), ("sim:far",)]
    for x in arrays:
        assert x.fill_random(1).numpy().sum() != 0
    with pytest.raises(OutOfDeviceMemory, match=r"sim:near: 262144 bytes .*; sim:far: 262144"):
        ctx.array(ONE, F32, device="auto")
    arrays[0].close()
    assert ctx.array(ONE, F32, device="auto").places == ("sim:near",)


def test_the_device_that_is_named_is_the_only_one(ctx):
    x = ctx.array(ONE, F32, device="sim:near")
    with pytest.raises(OutOfDeviceMemory, match="sim:near: 262144 bytes asked for"):
        ctx.array(ONE, F32, device="sim:near")
    assert x.places == ("sim:near",)
    with pytest.raises(
        ValueError, match="expected one of sim:near, sim:far or 'auto', got 'sim:none'"
    ):
        ctx.array(ONE, F32, device="sim:none")


def test_wrong_arguments_are_told_once_and_lost_devices_passed_by(ctx):
    with pytest.raises(ValueError, match="shape"):
        ctx.array((-1, 2), F32)
    with pytest.raises(TypeError):
        ctx.array(ONE, "no type")
    ctx._executor.failed("sim:near", DeviceLost("it went"))
    assert ctx.array(ONE, F32).places == ("sim:far",)
    with pytest.raises(OutOfDeviceMemory, match="sim:far: 1000000"):
        ctx.array((1000, 250), F32)
