"""The retire list, against a made-up backend whose queues advance when the test says so.

When this fails, memory is freed while a kernel still uses it.
"""

import contextlib
import errno
import gc
import random
import threading
import time
import weakref

import pytest

from sparkle_drv.core.retire import SPACED, RetireList


class Backend:
    """Queues are names; `given` is what was submitted to each, `at` how far it is."""

    def __init__(self, **given):
        self.given = dict(given)
        self.at = dict.fromkeys(given, 0)

    def submitted(self, queue):
        return self.given[queue]

    settled = submitted

    def reached(self, queue):
        return self.at[queue]

    def close(self):
        self.closed = True

    def close_queue(self, queue, timeout_ns):
        return 0 if self.at[queue] >= self.given[queue] else -errno.ETIMEDOUT


def make(**given):
    backend = Backend(**given)
    retired = RetireList(backend)
    for name in given:
        retired.opened(Backend, name)  # an owner that stays
    return backend, retired


class Thing:
    """Anything."""


def close(retired, release):
    """Closes an object whose memory `release` frees."""
    retired.retire(retired.own(Thing(), release))


def test_nothing_in_flight_is_released_at_once():
    _, retired = make(a=0)
    gone = []
    close(retired, lambda: gone.append(1))
    assert gone == [1]
    assert len(retired) == 0


def test_each_queue_must_reach_what_it_had_been_given():
    backend, retired = make(a=3, b=5)
    gone = []
    close(retired, lambda: gone.append("first"))
    backend.given["a"] = 9  # submitted later: none of its business
    backend.at["a"] = 3
    retired.drain()
    assert not gone
    backend.at["b"] = 4
    retired.drain()
    assert not gone
    assert len(retired) == 1
    backend.at["b"] = 5
    retired.drain()
    assert gone == ["first"]
    assert len(retired) == 0


def test_an_idle_queue_is_not_waited_for():
    backend, retired = make(a=3, b=5)
    backend.at["a"] = 3
    gone = []
    close(retired, lambda: gone.append(1))
    del retired.queues[id("a")]
    backend.at["b"] = 5
    retired.drain()
    assert gone == [1]


def test_held_objects_live_until_the_value():
    backend, retired = make(a=2)
    thing = Thing()
    seen = weakref.ref(thing)
    retired.hold("a", 2, thing)
    del thing
    assert seen() is not None
    backend.at["a"] = 2
    retired.drain()
    assert seen() is None


def test_what_is_held_from_before_a_launch_on():
    backend, retired = make(a=1)
    for fails in (False, True):
        thing = Thing()
        seen = weakref.ref(thing)
        with contextlib.suppress(KeyboardInterrupt), retired.holding("a", thing):
            backend.at["a"] = 10**18  # of all that was given by now nothing is waited for
            retired.drain()
            del thing
            assert seen() is not None
            backend.at["a"], backend.given["a"] = 1, 2
            if fails:
                raise KeyboardInterrupt
        assert seen() is not None
        backend.given["a"] = 3  # submitted later: none of its business
        backend.at["a"] = 2
        retired.drain()
        assert seen() is None
        backend.given["a"] = backend.at["a"] = 1


def test_a_release_may_retire_something_else():
    backend, retired = make(a=1)
    gone = []
    close(retired, lambda: close(retired, lambda: gone.append("inner")))
    backend.at["a"] = 1
    retired.drain()
    assert gone == ["inner"]
    assert len(retired) == 0


def test_many_threads_release_everything_exactly_once():
    backend, retired = make(a=1000)
    gone = []

    def work(seed):
        rng = random.Random(seed)
        for i in range(60):
            close(retired, lambda i=i: gone.append((seed, i)))
            backend.at["a"] = max(backend.at["a"], rng.randrange(900))
            retired.drain()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not gone
    backend.at["a"] = 1000
    retired.drain()
    assert sorted(gone) == [(seed, i) for seed in range(4) for i in range(60)]
    assert len(retired) == 0


