"""Memory tests find what is wrong with memory: arrays here that break as memory does.

When this fails, broken memory passes bring-up.
"""

from __future__ import annotations

import numpy as np
import pytest
from _bringup.rungs import patterns


class Broken(np.ndarray):
    """Words that are not kept: `spoil` changes what is stored."""

    spoil = staticmethod(lambda whole: None)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        whole = self if self.base is None else self.base
        self.spoil(np.asarray(whole))


def memory(spoil, nwords=4096):
    words = np.zeros(nwords, np.uint32).view(type("B", (Broken,), {"spoil": staticmethod(spoil)}))
    return words


def test_good_memory():
    assert patterns.sweep(np.zeros(5000, np.uint32), base=0x1000) is None


def test_a_bit_that_is_stuck():
    def spoil(whole):
        whole[1000] |= 1 << 7

    bad = patterns.sweep(memory(spoil))
    assert (bad.offset, bad.xor, bad.count) == (4000, 1 << 7, 1)
    assert "0x00000080" in str(bad)


def test_an_address_line_that_is_cut():
    def spoil(whole):
        whole[2048:] = whole[:2048]

    bad = patterns.sweep(memory(spoil), names=["address in address"])
    assert bad.pattern == "address in address"
    assert bad.offset == 8192


def test_two_data_lines_that_touch():
    def spoil(whole):
        both = whole & 0b110
        whole[(both != 0) & (both != 0b110)] |= 0b110

    bad = patterns.sweep(memory(spoil), names=["walking ones"])
    assert bad.xor == 0b110


def test_random_by_seed():
    one, two, three = (
        [image for _, image in patterns.images(64, 0, seed, ["random"])] for seed in (1, 1, 2)
    )
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert not np.array_equal(one[0], three[0])


@pytest.mark.parametrize("name", patterns.PATTERNS)
def test_every_pattern_sees_a_stuck_bit_both_ways(name):
    def ones(whole):
        whole[17] |= 1 << 31

    def zeros(whole):
        whole[17] &= ~np.uint32(1 << 31)

    assert patterns.sweep(memory(ones), names=[name]).xor == 1 << 31
    assert patterns.sweep(memory(zeros), names=[name]).xor == 1 << 31
