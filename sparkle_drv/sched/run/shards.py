"""Computes the pieces of one call: threads of each device claim, compute and commit them.

A device with memory of its own has three threads. At any time one may copy a piece in, one compute
another piece and one copy a result out. The calling thread watches. A device that fails or is
silent gets no more pieces (health_monitor.py); the others do its pieces. The call returns when the
result of each piece is there. A thread that still waits for a late device ends later and changes
nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.errors import SparkleError
from sparkle_drv.mesh.lanes import runner
from sparkle_drv.mesh.lanes.alarm import Alarm, Gate, Shut
from sparkle_drv.sched.operations.operation import Request
from sparkle_drv.sched.shard.cuts import COMBINED
from sparkle_drv.sched.shard.ledger import Claim, Ledger
from sparkle_drv.sched.shard.shares import Piece
from sparkle_drv.types import in_common

from .failures import FAILURES, WrongResult
from .local import LocalExecutor
from .operands import Operands
from .shared_plan import Done, KeptShards
from .stopwatch import COMPUTE, Stopwatch

log = logging.getLogger("sparkle_drv.sched")

LOOK_S = 0.5
"""Seconds between the calling thread's checks of silent devices."""


class Pieces:
    """Computes one call on several devices, by the pieces that the plan gives to each of them. With
    `chance`, the result of each piece is checked.
    """

    def __init__(
        self, executor: LocalExecutor, request: Request, shared: KeptShards, operands: Operands,
        chance: np.random.Generator | None = None,
    ) -> None:  # fmt: skip
        assert request.task is not None
        self.executor, self.task, self.operation = executor, request.task, request.operation
        self.operands, self.chance = operands, chance
        self.work, self.cut, self.granule = shared.work, shared.cut, shared.axis.granule
        shares = shared.shares
        devices = [executor.devices[uri] for uri in shares.parts]
        clocked = runner.clocked(devices, executor.clock)
        self.clock, self._lanes = clocked["clock"], clocked.get("lanes")
        self._slack_s = 0.0 if self._lanes is not None else shared.slack_s
        self.ledger = Ledger(
            shares.parts, shares.tail, shared.paces, self._slack_s, shares.predicted_s
        )
        self.done = Done()
        self._devices = {device.uri: device for device in devices}
        self._teaches = {
            one.uri: not any(
                in_common(one.info.shares, other.info.shares) for other in devices if other != one
            )
            for one in devices
        }
        self._alarm = Alarm(self.clock, self._lanes)
        self._failure: Exception | None = None
        self._stopped = False
        self._doing: dict[threading.Thread, Claim] = {}
        self._out: np.ndarray[Any, Any] | None = None
        self._early: dict[int, tuple[int, np.ndarray[Any, Any]]] = {}
        self._next = 0
        self._lock = threading.Lock()
        self._bringing = {uri: self._gate() for uri in shares.parts}
        self._computing = {uri: self._gate() for uri in shares.parts}

    def _gate(self) -> Gate:
        return Gate(self.clock, self._lanes)

    def result(self, out: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
        """Computes the result, in `out` or in new memory. Raises the last device's error if all
        failed.
        """
        self._out = out if self.cut.out is not None else None
        begin_s = self.clock()
        served = [d for d in self._devices.values() for _ in range(1 if d.info.unified else 3)]
        threads = [
            threading.Thread(
                target=self._serve, args=(device,), name=f"sparkle shards {device.uri}", daemon=True
            )
            for device in served
        ]
        if self._lanes is not None:
            self._lanes.enter(len(threads) + 1)
            self._lanes.attach()
        started = 0
        try:
            for thread in threads:
                thread.start()
                started += 1
            self._watch()
        except RuntimeError as error:
            raise SparkleError(
                f"expected {len(threads)} threads for {len(self._devices)} devices, got {started}: "
                f"{error}"
            ) from error
        finally:
            self._stopped = True
            self.ledger.shut()
            self._told(begin_s)
            if self._lanes is not None:
                for thread in list(self._doing):
                    self._lanes.outlives(thread.ident or 0)
            for gate in (*self._bringing.values(), *self._computing.values()):
                gate.shut()
            self._alarm.ring()
            if self._lanes is not None:
                for _ in range(len(threads) - started + 1):
                    self._lanes.leave()
        result = self._out
        assert result is not None
        if out is not None and out is not result:
            out[...] = result
            return out
        return result

    def _watch(self) -> None:
        """Waits until every piece is done. Raises the last device's error if all devices failed."""
        health = self.executor.health
        while True:
            turn = self._alarm.turn
            if self.ledger.complete:
                return
            if self._failure is not None and not self._devices:
                raise self._failure
            self._alarm.wait(turn, self.clock() + LOOK_S)
            for uri, error in health.look(
                [u for u in self._devices if self.ledger.open(u)]
            ).items():
                self._failed(uri, error)

    def _told(self, begin_s: float) -> None:
        """Fills `done`, the report of this call: seconds, each device's units, late devices. Also
        records for later calls which threads still wait for a device.
        """
        done, ledger = self.done, self.ledger
        done.seconds = self.clock() - begin_s
        done.doubled, done.dropped = ledger.doubled, ledger.dropped
        for piece, uri in list(ledger.committed.items()):
            done.units[uri] = done.units.get(uri, 0) + piece.units
        for thread, claim in list(self._doing.items()):
            if self.clock() >= claim.late_s and claim.uri not in done.lost:
                done.late[claim.uri] = f"it has not ended units {claim.piece}"
                log.warning("%s: late, others did its piece: %s", claim.uri, done.late[claim.uri])
            self.executor.remains.add(claim.uri, thread, claim.ends_s, claim.late_s, self.clock)
        for uri in self._devices:
            if not ledger.open(uri):
                self.executor.health.rests(uri)

    def _serve(self, device: Device) -> None:
        if self._lanes is not None:
            self._lanes.attach()
        try:
            while self._one(device):
                pass
        except Shut:
            pass
        except FAILURES as error:
            self._failed(device.uri, error)
        except Exception as error:  # the call is wrong, not the device
            if not self._stopped:
                self._failure, self._devices = error, {}
                self._alarm.ring()
        finally:
            self._doing.pop(threading.current_thread(), None)
            if self._lanes is not None:
                self._lanes.leave()

    def _one(self, device: Device) -> bool:
        """Claims, computes and commits one piece. Returns False if the device gets no more."""
        with ExitStack() as inside:
            # Only one thread of the device at a time is between claim and launch. So at most one
            # piece waits while the device computes another one.
            with self._bringing[device.uri]:
                claim = self._claim(device)
                if claim is None:
                    return False
                begin_s = self.clock()
                begin = claim.piece.begin * self.granule
                end = min(claim.piece.end * self.granule, self.cut.extent)
                self._doing[threading.current_thread()] = claim
                self.executor.health.started(device.uri, claim.late_s - begin_s)
                given = self.operands.on(device, self.cut, begin, end)
                inside.enter_context(self._computing[device.uri])
            made = self._computed(device, given, begin, end)
        host = self.operands.fetched(made)
        if self._stopped:
            return False
        if self.chance is not None:
            piece = self.operation.piece(self.task, self.cut, begin, end)
            reads = self.operands.cut(self.cut, begin, end)
            wrong = self.operation.wrong(piece, host, reads, self.chance)
            if wrong:
                raise WrongResult(f"{device.uri}: {self.work.op} gave a wrong result: {wrong}")
        self._doing.pop(threading.current_thread(), None)
        write = partial(self._write, host, claim.piece, begin, end)
        self.ledger.commit(device.uri, claim.piece, write)
        took_s = self.clock() - begin_s
        self.executor.health.ended(device.uri, took_s, claim.ends_s - begin_s + self._slack_s)
        if self.ledger.complete or begin_s + took_s >= claim.late_s:
            # Wakes the waiting threads: all pieces are done, or this device, which was late, may
            # take pieces again.
            self._alarm.ring()
        return True

    def _claim(self, device: Device) -> Claim | None:
        while not self._stopped and not self.ledger.complete:
            turn = self._alarm.turn
            claim = self.ledger.claim(device.uri, self.clock())
            if not isinstance(claim, float):
                return claim
            self._alarm.wait(turn, claim)
        return None

    def _computed(self, device: Device, reads: Mapping[str, Any], begin: int, end: int) -> Any:
        """Computes a piece on the device, waits for the end, and returns the result. Reports the
        time to the costs, unless another device of the call uses the same resource.
        """
        watch = Stopwatch(self.executor)

        def compute() -> Any:
            result = self.operation.launch_piece(device, self.task, reads, begin, end)
            if isinstance(result, Array) and result.fence is not None:
                result.fence.wait(device.default_queue.timeout_s)
            return result

        result = watch.step(device, COMPUTE, self.work.op, compute)
        if self._teaches[device.uri]:
            size = self.work.size * (end - begin) / self.cut.extent
            self.executor.tell("ran", self.work.op, device.uri, size, watch.taken[COMPUTE])
        return result

    def _failed(self, uri: str, error: Exception) -> None:
        """Takes a failed device out of the call: it gets no more pieces."""
        self.ledger.gone(uri)
        with self._lock:  # the device's other threads may fail at the same time
            known = uri in self._devices
            self._devices = {other: d for other, d in self._devices.items() if other != uri}
            self._failure = error
        if known or self._stopped:
            try:
                self.executor.failed(uri, error)
            except SparkleError as closed:  # raised if the Context was closed
                self._failure, self._devices = closed, {}
        if known:
            self.done.lost[uri] = str(error)
            log.warning("%s: other devices do its shards: %s", uri, error)
        self._alarm.ring()

    def _write(self, result: np.ndarray[Any, Any], piece: Piece, begin: int, end: int) -> None:
        """Copies a piece's result to its place. If the results of pieces are combined instead, this
        is done in the order of the pieces.
        """
        with self._lock:
            if self.cut.out is None:
                self._early[piece.begin] = piece.end, result
                while self._next in self._early:
                    self._next, part = self._early.pop(self._next)
                    combine = COMBINED[self.cut.combine]
                    if self._out is not None:
                        # numpy's sum of two 0-d arrays is a scalar: asarray makes it an array.
                        part = np.asarray(combine(self._out, part), part.dtype)
                    self._out = part
                return
            if self._out is None:
                shape = list(result.shape)
                shape[self.cut.out] = self.cut.extent
                self._out = np.empty(shape, result.dtype)
        self.cut.part(self._out, begin, end)[...] = result
