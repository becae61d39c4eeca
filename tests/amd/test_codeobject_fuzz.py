"""Damaged code objects load or are an ImageError. The long run is `make fuzz-elf`.

When this fails, a damaged .hsaco crashes the process of the user who loads it.
"""

from __future__ import annotations

import random

import fuzz_codeobject
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from objectkit import blob, kernel_note, load, with_note, with_raw_note

import sparkle_drv as sp

KEYS = st.text(max_size=4)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text(max_size=8)
    | st.binary(max_size=8)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def refused_or_loaded(data):
    try:
        load(data)
    except sp.ImageError:
        return


def test_a_thousand_damaged_objects():
    outcomes = fuzz_codeobject.run(1500, random.Random().getrandbits(32))
    assert 30 < outcomes["loaded"] < 1400  # both ways are taken


@pytest.mark.parametrize("nbytes", range(0, 15920, 331))
def test_truncated_at_any_length(nbytes):
    if nbytes < len(blob()):
        refused_or_loaded(blob()[:nbytes])


@settings(max_examples=120, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_as_an_object(data):
    with pytest.raises(sp.ImageError):
        load(data)


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=100))
def test_any_bytes_as_metadata(content):
    with pytest.raises(sp.ImageError):
        load(with_raw_note(blob(), content))


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_any_value_for_any_key(data):
    """One value of the kernel's metadata, or of one of its arguments, is something else."""

    def change(root):
        entry = kernel_note(root)
        entry = data.draw(st.sampled_from([root, entry, *entry[".args"]]))
        entry[data.draw(st.sampled_from(sorted(entry)))] = data.draw(JSON)

    refused_or_loaded(with_note(blob(), change))
