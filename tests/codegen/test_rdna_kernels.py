"""The manifest's kernels for AMD GPUs against their references, on both emulated chips.

When this fails, a prebuilt AMD kernel is wrong.

The launches are the conformance suite's.
"""

from __future__ import annotations

import numpy as np
import pytest
from codekit import Operand
from rdnakit import CHIPS, KERNELS, card, check, generator, launch, loaded  # noqa: F401

from sparkle_drv.testing.checks.problems import problems


@pytest.mark.parametrize("name", [n for n in KERNELS if not n.startswith("peak")])
def test_kernel_equals_its_reference(card, name):  # noqa: F811
    rng = generator(name)
    for problem in problems(name):
        check(card, name, problem, rng)


@pytest.mark.parametrize("name", ["peak_fma_f32", "peak_fma_f64"])
def test_peak_counts_what_it_did(card, name):  # noqa: F811
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
