"""Tools of the checks: registration, random numbers with a reported seed, guarded memory, and work
that keeps a device busy for a while.

Only the check modules import it; suite.py collects their registrations.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

import sparkle_drv as sp

Array = npt.NDArray[Any]

# Bytes of each guard band, before and after an operand. No device needs a coarser alignment of
# bindings than this, so the operand is aligned.
GUARD_NBYTES = 256
GUARD_BYTE = 0xA5
MOST_BUSY_STEPS = 2**32 - 1
LONGER = (0.05, 0.3, 1.2, 4.8)
"""Seconds of work in successive attempts to meet a device while it works."""


class NotProvided(Exception):
    """Raised when the device lacks an optional feature that a check needs. The message names it.

    >>> raise suite.NotProvided("no timestamps")
    Traceback (most recent call last):
        ...
    sparkle_drv.testing.checks.base.NotProvided: no timestamps
    """


@dataclass(frozen=True)
class Check:
    """One check. `function(device)` raises if the device is wrong. `covers` is the topic.

    >>> def opens_a_queue(device):
    ...     device.queue().close()
    >>> check = suite.Check("a queue opens", "launch", opens_a_queue)
    >>> check.function(dev)
    """

    name: str
    covers: str
    function: Callable[[sp.Device], None]

    def __str__(self) -> str:
        return self.name


REGISTERED: list[Check] = []


def check(covers: str) -> Callable[[Callable[[sp.Device], None]], Callable[[sp.Device], None]]:
    """Returns a decorator that registers the function `check_xxx` as the check "covers: xxx"."""

    def register(function: Callable[[sp.Device], None]) -> Callable[[sp.Device], None]:
        name = function.__name__.removeprefix("check_").replace("_", " ")
        REGISTERED.append(Check(f"{covers}: {name}", covers, function))
        return function

    return register


_seed: int | None = None


def fix_seed(seed: int | None) -> None:
    """Makes `seeded` use this seed from now on. None gives a fresh seed each time."""
    global _seed
    _seed = seed


@contextmanager
def seeded() -> Iterator[np.random.Generator]:
    """Yields a random generator. An AssertionError inside the block gets the seed in its text."""
    seed = secrets.randbits(32) if _seed is None else _seed
    try:
        yield np.random.default_rng(seed)
    except AssertionError as error:
        raise AssertionError(f"{error} (seed {seed})") from error


@contextmanager
def raises(*kinds: type[BaseException], says: str = "") -> Iterator[None]:
    """Raises AssertionError unless the block raises one of `kinds` with `says` in its message."""
    names = " or ".join(kind.__name__ for kind in kinds)
    try:
        yield
    except kinds as error:
        if says not in str(error):
            raise AssertionError(
                f"expected {says!r} in the message, got {type(error).__name__}: {error}"
            ) from error
        return
    raise AssertionError(
        f"expected {names}{f' with {says!r} in its message' if says else ''}, got no error"
    )


def kernel(dev: sp.Device, name: str) -> sp.Kernel:
    """Loads a kernel of the manifest. Raises NotProvided if the device has no such kernel."""
    if not dev.provides(name):
        raise NotProvided(f"expected a kernel {name} for {dev.info.backend}, there is none")
    return dev.kernel(name)


def groups_for(k: sp.Kernel, n: int) -> int:
    """Returns how many workgroups of the kernel's own size cover n threads, at least 1."""
    return max(1, -(-n // k.group_size[0]))


class GuardedOperand:
    """An array on a device between two guard bands. The end of a `with` block frees the array."""

    def __init__(self, dev: sp.Device, values: Array) -> None:
        self.values = np.ascontiguousarray(values)
        self.whole = dev.buffer(self.values.nbytes + 2 * GUARD_NBYTES)
        band = np.full(self.whole.nbytes, GUARD_BYTE, np.uint8)
        band[GUARD_NBYTES : GUARD_NBYTES + self.values.nbytes] = self.values.reshape(-1).view(
            np.uint8
        )
        self.whole.write(band)
        self.buffer = self.whole.view(GUARD_NBYTES, self.values.nbytes)

    def __enter__(self) -> GuardedOperand:
        return self

    def __exit__(self, *_: object) -> None:
        self.whole.close()

    def read(self) -> Array:
        """Reads the array. Raises AssertionError if a guard band was written."""
        everything: Array = self.whole.read(np.uint8, self.whole.nbytes)
        end = GUARD_NBYTES + self.values.nbytes
        for side, band in (("before", everything[:GUARD_NBYTES]), ("behind", everything[end:])):
            wrong = np.flatnonzero(band != GUARD_BYTE)
            assert not wrong.size, f"{wrong.size} bytes {side} an operand were written"
        found: Array = everything[GUARD_NBYTES:end].view(self.values.dtype)
        return found.reshape(self.values.shape)


def busy_result(steps: int) -> int:
    """Returns the result of the kernel busy_u32 after `steps` steps.

    A step is x = scale * x + shift, modulo 2**32. Two steps together have the same form, so the
    function composes 1, 2, 4, 8 ... steps in place of a loop over all.
    """
    scale, shift = 1, 0
    step_scale, step_shift = 1664525, 1013904223
    while steps:
        if steps & 1:
            scale, shift = step_scale * scale % 2**32, (step_scale * shift + step_shift) % 2**32
        step_scale, step_shift = step_scale**2 % 2**32, (step_scale + 1) * step_shift % 2**32
        steps >>= 1
    return (scale + shift) % 2**32


_steps_a_s: WeakKeyDictionary[sp.Device, float] = WeakKeyDictionary()


def busy_speed(dev: sp.Device, steps_a_s: float | None = None) -> float:
    """Returns how many steps of the kernel busy_u32 the device does per second. The first call for
    a device measures this speed. If `steps_a_s` is given, it becomes the device's speed without a
    measurement. So tests that open many devices of one kind measure only the first.
    """
    if steps_a_s is not None:
        _steps_a_s[dev] = steps_a_s
    elif dev not in _steps_a_s:
        with Busy(dev):
            pass
    return _steps_a_s[dev]


class Busy:
    """Work of about a given duration, made of launches of the manifest's busy_u32.

    The end of a `with` block frees the memory of the work.
    """

    def __init__(self, dev: sp.Device) -> None:
        self.kernel = kernel(dev, "busy_u32")
        self.result = dev.buffer(4)
        # a run of 1000 steps that only checks the kernel's result; its duration is not used
        self._seconds(dev.default_queue, 1000)
        if dev not in _steps_a_s:
            _steps_a_s[dev] = self._measured(dev.default_queue)
        self._steps_a_s = _steps_a_s[dev]

    def __enter__(self) -> Busy:
        return self

    def __exit__(self, *_: object) -> None:
        self.result.close()
        self.kernel.close()

    def _measured(self, queue: sp.Queue) -> float:
        """Measures steps per second. Work that is too short would prove nothing, since a loaded
        machine adds some 100 ms to each measurement. So a time is accepted only if four times the
        steps take nearly four times as long.
        """
        steps, before = 1000, 0.0
        while True:
            elapsed = min(self._seconds(queue, steps) for _ in range(2))
            grown = 0 < 3 * before <= elapsed
            if (elapsed > 0.05 and grown) or elapsed > 2 or steps >= MOST_BUSY_STEPS // 4:
                return steps / elapsed
            steps, before = 4 * steps, elapsed

    def _seconds(self, queue: sp.Queue, steps: int) -> float:
        self.result.write(np.zeros(1, np.uint32))
        start = time.perf_counter()
        queue.submit(self._dispatch(sp.Commands(), steps)).wait()
        elapsed = time.perf_counter() - start
        found = int(self.result.read(np.uint32, 1)[0])
        assert found == busy_result(steps), f"busy_u32 was not done after its wait: {found:#x}"
        return elapsed

    def _dispatch(self, commands: sp.Commands, steps: int) -> sp.Commands:
        return commands.dispatch(self.kernel, self.result, steps, groups=1)

    def commands(self, seconds: float, commands: sp.Commands | None = None) -> sp.Commands:
        """Returns `commands`, or a new list, after adding dispatches of about `seconds` in all."""
        into = sp.Commands() if commands is None else commands
        left = int(seconds * self._steps_a_s) + 1
        assert left < MOST_BUSY_STEPS * 100, "a device too fast to be kept busy"
        while left > 0:
            self._dispatch(into, min(left, MOST_BUSY_STEPS))
            left -= MOST_BUSY_STEPS
        return into
