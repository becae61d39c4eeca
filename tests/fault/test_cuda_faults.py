"""Work that goes wrong on a cuda device: limits, memory, sticky errors, forks, threads. Each in a
process of its own on the fake driver.

When this fails, one failed kernel makes a process unusable, or its error names nothing.
"""

from __future__ import annotations

import pytest
from fakecuda import run

OPEN = """
dev = sp.open("cuda:0")
k = dev.kernel("saxpy_f32")
x, y = dev.array(np.ones(256, np.float32)), dev.array(np.zeros(256, np.float32))
def works(dev=dev, k=k, x=x, y=y):
    dev.default_queue.launch(k, y, x, 1.0, 256, groups=1).wait()
"""


def test_too_many_threads_and_too_much_shared_memory():
    said = run(OPEN + """
for wrong in (dict(group_size=1025), dict(group_size=257), dict(group_size=(1, 1, 65)),
              dict(shared=1 << 20), dict(shared=232449)):
    if "group_size" in wrong and wrong["group_size"] == (1, 1, 65):
        k = dev.kernel(image=SAXPY.encode(), entry="saxpy_f32", args="f32* f32* f32 u32")
    with pytest.raises(ValueError) as caught:
        dev.default_queue.launch(k, y, x, 1.0, 256, groups=1, **wrong)
    print(caught.value)
assert dev.default_queue.submitted == dev.default_queue.reached
works(k=dev.kernel("saxpy_f32"))
""")  # fmt: skip
    assert "1025" in said
    assert "65 in z; at most 64 are possible" in said
    assert said.count("shared: ") == 2


def test_a_launch_that_finds_no_resources_is_refused_and_the_device_works():
    said = run(OPEN + """
tell("fail cuLaunchKernel 701")
with pytest.raises(ValueError) as caught:
    dev.default_queue.launch(k, y, x, 1.0, 256, groups=1)
print(caught.value)
works()
""")  # fmt: skip
    assert "registers a thread is more than a multiprocessor has room for" in said


STICKY = (
    OPEN
    + """
bystander = dev.queue()
slow = dev.kernel("busy_u32")
f = bystander.launch(slow, dev.buffer(4), 10, groups=1); f.wait()
tell("fault 700 saxpy_f32")
fence = dev.default_queue.{launch}
with pytest.raises(sp.DeviceLost) as caught:
    fence.wait()
print(caught.value)
assert fence.done
for use in (lambda: dev.default_queue.launch(k, y, x, 1.0, 256, groups=1), lambda: dev.buffer(4),
            lambda: bystander.submit(sp.Commands()), dev.queue, lambda: dev.kernel("noop"),
            lambda: y.numpy()):
    with pytest.raises(sp.DeviceLost): use()
f.wait()  # it had ended well before
dev.close()
"""
)


@pytest.mark.parametrize("sticky", ["context", "reset"])
def test_an_illegal_address_loses_the_device_and_names_the_kernel(sticky):
    """Whether or not the reset that ends the error returns it: the device opens again."""
    said = run(STICKY.format(launch="launch(k, y, x, 1.0, 256, groups=1)") + """
with sp.open("cuda:0") as dev:
    k, x = dev.kernel("saxpy_f32"), dev.array(np.ones(256, np.float32))
    y = dev.empty(256, np.float32)
    works(dev, k, x, y)
    assert (np.asarray(y) == 1).all()
""", f"sticky {sticky}")  # fmt: skip
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in said
    assert "while this ran: saxpy_f32" in said


def test_in_a_list_of_commands_too():
    launch = "submit(sp.Commands().fill(x, 0).dispatch(k, y, x, 1.0, 256, groups=1))"
    assert "while this ran: saxpy_f32" in run(STICKY.format(launch=launch))


def test_an_error_that_stays_with_the_process_says_so_at_the_next_open():
    said = run(STICKY.format(launch="launch(k, y, x, 1.0, 256, groups=1)") + """
with pytest.raises(sp.DeviceNotFound) as caught: sp.open("cuda:0")
print(caught.value)
with sp.open("cpu") as cpu: cpu.buffer(4).close()
""", "sticky process")  # fmt: skip
    assert "start a new one" in said


def test_the_memory_of_the_host_is_not_limited_by_that_of_the_gpu():
    said = run(OPEN + """
from sparkle_drv.backends import machine
for memory in sp.Memory.HOST, sp.Memory.SHARED:
    dev.buffer(80 << 20, memory).close()
    before = tell("calls cuMemHostAlloc"), tell("calls cuMemHostRegister_v2")
    with pytest.raises(sp.OutOfDeviceMemory) as caught:
        dev.buffer(machine.memory_nbytes() + 1, memory)
    print(caught.value)
    assert before == (tell("calls cuMemHostAlloc"), tell("calls cuMemHostRegister_v2"))
with pytest.raises(sp.OutOfDeviceMemory, match="the device has"): dev.buffer(80 << 20)
""", "memory 64M")  # fmt: skip
    assert said.count("bytes asked for, the host has ") == 2


