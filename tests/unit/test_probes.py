"""backends/probes.py on made-up answers and a made-up /dev and /sys: every sentence it can say."""

from types import SimpleNamespace

import pytest

from sparkle_drv.backends import probes


class Lib:
    """Stands for the native library: fills in the answer it was made with."""

    def __init__(self, rc=0, **fields):
        self.rc, self.fields = rc, fields

    def _answer(self, paths, out):
        assert paths == probes.ffi.NULL
        for name, value in self.fields.items():
            setattr(out, name, value)
        return self.rc

    sp_dl_probe_cuda = sp_dl_probe_egl = _answer


@pytest.mark.parametrize(
    ("lib", "said", "advised"),
    [
        (Lib(-2, report=b"libcuda.so.1: not there"), "no NVIDIA driver library", True),
        (
            Lib(init_result=100, init_name=b"CUDA_ERROR_NO_DEVICE", library=b"libcuda.so.1"),
            "libcuda.so.1 says CUDA_ERROR_NO_DEVICE",
            False,
        ),
        (Lib(driver_version=12040, device_count=2), "driver for CUDA 12.4 with 2 device(s)", False),
    ],
)
def test_cuda(monkeypatch, lib, said, advised):
    monkeypatch.setattr(probes, "lib", lib)
    found = probes.cuda()
    assert not found.usable
    assert found.reason.startswith(said)
    assert bool(found.advice) is advised


@pytest.mark.parametrize(
    ("lib", "said"),
    [
        (Lib(-2, report=b"libEGL.so.1: not there"), "no EGL library"),
        (Lib(version=b"1.5", device_count=1), "EGL 1.5 lists 1 device(s), but this version"),
        (Lib(version=b"1.4", device_count=-1), "EGL 1.4 cannot list devices, but this version"),
    ],
)
def test_egl(monkeypatch, lib, said):
    monkeypatch.setattr(probes, "lib", lib)
    found = probes.egl()
    assert not found.usable
    assert found.reason.startswith(said)


def test_what_was_tried_is_told_line_by_line(monkeypatch):
    monkeypatch.setattr(probes, "lib", Lib(report=b"a: no\nb: loaded", devices=b"0: some GPU"))
    assert probes.cuda().tried == ("a: no", "b: loaded", "0: some GPU")


def node(root, name, driver):
    (root / "dev/dri").mkdir(parents=True, exist_ok=True)
    (root / "dev/dri" / name).touch()
    if driver:
        (root / "drivers" / driver).mkdir(parents=True, exist_ok=True)
        device = root / "sys/class/drm" / name / "device"
        device.mkdir(parents=True)
        (device / "driver").symlink_to(root / "drivers" / driver)


@pytest.mark.parametrize(
    ("drivers", "said"),
    [
        ([], "no render node in /dev/dri"),
        ([None, "i915"], "no render node is driven by amdgpu"),
        (["i915", "amdgpu"], "1 AMD device(s), but this version"),
    ],
)
def test_amdgpu(tmp_path, drivers, said):
    for i, driver in enumerate(drivers):
        node(tmp_path, f"renderD{128 + i}", driver)
    found = probes.amdgpu(tmp_path)
    assert found.reason.startswith(said)
    assert len(found.tried) == len(drivers)


def test_a_backend_that_is_there_is_not_probed(monkeypatch):
    from sparkle_drv.core import registry

    found = SimpleNamespace(backend="cuda", uri="cuda:0", info=None)
    backend = SimpleNamespace(discover=lambda settings: [found])
    monkeypatch.setitem(registry._registered, "cuda", lambda: backend)
    assert [f for f in registry.discover() if f.backend == "cuda"] == [found]
