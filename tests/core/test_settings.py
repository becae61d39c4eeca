"""The environment, read when a device is opened and in one function only.

When this fails, an environment variable is ignored, or read at import.
"""

import ast
from pathlib import Path

import pytest

import sparkle_drv as sp
from sparkle_drv.core import settings


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    known = ("CPU_ISA", "THREADS", "HOME", "LIBCUDA", "RECYCLE_MIB")
    for name in (f"SPARKLE_{end}" for end in known):
        monkeypatch.delenv(name, raising=False)


def test_defaults(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    read = settings.read()
    assert (read.home, read.cpu_isa, read.threads) == ("/home/somebody/.sparkle", "", 0)


def test_values(monkeypatch):
    monkeypatch.setenv("SPARKLE_CPU_ISA", " AVX2 ")
    monkeypatch.setenv("SPARKLE_THREADS", " 3 ")
    monkeypatch.setenv("SPARKLE_HOME", "/srv/sparkle")
    read = settings.read()
    assert (read.home, read.cpu_isa, read.threads) == ("/srv/sparkle", "avx2", 3)
    assert (read.libcuda, read.recycle_mib) == ("", None)
    monkeypatch.setenv("SPARKLE_RECYCLE_MIB", " 0 ")
    assert settings.read().recycle_mib == 0
    monkeypatch.setenv("SPARKLE_LIBCUDA", "/opt/lib/libcuda.so.1")
    assert settings.read().libcuda == "/opt/lib/libcuda.so.1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SPARKLE_CPU_ISA", "sse9"),
        ("SPARKLE_LIBCUDA", "one\ntwo"),
        ("SPARKLE_RECYCLE_MIB", "-1"),
        ("SPARKLE_RECYCLE_MIB", "many"),
        ("SPARKLE_RECYCLE_MIB", str(2**60)),
        ("SPARKLE_THREADS", "0"),
        ("SPARKLE_THREADS", "1025"),
        ("SPARKLE_THREADS", "-1"),
        ("SPARKLE_THREADS", "two"),
        ("SPARKLE_THREADS", "1.5"),
        ("SPARKLE_THREADS", "\u00b2"),
    ],
)
def test_nonsense_is_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name}: expected"):
        settings.read()
    with pytest.raises(ValueError, match=f"{name}: expected"):
        sp.open("cpu")


def test_threads_and_isa_reach_the_device(monkeypatch):
    monkeypatch.setenv("SPARKLE_THREADS", "3")
    monkeypatch.setenv("SPARKLE_CPU_ISA", "ref")
    with sp.open("cpu") as dev, dev.kernel("saxpy_f32") as k:
        assert (dev.info.compute_units, dev.info.isa) == (3, "ref")
        assert k.resources.isa == "ref"


def test_an_isa_that_this_machine_lacks(monkeypatch):
    with sp.open("cpu") as dev:
        missing = next(isa for isa in settings.ISAS if isa not in dev.info.features)
    monkeypatch.setenv("SPARKLE_CPU_ISA", missing)
    with pytest.raises(sp.DeviceNotFound, match=f"SPARKLE_CPU_ISA={missing}"):
        sp.open("cpu")
    (found,) = (f for f in sp.discover() if f.backend == "cpu")
    assert not found.usable
    assert missing in found.reason
    assert "unset" in found.advice
    assert all(info.backend != "cpu" for info in sp.devices())


def test_nobody_else_reads_the_environment():
    package = Path(sp.__file__).parent
    readers, names = set(), ("environ", "getenv", "environb")
    for path in package.rglob("*.py"):
        text = path.read_text()
        if not any(name in text for name in names):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and node.attr in names:
                readers.add(str(path.relative_to(package)))
    assert readers == {"core/settings.py"}
