"""The fake CUDA driver (tests/fake_cuda) for tests: built when it is stale, told what to do wrong,
or used in a process of its own.

A process keeps the driver library that it loaded first. So tests of the whole device run on the
fake within pytest's process, where conftest.py sets SPARKLE_LIBCUDA for the moment of opening only,
and whatever is about finding a driver, or breaks one, runs in a child: `run`.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
import subprocess
import sys

import forked
from where import ROOT

import sparkle_drv as sp
from sparkle_drv.backends.cuda import BACKEND as CudaBackend
from sparkle_drv.core import settings
from sparkle_drv.types import Found

URIS = ("cuda:0", "cuda:1")
NAME = "Fake H200"


@functools.cache
def library() -> str:
    """SPARKLE_FAKE_CUDA, as `make asan` names it, else build/fake/libcuda.so.1, made if stale."""
    if named := os.environ.get("SPARKLE_FAKE_CUDA"):
        return str(ROOT / named)
    build = [sys.executable, str(ROOT / "tests/fake_cuda/build.py")]
    done = subprocess.run(build, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return str(ROOT / "build/fake/libcuda.so.1")


@functools.cache
def elsewhere() -> list[Found]:
    """What discovery says of CUDA devices where no fake is; asked before this process loads one."""
    return list(CudaBackend.discover(settings.read()))


def installed() -> bool:
    """Is NVIDIA's own library on this machine, in the places that native/dl/cuda.c names?"""
    folders = ("/usr/lib/wsl/lib", "/usr/local/nvidia/lib64")
    found = ctypes.util.find_library("cuda")
    return bool(found) or any(os.path.exists(f"{folder}/libcuda.so.1") for folder in folders)


def environment(device: sp.Device) -> dict[str, str]:
    """What a child process needs, to open the same device by its URI."""
    fake = device.info.name == NAME
    return {**os.environ, **({"SPARKLE_LIBCUDA": library()} if fake else {})}


class Control:
    """`fake_cuda_control` of the library in this process: see tests/fake_cuda/README.md."""

    def __init__(self, path: str) -> None:
        self._call = ctypes.CDLL(path).fake_cuda_control
        self._call.restype, self._call.argtypes = ctypes.c_int64, [ctypes.c_char_p]

    def __call__(self, command: str) -> int:
        value: int = self._call(command.encode())
        assert value >= 0, f"{command}: {os.strerror(-value)}"
        return value


SAXPY = """
.version 6.4
.target sm_60
.address_size 64
.visible .entry saxpy_f32(.param .u64 y, .param .u64 x, .param .f32 a, .param .u32 n) { ret; }
"""
"""PTX for drivers older than those that take the package's own; the fake knows kernels by name."""

HEAD = """
import errno, os, sys
import numpy as np
import pytest
import sparkle_drv as sp
from fakecuda import SAXPY, Control
path = os.environ["SPARKLE_LIBCUDA"]
tell = Control(path) if os.path.exists(path) else None
"""


def run(code: str, *settings: str, **environment: str) -> str:
    """What `code` prints, run on a fake driver with these commands obeyed at its start.

    The code has numpy as np, pytest, sparkle_drv as sp, and `tell`, a Control.
    """
    env = os.environ | {"SPARKLE_LIBCUDA": library(), "FAKE_CUDA": ";".join(settings)} | environment
    done = forked.run(HEAD + code, env=env)
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout}"
    return done.stdout
