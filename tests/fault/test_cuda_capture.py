"""Another library captures a stream into a graph while the device works: the capture stays valid,
and the device stays usable. Each in a process of its own on the fake driver.

When this fails, torch's graph capture is broken by this package in the same process.
"""

from __future__ import annotations

import pytest
from fakecuda import run
from test_cuda_contexts import OPEN

CAPTURE = (
    OPEN
    + """
import threading
theirs = made("cuDevicePrimaryCtxRetain", 0)
GLOBAL, THREAD_LOCAL, RELAXED = range(3)
def exchanged(mode):
    now = ctypes.c_int(mode)
    assert cu.cuThreadExchangeStreamCaptureMode(ctypes.byref(now)) == 0
    return now.value
class Capture:
    "As torch.cuda.graph does, in this thread or in another one."
    def __init__(self, mode=GLOBAL): self.mode = mode
    def begin(self):
        become(theirs)
        self.stream = ctypes.c_void_p(made("cuStreamCreate", 1))
        assert cu.cuStreamBeginCapture_v2(self.stream, self.mode) == 0
    def end(self):
        graph = ctypes.c_void_p()
        self.result = cu.cuStreamEndCapture(self.stream, ctypes.byref(graph))
        cu.cuStreamDestroy_v2(self.stream)
class Elsewhere(Capture):
    def begin(self):
        self.begun, self.over = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()
        assert self.begun.wait(20)
    def work(self):
        super().begin()
        self.begun.set()
        assert self.over.wait(20)
        super().end()
    def end(self):
        self.over.set()
        self.thread.join(20)
"""
)


@pytest.mark.parametrize("where", ["Capture()", "Capture(THREAD_LOCAL)", "Elsewhere()"])
def test_nothing_that_a_device_does_invalidates_a_capture(where):
    run(
        CAPTURE
        + f"""
del uses["failing"]
for name, use in uses.items():
    for mode in GLOBAL, THREAD_LOCAL, RELAXED:
        assert exchanged(mode) == GLOBAL
        capture = {where}
        capture.begin()
        use()
        capture.end()
        assert capture.result == 0, (name, mode, capture.result)
        assert exchanged(GLOBAL) == mode, (name, mode)
capture = {where}
capture.begin()
for each in (go, x, y, k, room, q): getattr(each, "close", lambda: None)()
dev.close()
capture.end()
assert capture.result == 0
assert exchanged(GLOBAL) == GLOBAL
"""
    )


def test_a_driver_without_modes_says_that_it_is_not_ready_until_the_capture_ends():
    run(
        CAPTURE
        + """
works()
capture = Elsewhere()
capture.begin()
fences = [q.launch(k, y, x, 1.0, 256, groups=1), q.submit(sp.Commands().fill(x, 1))]
for fence in fences:
    with pytest.raises(sp.FenceTimeout): fence.wait(0.05)
    assert not fence.done
capture.end()
for fence in fences: fence.wait(20)
works()
""",
        FAKE_CUDA_MISSING="cuThreadExchangeStreamCaptureMode",
    )


def test_an_answer_about_a_capture_is_no_failure():
    """For longer than errors are borne."""
    run(
        OPEN
        + """
fences = [q.launch(k, y, x, 1.0, 256, groups=1), q.submit(sp.Commands().fill(x, 1))]
for code in range(900, 908):
    tell(f"fail cuStreamQuery {code} times=-1")
    tell(f"fail cuEventQuery {code} times=-1")
    for fence in fences:
        with pytest.raises(sp.FenceTimeout): fence.wait(0.08)
tell("reset")
for fence in fences: fence.wait(20)
"""
    )


def test_errors_that_pass_within_a_moment_lose_nothing():
    run(
        OPEN
        + """
tell("fail cuStreamQuery 999 times=400")
works()
tell("fail cuEventQuery 999 times=400")
q.submit(sp.Commands().fill(x, 1)).wait()
"""
    )


def test_opening_a_lost_device_again_leaves_captures_on_others_alone():
    run(
        CAPTURE
        + """
theirs = made("cuDevicePrimaryCtxRetain", 1)
tell("fault 719")
with pytest.raises(sp.DeviceLost): works()
for capture in Capture(), Elsewhere():
    capture.begin()
    with sp.open("cuda:0"): pass
    capture.end()
    assert capture.result == 0, capture.result
assert exchanged(GLOBAL) == GLOBAL
"""
    )
