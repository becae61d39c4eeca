"""ContextConstant: a private copy of an array for all devices of a Context.

The host has a copy. A device gets its copy when a call first reads the constant there
(ops/memory/constant.py). context.py makes the constants. The modules that copy operands to devices
read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from sparkle_drv.core.array_shape import Shaped
from sparkle_drv.fork_lock import fork_lock
from sparkle_drv.ops.memory import staging
from sparkle_drv.ops.memory.constant import Constant

from .foreign import taken

if TYPE_CHECKING:
    from .local import LocalExecutor


class ContextConstant(Shaped):
    """Weights for all devices of a Context. `shape`, `dtype`, `layout`, `nbytes` are the source's.

    `Context.constant` makes a ContextConstant. Operations and graphs of its Context take it like a
    numpy array. `places` lists the devices that have a copy so far. `numpy()` and `__array__`
    return copies. Several threads may use one constant at once. After `close`, which is idempotent,
    reading raises ValueError.
    """

    __slots__ = (
        "__weakref__", "_executor", "_host", "_lock", "_there", "closed", "dtype", "layout",
        "nbytes", "shape",
    )  # fmt: skip

    def __init__(self, executor: LocalExecutor, w: Any) -> None:
        w = taken(executor.devices, "w", w)
        self.layout = getattr(w, "layout", None)
        if isinstance(w, (Constant, ContextConstant)) or staging.of_context(w):
            w = w.__array__()
        self._host = np.array(staging.operand("w", w), order="C", copy=True)
        self._host.flags.writeable = False
        self.shape, self.dtype, self.nbytes = self._host.shape, self._host.dtype, self._host.nbytes
        self._executor = executor
        self._there: dict[str, Constant] = {}
        # Re-entrant, because a signal handler may close the constant
        self._lock = fork_lock()
        self.closed = False

    def __repr__(self) -> str:
        where = "closed" if self.closed else f"on {', '.join(('host', *self._there))}"
        return f"<ContextConstant {self.dtype}{list(self.shape)} {where}>"

    def __enter__(self) -> ContextConstant:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("a ContextConstant cannot be copied or pickled: use its numpy()")

    @property
    def places(self) -> tuple[str, ...]:
        """URIs of the devices that have a copy."""
        return tuple(self._there)

    def of(self, executor: LocalExecutor) -> bool:
        """Returns whether the constant belongs to this executor's Context."""
        return self._executor.devices is executor.devices

    def on(self, device: str) -> Constant:
        """Returns the Constant on a device of this Context. If the device has none yet, it is made.

        The caller must not close it, since later calls use it. Raises ValueError (closed, no such
        device), TypeError (not a str), and what the device raises.
        """
        self._open()
        constant = self._there.get(device) if isinstance(device, str) else None
        if constant is None:
            with self._lock:
                constant = self._made(device)
        return constant

    def _made(self, uri: Any) -> Constant:
        self._open()  # a second check: another thread may have closed it
        if not isinstance(uri, str):
            raise TypeError(f"device: expected a URI as str, got {uri!r}")
        device = self._executor.devices.get(uri)
        if device is None:
            uris = ", ".join(self._executor.devices)
            raise ValueError(f"device: expected one of {uris}, got {uri!r}")
        constant = self._there.get(uri)
        if constant is None:
            made = Constant(device.array(self._host, self.layout))
            constant = made
            self._there = {**self._there, uri: made}
        return constant

    def host(self) -> np.ndarray[Any, Any]:
        """Returns the array that the constant keeps on the host, read-only and not copied. Raises
        ValueError if the constant is closed (@private).
        """
        self._open()
        return self._host

    def numpy(self) -> np.ndarray[Any, Any]:
        """Returns a copy of the elements. Raises ValueError (closed)."""
        made: np.ndarray[Any, Any] = self.host().copy()
        return made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("copy: expected True or None, since all results are copies, got False")
        made: np.ndarray[Any, Any] = self.host().astype(self.dtype if dtype is None else dtype)
        return made

    def _open(self) -> None:
        if self.closed:
            raise ValueError("expected an open ContextConstant, got a closed one")

    def close(self) -> None:
        """Frees all copies; idempotent."""
        with self._lock:
            self.closed = True
            there, self._there = self._there, {}
            for copy in there.values():
                copy.close()
            self._host = np.empty(0, self.dtype)
