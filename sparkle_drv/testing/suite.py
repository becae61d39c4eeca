"""The conformance suite: what every device must do, whoever wrote its backend.

    from sparkle_drv.testing import suite

    for result in suite.run("opencl:0"):
        print(result)

or in pytest, one test for each check:

    @pytest.mark.parametrize("check", suite.checks(), ids=str)
    def test_conformance(check, my_device):
        suite.judge(check, my_device)

The suite uses only the public API. It takes sizes and limits from `device.info`, and kernels from
the manifest. An optional feature that is missing gives "not provided", and never passes silently.
tests/testing/test_conformance.py and authors of plug-ins call it.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sparkle_drv as sp
from sparkle_drv.testing.checks import (
    arguments,
    base,
    closing,
    fences,
    kernels,
    launches,
    lists,
    memory,
    pipelines,
    strided,
    threads,
    timeouts,
)
from sparkle_drv.testing.checks.base import Check, NotProvided

__all__ = ["Check", "NotProvided", "Result", "checks", "judge", "run"]

MODULES = (
    memory, launches, lists, fences, timeouts, pipelines, closing, threads, arguments, strided,
)  # fmt: skip

PASSED, FAILED, NOT_PROVIDED = "passed", "failed", "not provided"


@dataclass(frozen=True)
class Result:
    """How one check ended: "passed", "failed" or "not provided", and the reason unless "passed".

    >>> suite.Result("a check", "passed", "", seconds=0.01).status
    'passed'
    """

    name: str
    status: str
    message: str
    seconds: float

    def __str__(self) -> str:
        why = f": {self.message.strip().splitlines()[-1]}" if self.message else ""
        return f"{self.status:12} {self.name} ({self.seconds:.2f} s){why}"


def checks(covers: Sequence[str] = ()) -> list[Check]:
    """Returns every check, or those whose `covers` is listed ("kernels", "memory",
    "launch", ...).

    >>> {check.covers for check in suite.checks(["launch", "memory"])} == {"launch", "memory"}
    True
    """
    listed = [*kernels.checks(), *base.REGISTERED]
    known = dict.fromkeys(check.covers for check in listed)
    unknown = [name for name in covers if name not in known]
    if unknown:
        raise ValueError(f"covers: expected one of {', '.join(known)}, got {unknown[0]!r}")
    return [check for check in listed if not covers or check.covers in covers]


def judge(check: Check, device: sp.Device) -> None:
    """Runs one check on an open device. Raises what the check raises, NotProvided included, and
    AssertionError if the check leaves the device busy or objects alive.

    >>> for check in suite.checks(["memory"])[:2]:
    ...     suite.judge(check, dev)
    """
    _check_asserts()
    device.default_queue  # noqa: B018  # opened at first use, and then it stays
    before = device.live_counts()
    check.function(device)
    assert device.idle, "the check left work in flight"
    more = _more(device, before)
    if more:
        gc.collect()  # the traceback of an expected error may keep an object alive in a cycle
        more = _more(device, before)
    assert not more, f"objects are left alive: {more}"


def _check_asserts() -> None:
    """Raises if asserts are off. Under `python -O` the interpreter drops assert statements, so that
    every check would pass.
    """
    if not __debug__:
        raise RuntimeError("conformance suite: expected Python without -O, got one without asserts")


def _more(device: sp.Device, before: dict[str, int]) -> dict[str, int]:
    return {k: n - before[k] for k, n in device.live_counts().items() if n > before[k]}


def run(
    device: str | sp.Device,
    covers: Sequence[str] = (),
    seed: int | None = None,
    each: Callable[[Result], object] = lambda result: None,
) -> list[Result]:
    """Runs every check on a device, given by URI (opened and closed here) or open.

    A failed check does not stop the rest. `seed` repeats the random numbers of an earlier run.
    `each` is called with every result as soon as the check has ended. Raises DeviceNotFound if
    there is no such device.

    >>> {result.status for result in suite.run("cpu", covers=["lists"])}
    {'passed'}
    """
    _check_asserts()
    if isinstance(device, str):
        with sp.open(device) as opened:
            return run(opened, covers, seed, each)
    base.fix_seed(seed)
    try:
        results = []
        for check in checks(covers):
            results.append(_run(check, device))
            each(results[-1])
        return results
    finally:
        base.fix_seed(None)


def _run(check: Check, device: sp.Device) -> Result:
    start = time.perf_counter()
    status, message = PASSED, ""
    try:
        judge(check, device)
    except NotProvided as missing:
        status, message = NOT_PROVIDED, str(missing)
    except Exception:
        status, message = FAILED, traceback.format_exc()
    return Result(check.name, status, message, time.perf_counter() - start)
