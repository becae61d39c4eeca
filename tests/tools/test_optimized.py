"""Every tool under `python -OO`, which leaves docstrings and assert statements out.

When this fails, a tool loses its checks or its help under `python -OO`.
"""

from __future__ import annotations

import subprocess
import sys

import forked
import pytest
from where import ROOT

# Scripts that a person starts, each with a small run where one takes a second or two.
SCRIPTS = {
    "tools/bench.py": ("run", "noop", "--quick", "--timeout", "0.02"),
    "tools/bringup.py": ("ladder", "-d", "cpu", "--only", "open"),
    "tools/bringup_archive.py": None,
    "tools/gen.py": ("--check",),
    "tools/gpu_kit.py": None,
    "tools/loc.py": (),
    "tools/pm4.py": ("lint", "--rules"),
    "tools/rdna_as.py": ("expression", "x*x"),
    "tools/setup_env.py": None,
    "tools/shaders.py": None,
    "tools/sparkle.py": ("info",),
    "tools/wheels.py": None,
    "benchmarks/against.py": None,
    "benchmarks/amdgpu_submit.py": None,
    "benchmarks/async_executor.py": None,
    "benchmarks/cluster.py": None,
    "benchmarks/cpu_peers.py": ("--list", "--only", "1024"),
    "benchmarks/cuda_launch.py": None,
    "benchmarks/egl_launch.py": None,
    "benchmarks/egl_shaders.py": None,
    "benchmarks/emu.py": None,
    "benchmarks/gpu_conformance.py": ("cpu", "--covers", "fences"),
    "benchmarks/gpu_kernels.py": None,
    "benchmarks/gpu_peers.py": None,
    "benchmarks/arrays.py": ("--size", "64", "--elements", "64", "--rounds", "1"),
    "benchmarks/gpu_run.py": None,
    "benchmarks/juggling.py": ("--machines", "1", "--calls", "1", "--devices", "", "--rounds", "0"),
    "benchmarks/mesh.py": ("--only", "real", "--rounds", "1", "--devices", "cpu"),
    "benchmarks/pipeline_overlap.py": None,
    "benchmarks/self_compare.py": None,
    "benchmarks/shards.py": ("--only", "simulated", "--seeds", "1"),
    "benchmarks/placing.py": ("--tasks", "9", "--graphs", "1"),
    "benchmarks/pool_stalls.py": None,
    "benchmarks/tile_model.py": None,
}


@pytest.fixture(scope="module")
def ran():
    """ran(script, *words) -> exit code and stdout, under `python -OO`."""
    with forked.Server("bench", "bringup", "sparkle", "pm4", "scipy", flags=["-OO"]) as python:

        def run(script, *words):
            done = python.run(ROOT / script, *words)
            assert "Traceback" not in done.stderr, done.stderr
            return done.returncode, done.stdout

        yield run


def test_no_script_is_forgotten():
    found = {
        str(path.relative_to(ROOT))
        for folder in ("tools", "benchmarks")
        for path in (ROOT / folder).glob("[!_]*.py")
        if "__main__" in path.read_text()
    }
    assert found == set(SCRIPTS)


def test_help(ran):
    for script in SCRIPTS:
        code, out = ran(script, "--help")
        assert (code, "usage: " in out) == (0, True), script


@pytest.mark.parametrize("script", [name for name, words in SCRIPTS.items() if words is not None])
def test_a_small_run(script, home, ran):
    """With asserts and docstrings each of these exits 0 and prints something, too."""
    code, out = ran(script, *SCRIPTS[script])
    assert code == 0
    assert out or script == "tools/gen.py"


def test_checks_that_are_assert_statements_refuse_to_pass_without_them():
    code = "from sparkle_drv.testing import suite; suite.run('cpu')"
    done = subprocess.run(
        [sys.executable, "-O", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "expected Python without -O" in done.stderr
