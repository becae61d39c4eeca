"""When a device is slow, lost, healthy again or gone for good: each limit, and its reason."""

from __future__ import annotations

FAR = 2.0
"""A piece that takes more than this times its prediction is far slower than predicted. At twice its
prediction a piece also starts elsewhere, so that a later result is no help."""
GOOD = 1.5
"""A piece within this times its prediction is as predicted. It is halfway to FAR, so that a device
near either limit does not change its state with each piece."""
MARGIN_S = 1e-3
"""Lateness that proves nothing: the host's launch and the wake-up of a thread take part of it."""
STRIKES = 3
"""Far slower pieces or late answers in a row after which the share shrinks. If 1 % of a device's
pieces stall by chance, three in a row do so once in a million."""
RECOVERED = 3
"""Good pieces, without a far slower one between, after which a device is healthy. Its share doubles
with each and begins at 1/8, so that a device that fails again has little to give back."""
SLOW_WEIGHT = 0.5
"""Share of a slow device. At FAR times the prediction it does that much of its work in time."""
FAILURES = 3
"""Failures, without being healthy between, after which a device is lost. A device may have two
pieces that fail together; a third failure means that it failed again."""
TRIES = 20
"""Tries, without being healthy between, after which a lost device is gone for good. The waits add
up to 11 minutes or more; a machine restarts in less."""
STORY = 100
"""Transitions that are kept: a device that is gone for good has made 42."""
