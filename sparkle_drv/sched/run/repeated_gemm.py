"""The short way of a call that was made before: one look-up, and the operation itself.

A plan lets so many calls pass (`Kept.spare`, sampled.py) before the next one that is measured. That
goes the same way, with a clock beside it: behind the long one, which has the interpreter's code and
data in the caches, short work is up to twice as fast as it is else. What is decided anew goes the
long way, and so do calls that are measured step by step (stepwise.py), and everything while a trace
is recorded, or where results are validated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import ndarray

from sparkle_drv import ops

from . import calls
from .constants import ContextConstant
from .local import FAILURES, LocalExecutor


def gemm(executor: LocalExecutor, uris: calls.Uris) -> Callable[[Any, Any, Any], Any]:
    """A product of two numpy arrays, the right one perhaps a ContextConstant, into `out` (numpy, or
    None), without options: its result, or None when it must go the long way (calls.gemm).
    """
    get, product = executor.plans.get, ops.gemm
    if executor.inspector is not None:
        return lambda a, b, out: None

    def again(a: Any, b: Any, out: Any) -> Any:
        if a.__class__ is not ndarray:
            return None
        given, held = b, b.__class__ is ContextConstant
        if held:
            kept = get((a.shape, b.shape, a.dtype, None, b.places, None, None, uris))
            if kept is None or b.closed or not b.of(executor):
                return None
            b = b.on(kept.device.uri)
        elif b.__class__ is ndarray:
            kept = get((a.shape, b.shape, a.dtype, uris))
        else:
            return None
        if kept is None or (out is not None and out.__class__ is not ndarray):
            return None
        try:
            if kept.spare > 0:
                kept.spare -= 1
                executor.last = kept
                return product(kept.device, a, b, out)
            if kept.due or not kept.sync or executor.trace is not None:
                return None
            kept.begins()
            executor.last = kept
            return executor.timed(kept, lambda: product(kept.device, a, b, out))
        except FAILURES as error:
            uri = kept.device.uri
            executor.failed(uri, error)
            others = tuple(u for u in uris if u != uri)
            if not others:
                raise
            return calls.gemm(executor, others, a, given, out, {})

    return again
