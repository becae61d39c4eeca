"""Another thread gets the turn between two lines of ours, at each place where that matters.

When this fails, two threads on one device lose work or memory, once in a million calls.
"""

import contextlib
import errno
import os
import threading
from types import SimpleNamespace

import functions
import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv._hot import StorageBase
from sparkle_drv.backends.egl import backend as egl
from sparkle_drv.core import commands
from sparkle_drv.core.buffer import Buffer
from sparkle_drv.core.kernel import Kernel

TURN_S = 0.2  # for a thread that may have to wait for this one


class Fleeting(StorageBase):
    """A storage that another thread closes once it was looked at so often."""

    address = 64

    def __init__(self, dev, looks):
        self.owner, self.looks = dev, looks

    @property
    def device(self):
        self.looks -= 1
        return self.owner if self.looks >= 0 else None


@pytest.mark.parametrize("looks", range(4))
@pytest.mark.parametrize("look", [repr, Buffer._open, Buffer.view, lambda b: b.address])
def test_a_buffer_that_is_closed_meanwhile_is_open_or_closed(cpu, look, looks):
    with contextlib.suppress(ValueError):  # that it is closed, and no other error
        look(Buffer(Fleeting(cpu, looks), 0, 8))


@pytest.mark.parametrize("use", [Buffer.map, Buffer.export])
def test_memory_that_is_closed_just_before_it_is_mapped_is_refused(cpu, monkeypatch, use):
    buffer, real = cpu.buffer(64, sp.Memory.SHARED), Buffer._open

    def closes(self):
        storage = real(self)
        storage.close()
        return storage

    monkeypatch.setattr(Buffer, "_open", closes)
    with pytest.raises(ValueError, match="closed"):
        use(buffer)
    buffer.close()


def test_memory_that_is_closed_while_it_is_mapped_stays_for_the_map(cpu, monkeypatch):
    with cpu.buffer(64) as buffer:
        storage, real = buffer._storage, cpu._backend.map

        def closes(handle, nbytes):
            storage.close()
            assert cpu.live_counts()["retired"] == 1
            return real(handle, nbytes)

        monkeypatch.setattr(cpu._backend, "map", closes)
        assert bytes(buffer.map()) == bytes(64)
        assert cpu.live_counts()["retired"] == 0


def test_a_list_that_others_submit_goes_to_the_queue_that_was_asked(cpu):
    with cpu.buffer(64) as b, cpu.queue() as queue, cpu.queue() as other:
        made = sp.Commands().fill(b, 1)

        def full(*what):
            other.submit(made).wait()  # here another thread has the turn
            return -errno.EAGAIN

        assert queue.submit(made).wait().value == 1
        with functions.changed(queue, submit=full):
            fence = queue.submit(made).wait()
        assert (fence.value, queue.submitted, other.submitted) == (2, 2, 1)


def test_a_patch_reaches_whichever_encoding_was_bound_last(cpu, monkeypatch):
    """Of two threads that submit a new list at once, each encodes it."""
    real, own = commands._encode, threading.current_thread()
    begun, encoded = threading.Event(), threading.Event()

    def slowly(*what):
        made = real(*what)
        if threading.current_thread() is not own:
            begun.set()
            encoded.wait(TURN_S)
        return made

    with cpu.kernel("fill_f32") as k, cpu.buffer(256) as b, cpu.queue() as q, cpu.queue() as p:
        made = sp.Commands().dispatch(k, b, 1.0, 64, groups=1)
        monkeypatch.setattr(commands, "_encode", slowly)
        other = threading.Thread(target=lambda: p.submit(made).wait())
        prepared = commands.Prepared

        def late():
            if threading.current_thread() is own:
                encoded.set()
                other.join(TURN_S)
            return prepared()

        monkeypatch.setattr(commands, "Prepared", late)
        other.start()
        begun.wait()
        q.submit(made).wait()
        other.join()
        made.patch(0, b, 2.0, 64)
        q.submit(made).wait()
        assert (b.read(np.float32, 64) == 2).all()


def test_who_asks_for_a_kernel_by_its_address_waits_for_who_reads_them_all(cpu):
    kernels = [cpu.kernel("fill_f32") for _ in range(3)]
    found = []
    asks = threading.Thread(
        target=lambda: found.append(cpu._kernel_at(kernels[0]._pointer)), daemon=True
    )
    with cpu._lock:
        reading = (child for child in cpu._children if isinstance(child, Kernel))
        seen = [next(reading)]
        kernels.pop()  # it dies while they are read, and is dropped from among them later
        asks.start()
        asks.join(TURN_S)
        seen += reading
    asks.join()
    assert all(isinstance(k, Kernel) for k in seen)
    assert found == kernels[:1]
    for k in kernels:
        k.close()


def test_a_closed_kernel_does_not_stand_for_an_open_one_at_its_address(cpu):
    with cpu.kernel("fill_f32") as kernel:
        closed = [cpu.kernel("fill_f32") for _ in range(8)]
        for other in closed:  # in whatever order the device lists its kernels
            other.close()
            other._pointer = kernel._pointer  # as if malloc had given the address again
        assert cpu._kernel_at(kernel._pointer) is kernel


def test_an_interrupt_behind_a_slot_loses_none(cpu):
    with cpu.pipeline(2) as pipe:

        class Interrupted(dict):
            def __setitem__(self, key, value):
                super().__setitem__(key, value)
                raise KeyboardInterrupt

        usual, pipe._out = pipe._out, Interrupted()
        with pytest.raises(KeyboardInterrupt):
            pipe.acquire()
        pipe._out = usual
        assert {pipe.acquire(), pipe.acquire()} == set(pipe.slots)


def test_a_descriptor_is_closed_once_by_a_device_that_closes_and_a_finalizer(monkeypatch):
    made = egl.EglBackend.__new__(egl.EglBackend)
    native = SimpleNamespace(sp_egl_close=lambda *_: 0)
    made._native = SimpleNamespace(close=lambda: native)
    made._files, made._kept = {i: os.memfd_create("one") for i in range(3)}, {}
    fds, closed = set(made._files.values()), []
    monkeypatch.setattr(egl, "lib", native)

    class Os:
        @staticmethod
        def close(fd):
            closed.append(fd)
            os.close(fd)
            for handle in (0, 1):
                made.free(handle)  # here another thread has the turn

    monkeypatch.setattr(egl, "os", Os)
    made.close()
    assert sorted(closed) == sorted(fds)
