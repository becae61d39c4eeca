"""The exceptions that end a command early, and their exit codes.

Every tool uses these; each tool's --help says what its codes mean.
"""

OK, FAILED, USAGE, NO_DEVICE, REGRESSION = 0, 1, 2, 3, 3


class UsageError(Exception):
    """The caller's input cannot be used: one line on stderr, exit 2."""


class NotComparable(Exception):
    """Two results cannot be compared: one line on stderr, exit 1."""


class NoSuchDevice(Exception):
    """No usable device has that name here: one line on stderr, exit 3."""
