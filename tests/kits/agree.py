"""Compares results with their references; not a test."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkle_drv.ops import ref


def agree(got: Any, want: Any, tolerance: float = 2e-5, rms: float | None = None, what: str = ""):
    """No element of `got` is further from that of `want`, which may be a number, than ref.mismatch
    allows.
    """
    got = np.asarray(got)
    want = np.full(got.shape, want) if np.ndim(want) == 0 else want
    assert got.shape == np.shape(want), what
    miss = ref.mismatch(got, want, tolerance, rms)
    assert miss.index is None, f"{what}: {miss} with tolerance {tolerance}"


def agree_conv(
    got: Any, want: Any, terms: int, what: str = "", algo: str = "conv2d", rms: float | None = None
):
    """The same of a convolution whose outputs are sums of `terms` products.

    The scale is sqrt(terms), also where an activation follows: its slope is 1 at most.
    """
    op = algo if algo.startswith("winograd") else "conv2d"
    agree(got, want, ref.tolerance(op, np.float32, terms), rms or float(np.sqrt(terms)), what)
