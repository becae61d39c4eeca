"""One core's part of its caches, for the tile models.

If DeviceInfo does not have the size of a level, a fallback is used that is small enough for any
machine of this century. A level beyond the last known level has the size of that level.
"""

from __future__ import annotations

from sparkle_drv.types import CacheLevel

FALLBACK = (CacheLevel(1, 32 << 10, 1), CacheLevel(2, 256 << 10, 1), CacheLevel(3, 4 << 20, 1))

Caches = tuple[CacheLevel, ...]


def level(caches: Caches, number: int) -> CacheLevel:
    """Returns the cache of level 1, 2 or 3."""
    found = {cache.level: cache for cache in caches}
    last = max(found, default=0)
    return found.get(number) or (found[last] if 1 < last < number else FALLBACK[number - 1])


def own(caches: Caches, number: int) -> int:
    """Returns one core's part of the cache of this level, in bytes."""
    found = level(caches, number)
    return found.nbytes // max(1, found.shared_by)
