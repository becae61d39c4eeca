"""Simulated machines for calls that devices share, with faults in mid-run, and what must hold."""

from __future__ import annotations

import gc
import random
import threading
import time
from contextlib import contextmanager

import numpy as np

import sparkle_drv as sp
from sparkle_drv.sched.run import shards
from sparkle_drv.testing import sim
from sparkle_drv.testing.faults import Fault, Schedule
from sparkle_drv.testing.simulated import Rate, SimDevice, SimMachine

F32 = np.float32
NEVER = {"recovery": "none"}
SLOW = {"factor": 100, "count": 10**6}


@contextmanager
def machine(rates, far=(), patience_s=0.3, memory_nbytes=0, **options):
    """A Context of devices sim:d0, ... that do so many operations a second; those of the numbers
    `far` have memory of their own. Afterwards hung queues go on, and no thread is left.
    """
    devices = {}
    for at, rate in enumerate(rates):
        way = (20e-6, 8e9) if at in far else (0.0, 0.0)
        uri = f"sim:d{at}"
        devices[uri] = SimDevice(
            uri, {}, way, other=Rate(1e-5, rate), memory_nbytes=memory_nbytes if at in far else 0
        )
    before = set(threading.enumerate())
    with sim.on(SimMachine(devices, random.Random(1), seed=1)) as made:
        ctx = sp.init(list(devices), profile=False, topology="mesh", **options)
        opened = list(ctx.devices)
        try:
            for device in opened:
                device.default_queue.timeout_s = patience_s
            yield ctx, made
        finally:
            for device in opened:
                sim.resume(device)
            made.clock.advance(1e4)  # for transfers that outlive their call
            left = ended(before)
            ctx.close(1)
            ctx = None
            assert not left, left
    gc.collect()


def ended(before, within_s=2.0):
    """Names of threads of calls that have not ended."""
    end = time.monotonic() + within_s
    while True:
        left = [t.name for t in set(threading.enumerate()) - before if "shards" in t.name]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.005)


def breaks(device, at, what, jobs=1, **parameters):
    """At its `at`-th job; so many jobs of which none is like the others in faults.py."""
    faults = [Fault("job", n, what, **parameters) for n in range(at, at + jobs)]
    return sim.apply(Schedule(0, faults), device)


def lies(monkeypatch, uri):
    """The device computes something else, everywhere."""
    honest = shards.Pieces._computed

    def computed(self, device, *given):
        made = honest(self, device, *given)
        return made + 1 if device.uri == uri else made

    monkeypatch.setattr(shards.Pieces, "_computed", computed)


def counted(monkeypatch):
    """The ledgers of the calls that follow; each counts how often pieces are written."""
    kept = []

    class Counted(shards.Ledger):
        def __init__(self, *given):
            super().__init__(*given)
            self.writes = {}
            kept.append(self)

        def commit(self, uri, piece, write):
            def once():
                self.writes[piece] = self.writes.get(piece, 0) + 1
                write()

            return super().commit(uri, piece, once)

    monkeypatch.setattr(shards, "Ledger", Counted)
    return kept


def written_once(ledgers, plan):
    """Each piece of the last call, and all of its units."""
    ledger = ledgers[-1]
    assert set(ledger.writes.values()) == {1}
    assert ledger.writes.keys() == ledger.committed.keys()
    assert sum(piece.units for piece in ledger.committed) == plan.shares.count


def calls(rng, most=300):
    """By name: (a call of a Context, numpy's result) on random operands."""
    m, n, k = (int(x) for x in rng.integers(40, most, 3))
    a, b = rng.standard_normal((m, k)).astype(F32), rng.standard_normal((k, n)).astype(F32)
    x = rng.standard_normal((int(rng.integers(5, 9)), 3, 12, 11)).astype(F32)
    w = rng.standard_normal((int(rng.integers(9, 30)), 3, 3, 3)).astype(F32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    convolved = np.einsum("nchwij,ocij->nohw", windows, w)
    wide = m >= n
    return {
        "rows" if wide else "columns": (lambda ctx, **how: ctx.gemm(a, b, **how), a @ b),
        "columns" if wide else "rows": (lambda ctx, **how: ctx.gemm(b.T, a.T, **how), b.T @ a.T),
        "terms": (lambda ctx, **how: ctx.gemm(a, b, reduce="sum", **how), a @ b),
        "images": (lambda ctx, **how: ctx.conv2d(x, w[:1], **how), convolved[:, :1]),
        "channels": (lambda ctx, **how: ctx.conv2d(x[:1], w, **how), convolved[:1]),
        "map": (lambda ctx, **how: ctx.map("relu(x) + 2", x=a, **how), np.maximum(a, 0) + 2),
        "reduce": (lambda ctx, **how: ctx.reduce(a, "sum", 1, **how), a.sum(1)),
    }


def right(got, want):
    """numpy's result, but for the order of sums."""
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=2e-2)
