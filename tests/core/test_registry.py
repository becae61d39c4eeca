"""URIs and where backends come from: built in, registered, or plug-ins by entry point.

When this fails, a URI opens the wrong backend, or a broken plug-in breaks every other device.
"""

import sys

import pytest

import sparkle_drv as sp
from sparkle_drv.backends.cpu import BACKEND
from sparkle_drv.core import registry
from sparkle_drv.types import DeviceInfo, Found


@pytest.fixture(autouse=True)
def unchanged():
    before = dict(registry._registered)
    registry._registered.clear()  # other tests may have made emu: known
    yield
    registry._registered.clear()
    registry._registered.update(before)


@pytest.mark.parametrize(
    ("uri", "want"),
    [
        ("cpu", ("cpu", "")),
        ("egl:0", ("egl", "0")),
        (" cuda:1 ", ("cuda", "1")),
        ("nvidia:0", ("cuda", "0")),
        ("amd:0", ("amdgpu", "0")),
        ("emu:gfx1036#1", ("emu", "gfx1036#1")),
        ("my_dev:a.b/c-d", ("my_dev", "a.b/c-d")),
    ],
)
def test_uris(uri, want):
    assert registry.parse(uri) == want


@pytest.mark.parametrize(
    ("uri", "want"),
    [
        ("cpu", ("cpu:0", "cpu")),
        ("nvidia", ("cuda:0", "cuda")),
        (" amd:0", ("amdgpu:0", "amdgpu")),
        ("nvidia:1", ("cuda:1",)),
        ("cpu:c0/avx2", ("cpu:c0/avx2",)),
        ("no uri", ()),
        ("", ()),
    ],
)
def test_spellings(uri, want):
    assert registry.spellings(uri) == want


@pytest.mark.parametrize(
    "uri", ["", ":", "cpu:", "CPU", "0cpu", "cpu:0:1", "cpu 0", "cpu:a b", "c\n"]
)
def test_uris_that_are_none(uri):
    if uri == "c\n":
        with pytest.raises(sp.DeviceNotFound):
            sp.open(uri)  # blanks around are forgiven
        return
    with pytest.raises(ValueError, match=r"uri: expected"):
        sp.open(uri)


@pytest.mark.parametrize("uri", [None, 0, b"cpu", ["cpu"]])
def test_uris_of_another_type(uri):
    with pytest.raises(TypeError, match="uri: expected text"):
        sp.open(uri)


def test_an_unknown_scheme_names_the_known():
    known = "there is no backend 'quantum'; known: amdgpu, cpu"
    with pytest.raises(sp.DeviceNotFound, match=known):
        sp.open("quantum:0")


def test_there_is_one_cpu():
    with sp.open("cpu:0") as dev:
        assert dev.uri == "cpu"
    with pytest.raises(sp.DeviceNotFound, match="cpu:1"):
        sp.open("cpu:1")


def info(uri, **fields):
    return DeviceInfo(uri, uri.split(":")[0], uri, **{"kind": "gpu", **fields})


def stand_in(*infos, error=None):
    class Backend:
        @staticmethod
        def discover(settings):
            if error:
                raise error
            return [Found(i.backend, i.uri, info=i) for i in infos]

    return Backend


def test_devices_are_sorted_best_first(monkeypatch):
    monkeypatch.setattr(registry, "_builtin", ("cpu", "amdgpu"))
    registry.register("big", lambda: stand_in(info("big:0", compute_units=80)))
    registry.register(
        "small",
        lambda: stand_in(info("small:0", compute_units=2), info("small:1", compute_units=9)),
    )
    registry.register("soft", lambda: stand_in(info("soft:0", software=True, compute_units=999)))
    registry.register("emulated", lambda: stand_in(info("emulated:0", emulated=True)))
    uris = [i.uri for i in sp.devices()]
    assert uris == ["big:0", "small:1", "small:0", "cpu", "soft:0", "emulated:0"]


