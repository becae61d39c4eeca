"""Does the pieces of one call: threads of each device claim, compute and commit them.

A device that does not share the host's memory has two threads: one brings a piece or fetches a
result while the device computes that of the other. When a device fails, its pieces go to those
that are left, once these have done their own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.errors import SparkleError
from sparkle_drv.mesh.lanes import runner
from sparkle_drv.sched.model.work import Work
from sparkle_drv.sched.shard.cuts import COMBINED, Cut
from sparkle_drv.sched.shard.ledger import Ledger
from sparkle_drv.sched.shard.shares import Piece, Shares
from sparkle_drv.sched.shard.site import Pace

from .local import FAILURES, LocalExecutor, Run

log = logging.getLogger("sparkle_drv.sched")


class Pieces:
    """One run of a call whose shares are decided."""

    def __init__(
        self, executor: LocalExecutor, work: Work, cut: Cut, granule: int, shares: Shares,
        paces: Mapping[str, Pace], operands: Sequence[Any], run: Run,
    ) -> None:  # fmt: skip
        self.executor, self.work, self.cut, self.granule = executor, work, cut, granule
        self.run = run
        self.operands = operands
        self.ledger = Ledger(shares.parts, shares.tail, paces)
        self.failure: Exception | None = None
        self._out: np.ndarray[Any, Any] | None = None
        self._combining = threading.Lock()
        self._stopped = threading.Event()
        self._left = [uri for uri in shares.parts]
        self._whole: dict[tuple[str, int], Any] = {}
        self._bringing = {uri: threading.Lock() for uri in self._left}

    def result(self, out: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
        """The result, in `out` or in new memory. Raises what the last device raised."""
        self._out = out if self.cut.out is not None else None
        while not self.ledger.complete:
            if not self._left:
                assert self.failure is not None
                raise self.failure
            self._round()
        made = self._out
        assert made is not None
        if out is not None and out is not made:
            out[...] = made
            return out
        return made

    def _round(self) -> None:
        """Threads of all devices that are left; returns when they have ended."""
        devices = [self.executor.devices[uri] for uri in self._left]
        clock = runner.clocked(devices, self.executor.clock).get("lanes")
        served = [device for device in devices for _ in range(1 if device.info.unified else 2)]
        threads = [
            threading.Thread(
                target=self._serve, args=(device, clock), name=f"sparkle shards {device.uri}",
                daemon=True,
            )
            for device in served
        ]  # fmt: skip
        if clock is not None:
            clock.enter(len(threads))
        started = 0
        try:
            for thread in threads:
                thread.start()
                started += 1
            for thread in threads:
                while thread.is_alive():
                    thread.join(runner.SLICE_S)
        except BaseException as error:
            self._stopped.set()
            if clock is not None:
                for _ in threads[started:]:
                    clock.leave()
            for thread in threads[:started]:
                thread.join()
            if isinstance(error, RuntimeError):
                raise SparkleError(
                    f"expected a thread for each of {len(threads)} devices, got: {error}"
                ) from error
            raise

    def _serve(self, device: Device, clock: Any) -> None:
        if clock is not None:
            clock.here()
        try:
            while not self._stopped.is_set():
                piece = self.ledger.claim(device.uri)
                if piece is None:
                    return
                self._do(device, piece)
        except FAILURES as error:
            self._failed(device.uri, error)
        except Exception as error:  # it concerns the call, not the device
            self.failure, self._left = error, []
            self._stopped.set()
        finally:
            if clock is not None:
                clock.leave()

    def _failed(self, uri: str, error: Exception) -> None:
        self.failure = error
        self.ledger.gone(uri)
        with self._combining:  # the device's other thread may have failed, too
            known = uri in self._left
            self._left = [other for other in self._left if other != uri]
        if known:
            self.executor.failed(uri, error)
            log.warning("%s: its shards are done elsewhere: %s", uri, error)

    def _do(self, device: Device, piece: Piece) -> None:
        begin = piece.begin * self.granule
        end = min(piece.end * self.granule, self.cut.extent)
        clock = self.executor.clock_of(device)
        begin_s = clock()
        made = self._computed(device, begin, end)
        if device.info.unified:  # nothing was moved: it is the time of the operation
            size = self.work.size * (end - begin) / self.cut.extent
            self.executor.tell("ran", self.work.op, device.uri, size, clock() - begin_s)
        self.ledger.commit(device.uri, piece, lambda: self._write(made, begin, end))

    def _computed(self, device: Device, begin: int, end: int) -> np.ndarray[Any, Any]:
        given = self.cut.given(self.operands, begin, end)
        if not device.info.unified:
            axes = self.cut.operands
            given = [
                x if not isinstance(x, np.ndarray)
                else self._brought(device, at) if axes[at] is None
                else device.array(x)
                for at, x in enumerate(given)
            ]  # fmt: skip
        made = self.run(device, given, None)
        host: np.ndarray[Any, Any] = made.numpy() if isinstance(made, Array) else made
        return host

    def _brought(self, device: Device, at: int) -> Array:
        """An operand that the device reads whole, brought once."""
        with self._bringing[device.uri]:
            found: Array | None = self._whole.get((device.uri, at))
            if found is None:
                found = self._whole[device.uri, at] = device.array(self.operands[at])
            return found

    def _write(self, made: np.ndarray[Any, Any], begin: int, end: int) -> None:
        """A piece's result to its place."""
        with self._combining:
            if self.cut.out is None:
                combine = COMBINED[self.cut.combine]
                self._out = made if self._out is None else combine(self._out, made)
                return
            if self._out is None:
                shape = list(made.shape)
                shape[self.cut.out] = self.cut.extent
                self._out = np.empty(shape, made.dtype)
        self.cut.part(self._out, begin, end)[...] = made
