"""A thousand random calls are numpy's, in threads and with Ctrl-C; planted mistakes are found.

When this fails, some sequence of calls that nobody wrote a test for is wrong.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter

import drawing
import numpy as np
import pytest
import random_calls

import sparkle_drv as sp


@pytest.mark.timeout(300)
def test_a_thousand_calls():
    """In a process of its own, which coverage does not look at: see random_calls.run."""
    usual = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    env = usual | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, random_calls.__file__, "--count", "1000", "--seed", "4"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"^ *(\d+) (.+)$", done.stdout, re.M)
    seen = Counter({what: int(times) for times, what in rows})
    for what in (*drawing.KINDS, "plan", "graph", "cpu", "context", "refused: closed"):
        assert seen[what] > 5, seen
    assert seen["out over an operand"] > 5
    assert seen["interrupted"] + seen["interrupted too late"] > 20


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
    """Writes one element more than there are, where the memory behind a result is a test's own."""
    made, base = function(*args, **options), options.get("out")
    base = None if base is None else base.base
    if isinstance(base, np.ndarray) and made.size and made.flags.c_contiguous:
        end, limit = (x.__array_interface__["data"][0] + x.nbytes for x in (made, base))
        if end + made.itemsize <= limit:  # else it would be the heap's
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
    found = random_calls.run(2000, seed=5, threads=1, names=("cpu",), interrupts=False)
    assert len(found.wrong) == random_calls.MOST_WRONG
