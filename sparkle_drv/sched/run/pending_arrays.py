"""PendingContextArrays: the ContextArrays of one executor that are not computed yet.

An array is computed when somebody reads it. All are computed before an array of the Context is
written.
"""

from __future__ import annotations

import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING

from sparkle_drv.core.deferred.pending_arrays import Failed

if TYPE_CHECKING:
    from .arrays import ContextArray


class PendingContextArrays:
    """The ContextArrays that are not computed yet. A lock covers each computation, so two threads
    that read one array compute it once.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._arrays: dict[int, weakref.ref[ContextArray]] = {}

    def add(self, array: ContextArray) -> None:
        """Adds `array`, which is not computed yet."""
        arrays, key = self._arrays, id(array)
        arrays[key] = weakref.ref(array, partial(arrays.pop, key))

    def compute(self, array: ContextArray) -> None:
        """Computes one array now. Raises as the array's operations do."""
        with self._lock:
            thunk = array._thunk
            if thunk is None:
                return  # another thread has computed the array
            array._take(thunk.run())
            self._arrays.pop(id(array), None)

    def settle(self) -> None:
        """Computes every array that is not computed yet. If a computation fails, a later read of
        its array raises the error.

        Another thread may add arrays meanwhile. The next call computes those.
        """
        if not self._arrays:
            return
        with self._lock:
            for array in [ref() for ref in list(self._arrays.values())]:
                if array is None or array._thunk is None:
                    continue
                try:
                    self.compute(array)
                except Exception as error:
                    array._thunk = Failed(array._executor, error)
                    self._arrays.pop(id(array), None)
