"""A `with` block that ends while a kernel runs: its own exception surfaces, and Ctrl-C ends it
soon.

When this fails, the exception of a `with` block is replaced by a timeout of its end.
"""

import signal
import time

import forked
import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.errors import leave


@pytest.fixture
def stuck(userlib, monkeypatch):
    """What is left, by name, while a kernel runs; `close` waits 0.05 s instead of 30 s."""
    flag = np.zeros(16, np.uint32)
    context = sp.init(devices=["cpu"], profile=False)
    (device,) = context.devices
    spin = device.kernel(image=userlib.spin(), entry="spin", args="u32* flag")
    pipeline = device.pipeline(2)
    pipeline.submit(pipeline.acquire(), sp.Commands().dispatch(spin, device.wrap(flag), groups=1))
    left = {"pipeline": pipeline, "queue": pipeline.queue, "device": device, "context": context}
    for each in left.values():
        monkeypatch.setattr(type(each).close, "__defaults__", (0.05,))
    yield left
    flag[0] = 1
    monkeypatch.undo()
    for each in left.values():
        each.close()


LEFT = ("pipeline", "queue", "device", "context")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, KeyError) for name in LEFT),
        *(("device", kind) for kind in (sp.FenceTimeout, KeyboardInterrupt, SystemExit)),
    ],
)
def test_the_exception_of_the_body_is_the_one_that_is_told(stuck, name, kind, caplog):
    own = kind("the caller's")
    with pytest.raises(kind) as caught, stuck[name]:
        raise own
    assert caught.value is own
    told = [*getattr(own, "__notes__", ()), *caplog.messages]
    assert any("closing failed: FenceTimeout" in text for text in told)


@pytest.mark.parametrize("name", LEFT)
def test_without_one_leaving_tells_that_something_still_runs(stuck, name):
    with pytest.raises(sp.FenceTimeout), stuck[name]:
        pass


def test_a_drain_tells_of_the_submission_that_it_waited_for(stuck):
    pipeline = stuck["pipeline"]
    pipeline.submit(pipeline.acquire(), sp.Commands())  # no time is left for this one
    with pytest.raises(sp.FenceTimeout, match="value 1 was not reached"):
        pipeline.drain(0.05)


def test_a_generator_that_ends_tells_that_something_still_runs(stuck):
    def through():
        with stuck["queue"]:
            yield

    run = through()
    next(run)
    with pytest.raises(sp.FenceTimeout):
        run.close()


def test_only_an_interrupt_has_another_wait():
    def ended_by(error):
        asked = []
        leave(lambda *given: asked.append(given), error, 1)
        return asked

    for error in (None, ValueError(), SystemExit(), GeneratorExit()):
        assert ended_by(error) == [()]
    for error in (KeyboardInterrupt(), BaseException()):
        assert ended_by(error) == [(1,)]


PIPELINE = """
import sys
import sparkle_drv as sp
import sparkle_drv.testing
from sparkle_drv.testing.checks.base import Busy, busy_speed
dev = sp.open(sys.argv[1])
busy_speed(dev, 1e9)  # unmeasured: no device here takes that many steps in a second
fence = None
try:
    with dev, Busy(dev) as busy, dev.pipeline(2) as pipe:
        work = busy.commands(60)
        print("waiting", flush=True)
        while True:
            fence = pipe.submit(pipe.acquire(), work)
except KeyboardInterrupt:
    print("interrupted", fence.done, flush=True)
"""
URIS = ["cpu", "egl:0", "emu:gfx1036"]


@pytest.fixture(scope="module")
def interrupted():
    """A process with a busy pipeline for each URI, after its first Ctrl-C. All at once: they mostly
    wait. Without its device a process ends before."""
    started = {uri: forked.start(PIPELINE, uri) for uri in URIS}
    begun = [process.line() for process in started.values()]
    time.sleep(0.2)  # by then each waits for a slot
    for process, word in zip(started.values(), begun, strict=True):
        if word == "waiting\n":
            process.send_signal(signal.SIGINT)
    yield started
    for process in started.values():
        process.close()


@pytest.mark.parametrize("uri", URIS)
def test_the_first_ctrl_c_ends_a_pipeline(uri, opened, interrupted):
    opened(uri)  # skips where there is none
    process = interrupted[uri]
    out, err = process.communicate(timeout=50)
    assert (out, err, process.returncode) == ("interrupted False\n", "", 0)
