"""sparkle.py info and doctor: on machines that have devices and on those that have none.

When this fails, somebody without a usable device does not learn why.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest
from where import ROOT

import sparkle_drv as sp
from sparkle_drv.backends import machine
from sparkle_drv.types import Found

TOOLS = ROOT / "tools"


@pytest.fixture
def sparkle():
    import sparkle as tool

    return lambda *words: tool.main(list(words))


def test_info(sparkle, capsys):
    assert sparkle("info") == 0
    out = capsys.readouterr().out
    info = next(i for i in sp.devices() if i.uri == "cpu")
    assert f"sparkle_drv {sp.__version__}" in out
    assert "\ncpu\n" in out
    for word in (info.name, info.driver, info.isa, "GiB"):
        assert word in out


@pytest.mark.parametrize("caches", [(), (sp.CacheLevel(3, 300 << 20, 60),)])
def test_info_as_json_has_every_field(sparkle, capsys, monkeypatch, caches):
    monkeypatch.setattr(machine, "caches", lambda **_: caches)
    assert sparkle("info", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == sp.__version__
    cpu = next(d for d in document["devices"] if d["uri"] == "cpu")
    assert set(cpu) == {field.name for field in dataclasses.fields(sp.DeviceInfo)}
    assert cpu["compute_units"] >= 1
    assert cpu["caches"] == [dataclasses.asdict(cache) for cache in caches]


def test_doctor_tries_what_it_finds(sparkle, capsys):
    assert sparkle("doctor") == 0
    assert "\ncpu (cpu): works" in capsys.readouterr().out


def found(**more):
    return Found(
        "cuda",
        "cuda:0",
        reason="no driver",
        advice="install the vendor's driver",
        tried=("libcuda.so.1: cannot open shared object file", "libcuda.so: not found"),
        **more,
    )


def test_doctor_says_why_and_what_to_do(sparkle, capsys, monkeypatch):
    cpu = next(i for i in sp.discover() if i.uri == "cpu")
    monkeypatch.setattr(sp, "discover", lambda: [cpu, found()])
    assert sparkle("doctor") == 0
    out = capsys.readouterr().out
    assert (
        "cuda:0 (cuda): not usable\n"
        "  tried  libcuda.so.1: cannot open shared object file\n"
        "  tried  libcuda.so: not found\n"
        "  no driver\n"
        "  to do  install the vendor's driver\n"
    ) in out


def test_a_device_that_looks_usable_and_is_not(sparkle, capsys, monkeypatch):
    cpu = next(i for i in sp.discover() if i.uri == "cpu")

    def refused(uri):
        raise sp.DeviceLost(f"{uri}: gone")

    monkeypatch.setattr(sp, "discover", lambda: [cpu])
    monkeypatch.setattr(sp, "open", refused)
    assert sparkle("doctor") == 1
    assert "cpu (cpu): does not work\n  DeviceLost: cpu: gone" in capsys.readouterr().out


def test_no_usable_device(sparkle, capsys, monkeypatch):
    monkeypatch.setattr(sp, "discover", lambda: [found()])
    monkeypatch.setattr(sp, "devices", lambda: [])
    assert sparkle("doctor") == 3
    assert "no usable device" in capsys.readouterr().err
    assert sparkle("info") == 3
    assert "doctor" in capsys.readouterr().err
    assert sparkle("info", "--json") == 3
    assert json.loads(capsys.readouterr().out)["devices"] == []


def test_a_package_that_does_not_load(sparkle, capsys, monkeypatch):
    def broken():
        raise ImportError("_native.abi3.so: undefined symbol")

    monkeypatch.setattr(sp, "devices", broken)
    assert sparkle("info") == 1
    err = capsys.readouterr().err
    assert "undefined symbol" in err
    assert "make build" in err


def test_a_wrong_environment_variable(sparkle, capsys, monkeypatch):
    monkeypatch.setenv("SPARKLE_THREADS", "many")
    assert sparkle("info") == 1
    err = capsys.readouterr().err
    assert "SPARKLE_THREADS: expected a number" in err
    assert len(err.splitlines()) == 1


def test_doctor_goes_on_after_a_wrong_variable(sparkle, capsys, monkeypatch):
    """It is the cpu's: told of it, and every other backend is looked at all the same."""
    others = [f"\n{node.uri} ({node.backend}): " for node in sp.discover() if node.backend != "cpu"]
    assert others
    monkeypatch.setenv("SPARKLE_CPU_ISA", "zzz")
    monkeypatch.setenv("SPARKLE_THREADS", "many")
    assert sparkle("doctor") == 1
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.count("cpu (cpu): does not work") == 2
    assert "cpu (cpu): works" not in captured.out
    assert "  SPARKLE_CPU_ISA: expected one of" in captured.out
    assert "  SPARKLE_THREADS: expected a number" in captured.out
    for other in others:
        assert other in captured.out


def test_usage(sparkle, capsys):
    for words in ((), ("nonsense",), ("info", "--xml")):
        with pytest.raises(SystemExit) as leave:
            sparkle(*words)
        assert leave.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("tool", [["sparkle_drv"], [str(TOOLS / "sparkle.py")]])
def test_as_a_program(tool):
    start = ["-m", *tool] if tool == ["sparkle_drv"] else tool
    done = subprocess.run(
        [sys.executable, *start, "info"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"sparkle_drv {sp.__version__}\n")


def test_bench_within_the_package(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "sparkle_drv", "bench", "list"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "saxpy_f32" in done.stdout
