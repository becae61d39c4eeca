"""The cost of a launch to its caller on an idle queue, in ns by the host's clock. Nothing is
subtracted.

A sample is the time of a loop of calls, divided by the number of launches. The kernels have no work
(noop; saxpy with n = 0), so the time is that of our own code. A check first shows that saxpy
computes correctly when it has work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from _bench.jobs import catalog
from _bench.rows.results import Measured, Row, Subject

from . import engine
from .engine import Settings

if TYPE_CHECKING:
    import sparkle_drv as sp

CALLS = 500
RECORDED = 100


@dataclass(frozen=True)
class Case:
    """One kind of call to measure. `loop` makes many such calls. The time of the loop is divided by
    `launches`: the number of kernels that it launches or, if it only waits, the number of waits.
    """

    name: str
    loop: Callable[[], None]
    launches: int = CALLS


def cases(device: sp.Device, queue: sp.Queue) -> list[Case]:
    """Returns the cases to measure. The loops are written out, because a call through a lambda
    would cost as much as a launch.
    """
    import sparkle_drv as sp

    noop, saxpy = device.kernel("noop"), device.kernel("saxpy_f32")
    y, x = device.buffer(4), device.buffer(4)
    go0 = queue.prepare(noop, groups=1)
    go4 = queue.prepare(saxpy, y, x, 2.0, 0, groups=1)
    launch, submit = queue.launch, queue.submit
    recorded = sp.Commands()
    for _ in range(RECORDED):
        recorded.dispatch(saxpy, y, x, 2.0, 0, groups=1)
    reached = launch(noop, groups=1).wait()
    repeat = [None] * CALLS

    def prepared_0() -> None:
        for _ in repeat:
            go0()

    def prepared_4() -> None:
        for _ in repeat:
            go4()

    def launch_0() -> None:
        for _ in repeat:
            launch(noop, groups=1)

    def launch_4() -> None:
        for _ in repeat:
            launch(saxpy, y, x, 2.0, 0, groups=1)

    def launch_wait_4() -> None:
        for _ in repeat:
            launch(saxpy, y, x, 2.0, 0, groups=1).wait()

    def submit_wait() -> None:
        for _ in range(CALLS // RECORDED):
            submit(recorded).wait()

    def wait() -> None:
        for _ in repeat:
            reached.wait()

    return [
        Case("prepared, 0 arguments", prepared_0),
        Case("prepared, 4 arguments", prepared_4),
        Case("launch, 0 arguments", launch_0),
        Case("launch, 4 arguments", launch_4),
        Case("launch and wait, 4 arguments", launch_wait_4),
        Case(f"submit of {RECORDED} recorded, waited for, each", submit_wait),
        Case("wait for a reached fence", wait),
    ]


def measure(device: sp.Device, manifest: dict[str, Any], settings: Settings) -> Iterator[Row]:
    """Yields a row for each kind of call, or one failed row if saxpy computes a wrong result."""
    point = catalog.expand("saxpy_f32", {"n": "1000"}, device.info)[0]
    checked = engine.run(
        catalog.make("saxpy_f32", point, device.info, manifest, settings.seed),
        device,
        "latency",
        Settings(settings.seed, timeout_s=0.05, least=2),
        None,
    )
    if not checked.verified:
        yield checked
        return
    with device.queue() as queue:
        for case in cases(device, queue):
            name = f"launch: {case.name}"
            subject = Subject(
                name, device.info.uri, device.info.name, device.info.emulated, {}, "latency"
            )
            yield Row(subject, True, engine.NO_ERROR, _sample(case, queue, settings))


def _sample(case: Case, queue: sp.Queue, settings: Settings) -> Measured:
    """Takes the samples of one kind of call. Each sample begins on an idle queue."""
    samples: list[float] = []
    rule, start, stop = settings.rule, time.monotonic(), None
    case.loop()
    while stop is None:
        queue.fence(queue.submitted).wait()
        begun = time.perf_counter_ns()
        case.loop()
        samples.append((time.perf_counter_ns() - begun) / case.launches)
        stop = rule.ask(samples, time.monotonic() - start)
    return Measured([], samples, "host", case.launches, stop)
