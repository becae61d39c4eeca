"""The tune command on a device: verifies and times the plans that a search asks for, and keeps the
best.

Every candidate passes the check of bound.py (new inputs, poisoned outputs, guard bands, the float64
oracle) before its first sample. A wrong candidate is reported on stderr, never timed, and makes the
command fail. The best plan is checked again with other inputs. Then it is stored in
SPARKLE_HOME/tuned.json, which ops reads (ops/tiles/tuned_plans.py). Called by commands/tune.py.
"""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from _console.problems import UsageError
from _console.progress import Progress

from _bench.jobs import catalog, plans
from _bench.jobs.fills import Array
from _bench.jobs.job import Job, Oracle, Values
from _bench.machine import other_load
from _bench.measure import timing
from _bench.measure.bound import Bound

from . import space
from .report import Row
from .search import Search

if TYPE_CHECKING:
    import sparkle_drv as sp

FIXED = ("cuda",)  # backends with fixed tiles: a plan only predicts times there
TUNABLE = ("gemm_", "conv2d_", "reduce_")
DEFAULT = ("gemm_f32", "gemm_f64", "conv2d_f32")
DEFAULT_AXES: Mapping[str, Mapping[str, str]] = {
    "gemm_f32": {"size": "256,512,1024"},
    "gemm_f64": {"size": "512"},
}


class Arm:
    """A verified plan with its loaded kernel. `sample` times it in the mode "hot"."""

    def __init__(self, kernel: sp.Kernel, sampler: timing.Sampler) -> None:
        self._kernel, self._sampler = kernel, sampler

    def sample(self) -> float:
        return self._sampler.sample()[0] * 1e-9

    def close(self) -> None:
        self._sampler.close()
        self._kernel.close()


class Bench:
    """The operands of one job on a device, on which one plan after the other is measured."""

    def __init__(self, bound: Bound, say_wrong: Callable[[str], None]) -> None:
        self.bound, self._say_wrong = bound, say_wrong
        self.wrong: list[str] = []
        self.refused = 0

    def _load(self, plan: sp.TilePlan) -> sp.Kernel | None:
        import sparkle_drv as sp

        job = self.bound.job
        try:
            kernel = self.bound.device.kernel(job.kernel, plan=plan)
        except (ValueError, sp.ImageError):
            self.refused += 1
            return None
        options: dict[str, Any] = {"groups": job.groups} if job.groups else {}
        if job.group_size:
            options["group_size"] = job.group_size
        limit = catalog.tolerance(job.kernel, job.scalars, plan)
        self.bound.job = replace(job, tolerance=limit)
        self.bound.kernel = kernel
        self.bound.launch_options = {} if kernel.groups else options
        return kernel

    def _right(self, plan: sp.TilePlan, phase: int) -> bool:
        verdict = self.bound.check(phase)
        if not verdict.ok:
            job = self.bound.job
            what = f"{job.kernel} {job.label} by {space.text(plan)}: {verdict.sentence}"
            self.wrong.append(what)
            self._say_wrong(what)
        return verdict.ok

    def admit(self, plan: sp.TilePlan) -> Arm | None:
        """Loads and verifies a plan. Returns None if the device refuses the plan, or if its result
        is wrong.
        """
        kernel = self._load(plan)
        if kernel is None:
            return None
        if not self._right(plan, 0):
            kernel.close()
            return None
        return Arm(kernel, timing.steady(self.bound, "hot"))

    def confirm(self, plan: sp.TilePlan) -> bool:
        """Checks the plan again, with other inputs. Returns whether it is right."""
        kernel = self._load(plan)
        if kernel is None:
            return False
        with kernel:
            return self._right(plan, 1)


def once(oracle: Oracle) -> Oracle:
    """Returns the oracle with a cache by its inputs: all candidates get the same inputs."""
    known: dict[tuple[int, ...], Mapping[str, Array]] = {}

    def asked(values: Values) -> Mapping[str, Array]:
        inputs = [v for v in values.values() if isinstance(v, np.ndarray)]
        key = tuple(zlib.crc32(np.ascontiguousarray(v).data) for v in inputs)
        if key not in known:
            known[key] = oracle(values)
        return known[key]

    return asked


