"""A software device on cores that another device has, too, takes part only where it is named.

When this fails, a Context runs software GL beside the CPU on the same cores.
"""

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.sched.decide.opt_in import only_named
from sparkle_drv.types import DeviceInfo

WHY = "it shares the CPU's cores; name it to use it"


def info(uri, **what):
    return DeviceInfo(uri, uri.split(":")[0], uri, "gpu", **what)


CPU = info("cpu", shares=("cpu",))
GPU = info("cuda:0")
SOFT = info("egl:0", software=True, shares=("cpu",))
ALIKE = info("pocl:0", software=True, shares=("cpu",))


@pytest.mark.parametrize(
    ("given", "aside"),
    [
        ([CPU], []),
        ([GPU, CPU], []),
        ([CPU, SOFT], ["egl:0"]),
        ([GPU, CPU, SOFT, ALIKE], ["egl:0", "pocl:0"]),
        ([SOFT, ALIKE], []),  # nobody else computes on these cores
        ([GPU, SOFT], []),
        ([CPU, info("egl:1", software=True)], []),  # it shares nothing
        ([CPU, info("egl:1", shares=("cpu",))], []),  # it is no software
        ([CPU, info("egl:1", software=True, shares=("npu",))], []),
    ],
)
def test_by_what_a_device_says_of_itself(given, aside):
    assert only_named(given) == dict.fromkeys(aside, WHY)


def test_another_resource_is_called_by_its_name():
    npu = info("npu:0", shares=("npu",))
    found = only_named([npu, info("soft:0", software=True, shares=("npu",))])
    assert found == {"soft:0": "it shares npu; name it to use it"}


@pytest.fixture
def ctx(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARKLE_HOME", str(tmp_path))
    found = [one for one in sp.devices() if one.uri in ("cpu", "egl:0")]
    if len(found) < 2:
        pytest.skip("egl:0 is not there")
    if not found[1].software:
        pytest.skip("egl:0 is no software here")
    monkeypatch.setattr("sparkle_drv.context.usable", lambda: found)
    with sp.init() as made:
        yield made


def numbers():
    return np.random.default_rng(5).random((2, 48, 48), np.float32)


def test_it_is_there_and_says_why_it_is_not_used(ctx):
    assert [device.uri for device in ctx.devices] == ["cpu", "egl:0"]
    assert f"not used: {WHY}" in ctx.explain_devices().split("egl:0:")[1]
    assert WHY not in ctx.explain_devices().split("egl:0:")[0]


def test_nothing_is_measured_of_it_before_it_is_named(ctx):
    a, b = numbers()
    calls = (
        lambda: ctx.gemm(a, b),
        lambda: ctx.map("a + b", a=a, b=b),
        lambda: ctx.reduce(a),
        lambda: ctx.conv2d(a.reshape(1, 1, 48, 48), np.ones((1, 1, 3, 3), np.float32)),
        lambda: ctx.layout(a.reshape(1, 1, 48, 48), "NHWC"),
    )
    for call in calls:
        call()
        assert {one.device for one in ctx.last_plan.candidates} == {"cpu"}
    with ctx.graph() as g:
        y = g.map("x + 1", x=g.gemm(a, b))
    g.run()
    np.testing.assert_allclose(y.numpy(), a @ b + 1, rtol=1e-4)
    assert set(ctx.last_plan.devices) == {"cpu"}
    assert ctx.array((4, 4), np.float32).places == ("cpu",)
    assert "nothing measured yet" in ctx.explain_devices().split("egl:0:")[1]


def test_named_it_does_the_work(ctx):
    a, b = numbers()
    np.testing.assert_allclose(ctx.gemm(a, b, devices=["egl:0"]), a @ b, rtol=1e-4)
    assert ctx.last_plan.device == "egl:0"
    ctx.gemm(a, b, devices=["cpu", "egl:0"])
    assert {one.device for one in ctx.last_plan.candidates} == {"cpu", "egl:0"}
    ctx.gemm(a, b)
    assert {one.device for one in ctx.last_plan.candidates} == {"cpu"}


def test_an_array_that_is_put_there(ctx):
    a, b = numbers()
    x = ctx.array(a.shape, np.float32, device="egl:0").fill(a)
    assert x.places == ("egl:0",)
    np.testing.assert_allclose(ctx.gemm(x, b).numpy(), a @ b, rtol=1e-4)
    assert ctx.last_plan.device == "cpu"


def test_a_list_names_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARKLE_HOME", str(tmp_path))
    with sp.init(["cpu", "egl:0"]) as both:
        both.reduce(numbers()[0])
        assert {one.device for one in both.last_plan.candidates} == {"cpu", "egl:0"}
        assert "not used" not in both.explain_devices()
