"""Limits that decide when a device is slow, lost, healthy again or gone for good, with the
reasons.
"""

from __future__ import annotations

FAR = 2.0
"""A piece that takes more than this times its prediction is far slower than predicted. At twice its
prediction a piece also starts elsewhere, so that a later result is no help."""
GOOD = 1.5
"""A piece within this times its prediction is as predicted. It is halfway to FAR, so that a device
near either limit does not change its state with each piece."""
MARGIN_S = 1e-3
"""Seconds of lateness that prove nothing: the launch and the wake-up of a thread alone take up to
so long."""
STRIKES = 3
"""Far slower pieces or late answers in a row after which the share shrinks. If 1 % of a device's
pieces stall by chance, three in a row do so once in a million."""
RECOVERED = 3
"""Good pieces, without a far slower one between, after which a device is healthy. The share begins
at 1/8 and doubles with each, so that a device that fails again loses little work."""
SLOW_WEIGHT = 0.5
"""Part of its planned share that a slow device gets. A device that takes FAR times the prediction
does this part in time."""
FAILURES = 3
"""Failures, without being healthy between, after which a device is lost. Two pieces of a device may
fail together; a third failure means that it failed again."""
TRIES = 20
"""Tries, without being healthy between, after which a lost device is gone for good. The waits add
up to 11 minutes or more; a machine restarts in less."""
STORY = 100
"""Transitions that are kept. A device that is gone for good has made 42."""
