"""The cache of tuned plans: a plan comes back for the same device only. No damaged file gets in the
way of an operation.

When this fails, a damaged file of tuned plans breaks operations, or plans of another machine are
used.
"""

import json
import logging
import threading
from dataclasses import replace

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import ops, saved_files
from sparkle_drv.backends.rates import identity
from sparkle_drv.ops import tiles
from sparkle_drv.ops.calls import plans
from sparkle_drv.ops.shapes.geometry import geometry
from sparkle_drv.ops.tiles import tuned_plans
from sparkle_drv.ops.tiles.tuned_plans import Tuned, TunedPlan
from sparkle_drv.types import DeviceInfo, TilePlan

INFO = DeviceInfo("egl:0", "egl", "a gpu", "gpu", driver="driver 1", compute_units=4)
PLAN = TilePlan(algo="blocked", levels=((16, 128, 4), (16, 16, 1)), vector=4)
SHAPE = tuned_plans.gemm_shape(512, 256, 128)


@pytest.fixture
def cache(tmp_path):
    return Tuned(str(tmp_path / "home"))


def test_what_is_put_comes_back(cache):
    cache.put(INFO, "gemm_f32", SHAPE, TunedPlan(PLAN, 0.5, 0.75))
    cache.put(
        INFO,
        "gemm_f32",
        tuned_plans.gemm_shape(1, 2, 3),
        TunedPlan(TilePlan(algo="naive"), 1.0, 1.0),
    )
    found = cache.entries(INFO)
    assert found["gemm_f32", SHAPE] == TunedPlan(PLAN, 0.5, 0.75)
    assert found["gemm_f32", SHAPE].plan.source == "tuned"
    assert len(found) == 2
    cache.put(INFO, "gemm_f32", SHAPE, TunedPlan(replace(PLAN, vector=1), 0.25, 0.75))
    assert cache.entries(INFO)["gemm_f32", SHAPE].plan.vector == 1


@pytest.mark.parametrize(
    "other",
    [
        replace(INFO, driver="driver 2"),
        replace(INFO, name="another gpu"),
        replace(INFO, isa="glsl 460"),
        replace(INFO, compute_units=2),
        replace(INFO, backend="cuda"),
    ],
)
def test_another_device_finds_nothing(cache, other):
    cache.put(INFO, "gemm_f32", SHAPE, TunedPlan(PLAN))
    assert cache.entries(other) == {}


def test_another_version_of_the_package_is_another_key():
    assert identity(INFO, "0.1.0") != identity(INFO, "0.2.0")
    assert identity(INFO).endswith(sp.__version__)


def test_shapes_have_names_of_their_own():
    def conv(stride=1, layout="NCHW", padding=1):
        x = (1, 8, 16, 16) if layout == "NCHW" else (1, 16, 16, 8)
        return tuned_plans.conv2d_shape(geometry(x, (8, 8, 3, 3), stride, padding, 1, 1, layout))

    names = [conv(), conv(2), conv(1, "NHWC"), conv(1, "NCHW", 0), SHAPE]
    names += [tuned_plans.gemm_shape(256, 512, 128), tuned_plans.reduce_shape(1, 2, 3)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '"x"', '{"schema": 1}', '{"schema": 1, "devices": []}', "[" * 100_000],
)
def test_a_damaged_file_is_set_aside_with_a_warning(cache, text, caplog):
    cache.path.parent.mkdir()
    cache.path.write_text(text)
    with caplog.at_level(logging.WARNING, "sparkle_drv.ops"):
        assert cache.entries(INFO) == {}
    assert "damaged" in caplog.text
    assert not cache.path.exists()
    assert cache.path.with_name("tuned.json.damaged").read_text() == text
    cache.put(INFO, "gemm_f32", SHAPE, TunedPlan(PLAN))
    assert cache.entries(INFO)["gemm_f32", SHAPE].plan == PLAN


def test_a_file_that_is_no_text_is_damaged_too(cache, caplog):
    cache.path.parent.mkdir()
    cache.path.write_bytes(b"\xff\x00\xfe")
    assert cache.entries(INFO) == {}
    assert "damaged" in caplog.text


def test_a_later_schema_is_left_alone(cache, caplog):
    later = '{"schema": 2, "devices": 5}'
    cache.path.parent.mkdir()
    cache.path.write_text(later)
    assert cache.entries(INFO) == {}
    assert cache.path.exists()
    cache.put(
        INFO, "gemm_f32", SHAPE, TunedPlan(PLAN)
    )  # it is kept when there is something to write
    assert "is of schema 2, expected 1" in caplog.text
    assert cache.path.with_name(f"{cache.path.name}.kept").read_text() == later
    assert cache.entries(INFO)["gemm_f32", SHAPE].plan == PLAN


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("algo", 5), ("levels", [[1, 2]]), ("levels", [[1, 2, -3]]), ("levels", 7),
        ("levels", [[1, 1, 1]] * 3), ("levels", [[1.5, 1, 1]]), ("vector", "four"),
        ("vector", True), ("threads", -1), ("threads", 1 << 40),
    ],
)  # fmt: skip
def test_an_entry_that_makes_no_sense_counts_as_absent(cache, field, value):
    cache.put(INFO, "gemm_f32", SHAPE, TunedPlan(PLAN))
    cache.put(INFO, "gemm_f32", "good", TunedPlan(PLAN))
    document = json.loads(cache.path.read_text())
    document["devices"][identity(INFO)]["gemm_f32"][SHAPE]["plan"][field] = value
    cache.path.write_text(json.dumps(document))
    assert set(cache.entries(INFO)) == {("gemm_f32", "good")}


