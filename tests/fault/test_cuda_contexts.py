"""The current context of a thread, beside other libraries that use CUDA: found as it was left, and
contexts that others destroy or reset. Each in a process of its own on the fake driver.

When this fails, another CUDA library in the process finds a different context after our calls.
"""

from __future__ import annotations

import pytest
from fakecuda import run

OPEN = """
import ctypes
dev = sp.open("cuda:0")
q, k = dev.queue(), dev.kernel("saxpy_f32")
x, y = dev.array(np.ones(256, np.float32)), dev.array(np.zeros(256, np.float32))
cu = ctypes.CDLL(path)
def current():
    now = ctypes.c_void_p()
    assert cu.cuCtxGetCurrent(ctypes.byref(now)) == 0
    return now.value
def become(context): assert cu.cuCtxSetCurrent(ctypes.c_void_p(context)) == 0
def made(call, *args):
    out = ctypes.c_void_p()
    assert getattr(cu, call)(ctypes.byref(out), *args) == 0
    return out.value
def works(): q.launch(k, y, x, 1.0, 256, groups=1).wait()
go = q.prepare(k, y, x, 1.0, 256, groups=1)
host, big = np.zeros(256, np.float32), np.zeros(20 << 20, np.uint8)
room = dev.buffer(big.nbytes)
def graph():
    c = sp.Commands()
    for _ in range(12): c.dispatch(k, y, x, 1.0, 256, groups=1)
    for _ in range(3): q.submit(c).wait()
def shared():
    with dev.buffer(64, sp.Memory.SHARED) as b:
        fd = b.export()
        dev.import_buffer(fd, 64).close()
        os.close(fd)
def exported():
    with dev.buffer(64, exportable=True) as b: os.close(b.export())
def timed():
    with dev.queue(timing=True) as other:
        other.submit(sp.Commands().wait(q.fence(q.submitted)).fill(x, 1)).time_ns
def piped():
    with sp.open("cuda:1") as peer, peer.buffer(1024) as b:
        peer.default_queue.copy_peer(b, x.buffer).wait()
def failing():
    tell("fail cuMemAllocAsync 2 times=2")
    with pytest.raises(sp.OutOfDeviceMemory): dev.buffer(64)
    tell("fail cuModuleLoadDataEx 218")
    with pytest.raises(sp.ImageError): dev.kernel("noop")
    tell("fail cuLaunchKernel 701")
    with pytest.raises(ValueError): works()
uses = dict(
    launch=works, prepared=lambda: q.fence(go()).wait(), graph=graph, timed=timed,
    submit=lambda: q.submit(sp.Commands().fill(x, 1).copy(y, x)).wait(),
    write=lambda: q.write(x, host).wait(), read=lambda: q.read(x, host).wait(),
    large=lambda: (q.write(room, big), q.read(room, big).wait()),
    alloc=lambda: dev.buffer(64).close(), host=lambda: dev.buffer(64, sp.Memory.HOST).close(),
    shared=shared, exported=exported, wrap=lambda: sp.wrap(dev, np.ones(4096)).close(),
    kernel=lambda: dev.kernel("noop").close(), queue=lambda: dev.queue().close(),
    stream=lambda: (q.order_stream(1), q.wait_stream(1)), sensors=dev._backend.sensors,
    owns=lambda: dev._backend.owns(x.buffer.address), again=lambda: sp.open("cuda:0").close(),
    other=lambda: sp.open("cuda:1").close(), peer=piped, failing=failing,
    numpy=y.numpy, discover=sp.discover,
)
"""
THEIRS = {
    "another device's": "made('cuDevicePrimaryCtxRetain', 1)",
    "their own": "made('cuCtxCreate_v2', 0, 0)",
    "the same": "made('cuDevicePrimaryCtxRetain', 0)",
}


@pytest.mark.parametrize("whose", THEIRS)
def test_anothers_current_context_is_current_again_after_every_call(whose):
    run(
        OPEN
        + f"""
theirs = {THEIRS[whose]}
for name, use in uses.items():
    become(theirs)
    use()
    assert current() == theirs, name
    use()
    assert current() == theirs, name
for each in (go, x, y, k, room, q): getattr(each, "close", lambda: None)()
dev.close()
assert current() == theirs
"""
    )


def test_a_thread_that_had_none_keeps_ours_until_the_device_closes():
    """As with the runtime API: the next call finds it, and asks the driver for nothing."""
    run(
        OPEN
        + """
become(None)
works()
ours = current()
assert ours
before = tell("calls cuCtxSetCurrent")
for name, use in uses.items():
    if name not in ("again", "other", "peer"):
        use()
        assert current() == ours, name
        assert tell("calls cuCtxSetCurrent") == before, name
for each in (x, y, k, room, q, dev): each.close()
del go, uses, each, x, y, k, room, q, use, dev  # with the last of them the context goes
import gc; gc.collect()
assert tell("live contexts") == 0
assert current() is None
"""
    )


def test_a_destroyed_context_of_another_library_is_no_concern_of_ours():
    run(
        OPEN
        + """
for name, use in uses.items():
    theirs = made("cuCtxCreate_v2", 0, 0)
    become(theirs)
    assert cu.cuCtxDestroy_v2(ctypes.c_void_p(theirs)) == 0
    use()
works()
"""
    )


@pytest.mark.parametrize("where", ["this thread", "another thread"])
def test_a_thread_whose_context_was_reset_is_told_so_and_a_fresh_open_works(where):
    said = run(OPEN + f"""
import threading
works()
theirs = made("cuDevicePrimaryCtxRetain", 0)
def reset(): assert cu.cuDevicePrimaryCtxReset_v2(0) == 0
if {where!r} == "this thread": reset()
else:
    t = threading.Thread(target=reset); t.start(); t.join()
names = "launch prepared submit write read alloc host queue kernel numpy"
for name in names.split():
    with pytest.raises(sp.DeviceLost) as caught: uses[name]()
    print(caught.value)
for each in (x, y, k, room, q): each.close()
dev.close()
with sp.open("cuda:0") as dev, dev.kernel("saxpy_f32") as k, dev.queue() as q:
    x, y = dev.array(np.ones(256, np.float32)), dev.array(np.zeros(256, np.float32))
    works()
    assert (y.numpy() == 1).all()
""")  # fmt: skip
    words = "another library in this process has reset the device's context"
    assert [line for line in said.splitlines() if words not in line] == []
