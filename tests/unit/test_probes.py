"""What discovery says of devices that have no backend yet, from made-up driver answers."""

import errno

import pytest
from sparkle_drv._native import ffi

import sparkle_drv as sp
from sparkle_drv.backends import probes


class Driver:
    """Stands for the native library: fills the probe's struct with `fields`, returns `rc`."""

    def __init__(self, rc=0, **fields):
        self.rc, self.fields = rc, fields

    def probe(self, paths, out):
        assert paths == ffi.NULL
        for name, value in self.fields.items():
            setattr(out, name, value)
        return self.rc

    sp_dl_probe_cuda = sp_dl_probe_egl = probe


@pytest.mark.parametrize(
    ("driver", "reason", "advice"),
    [
        (Driver(-errno.ENOENT, report=b"libcuda.so.1: none\n"), "no NVIDIA driver", "install"),
        (Driver(init_result=100, library=b"libcuda.so.1", init_name=b"CUDA_ERROR_NO_DEVICE"),
         "libcuda.so.1 says CUDA_ERROR_NO_DEVICE", ""),
        (Driver(driver_version=12040, device_count=2, devices=b"0: H\n1: H\n"),
         "CUDA 12.4 with 2 device(s), but", ""),
    ],
)  # fmt: skip
def test_cuda(monkeypatch, driver, reason, advice):
    monkeypatch.setattr(probes, "lib", driver)
    found = probes.cuda()
    assert (found.backend, found.usable) == ("cuda", False)
    assert reason in found.reason
    assert advice in found.advice
    assert len(found.tried) == {0: 2 * (driver.fields.get("device_count", 0) == 2)}.get(
        driver.rc, 1
    )


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        (Driver(-errno.ENOENT, report=b"tried\n"), "no EGL library"),
        (Driver(version=b"1.5", device_count=-1), "EGL 1.5 cannot list devices"),
        (Driver(version=b"1.5", device_count=1, devices=b"llvmpipe\n"), "lists 1 device(s)"),
    ],
)
def test_egl(monkeypatch, driver, reason):
    monkeypatch.setattr(probes, "lib", driver)
    found = probes.egl()
    assert (found.backend, found.usable) == ("egl", False)
    assert reason in found.reason
    assert bool(found.advice) == bool(driver.rc)


def test_this_machine_is_probed_without_harm():
    for probe in probes.PROBES.values():
        found = probe()
        assert not found.usable
        assert found.reason
    backends = [found.backend for found in sp.discover()]
    assert set(probes.PROBES) <= set(backends)
    assert backends[0] == "cpu"
