"""benchmarks/egl_launch.py measures both sides, and refuses to when one computes something else.

When this fails, the published launch cost on OpenGL compares two different things.
"""

import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import packages
import pytest
from where import ROOT

SCRIPT = ROOT / "benchmarks/egl_launch.py"


def run(*words):
    return subprocess.run(
        [sys.executable, SCRIPT, *words],
        env={**os.environ, "LP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("egl_launch", SCRIPT)
    sys.modules["egl_launch"] = module = importlib.util.module_from_spec(spec)  # for dataclasses
    spec.loader.exec_module(module)
    yield module
    del sys.modules["egl_launch"]


def test_a_small_run(egl, tmp_path):
    pytest.importorskip("moderngl")
    packages.needed("libgl1")
    out = tmp_path / "o.json"
    done = run("--rounds", "3", "--launches", "100", "--sets", "2", "--json", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("caller at most") == 3
    found = json.loads(out.read_text())
    assert {row["case"] for row in found["rows"]} == set(found["samples"])
    for row in found["rows"]:
        for which in ("caller_ns", "whole_ns"):
            samples = found["samples"][row["case"]][which]
            assert row[which]["median"] == np.median(samples) > 0
            assert len(samples) == 3
        assert row["caller_ns"]["median"] <= row["whole_ns"]["median"]


def test_mistakes_in_the_command_line():
    assert run("--launches", "150").returncode == 2
    done = run("-d", "egl:99")
    assert done.returncode == 3
    assert "egl:99" in done.stderr


def test_what_computes_something_else_is_not_timed(script, capsys):
    class Right:
        def one(self, index, a):
            x, z = inputs[index]
            return np.float32(a) * x + z

    class Wrong(Right):
        def one(self, index, a):
            return [super().one(index, a), super().one(index, 1.0)]

    inputs = [(np.ones(8, np.float32), np.zeros(8, np.float32))]
    right = type("Ours", (Right,), {"one": lambda self, i, a: [Right().one(i, a)] * 3})()
    assert script.verified(Right(), right, inputs)
    assert not script.verified(Right(), Wrong(), inputs)
    assert "sparkle_drv" in capsys.readouterr().err
