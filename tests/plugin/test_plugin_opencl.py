"""examples/plugin_opencl is installed as a package into a folder, and processes with that folder on
their path use it. The OpenCL is Debian's pocl, on the CPU.

When this fails, somebody who copies the example plug-in starts from broken code.

Without pyopencl or a usable OpenCL device they skip, unless SPARKLE_REQUIRE names opencl.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from where import ROOT

FOLDER = ROOT / "examples" / "plugin_opencl"
CHILD = Path(__file__).with_name("opencl_child.py")
REQUIRED = "opencl" in os.environ.get("SPARKLE_REQUIRE", "").split(",")
URI = "opencl:0"

pytestmark = pytest.mark.timeout(300)  # pocl compiles each kernel at its first launch


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The environment of a process that has the plug-in."""
    base = tmp_path_factory.mktemp("opencl")
    shutil.copytree(FOLDER, base / "source", ignore=shutil.ignore_patterns("build", "*.egg-info"))
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target")
    pip = (sys.executable, "-m", "pip", "install", *options, base / "target", base / "source")
    done = subprocess.run(pip, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    paths = (str(base / "target"), str(ROOT), os.environ.get("PYTHONPATH", ""))
    (base / "sparkle").mkdir()
    compiled = ROOT / "build" / "pocl"  # pocl's compiler takes longer than all the rest
    compiled.mkdir(parents=True, exist_ok=True)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "POCL_CACHE_DIR": str(compiled),
        "SPARKLE_HOME": str(base / "sparkle"),
    }


@pytest.fixture(scope="module")
def plugin(environment):
    """run(words...) -> what a Python process with the plug-in printed; skips without a device."""

    def run(*words, code=0):
        command = [sys.executable, "-W", "error", *map(str, words)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=280, cwd=ROOT
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    why = "pyopencl is missing"
    if importlib.util.find_spec("pyopencl") is not None:
        (found,) = json.loads(run(CHILD, "found"))[:1]
        why = found["reason"]
    if why:
        assert not REQUIRED, why
        pytest.skip(f"needs OpenCL: {why}")
    return run


def test_without_pyopencl_the_others_are_found_and_it_says_why(environment, tmp_path):
    (tmp_path / "pyopencl.py").write_text("raise ImportError('planted: no pyopencl here')\n")
    path = f"{tmp_path}{os.pathsep}{environment['PYTHONPATH']}"
    done = subprocess.run(
        [sys.executable, CHILD, "absent"],
        env={**environment, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "absent\n"), done.stderr


def test_the_conformance_suite(plugin):
    results = json.loads(plugin(CHILD, "suite"))
    failed = [r for r in results if r["status"] == "failed"]
    assert not failed, "\n".join(f"{r['name']}: {r['message']}" for r in failed)
    absent = {r["name"] for r in results if r["status"] == "not provided"}
    assert {name for name in absent if "strided" not in name} == {
        "launch: routines take one group",
        "memory: wrapped host memory is shared both ways",
        "memory: shared memory through a descriptor",
        "arguments: read only host memory",
    }
    assert len(results) > 100


def test_it_is_a_device_like_any_other(plugin):
    assert plugin(CHILD, "everywhere").splitlines()[-1] == "everywhere"


@pytest.mark.parametrize(
    "parts", ["user_kernels bad_images timestamps full memory", "failures", "fork"]
)
def test_parts(plugin, parts):
    """Those that plant errors or fork have a process of their own."""
    assert plugin(CHILD, *parts.split()).split() == parts.split()


def test_the_bench_runs_its_kernels(plugin):
    words = ("--quick", "--timeout", "0.05", "-a", "n=1000", "-d", URI)
    table = plugin(ROOT / "tools" / "bench.py", "run", "saxpy", *words)
    assert "saxpy_f32" in table
    assert "verified" in table
    wrong = plugin(ROOT / "tools" / "bench.py", "run", "saxpy", "-d", "opencl:9", code=3)
    assert wrong == ""


def test_the_doctor_knows_it(plugin):
    told = plugin(ROOT / "tools" / "sparkle.py", "doctor", code=0)
    assert URI in told
