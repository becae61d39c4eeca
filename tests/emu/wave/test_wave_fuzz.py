"""A few random kernels, compiled for this machine and for each chip; `make fuzz-isa` runs 4,000.

When this fails, compiled kernels compute something else on the emulator than on a CPU.
"""

from __future__ import annotations

import fuzz_kernels
import packages
import pytest

WAYS = [("gfx1036", 0, 64), ("gfx1036", 3, 32), ("gfx1100", 2, 64), ("gfx1100", 1, 32)]


@pytest.mark.parametrize(("chip", "level", "wave"), WAYS)
def test_random_kernels(chip, level, wave):
    packages.needed("clang-19", "lld-19")
    assert fuzz_kernels.batch(3 + level, 5, chip, level, wave) == []


def test_a_wrong_result_is_seen(monkeypatch):
    """The comparison is not blind: a card that gets floats' bits wrong differs in each kernel."""
    packages.needed("clang-19", "lld-19")
    wrong = "#ifdef __AMDGCN__\n#define bits_f(x) (bits_f(x) + 1)\n#endif\n"
    monkeypatch.setattr(fuzz_kernels, "HEAD", fuzz_kernels.HEAD + wrong)
    assert len(fuzz_kernels.batch(3, 3, "gfx1100", 1, 32)) == 3
