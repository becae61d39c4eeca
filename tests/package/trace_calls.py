"""Child of ways.py: makes one kind of call COUNT times, and prints the Python files of
the package that a further call ran through, as JSON. C code built with --coverage counts by itself.

    trace_calls.py FOLDER launch|first|again COUNT

FOLDER has _native and _hot as they were built for this.
"""

from __future__ import annotations

import json
import sys

import instrumented
import numpy as np

FOLDER, KIND, COUNT = sys.argv[1], sys.argv[2], int(sys.argv[3])
instrumented.use(FOLDER, ("_native", "_hot"))

import sparkle_drv as sp  # noqa: E402


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
# Of calls that came before, one in many is measured or decided anew: the shortest way counts. On a
# busy machine a launch may have ended before the wait for it: the longest way counts.
ways = [instrumented.python_files(call) for _ in range(1 if KIND == "first" else 20)]
print(json.dumps((max if KIND == "launch" else min)(ways, key=len)))
