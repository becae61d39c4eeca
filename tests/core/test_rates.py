"""Measured rates of devices in DeviceInfo, what they reach, and whether they are healthy.

When this fails, the scheduler and bench.py compare against rates that the device does not reach.
"""

import json
import logging
import os

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.backends import rates
from sparkle_drv.backends.rates import slot_key
from sparkle_drv.core.device import Device
from sparkle_drv.mesh import bandwidth
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulator import Machine


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARKLE_HOME", str(tmp_path))
    return tmp_path


def of_cpu():
    return next(info for info in sp.devices() if info.uri == "cpu")


def test_nothing_is_shown_before_it_was_measured(home):
    with sp.open("cpu") as dev:
        for info in (dev.info, of_cpu()):
            assert (info.peak_gflops, info.mem_bw_gbs, info.p2p) == (0.0, 0.0, ())
    assert not (home / "rates.json").exists()


def test_a_context_measures_and_later_processes_know(home):
    x = np.ones((64, 64), np.float32)
    with sp.init(["cpu", "egl:0"]) as ctx:
        ctx.gemm(x, x)
        with ctx.create_mesh() as mesh:
            assert mesh.topology
        info = ctx.device.info
        assert info.peak_gflops > 0
        assert info.mem_bw_gbs > 0
        said = ctx.explain_devices()
        assert f"{info.peak_gflops:.4g} GFLOPS of float32, {info.mem_bw_gbs:.4g} GB/s" in said
    shown = of_cpu()
    assert (shown.peak_gflops, shown.mem_bw_gbs) == (info.peak_gflops, info.mem_bw_gbs)
    assert shown == info  # the same device, whatever was measured
    with sp.open("cpu") as dev:
        assert dev.info.peak_gflops == info.peak_gflops
    (home / "rates.json").unlink()  # the ways are known and the rate is not: it is measured anew
    with sp.init(["cpu", "egl:0"]) as ctx, ctx.create_mesh() as mesh:
        assert mesh.topology
        assert ctx.device.info.mem_bw_gbs > 0


def test_without_a_profile_nothing_is_kept(home):
    x = np.ones((64, 64), np.float32)
    with sp.init(["cpu"], profile=False) as ctx:
        ctx.device.learned(False, peak_gflops=1.5)
        ctx.gemm(x, x)
        assert ctx.device.info.peak_gflops >= 1.5
    assert not (home / "rates.json").exists()


def test_only_what_is_higher_counts(home):
    with sp.open("cpu") as dev:
        dev.learned(peak_gflops=10.0)
        dev.learned(peak_gflops=5.0, mem_bw_gbs=2.0)
        for wrong in (float("nan"), float("inf"), -1.0, 1e300):
            dev.learned(peak_gflops=wrong, mem_bw_gbs=wrong)
        assert (dev.info.peak_gflops, dev.info.mem_bw_gbs) == (10.0, 2.0)
    assert (of_cpu().peak_gflops, of_cpu().mem_bw_gbs) == (10.0, 2.0)


@pytest.mark.parametrize("uri", ["emu:gfx1036", "sim:gpu0"])
def test_emulated_devices_never_have_rates(home, uri):
    with sp.open(uri) as dev:
        dev.learned(peak_gflops=10.0, mem_bw_gbs=2.0)
        assert (dev.info.peak_gflops, dev.info.mem_bw_gbs) == (0.0, 0.0)
        assert bandwidth.measure(dev) == 0.0
    assert not (home / "rates.json").exists()


@pytest.mark.parametrize("value", ['"fast"', "-1", "1e300", "NaN", "true", "[1]"])
def test_a_damaged_file_is_set_aside(home, caplog, value):
    with sp.open("cpu") as dev:
        dev.learned(peak_gflops=10.0)
    path = home / "rates.json"
    path.write_text(path.read_text().replace("10.0", value))
    with caplog.at_level(logging.WARNING):
        assert of_cpu().peak_gflops == 0.0
    assert "rates.json is damaged" in caplog.text


def test_a_file_that_cannot_be_written_is_told(home, caplog):
    (home / "rates.json").mkdir()
    with sp.open("cpu") as dev:
        dev.learned(peak_gflops=10.0)
        assert dev.info.peak_gflops == 10.0
    assert "the measured rates are not kept" in caplog.text


def test_rates_are_of_one_device_in_its_place(home):
    info = sp.DeviceInfo("cuda:0", "cuda", "a card", "gpu", slot="0000:10:00.0", peak_gflops=3.0)
    rates.keep(info, str(home))
    assert list(json.loads((home / "rates.json").read_text())["devices"]) == [slot_key(info)]
    other = sp.DeviceInfo("cuda:0", "cuda", "a card", "gpu", slot="0000:11:00.0")
    assert rates.known(other, str(home)).peak_gflops == 0.0
    moved = sp.DeviceInfo("cuda:7", "cuda", "a card", "gpu", slot="0000:10:00.0")
    assert rates.known(moved, str(home)).peak_gflops == 3.0
    assert rates.known(moved, "") is moved


def test_what_a_device_reaches_is_known_in_a_context():
    with sp.init(["cpu", "egl:0", "emu:gfx1036", "emu:gfx1036#1"]) as ctx:
        reached = {dev.uri: dev.info.p2p for dev in ctx.devices}
    assert reached == {
        "cpu": (),
        "egl:0": (),
        "emu:gfx1036": ("emu:gfx1036#1",),
        "emu:gfx1036#1": ("emu:gfx1036",),
    }


def test_healthy_until_closed():
    dev = sp.open("cpu")
    assert dev.healthy is True
    dev.close()
    assert dev.healthy is False


def test_a_lost_device_is_not_healthy():
    with Machine(["gfx1036"]) as machine:
        dev = Device("emu:0", emu.open_card(machine, 0, "emu:0"))
        assert dev.healthy
        machine.unplug(0)
        with pytest.raises(sp.DeviceLost):
            dev.buffer(4096)
        assert not dev.healthy
        dev.close()


def test_a_hang_is_seen_at_a_fence_alone():
    with (
        Machine(["gfx1036"]) as machine,
        Device("emu:0", emu.open_card(machine, 0, "emu:0")) as dev,
        dev.buffer(64) as out,
    ):
        machine.hold_jobs(0)
        fence = dev.default_queue.submit(sp.Commands().fill(out, 1))
        with pytest.raises(sp.FenceTimeout):
            fence.wait(0.01)
        assert dev.healthy
        machine.hold_jobs(0, False)
        fence.wait(10)


def test_a_forked_child_has_no_healthy_device():
    with sp.open("cpu") as dev:
        pid = os.fork()
        if pid == 0:
            os._exit(dev.healthy)
        assert os.waitpid(pid, 0)[1] == 0
        assert dev.healthy
