"""GLSL as text: its first line, and the driver's messages with their source lines."""

from __future__ import annotations

import re

_LINE = re.compile(r"\s*#\s*line\s+(\d+)")
_VERSION = re.compile(r"^\s*#\s*version\b", re.M)
_HEADS = {
    "glsl 430": "#version 430 core\n",
    "essl 310": "#version 310 es\nprecision highp float;\nprecision highp int;\n",
}
# Mesa "0:12(5): error: ...", NVIDIA "0(12) : error C0000: ...", others "ERROR: 0:12: ..."
_WHERE = (
    re.compile(r"^\d+:(\d+)\(\d+\):"),
    re.compile(r"^\d+\((\d+)\)\s*:"),
    re.compile(r"^(?:ERROR|WARNING): \d+:(\d+):"),
)


def with_version(text: str, isa: str) -> str:
    """`text` with a #version line for `isa` ("glsl 430", "essl 310"), unless it has one."""
    if _VERSION.search(text):
        return text
    head = _HEADS[isa]
    return f"{head}#line 1\n{text}"


def line_of(message: str) -> int | None:
    """The source line that a line of a driver's log names; None if it names none."""
    for pattern in _WHERE:
        found = pattern.match(message.strip())
        if found:
            return int(found[1])
    return None


def explained(log: str, text: str) -> str:
    """A driver's log with the source line under each message that names one."""
    lines = _numbered(text)
    told = []
    for message in filter(str.strip, log.splitlines()):
        told.append(message)
        at = line_of(message)
        if at in lines:
            told.append(f"    {at} | {lines[at]}")
    return "\n".join(told)


def _numbered(text: str) -> dict[int | None, str]:
    """Lines by the driver's numbers; of two with the same number, the later one."""
    lines: dict[int | None, str] = {}
    number = 1
    for line in text.split("\n"):
        lines[number] = line
        again = _LINE.match(line)
        number = int(again[1]) if again else number + 1
    return lines
