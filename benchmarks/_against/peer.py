"""The peer whose process against.py starts for each build: cases of cpu_peers.py, and the rows of
this folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from _cpu_peers.base import Named, Operands
from _cpu_peers.sparkle import Sparkle

from .rows import ROWS, Row


class Build(Sparkle):
    """The package as one build has it."""

    def find(self, name: str) -> Any:
        return ROWS[name] if name in ROWS else super().find(name)

    def ways(self, case: Any, operands: Operands) -> Iterable[Named]:
        return case.ways(self.dev) if isinstance(case, Row) else super().ways(case, operands)


PEER = Build
