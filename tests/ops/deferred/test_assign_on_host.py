"""x[key] = value where no kernel can copy, as beyond element 2**32: the host writes the elements.

When this fails, an assignment to a row of a large array copies the whole array, or is wrong.
"""

from __future__ import annotations

import numpy as np
import pytest

from sparkle_drv.core.queue import Queue
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.strided import operation

pytestmark = pytest.mark.devices("cpu", "egl:0", "emu:gfx1100")
HOST = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
S = slice
KEYS = {
    "row": (1, 2), "element": (0, 1, 2, 3), "last": (-1, -1, -1), "part": (1, 1, S(1, 3)),
    "column": (..., 2), "back": (1, S(None, None, -1)), "steps": (1, S(None, None, -2), 0),
    "box": (S(None), S(1, 3), S(2), S(None, None, 3)), "new": (None, 1), "none": (S(0), 1),
}  # fmt: skip


@pytest.fixture
def moved(monkeypatch):
    """The kernels reach nothing. The list gets the bytes of each transfer."""
    sizes = []

    def far(move):
        check.size("dst", 2**33)

    def noted(method):
        def transfer(self, buffer, array):
            sizes.append(memoryview(array).nbytes)
            return method(self, buffer, array)

        return transfer

    monkeypatch.setattr(operation, "_check_reach", far)
    monkeypatch.setattr(Queue, "write", noted(Queue.write))
    monkeypatch.setattr(Queue, "read", noted(Queue.read))
    return sizes


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64])
@pytest.mark.parametrize("key", KEYS)
def test_the_elements_of_a_key_are_written(fresh, moved, key, dtype):
    host = HOST.astype(dtype)
    x = fresh.array(host)
    for value in (7, np.full(host[KEYS[key]].shape, 9, dtype), fresh.array(np.array(5, dtype))):
        host[KEYS[key]] = value.numpy() if hasattr(value, "fence") else value
        x[KEYS[key]] = value
        np.testing.assert_array_equal(x.numpy(), host)


@pytest.mark.parametrize("key", ["row", "element", "last", "part", "back"])
def test_only_the_bytes_of_contiguous_elements_move(fresh, moved, key):
    x = fresh.array(HOST.astype(np.float32))
    size = HOST[KEYS[key]].size
    moved.clear()
    x[KEYS[key]] = np.arange(size, dtype=np.float32).reshape(HOST[KEYS[key]].shape)
    assert sum(moved) <= 3 * 4 * size, moved  # the value, its copy on the host, the elements
    moved.clear()
    np.testing.assert_array_equal(x.numpy()[KEYS[key]].reshape(-1), np.arange(size))