def test_memory_that_does_not_fit_leaves_the_device_usable():
    said = run(OPEN + """
kept = [dev.buffer(30 << 20) for _ in range(3)]
for memory in sp.Memory:
    with pytest.raises(sp.OutOfDeviceMemory) as caught: dev.buffer(1 << 50, memory)
with pytest.raises(sp.OutOfDeviceMemory) as caught:
    dev.buffer(30 << 20)
print(caught.value)
works()
for one in kept: one.close()
dev.buffer(90 << 20).close()  # what the pool keeps in pieces is given back for it
works()
""", "memory 100M")  # fmt: skip
    assert "CUDA_ERROR_OUT_OF_MEMORY" in said


def test_page_locked_memory_that_cannot_be_had():
    run(OPEN + """
tell("fail cuMemHostAlloc 2 times=2")
with pytest.raises(sp.OutOfDeviceMemory): dev.buffer(1 << 26, sp.Memory.HOST)
big = dev.buffer(1 << 25)
with pytest.raises(sp.OutOfDeviceMemory): dev.default_queue.write(big, np.zeros(1 << 25, np.uint8))
works()
""")  # fmt: skip


def test_a_transfer_that_fails_tells_so_at_its_fence():
    said = run(OPEN + """
tell("fail cuMemcpyHtoDAsync_v2 1")
fence = dev.default_queue.write(y, np.ones(256, np.float32))
with pytest.raises(sp.KernelFault) as caught: fence.wait()
print(caught.value)
works()
""")  # fmt: skip
    assert "CUDA_ERROR_INVALID_VALUE" in said


def test_a_forked_child_is_told_and_does_not_hang():
    said = run(OPEN + """
works()
pid = os.fork()
if pid == 0:
    status = 1
    try:
        for use in (works, dev.queue, lambda: dev.buffer(4), lambda: dev.kernel("noop")):
            with pytest.raises(sp.DeviceLost, match="forked"): use()
        with pytest.raises(sp.DeviceNotFound, match="forked"): sp.open("cuda:1")
        (found,) = (f for f in sp.discover() if f.backend == "cuda")
        assert "forked" in found.reason
        status = 0
    finally:
        os._exit(status)
assert os.waitpid(pid, 0)[1] == 0
works()
print("fine")
""")  # fmt: skip
    assert said == "fine\n"


def test_two_threads_and_two_devices():
    """Each thread goes back and forth between the devices: the current context follows."""
    run("""
import threading
devs = [sp.open(f"cuda:{i}") for i in (0, 1)]
fills = [d.kernel("fill_f32") for d in devs]
wrong = []
def work(me):
    try:
        queues = [d.queue() for d in devs]
        outs = [d.empty(256, np.float32) for d in devs]
        for i in range(50):
            for q, k, y in zip(queues, fills, outs):
                q.launch(k, y, float(me * 100 + i), 256, groups=1)
        for y, q in zip(outs, queues):
            q.fence(q.submitted).wait()
            assert (np.asarray(y) == me * 100 + 49).all()
    except BaseException as error:
        wrong.append(error)
threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
[t.start() for t in threads]; [t.join() for t in threads]
assert not wrong, wrong
""")


def test_another_library_makes_its_own_context_current():
    """As torch does with its device: a launch notices, and goes on."""
    run(OPEN + """
import ctypes
cuda = ctypes.CDLL(os.environ["SPARKLE_LIBCUDA"])
other = sp.open("cuda:1")
def steal(): cuda.cuCtxSetCurrent(ctypes.c_void_p(context))
from sparkle_drv._native import ffi, lib
foreign = lib.sp_cuda_context(other._backend._native.device)
for context in (None, int(ffi.cast("uintptr_t", foreign))):
    go = dev.default_queue.prepare(k, y, x, 1.0, 256, groups=1)
    fill = sp.Commands().fill(x, 0)
    for use in (works, lambda: dev.default_queue.fence(go()).wait(), lambda: dev.buffer(64).close(),
                lambda: dev.queue().close(), lambda: dev.default_queue.submit(fill).wait(),
                lambda: y.numpy(), lambda: dev.kernel("noop").close()):
        steal()
        use()
""")  # fmt: skip


