"""Child of ways.py: makes calls of one kind, and prints the way of each, as JSON.

    trace_ways.py FOLDER cpu|cuda|amdgpu|amdgpu-again|gemm

FOLDER has the extensions as `make check-c` builds them, and trace_order.c is preloaded. The way of
a call: the package's Python files, then [file, function, thread, depth] of each C function of ours
as they began, until the call and what it submitted have ended.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from pathlib import Path

import instrumented
import numpy as np

FOLDER, KIND = sys.argv[1:3]
instrumented.use(FOLDER, ("_native", "_hot", "_emu"))

import sparkle_drv as sp  # noqa: E402
import sparkle_drv.testing  # noqa: E402

WARM, SAMPLES = 200, 20
URIS = {"cpu": "cpu", "cuda": "cuda:0", "amdgpu": "emu:gfx1100", "amdgpu-again": "emu:gfx1100"}


class Begun(ctypes.Structure):
    """struct begun."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("thread", ctypes.c_int),
        ("depth", ctypes.c_int),
    )


def launches(uri: str, again: bool):
    """A launch, `again`: the same each time, else with another number, so that nothing can be kept
    of the one before.
    """
    # A job of many threads is timed by the GPU's clock until its kernel's speed is known, which an
    # emulated GPU never reaches on a slow machine; such an IB is not sent again.
    n = 1_000 if uri.startswith("emu") else 100_000
    dev = sp.open(uri)
    queue, saxpy = dev.queue(), dev.kernel("saxpy_f32")
    x, y = (dev.array(np.ones(n, np.float32)) for _ in range(2))
    numbers = (2.0 if again else at / 7 for at in range(1_000_000))
    return lambda: queue.launch(saxpy, y, x, next(numbers), n, groups=-(-n // 256))


def products():
    """`ctx.gemm` of shapes that it has seen."""
    ctx = sp.init(devices=["cpu"])
    a, b = (np.ones((96, 96), np.float32) for _ in range(2))
    return lambda: ctx.gemm(a, b)


def finished(result) -> None:
    if isinstance(result, sp.Fence):
        result.wait()


def places(functions: set[int]) -> dict[int, tuple[str, str]]:
    """Address -> (file, name) of each function of native/, by what `-g` wrote down."""
    found = {}
    for path in Path(FOLDER).glob("*.so"):
        rows = [row for row in Path("/proc/self/maps").read_text().splitlines() if str(path) in row]
        ends = [int(end, 16) for row in rows for end in row.split()[0].split("-")]
        inside = [at for at in functions if ends and min(ends) <= at < max(ends)]
        if not inside:
            continue
        command = ["addr2line", "-f", "-e", str(path), *(hex(at - min(ends)) for at in inside)]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        pairs = re.findall(r"(.+)\n(.+):.+\n", told)
        for at, (name, where) in zip(inside, pairs, strict=True):
            file = re.search(r"native/[\w/]+\.\w+$", where)
            if file and "build/" not in where:  # there are cffi's wrappers
                found[at] = (file[0], name)
    return found


order = ctypes.CDLL(None)
order.trace_end.restype = ctypes.c_size_t
call = products() if KIND == "gemm" else launches(URIS[KIND], KIND.endswith("again"))
for _ in range(WARM):
    finished(call())
ways = []
for _ in range(SAMPLES):
    made = []
    python = instrumented.python_files(lambda: made.append(call()))  # noqa: B023
    finished(made.pop())
    begun = ctypes.POINTER(Begun)()
    order.trace_begin()
    finished(call())
    count = order.trace_end(ctypes.byref(begun))
    # A thread of the device may have taken a place in the list and not have written there yet.
    noted = [(b.function, b.thread, b.depth) for b in begun[:count] if b.function]
    ways.append((python, noted))
known = places({function for _, way in ways for function, *_ in way})
print(
    json.dumps([(py, [(*known[b[0]], *b[1:]) for b in way if b[0] in known]) for py, way in ways])
)
