"""The cuda ladder on the fake driver: every rung passes, what is broken is named where it is.

When this fails, bring-up on NVIDIA names the wrong cause.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import fakecuda
import pytest
from _bringup.ladder import families
from _bringup.rungs import cuda as rungs_cuda
from where import ROOT

OWN = [rung.name for rung in rungs_cuda.RUNGS]


def ladder(*settings, **environment):
    """(exit code, rungs by name), climbed in a process of its own."""
    env = os.environ | {"SPARKLE_LIBCUDA": fakecuda.library(), "FAKE_CUDA": ";".join(settings)}
    done = subprocess.run(
        [sys.executable, ROOT / "tools/bringup.py", "ladder", "-d", "cuda:0", "--json", "-"],
        env=env | environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    at = done.stdout.index("\n{") + 1 if not done.stdout.startswith("{") else 0
    rungs = json.loads(done.stdout[at:])["rungs"]
    return done.returncode, {rung["name"]: rung for rung in rungs}


def first_failure(rungs):
    return next(rung for rung in rungs.values() if rung["status"] == "FAIL")


def test_every_rung_passes():
    code, rungs = ladder()
    assert {r["name"]: r["text"] for r in rungs.values() if r["status"] != "PASS"} == {}
    assert code == 0
    assert list(rungs)[: len(OWN)] == OWN


def test_without_a_library(tmp_path):
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
def test_a_fault_is_named_at_its_rung(setting, rung, cause):
    code, rungs = ladder(setting)
    failed = first_failure(rungs)
    assert (code, failed["name"]) == (1, rung), failed
    assert failed["causes"][0]["id"] == cause
    assert failed["next"]
    assert all(cause["source"] for cause in failed["causes"])


def test_one_device_has_no_peer():
    _, rungs = ladder("devices 1")
    assert rungs["peer"]["status"] == "SKIP"


@pytest.mark.parametrize("uri", ["cuda:0", "cuda", "nvidia:1"])
def test_uris(uri):
    assert families.of(uri).name == "cuda"
