"""Calls import no module that numpy loads late: Ctrl-C in an import hangs the calls that follow.

When this fails, Ctrl-C during the first call hangs every later call.
"""

from __future__ import annotations

import subprocess
import sys

CALLS = """
import sys, numpy as np, sparkle_drv as sp
later = {"numpy.ma.core"} - set(sys.modules)
with sp.open("cpu") as dev, sp.init(["cpu"], profile=False) as ctx:
    a = np.ones((8, 8), np.float32)
    sp.ops.gemm(dev, a, a)
    sp.ops.map(dev, "x + 1", x=a)
    dev.array(a).close()
    ctx.array((8, 8), np.float32).fill(2)
    ctx.gemm(a, a)
sys.exit(str(later & set(sys.modules)) if later & set(sys.modules) else 0)
"""


def test_calls_do_not_import_masked_arrays():
    done = subprocess.run([sys.executable, "-c", CALLS], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
