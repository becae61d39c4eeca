"""Times all_reduce on real devices against numpy's `a += b; b[:] = a` on the same
memory, in turns.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial

import numpy as np

import sparkle_drv as sp

from .figures import MIB, Figures, Options, Wrong, told


def real(options: Options) -> Figures:
    """Returns ratios: the time of all_reduce divided by the time of numpy, for 4 MiB and 64 MiB.
    Raises Wrong for a wrong sum.
    """
    found: Figures = {}
    uris = list(options.devices)
    with sp.init(uris, profile=False) as ctx, ctx.create_mesh(uris) as mesh:
        for nbytes in (4 * MIB, 64 * MIB):
            chance = np.random.default_rng(1)
            host = chance.standard_normal((len(uris), nbytes // 4)).astype(np.float32)
            ratios = [_ratio(ctx, mesh, host, at % 2 == 1) for at in range(options.rounds + 1)]
            name = f"all_reduce / numpy, {nbytes // MIB} MiB, {' '.join(uris)}"
            found[name] = f"{told(ratios[1:])}; {mesh.plan}"
    return found


def _ratio(ctx: sp.Context, mesh: sp.Mesh, host: np.ndarray, reverse: bool) -> float:
    mine, taken = host.copy(), {}
    with ExitStack() as stack:
        pairs = zip(ctx.devices, host, strict=True)
        arrays = [stack.enter_context(device.array(row)) for device, row in pairs]
        ways = {"mesh": partial(mesh.all_reduce, arrays), "numpy": partial(_numpy, mine)}
        for name in sorted(ways, reverse=reverse):
            begin = time.perf_counter()
            ways[name]()
            taken[name] = time.perf_counter() - begin
        for array in arrays:
            if not np.allclose(array.numpy(), mine[0], rtol=1e-5, atol=1e-5):
                raise Wrong(f"{array.device.uri}: expected numpy's sum of the arrays, got another")
    return taken["mesh"] / taken["numpy"]


def _numpy(rows: np.ndarray) -> None:
    for row in rows[1:]:
        rows[0] += row
    for row in rows[1:]:
        row[:] = rows[0]
