"""The manifest's kernels for AMD GPUs on an emulated card, compared with their references.

Every array ends where its memory does, so that an access one element too far is a fault, and only
has the rights that its argument claims.
"""

from __future__ import annotations

import numpy as np
import pytest
from codekit import Operand, Program, grid, packed

from sparkle_drv import assets
from sparkle_drv.backends.amdgpu import builtin
from sparkle_drv.core.abi.signature import Arg, Signature
from sparkle_drv.lowlevel import codeobject, targets
from sparkle_drv.ops import ref
from sparkle_drv.testing.checks.kernels import _values
from sparkle_drv.testing.emulator import EmulatedGpu, Machine

KERNELS = assets.manifest()["kernels"]
CHIPS = ["gfx1036", "gfx1100"]


@pytest.fixture(scope="module", params=CHIPS)
def card(request):
    with Machine([request.param]) as machine, machine.open() as node, EmulatedGpu(node) as gpu:
        yield request.param, gpu


def loaded(chip, name):
    """The manifest's kernel for a chip, checked against its signature."""
    mach = targets.accepted(chip)
    signature = Signature([Arg(**arg) for arg in KERNELS[name]["args"]])
    blob, path = builtin.image(KERNELS[name]["backends"]["amdgpu"], mach)
    types = [arg.type for arg in signature.args]
    return codeobject.load(blob, name, mach=mach, args=types, name=path), signature


def launch(card, name, operands, scalars, groups=None):
    chip, gpu = card
    code, signature = loaded(chip, name)
    entry = KERNELS[name]["backends"]["amdgpu"]
    args = [operands.get(a.name) if a.is_pointer else scalars[a.name] for a in signature.args]
    if groups is None:
        groups = grid(entry["groups"], signature, args)
    if not all(groups):
        return  # an empty grid is not dispatched
    with Program(gpu, chip, code) as program:
        bos = [operand.buffer for operand in operands.values()]
        program.launch(packed(signature, args), groups, tuple(entry["group_size"]), bos=bos)


def check(card, name, problem, rng, groups=None):
    """One launch of a kernel, compared with its reference, outputs poisoned and inputs intact."""
    arguments = KERNELS[name]["args"]
    there = [
        a for a in arguments
        if a["type"].endswith("*") and (not a.get("optional") or a["name"] in problem.given)
    ]  # fmt: skip
    before = {a["name"]: _values(a, problem, rng) for a in there}
    operands = {a["name"]: Operand(card[1], before[a["name"]], a["access"]) for a in there}
    try:
        launch(card, name, operands, problem.scalars, groups)
        after = {key: operand.values() for key, operand in operands.items()}
    finally:
        for operand in operands.values():
            operand.buffer.close()
    want = ref.kernel(name)(*ref.arguments(arguments, **problem.scalars, **before))
    for a in there:
        if "w" not in a["access"]:
            np.testing.assert_array_equal(after[a["name"]], before[a["name"]])
        elif want is not None:
            want = beyond(want, after[a["name"]].dtype)
            terms = ref.tolerance(name, k=problem.terms)
            rms = (
                float(np.sqrt(problem.terms))
                if name.startswith(("reduce", "gemm", "conv"))
                else None
            )
            found = ref.mismatch(after[a["name"]], want, terms, rms)
            assert found.index is None, f"{name} {dict(problem.scalars)}: {found}"
    return after


def beyond(want, dtype):
    """A float64 reference with infinities where the result's type has no such number."""
    if dtype.kind != "f":
        return want
    return np.where(np.abs(want) > np.finfo(dtype).max, np.copysign(np.inf, want), want)


def generator(name):
    seed = sum(name.encode())
    print(f"seed {seed}")
    return np.random.default_rng(seed)
