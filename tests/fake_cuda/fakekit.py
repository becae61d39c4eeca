"""The fake driver through ctypes, as its ABI is: what its tests call it with. Not the package."""

import ctypes
import os
import subprocess
import sys
from ctypes import byref, c_float, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ILLEGAL_ADDRESS, NOT_READY, NOT_FOUND, INVALID_VALUE = 700, 600, 500, 1
PTX = """.version 8.0
.target sm_80 // a comment with .entry in it
.address_size 64
.global .align 4 .b8 table[64];
.visible .entry noop() { ret; }
.visible .entry busy_u32(.param .u64 y, .param .u32 iters) { ret; }
.visible .entry saxpy_f32(.param .u64 y, .param .u64 .ptr .global .align 4 x,
  .param .f32 a, .param .u32 n)
.maxntid 256, 1, 1
{ .shared .align 16 .b8 part[1024]; ld.shared.f32 %f1, [part]; ret; }
.visible .entry stranger(.param .u32 n) { ret; }
"""


def library() -> Path:
    """The library to test: SPARKLE_FAKE_CUDA, else build/fake, made if stale."""
    named = os.environ.get("SPARKLE_FAKE_CUDA")
    if named:
        return Path(named)
    built = HERE.parent.parent / "build" / "fake" / "libcuda.so.1"
    subprocess.run([sys.executable, HERE / "build.py"], check=True)
    return built


class Kernel(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("func", c_void_p),
        *((name, c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        *((name, c_void_p) for name in ("params", "extra", "kern", "ctx")),
    )


class Fake:
    """Calls by name; `ok` calls must succeed."""

    def __init__(self, path: Path):
        self.dll = ctypes.CDLL(str(path))
        self.dll.fake_cuda_control.restype = ctypes.c_int64

    def call(self, name: str, *args) -> int:
        return getattr(self.dll, name)(*args)

    def ok(self, name: str, *args) -> None:
        rc = self.call(name, *args)
        assert rc == 0, f"{name}: {rc}"

    def get(self, name: str, kind, *args):
        """What a call writes through its first argument."""
        out = kind()
        self.ok(name, byref(out), *args)
        return out.value

    def control(self, command: str) -> int:
        value = self.dll.fake_cuda_control(command.encode())
        assert value >= 0, f"{command}: {value}"
        return value

    def context(self, ordinal: int = 0):
        ctx = c_void_p(self.get("cuDevicePrimaryCtxRetain", c_void_p, ordinal))
        self.ok("cuCtxSetCurrent", ctx)
        return ctx

    def alloc(self, nbytes: int) -> c_uint64:
        return c_uint64(self.get("cuMemAlloc_v2", c_uint64, c_size_t(nbytes)))

    def stream(self, flags: int = 1) -> c_void_p:
        return c_void_p(self.get("cuStreamCreate", c_void_p, flags))

    def event(self, flags: int = 0) -> c_void_p:
        return c_void_p(self.get("cuEventCreate", c_void_p, flags))

    def upload(self, array: np.ndarray) -> c_uint64:
        at = self.alloc(array.nbytes)
        self.ok("cuMemcpyHtoD_v2", at, c_void_p(array.ctypes.data), c_size_t(array.nbytes))
        return at

    def download(self, at: c_uint64, n: int) -> np.ndarray:
        out = np.empty(n, np.float32)
        self.ok("cuMemcpyDtoH_v2", c_void_p(out.ctypes.data), at, c_size_t(out.nbytes))
        return out

    def module(self, text: str = PTX) -> c_void_p:
        return c_void_p(self.get("cuModuleLoadData", c_void_p, text.encode()))

    def function(self, name: str, module=None) -> c_void_p:
        name_ = name.encode()
        return c_void_p(self.get("cuModuleGetFunction", c_void_p, module or self.module(), name_))

    def launch(self, function, groups: int, *args, stream=None, block: int = 256, shared=0) -> int:
        pointers = (c_void_p * max(len(args), 1))(*map(ctypes.addressof, args))
        shape = (groups, 1, 1, block, 1, 1, shared)
        return self.call("cuLaunchKernel", function, *shape, stream, pointers, None)

    def saxpy(self, function, y, x, a: float, n: int, stream=None, groups: int = 0) -> int:
        args = (y, x, c_float(a), c_uint(n))
        return self.launch(function, groups or -(-n // 256), *args, stream=stream)


def alone(code: str, **environment: str) -> str:
    """What a fresh process prints: for settings that are read once."""
    text = f"from ctypes import *\nfrom fakekit import *\nfake = Fake(library())\n{code}"
    env = {**os.environ, **environment, "PYTHONPATH": str(HERE)}
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
