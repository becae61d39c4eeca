"""ops.map on emulated AMD GPUs: when expressions get kernels of their own; what that saves.

When this fails, expressions on AMD GPUs run slowly through the interpreter, or run a stale kernel.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from mapkit import ulps, words
from rdnakit import CHIPS

from sparkle_drv.ops import map, ref
from sparkle_drv.ops.tiles import gpu as tiles_gpu
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulator import Machine
from sparkle_drv.types import TilePlan

map_module = sys.modules[map.__module__]
ENOUGH = tiles_gpu.WORTH_COMPILING


@pytest.fixture(params=CHIPS)
def on_card(request):
    """(device, how many lanes' instructions its card has executed)."""
    uri = f"emu:{request.param}"
    with Machine([request.param]) as machine, emu.open_device(machine, 0, uri) as dev:
        yield dev, machine.lane_ops


def floats(n, seed=0):
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def kernels(dev):
    return list(dev.kept.get("ops expressions", {}).values())


def test_an_expression_over_much_gets_a_kernel(on_card):
    dev, _ = on_card
    for n in (ENOUGH - 1, ENOUGH, ENOUGH + 77):
        x, y = floats(n), floats(n, 1)
        got = map(dev, "relu(a*x + y)", a=2, x=x, y=y)
        np.testing.assert_allclose(got, ref.map("relu(a*x + y)", a=2, x=x, y=y), 1e-6, 1e-6)
        assert len(kernels(dev)) == (n >= ENOUGH)
    map(dev, "relu(a*x + y)", a=3, x=x, y=y)  # another constant is another argument
    assert len(kernels(dev)) == 1
    (kernel,) = kernels(dev)
    assert kernel.resources.isa == dev.info.isa
    assert kernel.resources.note == ""
    assert kernel.resources.spill_nbytes == 0
    whole = np.arange(ENOUGH, dtype=np.int32)
    np.testing.assert_array_equal(map(dev, "x*x - 3", x=whole), whole * whole - 3)
    assert len(kernels(dev)) == 2


def test_pieces_begin_where_no_vector_does(on_card, monkeypatch):
    dev, _ = on_card
    monkeypatch.setattr(map_module, "PIECE", 7777)
    monkeypatch.setattr(tiles_gpu, "WORTH_COMPILING", 1)
    x = floats(20_001)
    np.testing.assert_array_equal(map(dev, "x + x*x", dev.array(x)).numpy(), x + x * x)
    assert [kernel.resources.note for kernel in kernels(dev)] == [""]


def test_what_does_not_fit_is_interpreted_and_says_so(on_card, monkeypatch):
    dev, _ = on_card
    monkeypatch.setattr(tiles_gpu, "WORTH_COMPILING", 1)
    x = floats(300)
    text = " + ".join(f"x*{i}.125" for i in range(70))
    np.testing.assert_allclose(map(dev, text, x), ref.map(text, x=x), 1e-5)
    np.testing.assert_allclose(map(dev, "exp(x)", x.astype(float)), np.exp(x.astype(float)), 1e-14)
    assert [kernel.resources.note.split(":")[0] for kernel in kernels(dev)] == [
        "interprets its program"
    ] * 2
    assert "expected at most 60 constants" in kernels(dev)[0].resources.note
    assert all("generic" in kernel.resources.isa for kernel in kernels(dev))


def test_a_plan_that_is_no_program_is_refused(on_card):
    dev, _ = on_card
    with pytest.raises(ValueError, match="is not a program for map_i32"):
        dev.kernel("map_i32", plan=TilePlan(program=words("exp(x)")[1]))
    with pytest.raises(ValueError, match="plan: program: expected a tuple of u32 words"):
        dev.kernel("map_f32", plan=TilePlan(program=(1, 1 << 32)))
    with pytest.raises(ValueError, match="program: expected none for gemm"):
        dev.kernel("gemm_f32", plan=TilePlan(program=(1,)))


def test_special_values_through_the_whole_way(on_card, monkeypatch):
    dev, _ = on_card
    monkeypatch.setattr(tiles_gpu, "WORTH_COMPILING", 1)
    x = np.array([0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 1e30, 1e-40, 100], np.float32)
    for text in ("min(x, 1)", "max(x, 1)", "relu(x)", "sigmoid(x)", "sin(x)", "x / 3", "1 / x"):
        with np.errstate(all="ignore"):
            want = ref.map(text, x=x)
        assert ulps(map(dev, text, x), want).max() <= 2.5, text


# What a kernel of its own saves, in lanes' instructions for an element (a scalar instruction counts
# as one lane's): expression, at most, and how many times fewer than the interpreter at least.
# Counted: 5.2, 26.0 and 13.2; interpreted 103.4, 74.3 and 99.2 on gfx1036, 95.5, 64.7 and 90.5 on
# gfx1100.
COUNTS = [("relu(a*x + y)", 5.5, 18), ("tanh(x)", 27, 2.4), ("x / y - a", 13.5, 6.8)]


@pytest.mark.parametrize(("text", "most", "fewer"), COUNTS)
def test_fewer_instructions_than_the_interpreter(on_card, text, most, fewer, monkeypatch):
    dev, lane_ops = on_card
    n = 4 * ENOUGH
    arrays = {name: dev.array(floats(n, i)) for i, name in enumerate("xy") if name in text}
    out, scalars = dev.empty((n,), np.float32), {"a": 2.0} if "a*" in text or "- a" in text else {}

    def count(plan_from):
        monkeypatch.setattr(tiles_gpu, "WORTH_COMPILING", plan_from)
        before = lane_ops()
        map(dev, text, out=out, **arrays, **scalars).fence.wait()
        return (lane_ops() - before) / n

    interpreted, own = count(2 * n), count(1)
    print(f"{dev.info.isa}: {text}: {own:.1f} an element, {interpreted:.1f} interpreted")
    assert own <= most
    assert interpreted >= fewer * own
