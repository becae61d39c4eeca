"""The two complaints that end a command early, and the exit codes of the tool (bench.py's --help
states them).
"""

OK, FAILED, USAGE, NO_DEVICE, REGRESSION = 0, 1, 2, 3, 3


class UsageError(Exception):
    """What the caller typed or handed in cannot be used: one line on stderr, exit 2."""


class NotComparable(Exception):
    """Two results say nothing about each other: one line on stderr, exit 1."""


class NoSuchDevice(Exception):
    """No device of that name is usable here: one line on stderr, exit 3."""
