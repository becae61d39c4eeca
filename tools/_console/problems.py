"""The exceptions that end a command early, and the exit codes that they become.

Every tool takes them from here; each states in its --help what its codes mean.
"""

OK, FAILED, USAGE, NO_DEVICE, REGRESSION = 0, 1, 2, 3, 3


class UsageError(Exception):
    """What the caller typed or handed in cannot be used: one line on stderr, exit 2."""


class NotComparable(Exception):
    """Two results say nothing about each other: one line on stderr, exit 1."""


class NoSuchDevice(Exception):
    """No device of that name is usable here: one line on stderr, exit 3."""