@pytest.mark.parametrize("launch", ["q.launch(k, y, x, 1.0, 256, groups=1)", "go()"])
def test_a_launch_that_waits_in_the_driver_keeps_nobody_from_running_python(launch):
    """The driver's ring is full, and empties when somebody's host function has run: in Python."""
    run(OPEN + f"""
import ctypes, threading, time
cuda = ctypes.CDLL(path)
works()  # from now on this thread has the device's context
q, ended = dev.queue(), threading.Event()
go = q.prepare(k, y, x, 1.0, 256, groups=1)
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def function(_):
    seen = 0
    while q.submitted == 0 or q.submitted != seen:  # the other thread still gets launches through
        seen = q.submitted
        time.sleep(0.05)
    ended.set()
assert cuda.cuLaunchHostFunc(ctypes.c_void_p(q.stream), function, None) == 0
while not ended.is_set():
    {launch}
q.fence(q.submitted).wait()
""")  # fmt: skip


def test_a_kernel_that_never_ends_is_waited_for_no_longer_than_asked():
    said = run(OPEN + """
q = dev.queue()
tell("endless saxpy_f32")
first = q.launch(k, y, x, 1.5, 256, groups=1)
second = q.submit(sp.Commands().fill(y, 0))
for fence in (first, second):
    with pytest.raises(sp.FenceTimeout) as caught: fence.wait(0.05)
    print(caught.value)
with pytest.raises(sp.FenceTimeout): q.close(0.05)
tell("release")
q.close()
works()
""")  # fmt: skip
    assert "saxpy_f32(y=" in said
    assert "a=1.5" in said
    assert "fill 1024 bytes" in said


def test_every_result_after_which_the_driver_wants_a_new_start_loses_the_device():
    """cuda.h 13.0: "the process must be terminated", or the context is of no use any more."""
    run("""
for code in (214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911):
    with sp.open("cuda:0") as dev:
        k, x = dev.kernel("saxpy_f32"), dev.array(np.ones(256, np.float32))
        tell(f"fault {code} saxpy_f32")
        with pytest.raises(sp.DeviceLost): dev.default_queue.launch(k, x, x, 1.0, 256).wait()
        with pytest.raises(sp.DeviceLost): dev.buffer(4)
""")


def test_what_a_reset_has_ended_is_not_named_to_the_driver_again():
    """A lost device, with all that belongs to it, is open when the next open resets the context."""
    said = run(OPEN + """
q, timed = dev.queue(), dev.queue(timing=True)
for _ in range(3):
    c = sp.Commands()
    for _ in range(16): c.dispatch(k, y, x, 1.0, 256, groups=1)
    q.submit(c).wait()
assert dev._backend.counters()["graph_builds"] == 1
big, host = dev.buffer(1 << 20), dev.buffer(4096, sp.Memory.HOST)
q.write(big, np.zeros(1 << 20, np.uint8)).wait()
timed.submit(sp.Commands().fill(big, 1)).wait()
bystander = sp.open("cuda:0")  # has not noticed
kept = bystander.buffer(4)
tell("fault 700 saxpy_f32")
with pytest.raises(sp.DeviceLost): works()
new = sp.open("cuda:0")
ends = ("cuStreamDestroy_v2", "cuEventDestroy_v2", "cuGraphExecDestroy", "cuGraphDestroy",
        "cuModuleUnload", "cuMemFreeAsync", "cuMemFreeHost", "cuMemHostUnregister", "cuEventQuery",
        "cuStreamQuery", "cuEventRecord")
before = [tell("calls " + name) for name in ends]
for use in (lambda: bystander.buffer(4), bystander.queue, lambda: bystander.kernel("noop"),
            lambda: bystander.default_queue.submit(sp.Commands().fill(kept, 1))):
    with pytest.raises(sp.DeviceLost) as caught: use()
    print(caught.value)
bystander.close()
dev.close()
assert [tell("calls " + name) for name in ends] == before
k, x = new.kernel("saxpy_f32"), new.array(np.ones(256, np.float32))
works(new, k, x, x)
assert x.numpy()[0] == 2
new.close()
""")  # fmt: skip
    assert said.count("the context was reset") == 4


def test_a_driver_that_is_never_ready_for_memory_does_not_hang_the_caller():
    """CUDA_ERROR_NOT_READY is an answer to questions; core tries again whatever says -EAGAIN."""
    said = run(OPEN + """
tell("fail cuMemHostAlloc 600 times=-1")
with pytest.raises(sp.SparkleError) as caught:
    dev.default_queue.write(dev.buffer(1 << 16), np.zeros(1 << 16, np.uint8))
print(caught.value)
tell("reset")
works()
""")  # fmt: skip
    assert "write" in said


