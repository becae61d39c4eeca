"""Child of test_architecture.py: makes one kind of call COUNT times, and prints the Python files of
the package that the last call ran through, as JSON. C code built with --coverage counts by itself.

    trace_calls.py FOLDER launch|first|again COUNT

FOLDER has _native and _hot as they were built for this.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np

FOLDER, KIND, COUNT = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for name in ("_native", "_hot"):
    (path,) = FOLDER.glob(f"{name}.*so")
    loader = importlib.machinery.ExtensionFileLoader(f"sparkle_drv.{name}", str(path))
    spec = importlib.util.spec_from_file_location(loader.name, path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module
    loader.exec_module(module)

import sparkle_drv as sp  # noqa: E402

PACKAGE = Path(sp.__file__).parent


def files(call) -> list[str]:
    """Files of the package whose functions `call` runs, in the order of their first one."""
    seen: dict[str, None] = {}

    def look(frame, event, arg):
        if event == "call":
            seen[frame.f_code.co_filename] = None

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    inside = (Path(name) for name in seen)
    return [p.relative_to(PACKAGE).as_posix() for p in inside if PACKAGE in p.parents]


def launches():
    """A launch as docs/architecture.md makes it, and the wait for its fence."""
    n = 100_000
    dev = sp.open("cpu")
    queue, saxpy = dev.queue(), dev.kernel("saxpy_f32")
    x, y = dev.array(np.ones(n, np.float32)), dev.array(np.ones(n, np.float32))
    return lambda: queue.launch(saxpy, y, x, 2.0, n, groups=391).wait()


def products():
    """`ctx.gemm` of numpy arrays as docs/architecture.md makes it."""
    ctx = sp.init(devices=["cpu"])
    a, b = (np.ones((96, 96), np.float32) for _ in range(2))
    return lambda: ctx.gemm(a, b)


call = launches() if KIND == "launch" else products()
if KIND == "again":
    for _ in range(100):  # until its plan is settled
        call()
for _ in range(COUNT - 1):
    call()
# Of calls that came before, one in many is measured or decided anew: the shortest way counts.
ways = [files(call) for _ in range(20 if KIND == "again" else 1)]
print(json.dumps(min(ways, key=len)))
