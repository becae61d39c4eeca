"""Whether operands come from memory or from a cache, and the length that makes them come from
memory. The one rule for rows, roofs, sets of buffers and tests.

A device has one cache of a level for every `shared_by` of its compute units. All of each L3 counts,
in a virtual machine too. Linux tells a guest the size of the host's L3 and, as its sharers, the
guest's CPUs alone: the guest's part is nowhere to be read. Nor is it bounded: a core fills any part
of an L3 that the host has not reserved for others (Linux' Documentation/arch/x86/resctrl.rst).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sparkle_drv as sp

ASSUMED_NBYTES = 64 << 20  # size of the caches of a device that does not report them
BEYOND, AMPLE = 2, 4
"""Operands of BEYOND times the caches come from memory. AMPLE times leave no part of them in a
cache that prefers old lines. Auto lengths are ample as far as MOST_AMPLE_NBYTES reach."""
MOST_AMPLE_NBYTES = 1 << 30  # making and checking so many bytes takes seconds
LEAST_LENGTH, MOST_LENGTH = 1 << 20, 1 << 31  # kernels take lengths as u32
MEMORY_SHARE = 16
"""Operands have at most this part of the memory. The host needs three more copies of them
(machine/headroom.py), and other programs have the rest."""

Nbytes = Callable[[int], list[int]]
"""A function from a length n to the bytes of each operand."""


def caches_nbytes(info: sp.DeviceInfo) -> int:
    """Returns the bytes of all caches of the device's largest level."""
    levels = (-(-info.compute_units // max(1, c.shared_by)) * c.nbytes for c in info.caches)
    return max(levels, default=ASSUMED_NBYTES)


def beyond_nbytes(info: sp.DeviceInfo) -> int:
    """Returns the fewest bytes of operands that certainly come from memory."""
    return BEYOND * caches_nbytes(info)


def auto_length(nbytes_of: Nbytes, info: sp.DeviceInfo) -> int:
    """Returns the smallest power of two (>= LEAST_LENGTH) whose operands are far beyond the caches,
    or the largest one that the device's pointers and its memory allow.
    """
    enough = min(AMPLE * caches_nbytes(info), max(MOST_AMPLE_NBYTES, beyond_nbytes(info)))
    n = LEAST_LENGTH
    while n > 1 and not _fit(nbytes_of(n), info):
        n //= 2
    while sum(nbytes_of(n)) < enough and n < MOST_LENGTH and _fit(nbytes_of(2 * n), info):
        n *= 2
    return n


def _fit(operands: list[int], info: sp.DeviceInfo) -> bool:
    """Returns whether the device takes such operands. Its grids need no test: no backend's limit of
    groups is below what its pointers reach.
    """
    limits = (
        (sum(operands), info.memory_nbytes // MEMORY_SHARE),
        (max(operands), info.max_pointer_nbytes),
    )
    return all(nbytes <= most for nbytes, most in limits if most)


def doubts(nbytes: int, info: sp.DeviceInfo) -> list[str]:
    """Returns why the rate of operands of `nbytes` may not be that of memory; none if it is."""
    reasons = [] if info.caches else ["the device does not tell its caches"]
    if nbytes < beyond_nbytes(info):
        reasons.append(f"{_mib(nbytes)} may stay in {_mib(caches_nbytes(info))} of caches")
    return reasons


def _mib(nbytes: int) -> str:
    return f"{nbytes / (1 << 20):.3g} MiB"
