"""The Gpu of amd/kmd/gpu.py for tests on an emulated card. The creator of a buffer owns it. IBs are
freed when their jobs have been waited for. A failure names the card's last fault.
"""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING

from ..amd.kmd import gpu
from ..amd.kmd.gpu import IP, NOP, BufferObject, Job, Late

if TYPE_CHECKING:
    from .emulator import EmulatedNode

__all__ = ["IP", "NOP", "BufferObject", "EmulatedGpu", "Job"]


class _Kept:
    """The resources that a Gpu frees: a context, and the IBs of its jobs."""

    def __init__(self, node: EmulatedNode) -> None:
        self.node, self.ctx = node, 0
        self.ibs: list[tuple[Job, BufferObject]] = []

    def close(self) -> None:
        for _, ib in self.ibs:
            ib.close()
        self.ibs = []
        gpu.free_context(self.node, self.ctx)
        self.ctx = 0


def _forget(kept: _Kept) -> None:
    """Frees a Gpu's resources in its finalizer. Ignores errors, since the device node or the card
    may be gone.
    """
    with contextlib.suppress(OSError, ValueError):
        kept.close()


class EmulatedGpu(gpu.Gpu):
    """One context of the kernel driver on an emulated card's device node. The finalizer of the Gpu
    frees the context and the IBs. A buffer that nobody frees lives as long as the node, since numpy
    arrays over the bytes that `BufferObject.map` returns may still use it.
    """

    node: EmulatedNode

    def __init__(self, node: EmulatedNode) -> None:
        self._kept = _Kept(node)
        super().__init__(node)
        weakref.finalize(self, _forget, self._kept)

    @property
    def ctx(self) -> int:
        """The id of the context; 0 when the context is closed."""
        return self._kept.ctx

    @ctx.setter
    def ctx(self, ctx: int) -> None:
        self._kept.ctx = ctx

    def take_va(self, nbytes: int) -> int:
        """Returns a free address range that an unmapped page follows."""
        return self.node.take_va(-(-nbytes // gpu.PAGE) * gpu.PAGE + gpu.PAGE)

    def _own(self, buffer: BufferObject) -> BufferObject:
        return buffer

    def _sent(self, job: Job, words: list[int], ib: BufferObject) -> None:
        self._kept.ibs.append((job, ib))

    def wait(self, job: Job, timeout_s: float = 10.0) -> None:
        """Waits for the job. Raises Late if it has not ended after `timeout_s`. Raises OSError with
        the card's last fault if it failed.
        """
        try:
            super().wait(job, timeout_s)
        except Late:
            raise
        except OSError as error:
            fault = self.node.machine.fault_of(self.node.fd)
            raise OSError(error.errno, f"{error.strerror}; last fault: {fault}") from None
        finally:
            self._collect(job)

    def _collect(self, done: Job) -> None:
        """Frees the IBs of the job `done` and of the earlier jobs of the same entity.

        The kernel driver keeps the memory of a job that still runs, even after GEM_CLOSE.
        """
        kept = self._kept
        mine = [(j, ib) for j, ib in kept.ibs if j[:2] == done[:2] and j.seq <= done.seq]
        kept.ibs = [pair for pair in kept.ibs if pair not in mine]
        for _, ib in mine:
            ib.close()

    def close(self) -> None:
        """Frees the context and the IBs of `submit`; buffers belong to the caller."""
        self._kept.close()