OTHER = """
import ctypes
cu, theirs, ours = ctypes.CDLL(path), ctypes.c_void_p(), ctypes.c_void_p()
cu.cuCtxGetCurrent(ctypes.byref(ours))
assert cu.cuDevicePrimaryCtxRetain(ctypes.byref(theirs), 1) == 0
"""


def test_events_are_made_in_the_queues_context_whatever_another_library_made_current():
    run(OPEN + OTHER + """
q = dev.default_queue
tell("endless saxpy_f32")
fence = q.launch(k, y, x, 1.0, 256)
cu.cuCtxSetCurrent(theirs)
for _ in range(3):
    assert not fence.done  # asked, and marked with an event
tell("release")
fence.wait()
for _ in range(20): q.submit(sp.Commands().fill(x, 1)).wait()
assert (y.numpy() == 1).all()
""")  # fmt: skip


def test_a_transfer_that_fails_halfway_gives_its_scratch_memory_back_behind_the_copy():
    run(OPEN + """
data, b = np.ones(1 << 17, np.float32), dev.buffer(1 << 19)
q = dev.default_queue
q.write(b, data).wait()  # its streams and events are there
tell("time h2d 0.01")
tell("fail cuEventRecord 999")
with pytest.raises(sp.SparkleError) as caught: q.write(b, data).wait()
assert not isinstance(caught.value, sp.DeviceLost), caught.value
tell("reset")
import time; time.sleep(0.2)
q.write(b, data).wait()
works()
""")  # fmt: skip


def test_a_closed_device_leaves_none_of_its_memory_in_the_drivers_pool():
    run(OPEN + OTHER + """
assert cu.cuDevicePrimaryCtxRetain(ctypes.byref(theirs), 0) == 0  # the context stays
free, total = ctypes.c_size_t(), ctypes.c_size_t()
cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
before = free.value
dev.buffer(100 << 20).close()
dev.close()
assert cu.cuCtxSetCurrent(theirs) == 0
assert cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
assert free.value >= before, (before, free.value)
""", "memory 1G")  # fmt: skip


def test_staging_memory_of_a_copy_without_an_end_is_not_used_again():
    """The list of free page-locked memory is in that memory: the copy would write over it."""
    run(OPEN + """
out = np.zeros(256, np.float32)
dev.default_queue.read(x, out).wait()
tell("time d2h 0.00001")
tell("fail cuEventRecord 2")
with pytest.raises(sp.SparkleError): dev.default_queue.read(x, out)
import time; time.sleep(0.3)
tell("reset")
dev.default_queue.read(x, out).wait()
assert (out == 1).all()
dev.close()
""")  # fmt: skip


def test_a_driver_that_cannot_say_how_far_it_is_loses_the_device():
    said = run(OPEN + """
k = dev.kernel("saxpy_f32")
tell("fail cuStreamQuery 999 times=-1")
with pytest.raises(sp.DeviceLost) as caught:
    dev.default_queue.launch(k, y, x, 1.0, 256, groups=1).wait(20)
print(caught.value)
""")  # fmt: skip
    assert "cuStreamQuery keeps returning error 999" in said


def test_a_device_whose_context_another_library_has_reset_is_lost():
    said = run(OPEN + OTHER + """
cu.cuCtxSetCurrent(theirs)
assert cu.cuDevicePrimaryCtxReset_v2(0) == 0
for use in (lambda: dev.buffer(400), dev.queue, lambda: dev.kernel("noop"), works):
    with pytest.raises(sp.DeviceLost) as caught: use()
    print(caught.value)
for each in x, y, k: each.close()
dev.close()
with sp.open("cuda:0") as new:
    x, y = new.array(np.ones(256, np.float32)), new.array(np.zeros(256, np.float32))
    works(new, new.kernel("saxpy_f32"), x, y)
    assert (y.numpy() == 1).all()
""")  # fmt: skip
    assert said.count("another library in this process has reset the device's context") >= 3


def test_a_device_that_closes_during_a_call_of_another_thread_lives_until_its_end():
    run("""
import gc, threading, time
dev = sp.open("cuda:0")
tell("reset")
tell("delay cuCtxGetCurrent 300000")
def use():
    try: dev.buffer(64).close()
    except sp.SparkleError: pass
thread = threading.Thread(target=use)
thread.start()
while not tell("calls cuCtxGetCurrent"): time.sleep(0.001)
dev.close()
assert tell("live contexts") == 1
thread.join(20)
gc.collect()
assert tell("live contexts") == 0
""")