def test_a_queue_that_takes_work_just_now_is_asked_again():
    """By a finalizer in the middle of a submission of its own thread, which it cannot wait for."""
    backend, retired = make(a=1)
    gone = []
    backend.settled = lambda queue: -errno.EAGAIN
    close(retired, lambda: gone.append(1))
    backend.at["a"] = 1
    retired.drain()
    assert not gone
    backend.given["a"], backend.settled = 2, backend.submitted  # the submission got a value
    retired.drain()
    assert not gone
    backend.at["a"] = 2
    retired.drain()
    assert gone == [1]


def test_an_interrupt_while_it_is_asked_what_to_wait_for_loses_nothing():
    backend, retired = make(a=1)
    gone = []

    def interrupted(queue):
        raise KeyboardInterrupt

    backend.settled = interrupted
    with pytest.raises(KeyboardInterrupt):
        close(retired, lambda: gone.append(1))
    backend.settled = backend.submitted
    retired.drain()
    assert not gone
    backend.at["a"] = 1
    retired.drain()
    assert gone == [1]


def test_what_goes_after_its_device_waits_as_long():
    """Of a device that goes in a cycle, finalizers run in any order."""
    for queue_too in (False, True):
        backend, retired = make(a=1)
        thing, gone = Thing(), []
        seen = weakref.ref(thing)
        retired.abandon()
        if queue_too:
            retired.forget(id("a"), 0)
        close(retired, lambda thing=thing, gone=gone: gone.append(1))
        del retired, thing
        gc.collect()
        assert seen() is not None
        make()[1].drain()  # whoever waits for anything looks
        assert not gone
        backend.at["a"] = 1
        end = time.monotonic() + 10
        while not gone and time.monotonic() < end:
            make()[1].drain()
        assert gone == [1]
        assert seen() is None


def test_a_device_that_hangs_does_not_slow_the_others():
    """A look at what it left may take long. Then the next look comes later."""
    backend, retired = make(hangs=1)
    looks = []

    def reached(queue):
        looks.append(queue)
        time.sleep(0.01)
        return backend.at[queue]

    backend.reached = reached
    retired.hold("hangs", 1)
    retired.abandon()
    looks.clear()
    other = make()[1]
    began = time.monotonic()
    for _ in range(1000):
        other.drain()
    took = time.monotonic() - began
    assert len(looks) <= 1 + took / (SPACED * 0.01)
    backend.at["hangs"] = 1
    while len(retired) and time.monotonic() < began + 10:
        other.drain()
    assert len(retired) == 0


def test_what_one_thread_looks_at_is_there_for_others():
    """It is nowhere else meanwhile; who finds nothing left of a device that has gone forgets it."""
    backend, retired = make(a=1)
    thing = Thing()
    seen = weakref.ref(thing)
    retired.hold("a", 1, thing)
    retired.abandon()
    real = backend.reached

    def reached(queue):
        backend.reached = real
        other = threading.Thread(target=make()[1].drain)
        other.start()
        other.join()
        return real(queue)

    backend.reached = reached
    make()[1].drain()
    del retired, thing
    gc.collect()
    assert seen() is not None
    backend.at["a"] = 1
    end = time.monotonic() + 10
    while seen() is not None and time.monotonic() < end:  # a slow look puts off the next one
        make()[1].drain()
    assert seen() is None


def test_a_queue_without_an_owner_is_closed_once_its_work_ends():
    """An interrupt ended its finalizer. However often somebody looks, there is one entry."""
    backend, retired = make(a=0)
    owner = Thing()
    backend.given["b"], backend.at["b"] = 1, 0
    retired.opened(owner, "b")
    del owner
    for _ in range(3):
        retired.retire_forgotten()
        assert len(retired) == 1
    assert set(retired.queues) == {id("a"), id("b")}
    backend.at["b"] = 1
    retired.drain()
    assert set(retired.queues) == {id("a")}
    assert len(retired) == 0
