"""Actor: one thread of a program, with a queue and arrays of its own.

Actors share two lists: arrays that they use under a lock, and arrays that nobody writes any more.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from memory_model import DTYPES, Mismatch, ModelArray, ModelMemory, Skipped

SLOTS = 8
SHARED = 4


RULES = ("uses", "eager")
"""What the documents leave to the caller. With "uses", another queue may use an Array without a
wait for its fence. With "eager", it may write an operand of a running product, copy or reduction.
"""


class CommonArrays:
    """The arrays that several actors use, and the log of the program. `rules` is from RULES."""

    def __init__(self, rules: Sequence[str]) -> None:
        self.lock = threading.RLock()
        self.shared: list[ModelArray] = []
        self.frozen: list[ModelArray] = []
        self.log: list[str] = []
        self.rules = tuple(rules)


class Actor:
    """A thread's arrays on `device`. `draw` is set anew for each step."""

    def __init__(
        self, device: Any, number: int, common: CommonArrays, extents: tuple[int, int],
        context: Any = None,
    ) -> None:  # fmt: skip
        self.device, self.number, self.common, self.context = device, number, common, context
        self.queue = device.queue()
        self.rows, self.columns = extents
        self.arrays: list[ModelArray | None] = [None] * SLOTS
        self.repeated: list[tuple[str, ModelArray, Callable[[], None]]] = []
        self.draw = random.Random(0)
        self.operand: ModelArray | None = None  # the last one; writes prefer it
        self._names = 0

    def say(self, text: str) -> None:
        """Adds a line to the log: what this thread does next."""
        self.common.log.append(f"T{self.number}: {text}")

    def name(self) -> str:
        self._names += 1
        return f"{'abcdefgh'[self.number]}{self._names}"

    def values(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Returns small whole numbers. Large arrays repeat one row of numbers."""
        low = 0 if dtype.kind in "ub" else -9
        numbers = [self.draw.randint(low, 9) for _ in range(7)]
        return np.resize(np.array(numbers), shape).astype(dtype)

    def shape(self) -> tuple[int, ...]:
        r, c = self.rows, self.columns
        return self.draw.choice(((r, c), (r, c), (r, c), (c,), (r, 1), ()))

    def make(
        self, shape: tuple[int, ...] | None = None, dtype: np.dtype[Any] | None = None
    ) -> ModelArray:
        shape = self.shape() if shape is None else shape
        dtype = self.draw.choice(DTYPES) if dtype is None else dtype
        host = self.values(shape, dtype)
        if self.context is None:
            array = self.device.array(host)
        else:
            uri = self.draw.choice([device.uri for device in self.context.devices])
            array = self.context.array(shape, dtype, device=uri).fill(host)
        made = self.keep(array, host.copy())
        self.say(f"{made.name} = {dtype}{list(shape)} {host.reshape(-1)[:7].tolist()}")
        return made

    def keep(
        self, array: Any, expected: np.ndarray[Any, Any], memory: ModelMemory | None = None,
        reads: Sequence[ModelArray] = (),
    ) -> ModelArray:  # fmt: skip
        """Keeps a new array. `reads`: the operands of an asynchronous operation that fills it, for
        whose fence a writer on another queue has to wait.
        """
        new = ModelArray(self.name(), array, expected, memory or ModelMemory(), memory is None)
        if reads and self.context is None and "eager" not in self.common.rules:
            fence = array.fence
            for x in reads if fence is not None else ():
                x.memory.readers.append(fence)
        slot = self.draw.randrange(SLOTS)
        if self.draw.random() < 0.5 and None in self.arrays:
            slot = self.arrays.index(None)
        self.arrays[slot] = new
        return new

    def pick(
        self, suits: Callable[[ModelArray], bool] = lambda _: True, write: bool = False
    ) -> ModelArray:
        """Returns an array that suits, a new one if there is none. Raises Skipped if a new one does
        not suit either.
        """
        pool = [x for x in self.arrays if x is not None]
        if self.draw.random() < 0.3:
            pool = [*self.common.shared, *([] if write else self.common.frozen)] or pool
        if write and self.operand is not None:
            pool.append(self.operand)
        fit = [x for x in pool if x.open and suits(x) and not (write and x.memory.frozen)]
        last = self.operand
        if write and last is not None and last in fit and self.draw.random() < 0.8:
            return last
        x = self.draw.choice(fit) if fit and self.draw.random() < 0.9 else self.make()
        if not suits(x):
            raise Skipped
        if not write:
            self.operand = x
        return x

    @contextmanager
    def using(
        self, *reads: Any, writes: Sequence[ModelArray] = (), queue: Any = None
    ) -> Iterator[None]:
        """The block uses these arrays on `queue`; None: by operators, or on the host.

        Takes the lock for shared arrays, and waits as `ModelMemory.order` says.
        """
        operands = [x for x in reads if isinstance(x, ModelArray)]
        shared = any(x.memory.shared for x in (*operands, *writes))
        if shared:
            self.common.lock.acquire()
        try:
            if not all(x.open for x in (*operands, *writes)):
                raise Skipped
            if any(x.memory.frozen for x in writes):
                raise Skipped
            for x in operands:
                x.memory.order(queue, self.device.default_queue, write=False)
            for x in writes:
                x.memory.order(queue, self.device.default_queue, write=True)
            if queue is self.queue and "uses" not in self.common.rules:
                for x in (*operands, *writes):
                    fence = x.array.fence
                    if fence is not None:
                        fence.wait()
            yield
        finally:
            if shared:
                self.common.lock.release()

    def submitted(
        self, fence: Any, writes: Sequence[ModelArray] = (), reads: Sequence[ModelArray] = ()
    ) -> None:
        """Waits for `fence`, or leaves the submission in flight."""
        if self.draw.random() < 0.6:
            fence.wait()
            return
        for x in writes:
            x.memory.writers.append(fence)
        for x in reads:
            x.memory.readers.append(fence)

    def any_queue(self) -> Any:
        return self.queue if self.draw.random() < 0.7 else self.device.default_queue

    def queue_name(self, queue: Any) -> str:
        return f"q{self.number}" if queue is self.queue else "default_queue"

    def read(self, x: ModelArray, way: str) -> None:
        """Reads `x` and compares it. Raises Mismatch."""
        queue = self.queue if way == "queue.read" else None
        with self.using(x, queue=queue):
            self.say(f"read {x.name} by {way}")
            array, shape = x.array, x.expected.shape
            if way == "numpy":
                elements = array.numpy()
                keeps = self.context is None and self.device.info.unified
                if keeps and not x.memory.frozen and self.draw.random() < 0.5:
                    x.memory.host_views.append((elements, x.expected))
            elif way == "asarray":
                elements = np.asarray(array)
            elif way == "buffer.read":
                elements = array.buffer.read(x.dtype, shape)
            elif way == "queue.read":
                elements = np.empty(shape, x.dtype)
                self.queue.read(array, elements).wait()
            else:
                at = tuple(self.draw.randrange(n) for n in shape)
                element = array.item() if x.expected.size == 1 else array.get(*at)
                if element != x.expected[at]:
                    raise Mismatch(
                        f"{x.name}[{at}] by get: expected {x.expected[at]}, got {element}"
                    )
                return
            x.compare(elements, way)

    def read_everything(self) -> None:
        """Reads every array that is open: no element is lost."""
        ways = ("numpy", "asarray", "get")
        if self.context is None:
            ways += ("buffer.read", "queue.read")
        for x in self.arrays:
            if x is not None and x.open:
                try:
                    self.read(x, self.draw.choice(ways))
                except Skipped:  # another thread has closed it
                    continue
