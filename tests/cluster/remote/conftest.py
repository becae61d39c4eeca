"""Nodes on a quiet wire in this process, and devices of theirs."""

import pytest
import remote_kit

import sparkle_drv as sp


@pytest.fixture
def node(tmp_path):
    """Lends the cpu."""
    with remote_kit.remote(tmp_path, "cpu:c0") as lent:
        yield lent


@pytest.fixture
def box(node):
    """Its device, opened by name."""
    with sp.open("box1/cpu:c0") as device:
        yield device
