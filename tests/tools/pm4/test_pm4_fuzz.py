"""The short fuzz; `make fuzz-pm4` runs the long one.

When this fails, a damaged dump crashes pm4.py.
"""

from __future__ import annotations

import random

import pm4_fuzz
import pytest


@pytest.mark.unmeasured
@pytest.mark.parametrize("part", range(3))
def test_mutated_inputs(part):
    seed = random.SystemRandom().getrandbits(32)
    pm4_fuzz.fuzz(seed, 500 * part, 500)  # a failure names seed and number


def test_a_wrong_answer_is_found(monkeypatch):
    """The fuzz has teeth: a text that loses a bit does not pass."""
    right = pm4_fuzz.lowlevel.text
    monkeypatch.setattr(pm4_fuzz.lowlevel, "text", lambda ibs: right(ibs).replace("=1", "=2"))
    with pytest.raises(AssertionError, match="seed 1, input"):
        pm4_fuzz.fuzz(1, 0, 200)
