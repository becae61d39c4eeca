"""The conformance suite on an emulated card with planned faults.

    report = fault_suite.run(Schedule(7), "gfx1100")
    assert not report.wrong, report

A check may succeed, or end in a SparkleError. Anything else is wrong: an error of another type, a
wait that does not end, objects left alive, a fault of the card that was not planned. A failed
comparison is wrong if the emulator corrupted nothing: the device then reported a wrong result as
right. A corruption is wrong if no comparison noticed it.
"""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sparkle_drv as sp
from sparkle_drv._native import ffi, lib
from sparkle_drv.testing import emu, suite
from sparkle_drv.testing.checks import base
from sparkle_drv.testing.emulated_faults import apply, happened
from sparkle_drv.testing.emulator import Machine
from sparkle_drv.testing.faults import Schedule

__all__ = ["BOUND_S", "CheckOutcome", "Report", "checks", "run"]

# A run whose checks have not ended after BOUND_S seconds is stuck: the longest wait of the checks
# and the backend is 30 s. The emulated driver ends every job after JOB_LIMIT_S seconds.
BOUND_S, JOB_LIMIT_S = 60.0, 0.25
ENDS_S = 5.0
MIB = 1 << 20
CHECKS_A_SCHEDULE = 3

# These checks take seconds, since their float64 reference is a very long sum.
SLOW = ("kernels: peak_fma_f32", "kernels: peak_fma_f64")

RIGHT, REFUSED, NOTICED, NOT_PROVIDED = "right", "refused", "noticed", "not provided"
WRONG = "wrong"


@dataclass(frozen=True)
class CheckOutcome:
    """How a check ended: "right", "refused" by a SparkleError, "noticed" if the check reported a
    corruption, "not provided", or "wrong".
    """

    check: str
    status: str
    message: str = ""

    def __str__(self) -> str:
        last = self.message.strip().splitlines()[-1:] or [""]
        return f"{self.status:12} {self.check} {last[0]}"


@dataclass
class Report:
    """The result of one schedule. `happened` counts faults by kind. `left` counts objects that
    stayed alive. `unplanned` lists faults of the card that are not in the schedule.
    """

    schedule: Schedule
    chip: str
    outcomes: list[CheckOutcome] = field(default_factory=list)
    happened: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    unplanned: list[str] = field(default_factory=list)
    stuck: str = ""

    @property
    def wrong(self) -> list[str]:
        """The texts of all errors; empty without errors."""
        said = [f"{o.check}: {o.message}" for o in self.outcomes if o.status == WRONG]
        said += [f"{n} {kind} left alive" for kind, n in self.left.items()]
        said += [f"a fault that nobody planned: {text}" for text in self.unplanned]
        return said + ([f"not done after {BOUND_S} s:\n{self.stuck}"] if self.stuck else [])

    def __str__(self) -> str:
        return "\n".join(
            [f"{self.schedule}\non {self.chip}:", *map(str, self.outcomes), *self.wrong]
        )


def checks(schedule: Schedule, count: int = CHECKS_A_SCHEDULE) -> list[base.Check]:
    """Returns a random sample of the suite's checks, drawn with the schedule's seed.

    A schedule that corrupts memory gets only checks of kernels, since these compare every byte that
    a job may write.
    """
    known = [c for c in suite.checks() if c.name not in SLOW]
    if "corrupt" in schedule.kinds:
        known = [c for c in known if c.covers == "kernels"]
    return random.Random(schedule.seed).sample(known, count)


_speeds: dict[str, float] = {}


def _speed(chip: str) -> float:
    """Returns how many steps per second the kernel busy_u32 makes on a card without faults. The
    card is measured once per process.
    """
    if chip not in _speeds:
        with Machine([chip]) as machine, emu.on(machine), sp.open(f"emu:{chip}") as dev:
            _speeds[chip] = base.busy_speed(dev)
    return _speeds[chip]


def run(
    schedule: Schedule,
    chip: str = "gfx1100",
    chosen: Iterable[base.Check] | None = None,
    **options: Any,
) -> Report:
    """Runs the chosen checks one after another, on one device of a new Machine with `options`.

    Without `chosen` it runs a sample that the schedule's seed draws.
    """
    report = Report(schedule, chip)
    _speed(chip)
    before = _alive()
    picked = checks(schedule) if chosen is None else list(chosen)
    given = {"job_limit_s": JOB_LIMIT_S, "vram_nbytes": 256 * MIB, "gtt_nbytes": 512 * MIB}
    small = Machine([chip], **given | options)
    with small as machine, emu.on(machine):
        worker = threading.Thread(target=_run, args=(report, machine, picked), daemon=True)
        worker.start()
        worker.join(BOUND_S)
        if worker.is_alive():
            frame = sys._current_frames().get(worker.ident or 0)
            report.stuck = "".join(traceback.format_stack(frame))
            machine.unplug()  # calls of the device then fail, so the stuck thread `worker` ends
            worker.join(BOUND_S)
            return report
        report.happened = happened(machine)
        _let_jobs_end(machine)
        left = _left(machine.live_counts)
        report.left = {f"{kind} of the card": n for kind, n in left.items()}
    report.left |= _left(_alive, before)
    return report


