"""A thousand random calls are numpy's, in threads and with Ctrl-C; planted mistakes are found."""

from __future__ import annotations

import drawing
import numpy as np
import pytest
import random_calls

import sparkle_drv as sp


@pytest.mark.timeout(300)
def test_a_thousand_calls():
    found = random_calls.run(1000, seed=4, threads=3)
    assert not found.wrong, "\n".join(found.wrong)
    for what in (*drawing.KINDS, "plan", "graph", "cpu", "context", "refused: closed"):
        assert found.seen[what] > 5, found.seen
    assert found.seen["out over an operand"] > 5
    assert found.seen["interrupted"] + found.seen["interrupted too late"] > 20


class Stale:
    """Gives what an earlier call of the same arrays gave."""

    def __init__(self) -> None:
        self.known: dict = {}

    def __call__(self, function, args, options):
        made = function(*args, **options)
        return self.known.setdefault((*map(id, args), *map(id, options.values())), made)


def off(function, args, options):
    """One element is a little wrong."""
    made = function(*args, **options)
    if isinstance(made, np.ndarray) and made.size > 20 and made.flags.c_contiguous:
        made.reshape(-1)[17] *= 1.01
    return made


def beside(function, args, options):
    """Writes one element more than there are."""
    made = function(*args, **options)
    if made.base is not None and made.size and made.flags.c_contiguous:
        at = np.lib.stride_tricks.as_strided(made.reshape(-1), (made.size + 1,))
        at[-1] += 1
    return made


def open_again(function, args, options):
    """Takes closed arrays for zeros."""
    try:
        return function(*args, **options)
    except (ValueError, sp.SparkleError):
        return np.zeros(1)


@pytest.mark.parametrize("fault", [Stale(), off, beside, open_again])
def test_a_planted_mistake_is_found(fault, monkeypatch):
    right = drawing.Place.call

    def call(place, name):
        function = right(place, name)
        return lambda *args, **options: fault(function, args, options)

    monkeypatch.setattr(drawing.Place, "call", call)
    found = random_calls.run(2000, seed=5, threads=1, names=("cpu",))
    assert len(found.wrong) == random_calls.MOST_WRONG
