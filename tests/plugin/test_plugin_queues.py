"""What sparkle_drv.plugin gives backends in Python: timelines over work that ends when told to.

When this fails, plug-ins in Python lose work or report it done too early.
"""

import errno
import os
import threading
import time

import pytest

from sparkle_drv import plugin
from sparkle_drv.core.abi import records
from sparkle_drv.core.abi.signature import Signature, parse_args
from sparkle_drv.types import DeviceInfo, Resources

INFO = DeviceInfo(
    "fake:0", "fake", "Fake", "other", max_group_size=64, max_groups=(100, 100, 100),
    max_shared_nbytes=128,
)  # fmt: skip
MS = 1_000_000


class Work:
    """Ends as `end` says; None: it runs."""

    def __init__(self, commands, awaited):
        self.commands, self.awaited = commands, awaited
        self.end = None
        self.asked = 0

    def ended(self):
        self.asked += 1
        return self.end

    def running(self):
        return 0, 0.5

    def times(self):
        return (10, 30)

    def words(self):
        return "the fake's reason"


class Rig:
    def __init__(self, depth=1024):
        self.kernels = plugin.Kernels(INFO)
        self.started = []
        self.refuse = None
        self.queues = plugin.Queues(self.kernels, self.start, depth=depth)
        self.queue = self.queues.open("own", True)

    def start(self, own, commands, awaited):
        assert own == "own"
        if self.refuse:
            raise self.refuse
        self.started.append(Work(commands, awaited))
        return self.started[-1]

    def kernel(self, args="f32* u32"):
        signature = Signature(parse_args(args))
        types = tuple(arg.type for arg in signature.args)
        spec = plugin.KernelSpec("k", "k", signature.native, args=types)
        return self.kernels.add(spec, Resources(32), "mine"), signature

    def submit(self, data=b"", epoch=plugin.ANY_EPOCH):
        return self.queues.launch(self.queue, data, len(data), epoch)


@pytest.fixture
def rig():
    return Rig()


def dispatch(entry, signature, groups=(1, 1, 1), size=(8, 1, 1), shared=0, values=(4096, 7)):
    head = records.DISPATCH_HEAD.pack(
        records.DISPATCH, signature.record_nbytes, entry.pointer, *groups, *size, shared,
        signature.args_nbytes,
    )  # fmt: skip
    covers = (1 << 20).to_bytes(8, "little") * signature.npointers
    args = signature.args_struct.pack(*values)
    return head + args + covers


def test_records_become_data(rig):
    entry, signature = rig.kernel()
    listed = [
        dispatch(entry, signature), records.copy(1, 2, 3), records.fill(8, 16, 0xBEEF, 2),
        records.barrier(), records.wait(5, 6), records.timestamp(7),
    ]  # fmt: skip
    found = plugin.decode(b"".join(listed))
    assert [at for at, _ in found] == [sum(map(len, listed[:i])) for i in range(6)]
    first = found[0][1]
    assert (first.kernel, first.groups, first.group_size) == (entry.pointer, (1, 1, 1), (8, 1, 1))
    assert entry.values(first) == (4096, 7)
    assert [command for _, command in found[1:]] == [
        plugin.Copy(1, 2, 3), plugin.Fill(8, 16, b"\xef\xbe"), plugin.Barrier(),
        plugin.Wait(5, 6), plugin.Timestamp(7),
    ]  # fmt: skip


@pytest.mark.parametrize("data", [b"x", records.barrier() + b"1234", records.HEAD.pack(99, 8)])
def test_what_is_no_record_is_refused(rig, data):
    with pytest.raises(ValueError, match="records"):
        plugin.decode(data)
    assert rig.submit(data) == -errno.EINVAL
    assert not rig.started


@pytest.mark.parametrize(
    "wrong",
    [
        {"groups": (101, 1, 1)}, {"size": (33, 1, 1)}, {"size": (0, 1, 1)}, {"shared": 129},
        {"size": (4, 4, 4)},
    ],
)  # fmt: skip
def test_shapes_beyond_the_limits_are_refused(rig, wrong):
    record = dispatch(*rig.kernel(), **wrong)
    assert rig.queues.check(record, len(record)) == -errno.EINVAL
    assert rig.submit(record) == -errno.EINVAL
    assert not rig.started


