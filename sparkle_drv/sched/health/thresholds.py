"""When a device is slow, lost, well again or gone for good: each limit, and why it is that."""

from __future__ import annotations

FAR = 2.0
"""A piece that takes more than this times its prediction is far slower than predicted. At twice its
prediction a piece is started elsewhere too, so beyond that the device's result is no help."""
GOOD = 1.5
"""A piece within this times its prediction is as predicted. Halfway to FAR: a device close to
either does not change its state with each piece."""
MARGIN_S = 1e-3
"""Lateness that proves nothing: the host's launch and wake-up of a thread take some of it."""
STRIKES = 3
"""Far slower pieces, or late answers, in a row before the share shrinks. If 1 % of a device's
pieces stall by chance, three in a row do so once in a million."""
RECOVERED = 3
"""Good pieces without a far slower one in between until a device is healthy. A share that doubles
with each is 1/8 at first: a device that fails again has little to give back."""
SLOW_WEIGHT = 0.5
"""Share of a slow device: at FAR times the prediction, it does so much of its work in time."""
FAILURES = 3
"""Failures without being healthy in between until a device is lost. It may have two pieces when it
fails, which fail together: with the third, it has failed again after that."""
TRIES = 20
"""A device that is lost after so many tries without being healthy in between is gone for good. The
waits add up to 11 minutes or more, and a machine restarts in less."""
STORY = 100
"""Transitions that are kept: a device that is gone for good has made 42."""
