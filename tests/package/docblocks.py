"""Markdown taken apart: fenced blocks, commands in them, links. No opinion on what they should say.

Called by test_docs.py. Fences are three backquotes with a language behind them; what follows the
language ("console exit=1") is kept as `flags`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(r"^( *)```(.*)$")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_SPAN = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is that of its first line of text in the document."""

    language: str
    flags: tuple[str, ...]
    text: str
    line: int

    @property
    def name(self) -> str:
        """The file that the first line names: "# ref.py" or "/* scale.c */"; "" without one."""
        first = self.text.partition("\n")[0]
        found = re.fullmatch(r"(?:#|/\*) ([\w./-]+\.\w+)(?: \*/)?", first.strip())
        return found[1] if found else ""

    @property
    def commands(self) -> list[str]:
        """What follows "$ ", lines that end in a backslash joined with the next."""
        lines = self.text.replace("\\\n", " ").splitlines()
        wrong = [line for line in lines if not line.startswith("$ ")]
        assert not wrong, f"line {self.line}: no command: {wrong[0]!r}; output goes to a text block"
        return [line[2:].strip() for line in lines]


def blocks(document: str) -> list[Block]:
    """Every fenced block in order; AssertionError for a fence that is never closed."""
    found: list[Block] = []
    lines = document.splitlines()
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        at += 1
        if not fence:
            continue
        start, indent = at, len(fence[1])
        while at < len(lines) and lines[at].strip() != "```":
            at += 1
        assert at < len(lines), f"line {start}: the block is not closed"
        language, *flags = fence[2].split() or [""]
        text = "".join(line[indent:] + "\n" for line in lines[start:at])
        found.append(Block(language, tuple(flags), text, start + 1))
        at += 1
    return found


def prose(document: str) -> str:
    """The document without its fenced blocks."""
    kept, inside = [], False
    for line in document.splitlines():
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            kept.append(line)
    return "\n".join(kept)


def links(document: str) -> list[str]:
    """Targets of links and pictures that point into the checkout, without their #fragment."""
    targets = [target.partition("#")[0] for target in _LINK.findall(prose(document))]
    return [target for target in targets if target and "://" not in target]


def spans(document: str) -> list[str]:
    """What stands between single backquotes."""
    return _SPAN.findall(prose(document))


def quoted(block: Block, source: str) -> str | None:
    """A block that quotes a file: its first line that does not stand there, in order; None if all
    do. A line that is only "..." stands for any number of lines.
    """
    rest = iter([_bare(line) for line in source.splitlines()])
    for line in block.text.splitlines()[1:]:
        wanted = _bare(line)
        if wanted and wanted != "..." and wanted not in rest:
            return line
    return None


def _bare(line: str) -> str:
    """Without what only aligns: trailing backslashes of macros and spaces."""
    return " ".join(line.rstrip("\\").split())
