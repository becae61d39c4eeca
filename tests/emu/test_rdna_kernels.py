"""The manifest's kernels for AMD GPUs against their references, on both emulated chips.

The launches are the conformance suite's. Every array ends where its memory does, so that an access
one element too far is a fault, and only has the rights that its argument claims.
"""

from __future__ import annotations

import numpy as np
import pytest
from codekit import Operand, Program, grid, packed

from sparkle_drv import assets
from sparkle_drv.backends.amdgpu import builtin
from sparkle_drv.core.signature import Signature, manifest_args
from sparkle_drv.lowlevel import codeobject, targets
from sparkle_drv.ops import ref
from sparkle_drv.testing.checks.kernels import _values
from sparkle_drv.testing.checks.problems import problems
from sparkle_drv.testing.emulator import Gpu, Machine

KERNELS = assets.manifest()["kernels"]
CHIPS = ["gfx1036", "gfx1100"]


@pytest.fixture(scope="module", params=CHIPS)
def card(request):
    with Machine([request.param]) as machine, machine.open() as node, Gpu(node) as gpu:
        yield request.param, gpu


def loaded(chip, name):
    """The manifest's kernel for a chip, checked against its signature."""
    mach = targets.accepted(chip)
    signature = Signature(manifest_args(KERNELS[name]["args"]))
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
            terms = ref.tolerance(name, k=problem.terms)
            rms = (
                float(np.sqrt(problem.terms))
                if name.startswith(("reduce", "gemm", "conv"))
                else None
            )
            found = ref.mismatch(after[a["name"]], want, terms, rms)
            assert found.index is None, f"{name} {dict(problem.scalars)}: {found}"
    return after


def generator(name):
    seed = sum(name.encode())
    print(f"seed {seed}")
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", [n for n in KERNELS if not n.startswith("peak")])
def test_kernel_equals_its_reference(card, name):
    rng = generator(name)
    for problem in problems(name):
        check(card, name, problem, rng)


@pytest.mark.parametrize("name", ["peak_fma_f32", "peak_fma_f64"])
def test_peak_counts_what_it_did(card, name):
    flops = Operand(card[1], np.zeros(1, np.uint64), "w")
    launch(card, name, {"flops": flops}, {"iters": 2}, groups=(3, 1, 1))
    chains = 16 if name.endswith("f32") else 8
    assert flops.values()[0] == 3 * 256 * 2 * chains * 8 * 2
    flops.buffer.close()


def test_there_are_all_kernels_of_the_manifest():
    assert [n for n, k in KERNELS.items() if "amdgpu" not in k["backends"]] == []


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", KERNELS)
def test_entry_agrees_with_its_code(chip, name):
    code, _ = loaded(chip, name)
    entry = KERNELS[name]["backends"]["amdgpu"]
    assert tuple(entry["group_size"]) == code.required_group_size
    assert entry["form"] == KERNELS[name]["backends"]["cpu"]["form"]
    assert code.target in entry["variants"]
    assert (code.scratch_nbytes, code.spills, code.image.writable) == (0, 0, False)
