"""Operations and the scheduler ask what a device can do, never which backend it is of.

When this fails, a plug-in's device is treated worse than a built-in one.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import sparkle_drv

PACKAGE = Path(sparkle_drv.__file__).parent
BACKENDS = {"cpu", "egl", "cuda", "amdgpu", "sim", "emu", "opencl"}
NAMED = {"backend", "uri", "isa"}
PREFIXED = {"startswith", "partition", "split", "removeprefix"}


def names_a_backend(node):
    """Is it `x.backend`, or the text of a backend's name, or a collection with one?"""
    if isinstance(node, ast.Attribute):
        return node.attr == "backend"
    inside = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
    return any(isinstance(x, ast.Constant) and x.value in BACKENDS for x in inside)


def asks_for_a_name(node):
    """Does it compare with a backend's name, or take one out of a URI?"""
    if isinstance(node, ast.Compare):
        return any(names_a_backend(x) for x in (node.left, *node.comparators))
    if isinstance(node, ast.Match):
        return names_a_backend(node.subject)
    call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    if not call or node.func.attr not in PREFIXED:
        return False
    of = node.func.value
    return isinstance(of, ast.Attribute) and of.attr in NAMED


def lines_of(text):
    return [node.lineno for node in ast.walk(ast.parse(text)) if asks_for_a_name(node)]


@pytest.mark.parametrize("folder", ["ops", "sched"])
def test_no_backend_is_asked_for_by_name(folder):
    sources = sorted((PACKAGE / folder).rglob("*.py"))
    assert sources
    found = {str(path): lines_of(path.read_text(encoding="utf-8")) for path in sources}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        'if dev.info.backend == "cpu":\n    pass',
        "same = a.info.backend != b.info.backend",
        'fast = kind in ("cpu", "cuda")',
        'wide = dev.uri.startswith("emu:")',
        'amd = info.isa.startswith(("glsl", "gfx"))',
        'scheme = dev.uri.partition(":")[0]',
        'match dev.info.backend:\n    case "cpu":\n        pass',
    ],
)
def test_a_planted_name_is_found(text):
    assert lines_of(text) == [1]
