"""Imports point down only: the picture of the layers, enforced on the parsed source of every file.

An import counts wherever it stands, in a function or under TYPE_CHECKING too. `violations` takes
sources as data, so that what it must find is tested with planted ones.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Top to bottom. A module may import its own layer and those below it.
ORDER = [
    *("api", "context", "cluster", "sched", "mesh", "ops", "core", "codegen", "backends"),
    *("amd", "_native", "leaf"),
]
LEAVES = {"types", "errors", "telemetry", "assets", "kept", "version"}
# What tools, examples and benchmarks may use of the package.
PUBLIC = {"api", "ops", "leaf", "lowlevel", "plugin", "testing"}
# Names for others alone: what they may use, and nothing of ours uses them.
ASIDE = {
    "lowlevel": ("lowlevel", "codegen", "backends", "amd", "_native", "leaf"),
    "plugin": ("plugin", "core", "backends", "_native", "leaf"),
}


def layer(module: str) -> str:
    """The layer of a dotted module name of ours: "sparkle_drv.core.queue" is in "core"."""
    parts = module.split(".")
    if parts[0] != "sparkle_drv":
        return "tools"
    if len(parts) == 1 or parts[1] in ("__init__", "__main__"):
        return "api"
    if parts[1] in LEAVES:
        return "leaf"
    return "_native" if parts[1] in ("_emu", "_hot") else parts[1]


def imported(module: str, is_package: bool, text: str, known: set[str]) -> list[tuple[int, str]]:
    """(line, module of ours) of each import; `from x import y` is x.y where that is a module."""
    found = []
    here = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{origin}.{alias.name}" for alias in node.names]
            found += [(node.lineno, name if name in known else origin) for name in names]
    return [(line, name) for line, name in found if name.split(".")[0] == "sparkle_drv"]


def allowed(source: str, target: str) -> bool:
    """May module `source` import module `target`?"""
    a, b = layer(source), layer(target)
    if a == "testing":
        return True
    if a == "tools":
        return b in PUBLIC
    if a in ASIDE:
        return b in ASIDE[a]
    if b == "testing" or b in ASIDE or a not in ORDER or b not in ORDER:
        return False
    if a == "backends" and b == "backends":  # one backend knows nothing of another
        mine, theirs = source.split(".")[2:3], target.split(".")[2:3]
        return mine == theirs or theirs in (
            [],
            ["abilities"],
            ["base"],
            ["cgroup"],
            ["fixed"],
            ["machine"],
            ["native"],
        )
    if a == b == "leaf":
        return source.split(".")[1] == target.split(".")[1]
    return ORDER.index(a) <= ORDER.index(b)


def violations(sources: dict[str, tuple[bool, str]]) -> list[str]:
    """`sources` maps module names to (is a package, text); one line for each wrong import."""
    known = set(sources) | {f"sparkle_drv.{name}" for name in ("_native", "_emu", "_hot")}
    wrong = []
    for module, (is_package, text) in sorted(sources.items()):
        for line, target in imported(module, is_package, text, known):
            if not allowed(module, target):
                wrong.append(
                    f"{module}:{line} ({layer(module)}) imports {target} ({layer(target)})"
                )
    return wrong


def read_tree() -> dict[str, tuple[bool, str]]:
    sources = {}
    for top in ("sparkle_drv", "tools", "examples", "benchmarks"):
        for path in (ROOT / top).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            sources[name] = (is_package, path.read_text(encoding="utf-8"))
    return sources


def test_imports_point_down():
    sources = read_tree()
    assert {layer(name) for name in sources} >= {"api", "core", "ops", "backends", "leaf", "tools"}
    assert not violations(sources), "\n" + "\n".join(violations(sources))


def test_every_module_has_a_layer():
    known = {*ORDER, *ASIDE, "tools", "testing"}
    assert [name for name in read_tree() if layer(name) not in known] == []


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("sparkle_drv.core.queue", "from sparkle_drv.ops import gemm"),
        ("sparkle_drv.core.queue", "from ..ops.gemm import plan"),
        ("sparkle_drv.core.queue", "import sparkle_drv"),
        ("sparkle_drv.core.queue", "from sparkle_drv import Device"),
        ("sparkle_drv.core.queue", "def f():\n    from .. import testing"),
        ("sparkle_drv.ops.gemm", "from sparkle_drv.lowlevel import pm4"),
        ("sparkle_drv.core.queue", "from sparkle_drv.plugin import Queues"),
        ("sparkle_drv.plugin.queues", "from sparkle_drv.ops import gemm"),
        ("sparkle_drv.backends.cpu.device", "from sparkle_drv.core import buffer"),
        ("sparkle_drv.backends.cpu.device", "from sparkle_drv.backends.egl import device"),
        ("sparkle_drv.types", "from sparkle_drv.errors import check"),
        ("sparkle_drv.errors", "if TYPE_CHECKING:\n    from sparkle_drv.core import queue"),
        ("sparkle_drv.strange", "from sparkle_drv import types"),
        ("tools.bench", "from sparkle_drv.core.queue import Queue"),
    ],
)
def test_a_planted_import_is_found(module, text):
    tree = {"sparkle_drv.testing": (True, ""), "sparkle_drv.types": (False, "")}
    assert len(violations({**tree, module: (False, text)})) == 1


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("sparkle_drv.core.queue", "from ..backends import base\nfrom .fence import Fence"),
        (
            "sparkle_drv.core.queue",
            "from sparkle_drv._native import ffi\nfrom ..errors import check",
        ),
        ("sparkle_drv.core.queue", "from sparkle_drv import errors"),
        ("sparkle_drv.backends.cpu.device", "from ..base import Backend\nfrom . import queue"),
        ("sparkle_drv.testing.suite", "from sparkle_drv.core import queue\nfrom .. import _emu"),
        ("sparkle_drv.plugin.queues", "from sparkle_drv.core import records"),
        ("tools.bench", "import sparkle_drv as sp\nfrom sparkle_drv import testing, lowlevel"),
        ("sparkle_drv.types", "import os\nfrom enum import Enum"),
    ],
)
def test_a_right_import_passes(module, text):
    names = ["errors", "testing", "lowlevel", "_emu"]
    tree = {f"sparkle_drv.{name}": (name == "testing", "") for name in names}
    assert violations({**tree, module: (False, text)}) == []
