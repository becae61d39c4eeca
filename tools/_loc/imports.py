"""Finds what a source file imports or includes, as paths of other source files of the checkout.

An import counts wherever it stands, also in a function and under TYPE_CHECKING. A Python import of
an extension module counts as an import of the C folders from which the extension is built.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Mapping

# Folders on the import path: the name of a module in them begins below the folder.
PATHS = ("tools/", "benchmarks/", "examples/plugin_opencl/")
EXTENSIONS = {
    "sparkle_drv._hot": "native/hot/module.c",
    "sparkle_drv._native": "native/include/sp_base.h",
    "sparkle_drv._emu": "native/emu/version.c",
}
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
_SEARCHED = ("native", "native/include")  # the -I options of native/build_ffi.py


def module_name(path: str) -> str:
    """Returns the dotted name under which a Python file is imported. A helper module of the tests
    is imported without a folder's name.
    """
    stem = re.sub(r"(/__init__)?\.pyi?$", "", path)
    for start in PATHS:
        if stem.startswith(start):
            return stem[len(start) :].replace("/", ".")
    return stem.rpartition("/")[2] if stem.startswith("tests/") else stem.replace("/", ".")


def modules(paths: list[str]) -> dict[str, str]:
    """Returns the path of every Python module by its dotted name. A stub stands for its extension
    module.
    """
    names = {module_name(path): path for path in paths if path.endswith(".py")}
    return {**names, **EXTENSIONS}


def of_python(path: str, text: str, known: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Yields (line, imported file) for each import of a module of the checkout."""
    name = module_name(path)
    here = name.split(".")
    if not path.endswith("__init__.py"):
        here = here[:-1]
    for node in _statements(ast.parse(text)):
        if isinstance(node, ast.Import):
            named = [_first_known(alias.name, known) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            whole = [f"{origin}.{alias.name}" for alias in node.names]
            package = origin if origin in known else ""
            named = [name if name in known else package for name in whole]
        else:
            continue
        yield from ((node.lineno, known[name]) for name in named if name)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yields all statements below `node`. ast.walk would also visit the far more numerous
    expressions, which contain no statement.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield child
            yield from _statements(child)


def _first_known(name: str, known: Mapping[str, str]) -> str:
    """Returns the longest of a.b.c, a.b and a that exists, for `import a.b.c`; "" if none is in the
    checkout.
    """
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def of_c(path: str, text: str, paths: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yields (line, included file) for each include of a file of the checkout, found as the
    compiler finds it.
    """
    for match in _INCLUDE.finditer(text):
        for folder in (posixpath.dirname(path), *_SEARCHED):
            found = posixpath.normpath(f"{folder}/{match[1]}")
            if found in paths:
                yield text.count("\n", 0, match.start(1)) + 1, found
                break
