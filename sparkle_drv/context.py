"""Context: what `init` returns. Picks devices and hands each call to ops; has no other logic."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from sparkle_drv import ops
from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.registry import devices as usable
from sparkle_drv.core.registry import open_device
from sparkle_drv.errors import DeviceNotFound, SparkleError


class Context:
    """A set of open devices, made by `init`. Work goes to the first; `close` closes them all.

    `devices` is the tuple of them, `device` the first. Where a device is asked for, `device` is one
    of their URIs or "auto", the first.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self.devices = tuple(devices)
        self.device = self.devices[0]

    def __repr__(self) -> str:
        return f"<Context of {', '.join(d.uri for d in self.devices)}>"

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _on(self, device: str) -> Device:
        if device == "auto":
            return self.device
        for candidate in self.devices:
            if candidate.uri == device:
                return candidate
        raise ValueError(
            f"device: {device!r} is not one of {', '.join(d.uri for d in self.devices)}, nor 'auto'"
        )

    def array(
        self, shape: Any, dtype: Any, device: str = "auto", layout: str | None = None
    ) -> Array:
        """A new Array of `shape` and `dtype`, zeros at first.

        Raises ValueError (no such device, a negative dimension), TypeError, OutOfDeviceMemory.
        """
        return self._on(device).empty(shape, dtype, layout)

    def gemm(self, a: Any, b: Any, out: Any = None, **options: Any) -> Any:
        """`sparkle_drv.ops.gemm` on this context's device."""
        return ops.gemm(self.device, a, b, out, **options)

    def conv2d(self, x: Any, w: Any, bias: Any = None, out: Any = None, **options: Any) -> Any:
        """`sparkle_drv.ops.conv2d` on this context's device."""
        return ops.conv2d(self.device, x, w, bias, out, **options)

    def map(self, expression: str, *values: Any, **named: Any) -> Any:
        """`sparkle_drv.ops.map` on this context's device."""
        return ops.map(self.device, expression, *values, **named)

    def reduce(self, a: Any, op: str = "sum", axis: Any = None, **options: Any) -> Any:
        """`sparkle_drv.ops.reduce` on this context's device."""
        return ops.reduce(self.device, a, op, axis, **options)

    def layout(self, a: Any, layout: str, **options: Any) -> Any:
        """`sparkle_drv.ops.layout` on this context's device."""
        return ops.layout(self.device, a, layout, **options)

    def close(self, timeout_s: float = 30) -> None:
        """Close every device; idempotent.

        Raises FenceTimeout as `Device.close`, after all others are closed.
        """
        failure: SparkleError | None = None
        for device in self.devices:
            try:
                device.close(timeout_s)
            except SparkleError as error:
                failure = failure or error
        if failure is not None:
            raise failure


def init(devices: str | Sequence[str] = "all") -> Context:
    """Open devices as one Context: "all" that are usable, the best first, or a list of URIs.

    Raises DeviceNotFound when there is none, TypeError for text other than "all", and what `open`
    raises; then none of them stays open.
    """
    if isinstance(devices, str) and devices != "all":
        raise TypeError(f"devices: 'all' or a list of URIs is wanted, got {devices!r}")
    uris = [info.uri for info in usable()] if devices == "all" else list(devices)
    if not uris:
        raise DeviceNotFound("no usable device; sparkle_drv.discover() says what was tried")
    opened: list[Device] = []
    try:
        for uri in uris:
            opened.append(open_device(uri))
    except BaseException:
        if opened:
            with contextlib.suppress(SparkleError):  # the first error is the one to tell
                Context(opened).close()
        raise
    return Context(opened)
