"""Names say what they hold, and a class name stands for one thing: counted by tools/_loc/names.py.

When this fails, a reader meets names that could stand for anything.
"""

from __future__ import annotations

import ast
import sys

import pytest
from where import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from _loc import names


def counted(text: str) -> names.Names:
    made = names.Names()
    names.add(made, "a.py", ast.parse(text))
    return made


INNER = (
    "def f():\n    made = 1\n    def g():\n        x = 1\n        x += 1\n        return made + x\n"
)
LONG = "def f(x):\n    {0} = x\n    if x:\n        x += 1\n    x += 1\n    return {0}\n"


@pytest.mark.parametrize(
    ("text", "fillers"),
    [
        (LONG.format("found"), ["found"]),
        (LONG.format("total"), []),
        ("def f():\n    found = 1\n    return found\n", []),  # three lines at most
        ("def f(given):\n    a = 1\n    b = 2\n    c = 3\n    return given\n", ["given"]),
        ("def f(given):\n    return given\n", []),
        (INNER, ["made"]),
    ],
)  # fmt: skip
def test_fillers_that_live_long_count(text, fillers):
    assert sorted(counted(text).fillers) == fillers


def test_riddles_and_class_names():
    made = counted("def of(x): pass\nclass _Node: pass\nclass Tree: pass\n")
    names.add(made, "b.py", ast.parse("class Node: pass\n"))
    assert made.functions == ["a.py: of"]
    assert made.twice == {"Node": ["a.py", "b.py"]}
    assert "1 of 2 class names" in names.report(made)


# docs/glossary.md says why: alternatives that do one thing, and public names.
SHARED = {"Claims", "KernelHandle", "MemoryHandle", "Timestamp", "Work"}


def test_a_class_name_stands_for_one_thing_in_the_package():
    assert names.read(ROOT).twice.keys() == SHARED


def test_few_names_are_fillers():
    package = names.read(ROOT)
    assert sum(package.fillers.values()) <= 0.005 * package.variables
