"""One product on the cpu device: keeps its operands, and checks and times plan after
plan on them.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import Any, cast

import numpy as np
from _bench.jobs import fills
from _bench.measure import timing, verify
from _bench.measure.bound import BAND_NBYTES, LAUNCH_TIMEOUT_S, Bound
from _bench.tune.tune import Arm
from _cpu_peers.cases import Gemm
from _cpu_peers.reference import DIRECT, FLOAT64

import sparkle_drv as sp
from sparkle_drv.ops import ref
from sparkle_drv.ops.memory import weights

QUICK_S = 2e-3
"""If the check's launch takes longer (s), its time counts as the duration of a launch."""


class _Launches:
    """Stands in for the class Bound of tools/_bench. It has the attributes that a sampler reads."""

    def __init__(self, queue: sp.Queue, kernel: sp.Kernel, arguments: list[Any]) -> None:
        self.queue, self.kernel, self.arguments = queue, kernel, arguments
        self.placements = [self]
        self.launch_options: dict[str, Any] = {}
        self.launch_timeout_s = LAUNCH_TIMEOUT_S


class TimedProduct:
    """The operands a, b and c of one product, which all plans share. c lies between guard bands
    that no plan may write.

    A context manager. `wrong` lists a sentence for each plan that computed or wrote wrongly.
    """

    def __init__(self, dev: sp.Device, of: Gemm, seed: int) -> None:
        self.dev, self.of, self.wrong = dev, of, list[str]()
        self._rng = np.random.default_rng([seed, of.m, of.n, of.k])
        self._dtype = np.dtype(of.dtype)
        self._name = {"float32": "gemm_f32", "float64": "gemm_f64"}[of.dtype]
        self._blobs: dict[int, sp.Array] = {}
        with ExitStack() as stack:
            self.queue = stack.enter_context(dev.queue(timing=True))
            self._a = stack.enter_context(dev.empty((of.m, of.k), self._dtype))
            self._b = stack.enter_context(dev.empty((of.k, of.n), self._dtype))
            nbytes = of.m * of.n * self._dtype.itemsize
            self._whole = stack.enter_context(dev.buffer(nbytes + 2 * BAND_NBYTES))
            self._c = self._whole.view(BAND_NBYTES, nbytes)
            self._band = self._rng.integers(0, 256, BAND_NBYTES, dtype=np.uint8)
            self._poison = fills.poison(nbytes, self._dtype, self._rng)
            self._ends = (0, BAND_NBYTES + nbytes)
            for end in self._ends:
                self._whole.write(self._band, end)
            self._stack = stack.pop_all()
        self.refill()

    def __enter__(self) -> TimedProduct:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._forget()
        self._stack.close()

    def refill(self) -> None:
        """Fills the operands a and b with new random numbers, and computes their product in
        float64.
        """
        of = self.of
        self._given = (
            self._rng.standard_normal((of.m, of.k), self._dtype),
            self._rng.standard_normal((of.k, of.n), self._dtype),
        )
        for array, values in zip((self._a, self._b), self._given, strict=True):
            array.buffer.write(values)
        self._want = ref.gemm(*self._given)
        self._forget()

    def _forget(self) -> None:
        for blob in self._blobs.values():
            blob.close()
        self._blobs.clear()

    def admit(self, plan: sp.TilePlan) -> Arm | None:
        """Loads a plan's kernel and verifies its result. Returns None if the device refuses the
        plan, or if the result is wrong.
        """
        try:
            kernel = self.dev.kernel(self._name, plan=plan)
        except (ValueError, sp.ImageError):
            return None
        of = self.of
        b = self._blob(plan) if plan.pack else self._b
        arguments = [self._c, self._a, b, None, of.m, of.n, of.k, of.k, 1, of.n, 1, of.n, 0]
        self._c.write(self._poison)
        begin = time.perf_counter()
        self.queue.launch(kernel, *arguments).wait(timeout_s=LAUNCH_TIMEOUT_S)
        took = time.perf_counter() - begin
        verdict = self._verdict()
        if not verdict.ok:
            self.wrong.append(f"{plan}: {verdict.sentence}")
            kernel.close()
            return None
        shown = cast(Bound, _Launches(self.queue, kernel, arguments))
        return Arm(kernel, timing.steady(shown, "hot", took * 1e9 if took > QUICK_S else None))

    def confirm(self, plan: sp.TilePlan) -> bool:
        """Verifies the plan's result again, with new operands. Returns whether it is right."""
        self.refill()
        arm = self.admit(plan)
        if arm is not None:
            arm.close()
        return arm is not None

    def _blob(self, plan: sp.TilePlan) -> sp.Array:
        """Returns b packed for the plan. Of the plan, the packed form depends only on the block
        size kc.
        """
        kc = plan.levels[0][2]
        if kc not in self._blobs:
            made_for = sp.TilePlan(algo="blocked", levels=((0, 0, kc), (0, 0, 0)))
            with self.dev.kernel(f"pack_{self._name}", plan=made_for) as pack:
                n, k = self.of.n, self.of.k
                self._blobs[kc] = weights.blob(self.dev, pack, self._b, n, k, n, 1)
        return self._blobs[kc]

    def _verdict(self) -> verify.Verdict:
        ends = [self._whole.read(np.uint8, (BAND_NBYTES,), end) for end in self._ends]
        found = [
            verify.band_intact("c", side, self._band, end)
            for side, end in zip(("before", "behind"), ends, strict=True)
        ]
        for name, array, was in zip("ab", (self._a, self._b), self._given, strict=True):
            found.append(verify.unchanged(name, was, array.buffer.read(self._dtype, was.shape)))
        limit = DIRECT if self._dtype.itemsize == 4 else FLOAT64
        got = self._c.read(self._dtype, self._want.shape)
        return verify.worst_of([*found, verify.against("c", got, self._want, limit)])