def jobs_for(
    names: Sequence[str], axes: Sequence[str], info: sp.DeviceInfo, manifest: Any, seed: int
) -> list[Job]:
    """Returns the jobs to tune on a device. Raises UsageError for a kernel without plans."""
    if info.backend in FIXED:
        raise UsageError(
            f"tune: expected a device whose kernels take a tile plan, got one of {info.backend}, "
            "whose kernels have fixed tiles"
        )
    chosen = catalog.select(names or DEFAULT, manifest, info.backend)
    if names:
        barred = [k for k in chosen if not k.startswith(TUNABLE)]
        if barred:
            raise UsageError(
                f"tune: {', '.join(barred)} takes no plan; expected gemm, conv2d or reduce"
            )
    given = catalog.given_axes(chosen, axes)
    return [
        catalog.make(kernel, point, info, manifest, seed)
        for kernel in chosen
        for point in catalog.expand(kernel, {**DEFAULT_AXES.get(kernel, {}), **given[kernel]}, info)
    ]


@dataclass(frozen=True)
class Settings:
    """How to search: the seconds per shape, and whether to keep a result that was found while other
    processes used the cores.
    """

    seed: int
    budget_s: float
    busy: bool = False


def tune(job: Job, device: sp.Device, settings: Settings, say: Callable[[str], None]) -> Row:
    """Searches for one job's best tile plan and saves it in the user's file of tuned plans.
    KeyboardInterrupt and the error of a stuck or lost device pass through.
    """
    from sparkle_drv.ops.tiles import tuned_plans
    from sparkle_drv.types import in_common

    info = device.info
    row = Row(job.kernel, info.uri, job.label, plans.shape(job.kernel, job.scalars))
    model = plans.model(job.kernel, job.scalars, info)
    if model is None:
        row.failure = "there is only one way to run it here: nothing to tune"
        return row
    if job.oracle is not None:
        job = replace(job, oracle=once(job.oracle))
    job = replace(job, load=partial(plans.load, job.kernel, model))

    def loudly(what: str) -> None:
        print(f"WRONG RESULT {what}", file=sys.stderr, flush=True)

    watch = other_load.Watch()
    with Bound(job, device, settings.seed) as bound:
        first = bound.kernel
        bench = Bench(bound, loudly)
        neighbours = partial(_neighbours, job.kernel, info)
        search: Search[sp.TilePlan] = Search(
            bench.admit, neighbours, time.monotonic, settings.budget_s, settings.seed, say
        )
        try:
            row.outcome = search.run(space.seeds(job.kernel, model, info))
            best = row.outcome.best
            row.others = watch.others() if in_common(("cpu",), info.shares) else 0.0
            quiet_enough = settings.busy or row.others < other_load.TOO_MUCH
            if bench.confirm(best) and quiet_enough:
                found = row.outcome
                entry = tuned_plans.TunedPlan(best, found.best_s, found.model_s)
                row.kept = _keep(device, job.kernel, row.shape, entry)
        except ValueError as error:
            row.failure = str(error)
        bound.kernel = first
        row.wrong, row.refused = tuple(bench.wrong), bench.refused
    return row


def _neighbours(kernel: str, info: sp.DeviceInfo, plan: sp.TilePlan) -> list[sp.TilePlan]:
    return space.neighbours(kernel, plan, info)


def _keep(device: sp.Device, kernel: str, shape: str, entry: Any) -> bool:
    from sparkle_drv.ops.tiles import tuned_plans

    try:
        tuned_plans.Tuned(device.home).put(device.info, kernel, shape, entry)
    except OSError as error:
        print(f"bench.py: tuned plans cannot be kept: {error}", file=sys.stderr)
        return False
    return True


@dataclass
class Visit:
    """One run of the tune command over all devices. `rows` are the finished rows."""

    settings: Settings
    rows: list[Row]
    interrupted: bool = False
    after: Callable[[], None] = lambda: None
    """Called when a row is done."""

    def device(self, device: sp.Device, jobs: Sequence[Job]) -> None:
        """Tunes all jobs of a device. The error of a stuck or lost device passes through, after the
        device's row was added.
        """
        import sparkle_drv as sp

        with Progress(len(jobs)) as progress:
            for job in jobs:
                where = f"{device.uri} {job.kernel} {job.label}"
                progress.step(where)

                def say(plan: str, where: str = where, progress: Progress = progress) -> None:
                    if progress.live:
                        progress.write(f"[{progress.begun}/{progress.total}] {where}: {plan}")

                try:
                    self.rows.append(tune(job, device, self.settings, say))
                    self.after()
                except sp.SparkleError as error:
                    what = f"{type(error).__name__}: {' '.join(str(error).split())}"
                    self.rows.append(Row(job.kernel, device.uri, job.label, failure=what))
                    raise
