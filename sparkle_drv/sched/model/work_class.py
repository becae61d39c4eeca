"""A class of work, and how it is probed.

A *class* of work has one speed on a device, as a function of size. Work of another kind has a class
of its own. For example, a matrix times a few vectors is not in the class of large products, since
memory bounds its speed. A 3x3 and a 1x1 convolution have different classes, since they have
different algorithms. A class is probed when it first occurs, unless it is predicted from others
(operations/expression_speed.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device

Runs = tuple[Callable[[], Any], float]
"""A probe of a class of work: (a function that begins the work, the size of the work).

The work resembles real calls. Where host memory needs no copy it takes numpy arrays and waits,
otherwise it takes Arrays. It also allocates a result, which for small work takes as long as the
work."""


@dataclass(frozen=True)
class Class:
    """A class of work, and how it is probed."""

    name: str
    """The key of the class's speeds: "gemm_f32", "conv2d_f32:3x3"."""
    probe: Callable[[Device, int], Runs] | None = None
    """Returns the n-th probe, from 0, for (device, n). Each is about four times as large as the
    last. None if the class is predicted."""
    predicted: Predicted | None = None
    """How the class's speed follows from other classes; None if the class is probed."""

    def lacking(self, devices: Iterable[Device]) -> dict[str, str]:
        """Returns, by URI, why a device has no kernel for the call that this class was made for.

        The answer holds only for this call: the device may have a kernel for another call of the
        class. If the class is probed and not predicted, the result is {}: its probe fails on a
        device without a kernel.
        """
        if self.predicted is None:
            return {}
        reasons = {}
        for device in devices:
            try:
                self.predicted.able(device)
            except (ValueError, TypeError, LookupError) as error:
                reasons[device.uri] = str(error).partition("\n")[0]
        return reasons


@dataclass(frozen=True)
class Predicted:
    """The classes from whose times the time of a class is predicted. They are measured when the
    first class that needs them occurs.
    """

    base: Class
    """The class whose time for the same size is part of the time."""
    terms: tuple[tuple[Class, float], ...]
    """Other classes, with factors. For each, the time that it takes beyond `base` is multiplied by
    the factor and added."""
    able: Callable[[Device], None]
    """Raises TypeError, ValueError or LookupError if the device cannot do the call that the class
    was made for. Runs nothing."""


def filled(
    dev: Device, shape: tuple[int, ...], kind: np.dtype[Any], layout: str | None = None
) -> Any:
    """Returns an operand of a probe: a numpy array where host memory needs no copy, else an
    Array.
    """
    return _values(shape, kind) if dev.info.unified else stored(dev, shape, kind, layout)


def stored(
    dev: Device, shape: tuple[int, ...], kind: np.dtype[Any], layout: str | None = None
) -> Array:
    """Returns a new Array on the device with random values, as an operand of a probe."""
    return dev.array(_values(shape, kind), layout)


def _values(shape: tuple[int, ...], kind: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Returns random values between 0.5 and 1.5, in a block that repeats. Work on zeros could be
    faster than real work.
    """
    block = (np.random.default_rng(shape).random(4099) + 0.5).astype(kind)
    return np.resize(block, shape)
