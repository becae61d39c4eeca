"""Rooms: each folder with its sources, the sentence that describes it, and its imports of other
rooms.

A module directly in sparkle_drv/ is a room of its own, because such modules are separate layers:
`types.py` lies below everything, `context.py` above the scheduler.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from _loc import imports, tree

MOST = 25  # largest number of hand-written sources in one folder
PACKAGE = "sparkle_drv"


@dataclass(frozen=True)
class Arrow:
    """One import: line `line` of `source` imports or includes `target`."""

    source: str
    line: int
    target: str

    def __str__(self) -> str:
        return f"{self.source}:{self.line} -> {self.target}"


@dataclass
class Room:
    """A room: a folder with its sources, or one module directly in sparkle_drv/."""

    name: str
    files: list[str] = field(default_factory=list)
    """Hand-written sources directly in the folder."""
    sentence: str = ""
    """The sentence that says what is in the folder."""
    out: dict[str, list[Arrow]] = field(default_factory=dict)
    """The rooms that the files of this room import, with the imports."""
    inside: list[Arrow] = field(default_factory=list)
    """Imports among the files of this room."""


def room_of(path: str) -> str:
    """Returns the name of a file's room. This is the file's folder; for a module directly in the
    package, the module's own path.
    """
    folder, _, name = path.rpartition("/")
    whole = folder == PACKAGE and not name.startswith("__")
    return path if whole else folder


def arrows(texts: Mapping[str, str]) -> list[Arrow]:
    """Returns every import and include among `texts` (path -> text) whose target is one of these
    files.
    """
    known, paths = imports.modules(list(texts)), frozenset(texts)
    found = []
    for path, text in texts.items():
        if path.endswith((".py", ".pyi")):
            reached: Iterable[tuple[int, str]] = imports.of_python(path, text, known)
        else:
            reached = imports.of_c(path, text, paths)
        found += [Arrow(path, line, target) for line, target in reached if target != path]
    return found


def rooms(texts: Mapping[str, str], sentences: Mapping[str, str]) -> dict[str, Room]:
    """Returns all rooms (folders of sources) by name. `texts` has the sources by path, `sentences`
    the sentence that describes each folder.
    """
    made: dict[str, Room] = {}

    def room(path: str) -> Room:
        name = room_of(path)
        return made.setdefault(name, Room(name, sentence=sentences.get(name, "")))

    for path, text in texts.items():
        if tree.written_by_hand(text):
            room(path).files.append(path)
    for arrow in arrows(texts):
        here, there = room(arrow.source), room_of(arrow.target)
        (here.out.setdefault(there, []) if here.name != there else here.inside).append(arrow)
    return dict(sorted(made.items()))


def circles(out: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Returns the groups of two or more nodes of the graph `out` that reach one another: the
    strongly connected components, by Tarjan's algorithm.
    """
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for target in out.get(node, ()):
            if target not in number:
                visit(target)
            if target in stack:
                lowest[node] = min(lowest[node], lowest[target])
        if lowest[node] == number[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in out:
        if node not in number:
            visit(node)
    return sorted(found)


def units(rooms: Mapping[str, Room]) -> dict[str, set[str]]:
    """Returns for each C unit the units that it includes. A unit is the files x.c, x.h and x.inc of
    one name in one folder.
    """
    found: dict[str, set[str]] = {}
    for room in rooms.values():
        for arrow in [*room.inside, *(a for given in room.out.values() for a in given)]:
            source, target = (posixpath.splitext(path)[0] for path in (arrow.source, arrow.target))
            if source != target and arrow.source.startswith("native/"):
                found.setdefault(source, set()).add(target)
    return found


def read(root: Path) -> dict[str, Room]:
    """Returns every folder with sources of a checkout as a Room, by name."""
    texts = {path: tree.read(root, path) for path in tree.sources(root)}
    folders = {posixpath.dirname(path) for path in texts}
    sentences = {folder: _said(root / folder) for folder in folders}
    own = {path: text for path, text in texts.items() if room_of(path) == path}
    return rooms(texts, {**sentences, **{path: _docstring(text) for path, text in own.items()}})


def _said(folder: Path) -> str:
    """Returns the first sentence of a folder's __init__.py or README.md; "" without either file."""
    package, readme = folder / "__init__.py", folder / "README.md"
    if readme.is_file():
        lines = readme.read_text(encoding="utf-8").splitlines()
        body = [line for line in lines if not line.startswith("#")]
        return _sentence("\n".join(body))
    return _docstring(package.read_text(encoding="utf-8")) if package.is_file() else ""


def _docstring(text: str) -> str:
    return _sentence(ast.get_docstring(ast.parse(text)) or "")


def _sentence(text: str) -> str:
    """Returns the first sentence of the first paragraph."""
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    whole = paragraph.partition(". ")[0].removesuffix(".")
    return whole if whole.endswith(("?", "!")) else f"{whole}." if whole else ""