@pytest.mark.parametrize(
    "error", [sp.DriverCallError(5, "broken"), ImportError("no module"), OSError(2, "gone"),
              AttributeError("old plug-in"), TypeError("x"), ValueError("y")]
)  # fmt: skip
def test_a_broken_backend_is_told_and_does_not_hide_the_others(error, monkeypatch):
    monkeypatch.setattr(registry, "_builtin", ("cpu", "amdgpu"))
    registry.register("broken", lambda: stand_in(error=error))
    found = {f.uri: f for f in sp.discover()}
    assert not found["broken"].usable
    assert type(error).__name__ in found["broken"].reason
    assert found["broken"].advice
    assert found["cpu"].usable
    assert [i.uri for i in sp.devices()] == ["cpu"]


@pytest.mark.parametrize("scheme", ["", "A", "a:b", "0x", "a-b", "cpu"])
def test_schemes_that_cannot_be_registered(scheme):
    with pytest.raises(ValueError, match="scheme"):
        registry.register(scheme, lambda: BACKEND)


def test_register_and_unregister():
    registry.register("twin", lambda: TwinBackend)
    with sp.open("twin:0") as dev, dev.buffer(8) as buffer:
        assert dev.uri == "cpu"
        assert buffer.nbytes == 8
    registry.unregister("twin")
    registry.unregister("twin")
    with pytest.raises(sp.DeviceNotFound):
        sp.open("twin:0")


class TwinBackend(BACKEND):
    @staticmethod
    def open(uri, settings):
        assert uri == "twin:0"
        return BACKEND(settings)


@pytest.mark.parametrize("takes", [None, False, True])
def test_a_plug_in_gets_only_the_options_that_it_takes(takes):
    """And it is not opened with any other."""
    opened = []

    class Plain:
        @staticmethod
        def open(uri, settings):
            opened.append(settings.threads)
            return BACKEND(settings)

    if takes is not None:
        Plain.takes_threads = takes
    registry.register("plain", lambda: Plain)
    try:
        with sp.open("plain:0"):
            assert len(opened) == 1
        if takes:
            with sp.open("plain:0", threads=2) as dev:
                assert (opened[1:], dev.info.compute_units) == ([2], 2)
        else:
            with pytest.raises(ValueError, match=r"threads: expected None for plain:0, got 2"):
                sp.open("plain:0", threads=2)
            assert len(opened) == 1
    finally:
        registry.unregister("plain")


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A folder on sys.path with an installed distribution that has entry points."""
    package = tmp_path / "sparkle_plugin-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: sparkle-plugin\nVersion: 1\n")
    (package / "entry_points.txt").write_text(
        "[sparkle_drv.backends]\nplugged = sparkle_plugin:Backend\n"
        "absent = sparkle_not_there:Backend\ncpu = sparkle_plugin:Usurper\n"
    )
    (tmp_path / "sparkle_plugin.py").write_text(
        "from sparkle_drv.backends.cpu import BACKEND\n"
        "from sparkle_drv.types import DeviceInfo, Found\n"
        "class Backend(BACKEND):\n"
        "    @staticmethod\n"
        "    def discover(settings):\n"
        "        return [Found('plugged', 'plugged:0', info=DeviceInfo('plugged:0', 'plugged', 'P',"
        " 'other'))]\n"
        "    @staticmethod\n"
        "    def open(uri, settings):\n"
        "        return Backend(settings)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("sparkle_plugin", None)


def test_plug_ins_by_entry_point(plugin):
    with sp.open("plugged:0") as dev:
        assert type(dev._backend).__module__ == "sparkle_plugin"
    found = {f.uri: f for f in sp.discover()}
    assert found["plugged:0"].usable
    assert "sparkle_not_there" in found["absent"].reason
    with pytest.raises(sp.DeviceNotFound, match=r"absent: its plug-in does not load: ModuleNotFo"):
        sp.open("absent:0")
    with sp.open("cpu") as dev:  # what is built in cannot be taken over
        assert type(dev._backend) is BACKEND


def test_discovery_says_what_the_cpu_is():
    (found,) = (f for f in sp.discover() if f.backend == "cpu")
    assert found.usable
    assert found.info.kind == "cpu"
    assert found.info.compute_units >= 1
    assert found.info in sp.devices()