def test_a_kernel_that_was_unloaded_is_refused(rig):
    entry, signature = rig.kernel()
    record = dispatch(entry, signature)
    assert rig.submit(record) == 1
    rig.kernels.remove(entry)
    rig.kernels.remove(entry)
    assert rig.submit(record) == -errno.EINVAL
    assert len(rig.kernels) == 0


def test_a_null_pointer_is_refused(rig):
    assert rig.submit(dispatch(*rig.kernel(), values=(0, 7))) == -errno.EFAULT


def test_values_are_reached_in_order(rig):
    assert [rig.submit() for _ in range(3)] == [1, 2, 3]
    rig.started[1].end = 0
    assert rig.queues.reached(rig.queue) == 0
    rig.started[0].end = 0
    assert rig.queues.reached(rig.queue) == 2
    assert rig.queues.wait(rig.queue, 2, 0) == 0
    assert rig.queues.wait(rig.queue, 3, MS) == -errno.ETIMEDOUT
    assert rig.queues.wait(rig.queue, 4, MS) == -errno.EINVAL
    assert rig.queues.times(rig.queue, 2) == (10, 30)
    assert rig.queues.times(rig.queue, 3) is None
    rig.started[2].end = 0
    assert rig.queues.idle(rig.queue)


def test_a_wait_ends_when_the_work_does(rig):
    rig.submit()
    threading.Timer(0.05, lambda: setattr(rig.started[0], "end", 0)).start()
    begin = time.monotonic()
    assert rig.queues.wait(rig.queue, 1, 10_000 * MS) == 0
    assert time.monotonic() - begin < 5
    assert rig.started[0].asked < 2000  # it naps between its looks


def test_who_was_told_of_a_failure(rig):
    for _ in range(4):
        rig.submit()
    for work, end in zip(rig.started, (0, -errno.EIO, 0, 0), strict=True):
        work.end = end
    queues, queue = rig.queues, rig.queue
    assert queues.reached(queue) == 4
    assert queues.wait(queue, 1, 0) == 0
    assert queues.failure(queue, 3) == -errno.EIO  # nobody was told yet; nor is by this
    assert queues.wait(queue, 3, 0) == -errno.EIO
    assert queues.fault(queue, 3) == "the fake's reason"
    assert queues.wait(queue, 4, 0) == -errno.EIO  # was submitted before anybody knew
    rig.submit()
    rig.started[4].end = 0
    assert queues.wait(queue, 5, 0) == 0
    assert queues.wait(queue, 2, 0) == -errno.EIO  # its own, for ever


def test_a_full_queue_says_so_and_goes_on(monkeypatch):
    rig = Rig(depth=3)
    assert [rig.submit() for _ in range(3)] == [1, 2, 3]
    begin = time.monotonic()
    assert rig.submit() == -errno.EAGAIN
    assert time.monotonic() - begin >= 0.09
    rig.started[0].end = 0
    assert rig.submit() == 4


def test_stale_work_is_refused_and_counted(rig):
    entry, signature = rig.kernel()
    record = dispatch(entry, signature)
    before = rig.queues.epoch()
    prepared = rig.queues.prepare(rig.queue, record, before)
    assert rig.queues.run(prepared) == 1
    assert rig.queues.advance() == rig.queues.epoch() != before
    assert rig.queues.run(prepared) == -errno.ESTALE
    assert rig.submit(record, before) == -errno.ESTALE
    assert rig.queues.prepare(rig.queue, record, before) == -errno.ESTALE
    assert rig.queues.settled(rig.queue) == 1


def test_a_finalizer_in_the_middle_of_a_submission_asks_without_waiting(rig):
    """Garbage goes anywhere; memory that goes with it asks each queue what it has been given."""
    asked = []
    real = rig.start

    def start(own, commands, awaited):
        asked.append(rig.queues.settled(rig.queue))
        return real(own, commands, awaited)

    rig.queues._start = start
    rig.submit()
    assert asked == [-errno.EAGAIN]
    assert rig.queues.settled(rig.queue) == 1


