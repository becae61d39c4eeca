"""The cuda ladder on the fake driver: every rung passes, what is broken is named where it is.

When this fails, bring-up on NVIDIA names the wrong cause.
"""

from __future__ import annotations

import json
import os

import fakecuda
import forked
import pytest
from _bringup.ladder import families
from _bringup.rungs import cuda as rungs_cuda
from where import ROOT

OWN = [rung.name for rung in rungs_cuda.RUNGS]


@pytest.fixture(scope="module")
def ladder():
    """ladder(*settings) -> exit code, rungs by name; climbed in a process of its own."""
    with forked.Server("bringup") as python:

        def run(*settings, **environment):
            fake = {"SPARKLE_LIBCUDA": fakecuda.library(), "FAKE_CUDA": ";".join(settings)}
            words = ("ladder", "-d", "cuda:0", "--json", "-")
            done = python.run(
                ROOT / "tools/bringup.py", *words, env=os.environ | fake | environment
            )
            assert "Traceback" not in done.stderr, done.stderr
            out = done.stdout
            rungs = json.loads(out[0 if out.startswith("{") else out.index("\n{") + 1 :])["rungs"]
            return done.returncode, {rung["name"]: rung for rung in rungs}

        yield run


def first_failure(rungs):
    return next(rung for rung in rungs.values() if rung["status"] == "FAIL")


def test_every_rung_passes(ladder):
    code, rungs = ladder()
    assert {r["name"]: r["text"] for r in rungs.values() if r["status"] != "PASS"} == {}
    assert code == 0
    assert list(rungs)[: len(OWN)] == OWN


def test_without_a_library(ladder, tmp_path):
    if fakecuda.installed():
        pytest.skip("this machine has NVIDIA's driver library")
    code, rungs = ladder(SPARKLE_LIBCUDA=str(tmp_path / "libcuda.so.1"))
    assert code == 1
    assert str(tmp_path) in rungs["library"]["text"]
    assert rungs["library"]["text"].count("libcuda.so.1") >= 3  # each path that was tried
    assert {r["status"] for r in rungs.values() if r["name"] != "library"} == {"BLOCKED"}
    assert "no-driver" in [cause["id"] for cause in rungs["library"]["causes"]]
    assert rungs["library"]["next"]


@pytest.mark.parametrize(
    ("setting", "rung", "cause"),
    [
        ("driver 10020", "library", "too-old-library"),
        ("devices 0", "init", "no-gpu"),
        ("fail cuDevicePrimaryCtxRetain 46 -1", "context", "exclusive"),
        ("fail cuMemHostAlloc 2 -1", "pinned", "pinning-forbidden"),
        ("fail cuMemcpyDtoHAsync 214 -1", "copies", "ecc"),
        ("fail cuLaunchKernel 719 -1", "launch", "illegal-address"),
        ("fail cuGraphLaunch 999 -1", "graph", "gone"),
        ("fail cuLaunchKernel 714 -1", "launch", "bad-code"),
        ("fail cuModuleLoadDataEx 218 -1", "ptx", "bad-ptx"),
        ("fail cuGraphInstantiateWithFlags 801 -1", "graph", "unknown"),
    ],
)
def test_a_fault_is_named_at_its_rung(ladder, setting, rung, cause):
    code, rungs = ladder(setting)
    failed = first_failure(rungs)
    assert (code, failed["name"]) == (1, rung), failed
    assert failed["causes"][0]["id"] == cause
    assert failed["next"]
    assert all(cause["source"] for cause in failed["causes"])


def test_one_device_has_no_peer(ladder):
    _, rungs = ladder("devices 1")
    assert rungs["peer"]["status"] == "SKIP"


@pytest.mark.parametrize("uri", ["cuda:0", "cuda", "nvidia:1"])
def test_uris(uri):
    assert families.of(uri).name == "cuda"
