"""Examples in docstrings: every public name has one, and each prints what it says.

When this fails, a user who calls `help` on a public name finds no example, or a wrong one.
"""

import doctest
import inspect

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import lowlevel, plugin
from sparkle_drv.backends import abilities, base
from sparkle_drv.ops import functions, recycled, ref, tiles
from sparkle_drv.testing import suite

OPS = (functions, recycled, ref, tiles)
MODULES = (sp, sp.ops, *OPS, base, abilities, plugin, suite, lowlevel)
GIVEN = {"sp": sp, "np": np} | {m.__name__.rpartition(".")[2]: m for m in MODULES[2:]}


def public():
    """(name, thing) of every class and function, each under the first name that exports it."""
    found = {}
    for module in MODULES:
        named = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if getattr(value, "__module__", "") == module.__name__ and not name.startswith("_")
        ]
        for name in named:
            thing = getattr(module, name)
            if callable(thing):
                found.setdefault(id(thing), (f"{module.__name__}.{name}", thing))
    return found.values()


PUBLIC = dict(public())


@pytest.fixture(scope="module")
def dev():
    with sp.open("cpu") as device:
        yield device


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example_that_holds(name, dev, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(PUBLIC[name]) or ""
    given = GIVEN | {"dev": dev}
    test = doctest.DocTestParser().get_doctest(text, given, name, None, None)
    assert test.examples, f"{name}: expected an example (>>>) in the docstring, got none"
    said = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    assert runner.run(test, out=said.append).failed == 0, "".join(said)
