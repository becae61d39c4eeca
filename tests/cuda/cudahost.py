"""The manifest's CUDA kernels compiled as C++ and run on the host: what a GPU would compute, by
their own source. It needs only g++: cuda_host.h has the few words of CUDA that they use.

Every array ends where its memory does and has only the rights that its argument claims.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import subprocess
from pathlib import Path

import extents
import numpy as np
import packages

from sparkle_drv import assets
from sparkle_drv.core.abi.signature import Arg
from sparkle_drv.ops import ref
from sparkle_drv.testing.checks.kernels import _values

HERE = Path(__file__).resolve().parent
SHADERS = assets.folder("shaders")
KERNELS = assets.manifest()["kernels"]
C_TYPES = {
    "f32": ctypes.c_float, "f64": ctypes.c_double, "i32": ctypes.c_int32, "u32": ctypes.c_uint32,
    "i64": ctypes.c_int64, "u64": ctypes.c_uint64,
}  # fmt: skip
# Strict aliasing off: 16 bytes of a tile are loaded at once. No fused products but the written.
FLAGS = "-std=c++17 -O1 -fPIC -shared -fno-strict-aliasing -ffp-contract=off -U_FORTIFY_SOURCE"
WARNINGS = "-Wall -Wextra -Werror -Wno-unknown-pragmas -Wno-unused-function"
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


class Memory:
    """An array against a page that cannot be touched; "r": its own cannot be written either."""

    def __init__(self, values, access):
        self.like = values
        pages = -(-values.nbytes // mmap.PAGESIZE)
        self.map = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.offset = pages * mmap.PAGESIZE - values.nbytes
        self.map[self.offset : self.offset + values.nbytes] = values.tobytes()
        self.address = base + self.offset
        assert _libc.mprotect(base + pages * mmap.PAGESIZE, mmap.PAGESIZE, 0) == 0
        if pages and "w" not in access:
            assert _libc.mprotect(base, pages * mmap.PAGESIZE, mmap.PROT_READ) == 0

    def values(self):
        found = self.map[self.offset : self.offset + self.like.nbytes]
        return np.frombuffer(found, self.like.dtype).reshape(self.like.shape)


def compiled(source: Path, kernels, out: Path) -> ctypes.CDLL:
    """A .cu file with a launcher for each of its kernels. AssertionError has g++'s words."""
    packages.needed("g++")
    text = [f'#include "{HERE / "cuda_host.h"}"', f'#include "{source}"']
    unit = out.with_suffix(".cpp")
    unit.write_text("\n".join([*text, *(f"ENTRY({name})" for name in kernels), ""]))
    command = ["g++", *FLAGS.split(), *WARNINGS.split(), "-o", str(out), str(unit), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(out))


class Host:
    """Compiles each image once, when a kernel of it is first launched."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.libraries = folder, {}

    def library(self, image):
        if image not in self.libraries:
            names = [n for n, k in KERNELS.items() if k["backends"]["cuda"]["image"] == image]
            source = SHADERS / assets.manifest()["images"][image]["source"]
            self.libraries[image] = compiled(source, names, self.folder / f"{source.stem}.so")
        return self.libraries[image]

    def launch(self, name, operands, scalars, seed, groups=None):
        entry, signature = (
            KERNELS[name]["backends"]["cuda"],
            [Arg(**arg) for arg in KERNELS[name]["args"]],
        )
        values = [_argument(arg, operands, scalars) for arg in signature]
        if groups is None:
            whole = {a.name: scalars[a.name] for a in signature if a.type in ("u32", "u64")}
            groups = [extents.value(text, whole) for text in entry["groups"]]
        groups = (*groups, 1, 1)[:3]
        if all(groups):  # an empty grid is not launched
            run(self.library(entry["image"]), name, values, groups, entry["group_size"], seed)


def _argument(arg, operands, scalars):
    if arg.is_pointer:
        operand = operands.get(arg.name)
        return ctypes.c_void_p(operand.address if operand else None)
    return C_TYPES[arg.type](scalars[arg.name])


def run(library, name, values, groups, group_size, seed):
    """One launch; AssertionError says how it went wrong."""
    pointers = (ctypes.c_void_p * max(len(values), 1))(*(ctypes.addressof(v) for v in values))
    grid, group = (ctypes.c_uint32 * 3)(*groups), (ctypes.c_uint32 * 3)(*group_size)
    fault = ctypes.c_uint64()
    entry = ctypes.cast(library[f"host_{name}"], ctypes.c_void_p)
    rc = library.host_launch(entry, pointers, grid, group, seed, ctypes.byref(fault))
    assert rc != -errno.EFAULT, f"{name}: an access to {fault.value:#x}"
    assert rc != -errno.EDEADLK, f"{name}: not all threads of a group reach a barrier"
    assert rc == 0, f"{name}: {errno.errorcode[-rc]}"


def check(host, name, problem, rng, groups=None):
    """One launch of a kernel, compared with its reference, outputs poisoned."""
    arguments = KERNELS[name]["args"]
    there = [
        a for a in arguments
        if a["type"].endswith("*") and (not a.get("optional") or a["name"] in problem.given)
    ]  # fmt: skip
    before = {a["name"]: _values(a, problem, rng) for a in there}
    operands = {a["name"]: Memory(before[a["name"]], a["access"]) for a in there}
    host.launch(name, operands, problem.scalars, int(rng.integers(1, 2**32)), groups)
    want = ref.kernel(name)(*ref.arguments(arguments, **problem.scalars, **before))
    if want is None:
        return
    written = next(a["name"] for a in there if "w" in a["access"])
    got = operands[written].values()
    if got.dtype.kind == "f":
        big = np.abs(want) > np.finfo(got.dtype).max
        want = np.where(big, np.copysign(np.inf, want), want)
    sums = name.startswith(("reduce", "gemm", "conv"))
    rms = float(np.sqrt(problem.terms)) if sums else None
    found = ref.mismatch(got, want, ref.tolerance(name, k=problem.terms), rms)
    assert found.index is None, f"{name} {dict(problem.scalars)}: {found}"