def test_nowhere_keeps_nothing():
    nowhere = Tuned("")
    nowhere.put(INFO, "gemm_f32", SHAPE, TunedPlan(PLAN))
    assert nowhere.entries(INFO) == {}


def test_writers_at_the_same_time_lose_nothing(cache):
    def write(which):
        for at in range(5):
            cache.put(INFO, "gemm_f32", f"{which} {at}", TunedPlan(PLAN))

    threads = [threading.Thread(target=write, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache.entries(INFO)) == 20
    assert not list(cache.path.parent.glob(".tuned-*"))


@pytest.fixture
def tuned_cpu(tmp_path, monkeypatch):
    """tuned_cpu(shape, plan) -> an open cpu device for which that gemm was tuned."""
    monkeypatch.setenv("SPARKLE_HOME", str(tmp_path))
    opened = []

    def make(shape, plan, kernel="gemm_f32"):
        with sp.open("cpu") as first:
            Tuned(str(tmp_path)).put(first.info, kernel, shape, TunedPlan(plan))
        opened.append(sp.open("cpu"))
        return opened[-1]

    yield make
    for dev in opened:
        dev.close()


def test_ops_take_the_tuned_plan_of_their_shape_only(tuned_cpu):
    wanted = TilePlan(algo="blocked", levels=((28, 64, 64), (0, 0, 0)), threads=1)
    dev = tuned_cpu(tuned_plans.gemm_shape(33, 44, 55), wanted)
    plan = ops.gemm.plan(dev, 33, 44, 55)
    assert (plan.tile, plan.tile.source) == (wanted, "tuned")
    other = ops.gemm.plan(dev, 33, 44, 56)
    assert (other.tile, other.tile.source) == (tiles.gemm(dev.info, 33, 44, 56), "model")
    assert ops.gemm.plan(dev, 33, 44, 55, np.float64).tile.source == "model"
    a, b = np.random.default_rng(0).standard_normal((2, 55, 55)).astype(np.float32)
    got = ops.gemm(dev, a[:33], b[:, :44])
    assert np.allclose(got, a[:33].astype(float) @ b[:, :44], atol=1e-4)


def test_an_algorithm_asked_for_is_not_overruled(tuned_cpu):
    dev = tuned_cpu(tuned_plans.gemm_shape(8, 8, 8), TilePlan(algo="blocked", threads=1))
    plan = ops.gemm.plan(dev, 8, 8, 8, algo="naive")
    assert (plan.tile.algo, plan.tile.source) == ("naive", "model")


def test_convolutions_look_there_too(tuned_cpu):
    shape = geometry((1, 4, 9, 9), (4, 4, 3, 3), 1, 0, 1, 1, "NCHW")
    dev = tuned_cpu(
        tuned_plans.conv2d_shape(shape), TilePlan(algo="direct", threads=1), "conv2d_f32"
    )
    plan = ops.conv2d.plan(dev, (1, 4, 9, 9), np.zeros((4, 4, 3, 3), np.float32))
    assert (plan.tile.algo, plan.tile.source) == ("direct", "tuned")


def test_a_plan_that_the_device_refuses_gives_way_to_the_model(tuned_cpu, caplog):
    dev = tuned_cpu(tuned_plans.gemm_shape(8, 8, 8), TilePlan(algo="no such algorithm"))
    assert ops.gemm.plan(dev, 8, 8, 8).tile.source == "model"
    assert "no such algorithm" in caplog.text


def test_the_file_is_read_once_per_device(tuned_cpu, tmp_path):
    dev = tuned_cpu(tuned_plans.gemm_shape(8, 8, 8), TilePlan(algo="blocked"))
    assert ops.gemm.plan(dev, 8, 8, 8).tile.source == "tuned"
    (tmp_path / "tuned.json").unlink()
    assert ops.gemm.plan(dev, 8, 8, 8).tile.source == "tuned"
    assert ops.gemm.plan(dev, 8, 8, 9).tile.source == "model"


def test_a_device_remembers_a_bounded_number_of_shapes(monkeypatch):
    monkeypatch.setattr(plans, "MOST_KEPT", 3)
    with sp.open("cpu") as dev:
        for k in range(1, 9):
            ops.gemm.plan(dev, 1, 1, k)
        assert len(dev.kept["ops plans"]) == 2


def test_a_lock_that_is_never_let_go_is_an_error(tmp_path):
    path = tmp_path / "x.json"
    second = saved_files.locked(path, timeout_s=0.05)
    with (
        saved_files.locked(path),
        pytest.raises(TimeoutError, match=r"\.x\.lock: expected the lock within"),
    ):
        second.__enter__()
    with saved_files.locked(path, timeout_s=0):
        pass


def test_replacing_leaves_the_old_file_when_it_fails(tmp_path):
    path = tmp_path / "x.json"
    saved_files.replace(path, b"old")
    with pytest.raises(TypeError):
        saved_files.replace(path, "text")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("x.json", b"old")]


def test_a_shape_that_another_thread_has_forgotten_already_has_its_plan():
    """Who comes with one more than are kept begins anew."""

    class Forgetful(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key, value)
            self.clear()  # here another thread has the turn

    with sp.open("cpu") as dev:
        dev.kept["ops plans"] = Forgetful()
        dev.kept["ops tuned"] = {
            ("gemm_f32", tuned_plans.gemm_shape(4, 4, 4)): TunedPlan(TilePlan())
        }
        for side in (3, 4):  # by the model, and as it was tuned
            a = np.ones((side, side), np.float32)
            np.testing.assert_array_equal(ops.gemm(dev, a, a), np.full_like(a, side))
