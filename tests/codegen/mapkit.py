"""Expressions as kernels of their own on an emulated card, and how wrong they may be."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from codekit import LEVEL, Operand, Program, packed
from rdnakit import KERNELS

from sparkle_drv.codegen.rdna import emit, sin_cos_pow
from sparkle_drv.core.abi.signature import Arg, Signature
from sparkle_drv.ops import ref
from sparkle_drv.ops.expression import program


def words(text, kind="f32", scalars=()):
    """(program, its words as a plan has them)."""
    made = program.compile_map(text, frozenset(scalars), kind)
    return made, tuple(made.words.tolist())


def emitted(text, chip, kind="f32", scalars=()):
    """(program, kernel) of an expression."""
    made, said = words(text, kind, scalars)
    return made, emit.kernel(f"map_{kind}", said, gen=LEVEL[chip], chip=chip)


def run(card, text, kind="f32", *, out=None, groups=None, **values):
    """y of one launch. Arrays end where their memory does and have the rights of their access, so
    that what touches anything else is a fault; `out` names the input that y takes the place of."""
    chip, gpu = card
    scalars = [name for name, value in values.items() if np.ndim(value) == 0]
    made, kernel = emitted(text, chip, kind, scalars)
    dtype = np.float32 if kind == "f32" else np.int32
    arrays = {name: np.asarray(values[name], dtype) for name in made.inputs}
    n = next((a.size for a in arrays.values()), 70)
    constants = [values[c] if isinstance(c, str) else c for c in made.constants]
    operands = {name: Operand(gpu, a, "rw" if name == out else "r") for name, a in arrays.items()}
    if out is None:
        operands["the result"] = Operand(gpu, np.full(n, 77, dtype), "w")
    y = operands[out or "the result"]
    operands["consts"] = Operand(gpu, np.array(constants, dtype), "r")
    inputs = [operands[name] for name in made.inputs]
    args = [y, *inputs, *[None] * (8 - len(inputs)), None, operands["consts"]]
    args += [made.words.size, len(constants), n]
    groups = groups or -(-n // kernel.elements)
    signature = Signature([Arg(**arg) for arg in KERNELS[f"map_{kind}"]["args"]])
    try:
        with Program(gpu, chip, kernel.code) as loaded:
            bos = [operand.buffer for operand in operands.values()]
            size = kernel.group_size
            loaded.launch(packed(signature, args), (groups, 1, 1), size, bos=bos)
        for name, operand in operands.items():
            if operand is not y:
                np.testing.assert_array_equal(operand.values(), operand.like, err_msg=name)
        return y.values()
    finally:
        for operand in operands.values():
            operand.buffer.close()


def reference(text, **values):
    with np.errstate(all="ignore"):
        return ref.map(text, **values)


def ulps(got, want):
    """How many units of the last place of f32 each `got` is off; denormals count as they are."""
    want = np.asarray(want, np.float64)
    with np.errstate(all="ignore"):
        rounded = want.astype(np.float32)
        unit = np.spacing(np.abs(np.where(np.isfinite(rounded), rounded, 3e38)))
        off = np.abs(got - np.clip(want, -(2.0**128), 2.0**128)) / unit.astype(np.float64)
    same = (got == rounded) | (np.isnan(got) & np.isnan(want))
    return np.where(same & ~np.isfinite(rounded), 0.0, np.where(np.isnan(off), np.inf, off))


_PI_BITS = 1200
_HALF_PI = Fraction(sin_cos_pow.pi_times_two_to(_PI_BITS), 1 << _PI_BITS + 1)


def sine_or_cosine(x, op):
    """sin or cos of a finite float of any size: what is left of it is exact, where libm's need not
    be."""
    quarters = round(Fraction(x) / _HALF_PI)
    rest = float(Fraction(x) - quarters * _HALF_PI)
    turn = quarters + (op == "cos")
    value = math.cos(rest) if turn % 2 else math.sin(rest)
    return -value if turn % 4 >= 2 else value
