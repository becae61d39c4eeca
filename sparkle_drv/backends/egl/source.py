"""GLSL as text: adds the #version line, and puts source lines into a driver's log."""

from __future__ import annotations

import re

_LINE = re.compile(r"\s*#\s*line\s+(\d+)")
_VERSION = re.compile(r"^\s*#\s*version\b", re.M)
_HEADS = {
    "glsl 430": "#version 430 core\n",
    "essl 310": "#version 310 es\nprecision highp float;\nprecision highp int;\n",
}
# The forms of a driver's message. Mesa: "0:12(5): error: ...", NVIDIA: "0(12) : error C0000: ...",
# others: "ERROR: 0:12: ...".
_WHERE = (
    re.compile(r"^\d+:(\d+)\(\d+\):"),
    re.compile(r"^\d+\((\d+)\)\s*:"),
    re.compile(r"^(?:ERROR|WARNING): \d+:(\d+):"),
)


def with_version(text: str, isa: str) -> str:
    """Returns `text` with a #version line for `isa` ("glsl 430", "essl 310"), unless the text has
    one.
    """
    if _VERSION.search(text):
        return text
    head = _HEADS[isa]
    return f"{head}#line 1\n{text}"


def line_of(message: str) -> int | None:
    """Returns the source line that a line of a driver's log names; None if it names none."""
    for pattern in _WHERE:
        found = pattern.match(message.strip())
        if found:
            return int(found[1])
    return None


def explained(log: str, text: str) -> str:
    """Returns a driver's log, with the source line below each message that names a line."""
    lines = _numbered(text)
    rows = []
    for message in filter(str.strip, log.splitlines()):
        rows.append(message)
        at = line_of(message)
        if at in lines:
            rows.append(f"    {at} | {lines[at]}")
    return "\n".join(rows)


def _numbered(text: str) -> dict[int | None, str]:
    """Returns the source lines by the driver's line numbers. If two lines have the same number, the
    later one counts.
    """
    lines: dict[int | None, str] = {}
    number = 1
    for line in text.split("\n"):
        lines[number] = line
        again = _LINE.match(line)
        number = int(again[1]) if again else number + 1
    return lines
