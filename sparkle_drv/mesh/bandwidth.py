"""Measures the best bandwidth of a device's memory, by copies far larger than its caches."""

from __future__ import annotations

import time

from sparkle_drv.core.commands import Commands
from sparkle_drv.core.device import Device

LEAST_NBYTES, MOST_NBYTES = 1 << 26, 1 << 29
"""Limits of the bytes of a copy: more than most caches hold, yet copied within a fraction of a
second."""
TIMES, ENOUGH_S = 5, 0.3
"""TIMES is the most copies. ENOUGH_S is the seconds after which no further copy begins."""


def measure(device: Device) -> float:
    """Returns the best rate of up to TIMES copies within the device, in 10^9 bytes read and written
    per second.

    A copy has four times the bytes of the largest cache, but at least LEAST_NBYTES and at most
    MOST_NBYTES. After ENOUGH_S no further copy begins. Returns 0.0 if the device is emulated or has
    too little memory. An error of the device is raised, such as DeviceLost.
    """
    info = device.info
    cache = max((level.nbytes for level in info.caches), default=0)
    nbytes = min(max(LEAST_NBYTES, 4 * cache), MOST_NBYTES)
    if info.emulated or nbytes > info.memory_nbytes // 8:
        return 0.0
    try:
        return _best(device, nbytes)
    except MemoryError:  # OutOfDeviceMemory is a MemoryError, too
        return 0.0


def _best(device: Device, nbytes: int) -> float:
    best, spent = 0.0, 0.0
    with device.buffer(nbytes) as source, device.buffer(nbytes) as to, device.queue() as queue:
        queue.submit(Commands().fill(source, 1).copy(to, source)).wait()
        for _ in range(TIMES):
            begin = time.perf_counter()
            queue.submit(Commands().copy(to, source)).wait()
            seconds = time.perf_counter() - begin
            best, spent = max(best, 2e-9 * nbytes / max(seconds, 1e-9)), spent + seconds
            if spent > ENOUGH_S:
                break
    return best
