"""The speed of transports, and the bytes that they move: GPUs of the fake driver, shared memory,
PRIME.

The fake driver gives each copy a modelled time (fake.py). The times of copies on one engine of a
GPU add up.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import sparkle_drv as sp
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulator import Machine

from .figures import MIB, Figures, Options, Wrong, told

ROOT = Path(__file__).resolve().parents[2]
FAKE = ROOT / "build/fake/libcuda.so.1"
RATES = "time h2d 1;time d2h 2"
SLOW = "time h2d 0.5;time d2h 1;time peer 2"
"""Rates for two copies at once: so low that the host's memory is faster on any machine."""


def transports(options: Options) -> Figures:
    """Returns ratios of the rates of copies of 64 MiB, and the bytes that each transport moved.

    Raises Wrong if a copy takes another transport than expected, if the child process with the fake
    driver fails, or if an all_reduce gives a wrong sum.
    """
    subprocess.run([sys.executable, ROOT / "tests/fake_cuda/build.py"], check=True)
    one = _fake("staged", options.rounds, f"peer off;{RATES}")
    two = _fake("relay", options.rounds, f"devices 3;peer off 0 1;{SLOW}")
    if set(one["moved"]) != {"staged"}:
        raise Wrong(f"expected only staged copies, got {one['moved']}")
    return {
        "staged / slower leg alone, rates, 64 MiB": _ratio(one["leg"], one["copy"]),
        "staged / the same a chunk at a time, rates, 64 MiB": _ratio(one["serial"], one["copy"]),
        "over a third GPU / over the host, rates, 64 MiB": _ratio(two["host"], two["copy"]),
        "that copy over a third GPU moved": _listed(two["moved"]),
        "its route": two["said"].replace("\n", ";"),
        "all_reduce of 4 MiB, cpu:c0 cpu:c1, moved": _shared(),
        "all_reduce of 64 KiB, two emulated cards, moved": _prime(),
    }


def _fake(what: str, rounds: int, said: str) -> Any:
    """Runs the module _mesh.fake in a child process. `what` is its measurement ("staged" or
    "relay"). `said` are commands that configure the fake CUDA driver. Returns the JSON object that
    the process prints. Raises Wrong if the process fails.
    """
    environment = {**os.environ, "SPARKLE_LIBCUDA": str(FAKE), "FAKE_CUDA": said}
    done = subprocess.run(
        [sys.executable, "-m", "_mesh.fake", what, str(rounds)],
        cwd=ROOT / "benchmarks", env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    if done.returncode:
        raise Wrong(done.stderr.strip() or f"_mesh.fake {what} ended with status {done.returncode}")
    return json.loads(done.stdout)


def _ratio(theirs: list[float], ours: list[float]) -> str:
    return told([a / b for a, b in zip(theirs, ours, strict=True)])


def _listed(moved: dict[str, int]) -> str:
    return ", ".join(f"{name} {n} bytes" for name, n in sorted(moved.items())) or "no byte"


def _shared() -> str:
    with sp.init(["cpu:c0", "cpu:c1"], profile=False) as ctx:
        return _reduced(list(ctx.devices), 4 * MIB)


def _prime() -> str:
    with Machine(["gfx1100", "gfx1036"]) as machine, ExitStack() as stack:
        opened = [
            sp.Device(f"emu:{at}", emu.open_card(machine, at, f"emu:{at}")) for at in range(2)
        ]
        return _reduced([stack.enter_context(one) for one in opened], MIB // 16)


def _reduced(devices: list[sp.Device], nbytes: int) -> str:
    """Returns, as text, how many bytes an all_reduce moved by each transport. Bytes of the mesh's
    own measurements are not counted.
    """
    with sp.Mesh(devices) as mesh:
        arrays = [device.array(np.ones(nbytes // 4, np.float32)) for device in devices]
        mesh.plan_all_reduce(nbytes)
        before = mesh.moved
        mesh.all_reduce(arrays)
        if not all((array.numpy() == len(devices)).all() for array in arrays):
            raise Wrong(f"all_reduce of ones: expected {len(devices)} in every element, got others")
        found = {name: n - before.get(name, 0) for name, n in mesh.moved.items()}
        return _listed({name: n for name, n in found.items() if n})
