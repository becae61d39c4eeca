"""The short form of fuzz_node.py; `make fuzz-cluster` is the long one.

When this fails, a malformed message crashes a node that others use.
"""

from __future__ import annotations

import logging

import fuzz_node


def test_hostile_sessions_beside_healthy_ones(caplog):
    caplog.set_level(logging.CRITICAL, "sparkle_drv")  # hundreds of refusals
    messages, refused, ran, sessions = fuzz_node.run(mutated=600, hostile=600, seed=11)
    assert messages == 1200
    assert refused > 300
    assert ran > 30
    assert sessions >= 1