def test_two_threads_whose_garbage_goes_while_both_submit(rig):
    """Each asks for the queue of the other."""
    here = threading.Barrier(2, timeout=30)
    queues = [rig.queue, rig.queues.open("own", True)]
    asked = []

    def start(own, commands, awaited):
        here.wait()
        asked.extend(map(rig.queues.settled, queues))
        here.wait()
        return Work(commands, awaited)

    rig.queues._start = start
    threads = [
        threading.Thread(target=rig.queues.launch, args=(q, b"", 0, plugin.ANY_EPOCH), daemon=True)
        for q in queues
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert asked == [-errno.EAGAIN] * 4
    assert [rig.queues.settled(q) for q in queues] == [1, 1]


def test_waits_name_the_work_of_the_other_queue(rig):
    other = rig.queues.open("own", False)
    assert rig.submit() == 1
    record = records.wait(rig.queues.queue_pointer(rig.queue), 1)
    assert rig.queues.launch(other, record, len(record), plugin.ANY_EPOCH) == 1
    assert rig.started[1].awaited == [rig.started[0]]
    rig.started[0].end = 0
    assert rig.queues.launch(other, record, len(record), plugin.ANY_EPOCH) == 2
    assert rig.started[2].awaited == []  # it has ended


def test_what_the_device_refuses(rig):
    rig.refuse = plugin.Failed(errno.ENOMEM, "no room")
    assert rig.submit() == -errno.ENOMEM
    assert rig.queues.said() == "no room"
    rig.refuse = None
    assert rig.submit() == 1
    assert rig.queues.said() == ""


@pytest.mark.parametrize("at_start", [True, False])
def test_a_lost_device_loses_all_that_is_in_flight(rig, at_start):
    assert [rig.submit(), rig.submit()] == [1, 2]
    if at_start:
        rig.refuse = plugin.Failed(errno.ENODEV, "the fake's reason")
        assert rig.submit() == -errno.ENODEV
    else:
        rig.started[0].end = -errno.ENODEV
    assert rig.queues.wait(rig.queue, 2, 1000 * MS) == -errno.ENODEV
    assert rig.submit() == -errno.ENODEV
    assert rig.queues.lost() == "the fake's reason"


def test_a_closing_queue_waits_and_takes_no_more(rig):
    rig.submit()
    assert rig.queues.close_queue(rig.queue, MS) == -errno.ETIMEDOUT
    assert rig.submit() == -errno.ESHUTDOWN
    rig.started[0].end = 0
    assert rig.queues.close_queue(rig.queue, MS) == 0


def test_a_closed_device_finishes_what_it_has(rig):
    rig.submit()
    rig.queues.close()
    assert rig.submit() == -errno.ESHUTDOWN
    rig.started[0].end = 0
    assert rig.queues.reached(rig.queue) == 1


def test_descriptions(rig):
    record = records.fill(64, 8, 1, 4) + records.barrier()
    rig.submit(record)
    rig.submit(record)
    first, second = (rig.queues.describe(rig.queue, value) for value in (1, 2))
    assert (first.records, first.running_at, first.running_s) == (record, 0, 0.5)
    assert second.running_at == len(record)  # not begun: the first is not done
    for work in rig.started:
        work.end = 0
    assert rig.queues.describe(rig.queue, 1) is None


def test_a_forked_child_is_told_and_its_driver_left_alone(rig, monkeypatch):
    rig.submit()
    asked = rig.started[0].asked
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    queues, queue = rig.queues, rig.queue
    assert queues.forked
    assert rig.submit() == -errno.ECHILD
    assert queues.wait(queue, 1, MS) == -errno.ECHILD
    assert queues.close_queue(queue, MS) == -errno.ECHILD
    assert queues.failure(queue, 1) == -errno.ECHILD
    assert (queues.reached(queue), queues.settled(queue)) == (0, 1)
    assert queues.describe(queue, 1) is None
    assert rig.started[0].asked == asked


class News:
    """Wakes who waits when a test says so; counts how often somebody waited."""

    def __init__(self):
        self.changed = threading.Condition()
        self.count = self.waits = 0

    def mark(self):
        return self.count

    def wait(self, own, mark, seconds):
        assert own == "own"
        with self.changed:
            self.waits += 1
            self.changed.wait_for(lambda: self.count != mark, seconds)

    def tell(self):
        with self.changed:
            self.count += 1
            self.changed.notify_all()


@pytest.fixture
def told():
    rig, news = Rig(), News()
    rig.queues = plugin.Queues(rig.kernels, rig.start, news=news)
    rig.queue = rig.queues.open("own", False)
    return rig, news


def test_news_ends_a_wait(told):
    rig, news = told
    value = rig.submit()

    def end():
        rig.started[0].end = 0
        news.tell()

    timer = threading.Timer(0.05, end)
    timer.start()
    assert rig.queues.wait(rig.queue, value, 5000 * MS) == 0
    timer.join()
    assert news.waits <= 2, "it looked again and again"


def test_news_between_the_look_and_the_wait_is_not_missed(told):
    rig, news = told
    value = rig.submit()
    work = rig.started[0]
    asked = work.ended

    def ended():
        found = asked()
        if work.asked == 1:  # right behind the look that finds it running
            work.end = 0
            news.tell()
        return found

    work.ended = ended
    start = time.monotonic()
    assert rig.queues.wait(rig.queue, value, 5000 * MS) == 0
    assert time.monotonic() - start < 2


def test_a_wait_without_news_times_out(told):
    rig, news = told
    value = rig.submit()
    assert rig.queues.wait(rig.queue, value, 20 * MS) == -errno.ETIMEDOUT
    assert news.waits == 1
    rig.started[0].end = 0
    assert rig.queues.wait(rig.queue, value, 0) == 0


def test_who_waits_while_another_looks_is_not_left_waiting(told):
    rig, news = told
    value = rig.submit()
    rig.started[0].end = 0
    with rig.queue.looking:
        assert rig.queues.wait(rig.queue, value, 20 * MS) == -errno.ETIMEDOUT
        assert news.waits == 0, "it waits for news that may have come already"
    assert rig.queues.wait(rig.queue, value, 20 * MS) == 0


def test_what_is_prepared_is_decoded_and_checked_once(rig, monkeypatch):
    entry, signature = rig.kernel()
    checks = []
    check = rig.kernels.check
    monkeypatch.setattr(rig.kernels, "check", lambda d: checks.append(d) or check(d))
    record = dispatch(entry, signature)
    prepared = rig.queues.prepare(rig.queue, record, plugin.ANY_EPOCH)
    assert [rig.queues.run(prepared) for _ in range(3)] == [1, 2, 3]
    assert len(checks) == 1
    first, second, third = (work.commands for work in rig.started)
    assert first is second is third, "a backend cannot keep anything with it"
    assert (first.prepared, first.data, first.offsets) == (True, record, [0])
    rig.submit(record)
    assert not rig.started[-1].commands.prepared


def test_what_was_prepared_before_a_close_is_stale(rig):
    entry, signature = rig.kernel()
    prepared = rig.queues.prepare(rig.queue, dispatch(entry, signature), rig.queues.epoch())
    rig.queues.advance()
    assert rig.queues.run(prepared) == -errno.ESTALE


def test_work_that_is_no_record(rig):
    work = Work([], [])
    assert rig.queues.give(rig.queue, lambda own: work) == 1
    assert rig.queues.describe(rig.queue, 1).records == b""
    work.end = -errno.EIO
    assert rig.queues.wait(rig.queue, 1, 0) == -errno.EIO
    assert rig.queues.fault(rig.queue, 1) == "the fake's reason"

    def refused(own):
        raise plugin.Failed(errno.EAGAIN, "full")

    assert rig.queues.give(rig.queue, refused) == -errno.EAGAIN
    assert rig.queues.said() == "full"
    assert rig.queues.queues() == [rig.queue]


def test_a_kernel_may_bring_its_number(rig):
    entry, _ = rig.kernel()
    spec = entry.spec
    assert rig.kernels.add(spec, Resources(32), "mine", 77).pointer == 77
    assert rig.kernels.find(77).own == "mine"
