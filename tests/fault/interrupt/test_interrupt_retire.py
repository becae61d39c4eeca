"""Ctrl-C at every position of the retire list, against a made-up backend.

When this fails, Ctrl-C at a bad moment frees memory that a device still writes, or leaks it.
"""

import contextlib
import functools
import weakref

import interrupts

from sparkle_drv.core.retire import RetireList


class Thing:
    """Owns memory."""


class Late:
    """Work of queue "a" is in flight until `at` says so; frees are checked."""

    def __init__(self):
        self.submissions, self.at, self.freed = 2, 1, []

    def submitted(self, queue):
        return self.submissions

    settled = submitted

    def reached(self, queue):
        return self.at

    def free(self, number):
        assert self.at >= 2, "memory was freed under the device"
        self.freed.append(number)


def test_an_interrupt_anywhere_frees_nothing_early_and_loses_nothing():
    """Objects are closed, forgotten and held, while other entries wait."""
    tried = set()
    for interrupt in interrupts.all_of(tried):
        backend, things = Late(), [Thing() for _ in range(4)]
        retired = RetireList(backend)
        retired.opened(Late, "a")
        seen = [weakref.ref(thing) for thing in things]
        owners = [Thing() for _ in range(3)]
        entries = [
            retired.own(owner, functools.partial(backend.free, i)) for i, owner in enumerate(owners)
        ]
        nets = [
            weakref.finalize(owner, retired.retire, entry)
            for owner, entry in zip(owners, entries, strict=True)
        ]
        retired.hold("a", 2, things[0])
        with contextlib.suppress(KeyboardInterrupt), interrupt:
            retired.retire(entries[0])
            nets[0].detach()
            owners.pop()
            retired.hold("a", 2, things[1])
            with retired.holding("a", things[2]):
                backend.submissions = 3
            retired.drain()
        backend.at = 1
        del things, owners, entries[:], nets
        retired.retire_forgotten()
        retired.drain()
        assert seen[0]() is not None, interrupt.where
        assert not backend.freed, interrupt.where
        backend.at = 3
        retired.drain()
        assert not len(retired), interrupt.where
        assert [ref() for ref in seen] == [None] * 4, interrupt.where
        assert sorted(backend.freed) == [0, 1, 2], interrupt.where
    assert len(tried) > 50


def test_an_interrupt_while_memory_is_freed_frees_it_once_at_most():
    tried = set()
    for interrupt in interrupts.all_of(tried):
        backend = Late()
        retired = RetireList(backend)
        retired.opened(Late, "a")
        for i in range(3):
            retired.retire(retired.own(Thing(), functools.partial(backend.free, i)))
        backend.at = 2
        with contextlib.suppress(KeyboardInterrupt), interrupt:
            retired.drain()
        retired.drain()
        assert not len(retired), interrupt.where
        assert sorted(backend.freed) in ([0, 1, 2], [1, 2]), interrupt.where
    assert len(tried) > 10
