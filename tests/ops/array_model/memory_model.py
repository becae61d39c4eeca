"""What numpy has of a device's arrays: values by version, aliases, and submissions in flight.

Arrays that share memory on the device have `expected` arrays that share memory in numpy. The result
of an expression is a copy, made when the expression is made. Values are multiples of 1/4 of
moderate size, so that every type and every order of additions is exact.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

LIMIT = 2**12
"""The largest magnitude of an element."""
SUM_LIMIT = 2**20
"""The largest sum of magnitudes that a reduction or a product may add up."""
SIZE_LIMIT = 2**20
"""The most elements of a result."""
DTYPES = (np.dtype("f4"),) * 10 + tuple(np.dtype(name) for name in ("i4", "f8", "i8", "u1", "?"))
"""float32 most often: on some devices expressions of other dtypes do not wait."""


class Skipped(Exception):
    """This step is not possible now: an operand is closed, or numpy refuses the operation."""


class Mismatch(AssertionError):
    """Elements are not those of the version that the program named."""


def admissible(values: np.ndarray[Any, Any]) -> bool:
    """Whether every dtype of the model holds these values exactly, and so their sums."""
    if values.dtype not in DTYPES:
        return False
    quarters = np.asarray(values, np.float64) * 4
    return bool((np.abs(quarters) <= 4 * LIMIT).all() and (quarters == np.rint(quarters)).all())


def expect(function: Any, *operands: Any) -> np.ndarray[Any, Any]:
    """Returns what numpy computes, as an array of its own. Raises Skipped where numpy raises, and
    for values or sizes that the model does not hold.
    """
    try:
        if math.prod(np.broadcast_shapes(*map(np.shape, operands))) > SIZE_LIMIT:
            raise Skipped
    except ValueError:
        pass  # a product of matrices
    try:
        with np.errstate(all="ignore"):
            result = np.array(function(*operands), order="C")
    except (TypeError, ValueError, OverflowError):
        raise Skipped from None
    if not admissible(result):
        raise Skipped
    return result


class ModelMemory:
    """Memory on a device, and the submissions that use it and that nobody has waited for.

    `shared`: threads use it under the lock of the test. `frozen`: no thread writes any more.
    `host_views`: pairs of a numpy view of the device's memory and the same elements of the model.
    """

    def __init__(self) -> None:
        self.shared = self.frozen = self.closed = False
        self.writers: list[Any] = []
        self.readers: list[Any] = []
        self.host_views: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []

    def order(self, queue: Any, default: Any, write: bool) -> None:
        """Waits for submissions to other queues, which the documents leave to the caller.

        `queue` is None for work of the host, and of operators, which the host may compute.
        """
        self.writers = _rest(self.writers, queue)
        if write:
            self.readers = _rest(self.readers, queue or default)

    def quiet(self) -> None:
        """Waits for all submissions: after it the host may write."""
        self.writers, self.readers = _rest(self.writers, None), _rest(self.readers, None)


def _rest(fences: list[Any], queue: Any) -> list[Any]:
    for fence in fences:
        if fence.queue is not queue:
            fence.wait()
    return [fence for fence in fences if fence.queue is queue]


class ModelArray:
    """An array of the package beside numpy's. `owns`: closing it closes all views of the memory."""

    def __init__(
        self, name: str, array: Any, expected: np.ndarray[Any, Any], memory: ModelMemory,
        owns: bool,
    ) -> None:  # fmt: skip
        self.name, self.array, self.expected = name, array, expected
        self.memory, self.owns, self.closed = memory, owns, False
        self.copies: list[tuple[str, Any]] = []  # of a ContextArray: (URI, Array that `on` gave)

    def finish(self) -> None:
        """Waits for all work that fills the array or reads it: then others may use its memory."""
        self.memory.quiet()
        if self.array.fence is not None:
            self.array.fence.wait()

    @property
    def open(self) -> bool:
        return not (self.closed or self.memory.closed)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.expected.dtype

    @property
    def offset(self) -> int:
        """Bytes from the start of the memory."""
        base = self.expected if self.expected.base is None else self.expected.base
        return self.expected.ctypes.data - base.ctypes.data

    def compare(self, elements: Any, way: str) -> None:
        """Raises Mismatch unless `elements` are the expected ones in dtype, shape and value."""
        actual = np.asarray(elements)
        if (actual.dtype, actual.shape) != (self.dtype, self.expected.shape):
            raise Mismatch(
                f"{self.name} by {way}: expected {self.dtype}{list(self.expected.shape)}, "
                f"got {actual.dtype}{list(actual.shape)}"
            )
        wrong = actual != self.expected
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise Mismatch(
                f"{self.name} by {way}: {int(wrong.sum())} of {wrong.size} elements wrong, "
                f"at {at} expected {self.expected[at]}, got {actual[at]}"
            )
