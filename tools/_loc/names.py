"""Counts names that say little, and class names that stand for two things (tools/loc.py --names).

A filler is a name of a variable or parameter that says nothing of what it holds. It counts where it
lives for more than LINES lines. Names of fields, functions and modules do not count.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from _loc import tree

PACKAGE = "sparkle_drv/"
LINES = 3
FILLERS = frozenset({
    "found", "made", "given", "one", "its", "held", "told", "said", "asked", "gone", "seen", "them",
    "those", "such", "thing", "stuff",
})  # fmt: skip
"""Words that do not say what they hold."""
RIDDLES = frozenset({"of", "here", "apart", "taken", "plain", "one", "told"})
"""Names of functions that are riddles at the call."""


@dataclass
class Names:
    """What the names of some modules say."""

    variables: int = 0
    """Variables and parameters, each once a function."""
    fillers: Counter[str] = field(default_factory=Counter)
    """Variables and parameters in FILLERS that live for more than LINES lines, by name."""
    by_file: Counter[str] = field(default_factory=Counter)
    """These, by path."""
    functions: list[str] = field(default_factory=list)
    """Functions in RIDDLES, as "path: name"."""
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The modules that define a class, by its name."""

    @property
    def twice(self) -> dict[str, list[str]]:
        """Classes that several modules define, by name. A leading underscore does not count."""
        return {name: paths for name, paths in self.classes.items() if len(paths) > 1}


def read(root: Path, below: str = PACKAGE) -> Names:
    """Returns the names of the Python modules whose path begins with `below`."""
    names = Names()
    for path in tree.sources(root):
        if path.startswith(below) and path.endswith(".py"):
            add(names, path, ast.parse(tree.read(root, path)))
    return names


def add(names: Names, path: str, module: ast.Module) -> None:
    """Adds the names of a module."""
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef):
            names.classes[node.name.lstrip("_")].append(path)
        name = getattr(node, "name", None)
        if not isinstance(node, ast.ClassDef | ast.alias) and str(name).lstrip("_") in RIDDLES:
            names.functions.append(f"{path}: {name}")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module):
            for name, (first, last) in _spans(node).items():
                names.variables += 1
                if name in FILLERS and last - first > LINES:
                    names.fillers[name] += 1
                    names.by_file[path] += 1


def _spans(scope: ast.AST) -> dict[str, tuple[int, int]]:
    """Returns the first and last line of each variable that a scope binds. A parameter lives as
    long as its function.
    """
    spans: dict[str, tuple[int, int]] = {}
    arguments = getattr(scope, "args", None)
    if isinstance(arguments, ast.arguments):
        end = getattr(scope, "end_lineno", 0)
        several = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        rest = (x for x in (arguments.vararg, arguments.kwarg) if x is not None)
        for argument in (*several, *rest):
            spans[argument.arg] = argument.lineno, end
    used: dict[str, list[int]] = defaultdict(list)
    bound: set[str] = set()
    for node in _inside(scope):
        if isinstance(node, ast.Name):
            used[node.id].append(node.lineno)
            if isinstance(node.ctx, ast.Store):
                bound.add(node.id)
    for name in bound - spans.keys():
        spans[name] = min(used[name]), max(used[name])
    return spans


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes of a scope, without those that only an inner function binds."""
    body = getattr(scope, "body", [])
    waiting = list(body) if isinstance(body, list) else [body]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            # What an inner function reads of the scope prolongs the life of the variable.
            yield from (
                inner
                for inner in ast.walk(node)
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load)
            )
        else:
            waiting += ast.iter_child_nodes(node)


def report(names: Names, worst: int = 12) -> str:
    """Returns the names as text: shares, the worst words and files, classes of several modules."""
    fillers = sum(names.fillers.values())
    share = fillers / names.variables if names.variables else 0.0
    rows = [f"{fillers} of {names.variables} variables and parameters are fillers: {share:.2%}"]
    rows.append(", ".join(f"{name} {times}" for name, times in names.fillers.most_common(worst)))
    rows += [f"{times:>5} {path}" for path, times in names.by_file.most_common(worst)]
    rows.append(
        f"{len(names.functions)} functions are riddles: {', '.join(names.functions[:worst])}"
    )
    rows.append(f"{len(names.twice)} of {len(names.classes)} class names stand in several modules")
    rows += [f"    {name}: {', '.join(paths)}" for name, paths in sorted(names.twice.items())]
    return "\n".join(row for row in rows if row)
