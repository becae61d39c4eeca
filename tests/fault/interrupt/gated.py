"""A cpu device whose work waits behind a gate, and an oracle of what may be freed meanwhile.

The gate is a kernel on the default queue that waits until the host opens it. A wait of the host
opens it too. While it is shut, everything that is closed must stay: the retire list waits for the
gate's own submission. So each free in that time is a fault, whether or not it does damage.
"""

from __future__ import annotations

import contextlib
import weakref

import numpy as np

import sparkle_drv as sp

# A kernel that sleeps until *flag is not 0.
GATE = """
#include <stdint.h>
#include <time.h>
void gate(const void *args, const uint32_t group[3], const uint32_t size[3])
{
    volatile uint32_t *flag = *(volatile uint32_t *const *)args;
    const struct timespec moment = {0, 20000};
    (void)group;
    (void)size;
    while (!*flag)
        nanosleep(&moment, 0);
}
"""


class Gated:
    """`faults` has a line for each free while the gate was shut. With `in_c` the default queue
    launches without Python.
    """

    def __init__(self, library, in_c):
        self.faults, self.shut, self._alive = [], False, set()
        self.dev = sp.open("cpu")
        self.flag = np.ones(1, np.uint32)
        self._buffer = self.dev.wrap(self.flag)
        self._kernel = self.dev.kernel(image=library, entry="gate", args="u32*")
        self._gate = sp.Commands().dispatch(self._kernel, self._buffer, groups=1)
        if in_c:
            self.dev.default_queue  # noqa: B018  (opened now, C keeps the functions of the backend)
        backend = self.dev._backend
        for name in ("wait", "close_queue", "room"):
            setattr(backend, name, self._opening(getattr(backend, name)))
        for name in ("free", "unload"):
            setattr(backend, name, self._frees(name, getattr(backend, name)))
        self._own, self.dev._retired.own = self.dev._retired.own, self._owns

    def close_gate(self):
        self.flag[0] = 0
        self.dev.default_queue.submit(self._gate)
        self.shut = True

    def open_gate(self):
        self.shut = False
        self.flag[0] = 1

    def _opening(self, real):
        def opens(*given):
            self.open_gate()
            return real(*given)

        return opens

    def _frees(self, name, real):
        def frees(handle):
            if self.shut:
                self.faults.append(f"{name} while the device worked")
            return real(handle)

        return frees

    def _owns(self, owner, release):
        """Watches memory from the moment when it has an owner: no work uses it before."""
        entry = self._own(owner, release)
        handle = release.args[0]
        if hasattr(handle, "pointer"):
            self._watch(handle.pointer)
        return entry

    def _watch(self, memory):
        def gone(ref):
            self._alive.discard(ref)
            if self.shut:
                self.faults.append("memory went while the device worked")

        self._alive.add(weakref.ref(memory, gone))

    def close(self):
        self.open_gate()
        with contextlib.suppress(sp.SparkleError):
            self.dev.wait_idle()
        self.dev.close()
