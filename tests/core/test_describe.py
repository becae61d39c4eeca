"""Submissions in words: which commands are shown, which one runs, and kernels by name or handle.

When this fails, a timeout names the wrong command.
"""

from types import SimpleNamespace

import pytest

from sparkle_drv.backends.base import Progress
from sparkle_drv.core.abi import records
from sparkle_drv.core.describe import describe

DEVICE = SimpleNamespace(_kernel_at=lambda pointer: None)
BARRIER = records.barrier()


def lines(raw, running_at, groups=(0, 0)):
    return describe(DEVICE, Progress(raw, running_at, *groups, 1.5)).splitlines()


@pytest.mark.parametrize(
    ("n", "at", "first", "last"),
    [(1, 0, 0, 0), (17, 8, 0, 16), (18, 8, 0, 16), (100, 50, 42, 58), (100, 99, 91, 99)],
)
def test_a_window_around_the_command_that_runs(n, at, first, last):
    head, *shown = lines(BARRIER * n, 8 * at)
    assert head == f"submission of {n} command(s):"
    if first:
        assert shown.pop(0) == f"  ... {first} before"
    if last < n - 1:
        assert shown.pop() == f"  ... {n - 1 - last} after"
    want = [f"  {i}: barrier" for i in range(first, last + 1)]
    want[at - first] = f"> {at}: barrier -- running for 1.500 s"
    assert shown == want


def test_what_has_not_begun():
    head, *shown = lines(BARRIER * 3, 24)
    assert head == "submission of 3 command(s) (not begun):"
    assert shown == ["  0: barrier", "  1: barrier", "  2: barrier"]
    assert lines(b"", 0) == ["submission of 0 command(s) (not begun):"]


def test_groups_and_unknown_kernels():
    raw = records.DISPATCH_HEAD.pack(1, 48, 0xABC, 3, 1, 1, 64, 1, 1, 0, 0)
    assert lines(raw, 0, (2, 3))[1] == (
        "> 0: dispatch of the kernel at 0xabc, groups (3, 1, 1) of (64, 1, 1)"
        " -- running for 1.500 s, 2 of 3 groups done"
    )
