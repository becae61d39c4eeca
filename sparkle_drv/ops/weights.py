"""Packed weights: made once per owner and kept as long as the owner lives.

The kernels of the cpu device can take the weights of gemm and conv2d as a blob that a `pack_*`
kernel made for exactly one plan (native/cpu/packed.h). `blob` makes one; `packed` remembers them
by their owner, which is one of

* a core.Array: until the next launch, write or copy that may change its memory. One whose memory
  was mapped for writing (`numpy()`, `map()`), exported, wrapped, or is written by a prepared launch
  may change unseen, and has nothing kept. Nor is writing through its address seen.
* a numpy array that owns its data and is not writeable. `flags.writeable` is looked at in each
  call: a call while it is writeable forgets what was kept. Nothing tells of one that was made
  writeable, changed and made read-only again *between* two calls, or changed through a view that
  was made while it was writeable; so SAMPLES of its elements are compared in each call. That
  notices other weights, or all of them scaled; a change of a few elements is an error of the
  caller that is not noticed.

Anything else is packed inside each call by the consuming kernel. Called by gemm.py and conv2d.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.host import HostPointer
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.core.storage import Storage

HEADER = np.dtype(
    [("magic", "u4"), ("kind", "u1"), ("isa", "u1"), ("algo", "u1"), ("zero", "u1"),
     ("nbytes", "u8"), ("self", "u8"), ("of", "u4", 10)]
)  # fmt: skip
"""struct sp_packed."""
SHORT_WAYS = ("ops products", "ops conv2d calls")
"""Where `dev.kept` has the tables of products.py and convcall.py."""
WAIT_S = 600.0
SAMPLES = 32
"""As HOT_SAMPLES in native/python/ndarray.h, which looks at the same elements."""
MOST = 8
"""Blobs that one owner has at a time; beyond that they are made anew."""


class _Entry:
    """What is kept of one owner."""

    __slots__ = ("blobs", "owner", "seen", "state")

    def __init__(self, owner: weakref.ref[Any], state: object) -> None:
        self.owner, self.state = owner, state
        self.seen: Hashable = None  # the key that was asked for last
        self.blobs: dict[Hashable, Array] = {}


def kept(dev: Device) -> dict[int, _Entry]:
    """What is kept on this device, by the owner's id."""
    entries: dict[int, _Entry] = dev.kept.setdefault("ops weights", {})
    return entries


def look_again(dev: Device, owner: Any) -> None:
    """Forget what is kept of an array that is writeable now: every product and convolution that
    takes it as its weights does this first, whether it would use a blob or not.
    """
    entries = kept(dev)
    if id(owner) in entries and isinstance(owner, np.ndarray) and owner.flags.writeable:
        entries.pop(id(owner), None)
        _forget_short_ways(dev, owner)


def stays(owner: Any) -> bool:
    """Does it stay as it is, as far as anybody knows, so that `packed` would keep what is made of
    it?"""
    return _state(owner) is not None


def packed(
    dev: Device, owner: Any, key: Hashable, pack: Callable[[], Array], at_once: bool = False
) -> Array | None:
    """What `pack()` made of this owner's contents, a blob; None: pack inside the call.

    `key` is everything besides the contents that the blob depends on (kernel, geometry, blocking).
    The first call with a key makes nothing: weights that are used once are packed once either way,
    and without a second copy of them that stays. `at_once`: it does, because the result without it
    has other bits.
    """
    entries = kept(dev)
    state = _state(owner)
    entry = entries.get(id(owner))
    if state is None:
        if entry is not None:
            entries.pop(id(owner), None)
            _forget_short_ways(dev, owner)
        return None
    if entry is None or entry.owner() is not owner or entry.state != state:
        if entry is not None:
            _forget_short_ways(dev, owner)
        entry = entries[id(owner)] = _Entry(_reference(entries, owner), state)
    found = entry.blobs.get(key)
    if found is not None and not found.closed:
        return found
    if entry.seen != key and not at_once:
        entry.seen = key
        return None
    if len(entry.blobs) >= MOST:
        entry.blobs.clear()
    found = entry.blobs[key] = pack()
    return found


def _forget_short_ways(dev: Device, owner: Any) -> None:
    """The tables may have blobs of the old contents, which live as long as a launch holds them."""
    if isinstance(owner, np.ndarray):
        for key in SHORT_WAYS:
            dev.kept.pop(key, None)


def blob(dev: Device, kernel: Kernel, source: Any, *scalars: int) -> Array:
    """What `kernel`, a loaded pack_* kernel, makes of `source` and the scalars that go with it.

    `source` is an Array, or a C-contiguous aligned numpy array; the blob is an Array of its dtype,
    of one dimension. `scalars` are those of them that
    the consuming kernel takes for it. Waits until the blob is there.
    """
    given = HostPointer(dev, source) if isinstance(source, np.ndarray) else source
    queue = dev.default_queue
    with dev.empty(1, HEADER) as header:
        queue.launch(kernel, header.buffer, HEADER.itemsize, given, *scalars).wait(WAIT_S)
        nbytes = int(header.buffer.read(HEADER, 1)["nbytes"][0])
    # In elements of the source, so that the consuming kernel takes it in the weights' place.
    made = dev.empty(-(-nbytes // source.dtype.itemsize), source.dtype)
    queue.launch(kernel, made, made.nbytes, given, *scalars).wait(WAIT_S)
    return made


def _state(owner: Any) -> object:
    """Equal as long as the contents are the same; None: nobody knows."""
    if isinstance(owner, Array):
        storage: Storage | None = owner.buffer._storage
        return None if storage is None else storage.state
    if isinstance(owner, np.ndarray):
        flags = owner.flags
        if flags.owndata and not flags.writeable and flags.forc:
            return owner.__array_interface__["data"][0], _sample(np.asarray(owner))
    return None


def _sample(owner: np.ndarray[Any, Any]) -> bytes:
    """Some of its elements in the order of memory: every step-th and the last."""
    flat = owner.ravel(order="K")
    return flat[:: max(1, flat.size // SAMPLES)].tobytes() + flat[-1:].tobytes()


def _reference(entries: dict[int, _Entry], owner: Any) -> weakref.ref[Any]:
    """Ends the entry with its owner; whoever has the owner's place by then keeps his."""
    place = id(owner)

    def gone(reference: weakref.ref[Any]) -> None:
        entry = entries.get(place)
        if entry is not None and entry.owner is reference:
            del entries[place]

    return weakref.ref(owner, gone)