def _let_jobs_end(machine: Machine) -> None:
    """Waits until no job runs, at most ENDS_S. A job that runs when its device closes keeps its
    memory until it ends, also on a card that was unplugged.
    """
    until_s = time.monotonic() + ENDS_S
    while machine.live_counts()["jobs"] and time.monotonic() < until_s:
        time.sleep(0.002)


def _left(
    alive: Callable[[], dict[str, int]], before: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Returns how many objects of each kind are alive beyond those that `before` counts.

    Collects garbage only if there are such objects.
    """
    for attempt in range(2):
        more = {k: n - (before or {}).get(k, 0) for k, n in alive().items()}
        more = {k: n for k, n in more.items() if n > 0}
        if not more or attempt:
            return more
        gc.collect()
    raise AssertionError("unreachable")


def _alive() -> dict[str, int]:
    live = ffi.new("struct sp_live *")
    lib.sp_live_counts(live)
    return {name: getattr(live, name) for name, _ in ffi.typeof("struct sp_live").fields}


def _run(report: Report, machine: Machine, picked: Sequence[base.Check]) -> None:
    base.fix_seed(report.schedule.seed)
    try:
        with sp.open(f"emu:{report.chip}") as dev:
            base.busy_speed(dev, _speeds[report.chip])
            dev.default_queue  # noqa: B018
            apply(report.schedule, machine)
            for check in picked:
                report.outcomes.append(_judge(check, dev, machine))
                told = _unplanned(report.schedule, machine)
                report.unplanned += [one for one in told if one not in report.unplanned]
    except sp.SparkleError as error:
        report.outcomes.append(CheckOutcome("closing", REFUSED, str(error)))
    except Exception:
        report.outcomes.append(CheckOutcome("closing", WRONG, traceback.format_exc()))
    finally:
        base.fix_seed(None)


def _is_typed(error: BaseException | None) -> bool:
    """Returns whether the error, or a cause of it, is a SparkleError.

    A check that expected another error raises an AssertionError. The SparkleError that it got
    instead is then the cause of the AssertionError.
    """
    while error is not None and not isinstance(error, sp.SparkleError):
        error = error.__cause__
    return error is not None


def _forget(error: BaseException | None) -> None:
    """Drops the local variables of a failed check's frames, so that their objects are freed without
    the garbage collector.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _status(error: Exception) -> tuple[str, str]:
    """Returns how a check that raised has ended, and why."""
    if isinstance(error, base.NotProvided):
        return NOT_PROVIDED, str(error)
    if isinstance(error, AssertionError):
        return REFUSED if _is_typed(error) else NOTICED, traceback.format_exc()
    if isinstance(error, sp.SparkleError):
        return REFUSED, f"{type(error).__name__}: {error}"
    return WRONG, traceback.format_exc()


def _unplanned(schedule: Schedule, machine: Machine) -> list[str]:
    """Returns the card's last fault unless the schedule plans it. After a corruption returns
    nothing, since a program on corrupted data may do anything.
    """
    fault = machine.fault()
    planned = {f.parameters["va"] for f in schedule if f.what == "pagefault"}
    if not fault or fault.kind == "timeout" or happened(machine)["corrupt"]:
        return []
    return (
        [] if fault.kind == "unmapped" and fault.va in planned else [f"{fault.kind}: {fault.text}"]
    )


def _judge(check: base.Check, dev: sp.Device, machine: Machine) -> CheckOutcome:
    before = happened(machine)["corrupt"]
    status, message = RIGHT, ""
    try:
        suite.judge(check, dev)
    except Exception as error:
        status, message = _status(error)
        _forget(error)
    corrupted = happened(machine)["corrupt"] - before
    if status == NOTICED and not corrupted:
        status = WRONG
    if status == RIGHT and corrupted:
        status, message = WRONG, "a result was corrupted and no comparison noticed"
    return CheckOutcome(check.name, status, message)
