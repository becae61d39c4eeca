"""Every kernel of the manifest against its float64 or integer reference. Inputs are random and
outputs start poisoned. Afterwards guard bands and read-only inputs must be unchanged.

`checks` makes one check per kernel of the manifest; suite.py calls it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

import sparkle_drv as sp
from sparkle_drv import assets
from sparkle_drv.ops import ref
from sparkle_drv.testing.checks.base import Array, Check, GuardedOperand, groups_for, kernel, seeded
from sparkle_drv.testing.checks.problems import TYPES, KernelProblem, extent, problems


def checks() -> list[Check]:
    """Returns one check for each kernel of the manifest."""
    return [
        Check(f"kernels: {name}", "kernels", partial(check_kernel, name=name))
        for name in assets.manifest()["kernels"]
    ]


def check_kernel(dev: sp.Device, name: str) -> None:
    """Checks one kernel with each of its problems (problems.py)."""
    with kernel(dev, name) as k, seeded() as rng:
        for problem in problems(name):
            try:
                _check_launch(dev, k, problem, rng)
            except AssertionError as error:
                raise AssertionError(f"{name} with {dict(problem.scalars)}: {error}") from error


def _check_launch(
    dev: sp.Device, k: sp.Kernel, problem: KernelProblem, rng: np.random.Generator
) -> None:
    signature: Sequence[Any] = assets.manifest()["kernels"][k.name]["args"]
    with ExitStack() as stack:
        operands: dict[str, GuardedOperand] = {}
        for arg in signature:
            if arg["type"].endswith("*") and not (
                arg.get("optional") and arg["name"] not in problem.given
            ):
                values = _values(arg, problem, rng)
                operands[arg["name"]] = stack.enter_context(GuardedOperand(dev, values))
        before = {**problem.scalars, **{name: op.values for name, op in operands.items()}}
        launched = {**problem.scalars, **{name: op.buffer for name, op in operands.items()}}
        groups = None  # for a routine, or if the grid follows from the kernel's arguments
        if k.form == "grid" and k.dims == 1:
            # The grid has one group more than needed: the kernel must ignore threads beyond n.
            groups = groups_for(k, int(problem.scalars.get("n", 1))) + 1
        fence = dev.default_queue.launch(k, *ref.arguments(signature, **launched), groups=groups)
        fence.wait()
        _compare(k.name, signature, operands, problem, ref.arguments(signature, **before))


def _values(arg: Any, problem: KernelProblem, rng: np.random.Generator) -> Array:
    """Returns the content of an operand before the launch: random numbers for an input, poison for
    an output.
    """
    dtype = np.dtype(TYPES[arg["type"].rstrip("*")])
    n = extent(arg["extent"], problem.scalars)
    if "r" not in arg["access"]:
        poison = np.nan if dtype.kind == "f" else _limits(dtype).max - 0x5A
        return np.full(n, poison, dtype)
    filler = problem.fill.get(arg["name"])
    if dtype.kind == "f":
        return (filler(rng, n) if filler else rng.standard_normal(n)).astype(dtype)
    if filler and arg["name"] != "x":
        return filler(rng, n).astype(dtype)
    return rng.integers(_limits(dtype).min, _limits(dtype).max, n, dtype, endpoint=True)


def _limits(dtype: Any) -> np.iinfo[Any]:
    return np.iinfo(dtype)


def _compare(
    name: str,
    signature: Sequence[Any],
    operands: dict[str, GuardedOperand],
    problem: KernelProblem,
    before: list[Any],
) -> None:
    want = ref.kernel(name)(*before)
    for arg in signature:
        operand = operands.get(arg["name"])
        if operand is None:
            continue
        got = operand.read()  # `read` also checks the guard bands, of inputs too
        if "w" not in arg["access"]:
            same = np.array_equal(got.view(np.uint8), operand.values.view(np.uint8))
            assert same, f"the input {arg['name']} was written"
        elif want is None:
            assert got[0] != operand.values[0], f"{arg['name']} was not written"
            assert 0 < got[0] < 2**62, f"{arg['name']} is {got[0]}"
        else:
            _agree(arg["name"], got, want, _limit(name, problem), problem)


def _limit(name: str, problem: KernelProblem) -> float:
    return 0.0 if name == "busy_u32" else ref.tolerance(name, k=problem.terms)


def _agree(what: str, got: Array, want: Array, limit: float, problem: KernelProblem) -> None:
    if want.dtype.kind == "f" and got.dtype.kind == "f":
        # The reference has a wider type than the result. Converting it to the result's type may
        # overflow to infinity, which is no error.
        with np.errstate(all="ignore"):
            want = want.astype(got.dtype) if limit == 0 else want
    if problem.each:
        with np.errstate(all="ignore"):
            size = np.abs(want.astype(np.float64))
            got, want = got / size, want / size
    # A sum of many terms may be small by chance. So its error is compared with the square root of
    # their number, the typical size of a sum of random terms of size 1.
    terms = problem.terms
    scale = math.sqrt(terms) if terms > 1 and want.size < 16 else None
    miss = ref.mismatch(got, want, limit, scale)
    assert miss.index is None, (
        f"{what}[{miss.index}] is {miss.got!r}, {miss.want!r} was expected; "
        f"the largest error is {miss.error:.3g}, {limit:.3g} is allowed"
    )
