"""Machines of network namespaces, or a skip that says what is missing."""

from __future__ import annotations

import packages
import pytest
from _cluster import namespaces
from _cluster.namespaces import Machine

__all__ = ["Machine", "Network"]


class Network(namespaces.Network):
    def __init__(self, *names: str) -> None:
        packages.needed("iproute2")
        why = namespaces.lacking()
        if why:
            pytest.skip(why)
        super().__init__(*names)
