"""Sources in which a test plants a fault. A comment at the end of a line marks the statement:

rc = -ERANGE; /* fault: extent */
index=bits(8, 11),  # 5 is end of pipe; fault: event
"""

from __future__ import annotations

import re
from pathlib import Path


def replaced(path: Path, name: str, new: str, old: str = "") -> str:
    """The text of `path`, in which `new` replaces the statement marked `name`, or `old` in it."""
    mark = rf"^([ \t]*)(\S.*?)[ \t]*(?:/\*|#) (?:.*; )?fault: {re.escape(name)}(?: \*/)?$"
    text = path.read_text()
    marks = list(re.finditer(mark, text, re.M))
    assert len(marks) == 1, f"{path}: expected 1 line marked 'fault: {name}', got {len(marks)}"
    indent, statement = marks[0].groups()
    if old:
        assert statement.count(old) == 1, f"{path}: expected {old!r} once, got {statement!r}"
        new = statement.replace(old, new)
    return text[: marks[0].start()] + indent + new + text[marks[0].end() :]
