"""The retire list against a made-up backend whose queues move when the test says so."""

import contextlib
import random
import threading
import weakref

from sparkle_drv.core.retire import RetireList


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


def make(**given):
    backend = Backend(**given)
    retired = RetireList(backend)
    retired.queues = {id(name): name for name in given}
    return backend, retired


def test_nothing_in_flight_is_released_at_once():
    _, retired = make(a=0)
    gone = []
    retired.retire(lambda: gone.append(1))
    assert gone == [1]
    assert len(retired) == 0


def test_each_queue_must_reach_what_it_had_been_given():
    backend, retired = make(a=3, b=5)
    gone = []
    retired.retire(lambda: gone.append("first"))
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
    retired.retire(lambda: gone.append(1))
    del retired.queues[id("a")]
    backend.at["b"] = 5
    retired.drain()
    assert gone == [1]


class Thing:
    """Anything."""


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
    retired.retire(lambda: retired.retire(lambda: gone.append("inner")))
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
            retired.retire(lambda i=i: gone.append((seed, i)))
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


def test_what_another_thread_takes_off_takes_nothing_else_with_it():
    """Two threads copy from one device to others: both see that the first of the copies is over."""
    foreign = Backend(x=9, y=9)
    _, retired = make()
    real = foreign.reached

    def reached(queue):
        found = real(queue)
        if queue == "x" and found and others:
            others.pop()
            retired.also(foreign, "x", 1)  # here another thread has the turn
        return found

    others = []
    retired.also(foreign, "x", 1)
    retired.also(foreign, "y", 1)
    foreign.at["x"], others[:], foreign.reached = 1, [1], reached
    retired.also(foreign, "x", 1)
    gone = []
    retired.retire(lambda: gone.append(1))
    assert not gone
    foreign.at["y"] = 1
    retired.drain()
    assert gone == [1]
