"""Counts the tokens of the folders ("rooms") whose code a launch executes, at an earlier commit and
in the working tree.

A token is what the compiler reads: comments, docstrings and blanks do not count. git follows
renames. A file that was renamed out of the rooms counts on both sides, a file renamed into them on
neither. Moving code therefore changes nothing. tools/loc.py --tokens prints the result.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from dataclasses import dataclass
from pathlib import Path

# The folders ("rooms") of the code that a launch runs through. FORMER maps a folder's name in
# earlier commits to its name today.
ROOMS = ("native/python", "native/hot", "native/core", "sparkle_drv/core", "sparkle_drv/ops")
FORMER = {"native/python": "native/hot"}
OUTSIDE = "renamed out"
ENDINGS = (".c", ".h", ".inc", ".py")
ALIKE = "40%"  # git's threshold of a rename: a file that was cut by half is still the same file
# Comments and whole strings are matched first, so that the text inside them is not split.
_C = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|\\\n)
    |"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*|\.?\d[\w.]*
    |<<=|>>=|\.\.\.|->|\+\+|--|&&|\|\||[<>=!+\-*/%&|^]=|<<|>>|\#\#|\S""",
    re.S | re.X,
)
_LAYOUT = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
)


class NoSuchRevision(Exception):
    """Says that git does not know the commit, or is not installed."""


@dataclass
class Size:
    """The size of code: its tokens, and the lines on which a token begins."""

    tokens: int = 0
    lines: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.tokens + other.tokens, self.lines + other.lines)

    @property
    def density(self) -> float:
        """The number of tokens per line."""
        return self.tokens / self.lines if self.lines else 0.0


def of_c(text: str) -> Size:
    """Returns the tokens and lines of C code. Preprocessor lines count, too."""
    found = [match for match in _C.finditer(text) if not match["skip"]]
    return Size(len(found), len({text.count("\n", 0, match.start()) for match in found}))


def of_python(text: str) -> Size:
    """Returns the tokens and lines of Python code. An f-string is one token under every version of
    Python.
    """
    said = _strings_alone(ast.parse(text))
    lines, tokens, inside = set(), 0, 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        name = tokenize.tok_name[token.type]
        inside -= name == "FSTRING_END"
        if not inside and token.type not in _LAYOUT and token.start[0] not in said:
            tokens += name != "FSTRING_START"
            lines.add(token.start[0])
        inside += name == "FSTRING_START"
    return Size(tokens, len(lines))


def _strings_alone(tree: ast.Module) -> set[int]:
    """Returns the lines of statements that are only a string: docstrings, also those of
    attributes.
    """
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def of(path: str, text: str) -> Size:
    """Returns the tokens and lines of a C or Python file."""
    return of_python(text) if path.endswith(".py") else of_c(text)


def room(path: str) -> str:
    """Returns the folder of ROOMS in which a file lies, or OUTSIDE if it lies in none. A folder
    that was renamed has its new name.
    """
    found = next((name for name in ROOMS if path.startswith(f"{name}/")), OUTSIDE)
    return FORMER.get(found, found)


def compared(root: Path, rev: str) -> dict[str, tuple[Size, Size]]:
    """Returns for each folder of ROOMS its size at commit `rev` and its size in the working tree.
    Raises NoSuchRevision if git does not know the commit or is not installed.
    """
    if not _git(root, "rev-parse", "--verify", "--quiet", f"{rev}^{{commit}}").strip():
        raise NoSuchRevision(rev)
    sizes = {name: (Size(), Size()) for name in (*ROOMS, OUTSIDE) if name not in FORMER}
    before = {path for path in _listed(root, "ls-tree", "-r", "--name-only", rev) if _counts(path)}
    for path in before:
        then, now = sizes[room(path)]
        sizes[room(path)] = then + of(path, _git(root, "show", f"{rev}:{path}")), now
    renamed = _renamed(root, rev)
    for path in _listed(root, "ls-files", "--cached", "--others", "--exclude-standard"):
        origin = renamed.get(path, path)
        counts = origin in before or (path not in renamed and _counts(path))
        if counts and path.endswith(ENDINGS) and (root / path).is_file():
            then, now = sizes[room(path)]
            text = (root / path).read_text(encoding="utf-8")
            sizes[room(path)] = then, now + of(path, text)
    return sizes


def _counts(path: str) -> bool:
    return room(path) != OUTSIDE and path.endswith(ENDINGS)


def _renamed(root: Path, rev: str) -> dict[str, str]:
    """Returns the path in `rev` of each tracked file that was renamed, by its present path."""
    wanted = (f"--find-renames={ALIKE}", "-l0", "--diff-filter=R", "--name-status", rev)
    rows = (line.split("\t") for line in _listed(root, "diff", *wanted))
    return {now: then for _, then, now in rows}


def _listed(root: Path, *arguments: str) -> list[str]:
    return _git(root, *arguments).splitlines()


def _git(root: Path, *arguments: str) -> str:
    """Returns what git prints; "" when it fails."""
    command = ["git", "-c", "core.quotePath=off", *arguments]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise NoSuchRevision("git is not installed") from None
    return "" if done.returncode else done.stdout


def report(sizes: dict[str, tuple[Size, Size]]) -> str:
    """Returns a table: a row for each folder of ROOMS that has code, and a row with their sum."""
    rows = [
        f"{'room':<20}{'tokens':>9}{'lines':>8}{'a line':>8}"
        f"{'now: tokens':>14}{'lines':>8}{'a line':>8}{'ratio':>8}"
    ]
    total = [sum((pair[side] for pair in sizes.values()), Size()) for side in (0, 1)]
    for name, (then, now) in (*sizes.items(), ("total", (total[0], total[1]))):
        if then.tokens or now.tokens:
            ratio = f"{now.tokens / then.tokens:.3f}" if then.tokens else "new"
            rows.append(
                f"{name:<20}{then.tokens:>9}{then.lines:>8}{then.density:>8.2f}"
                f"{now.tokens:>14}{now.lines:>8}{now.density:>8.2f}{ratio:>8}"
            )
    return "\n".join(rows)
