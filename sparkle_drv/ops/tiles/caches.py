"""What a core has of its caches, for the tile models. Pure functions over DeviceInfo's caches.

Where a device tells nothing of a level, a size is taken that is small enough for any machine of
this century; a level beyond the last one that it tells is that one.
"""

from __future__ import annotations

from sparkle_drv.types import CacheLevel

FALLBACK = (CacheLevel(1, 32 << 10, 1), CacheLevel(2, 256 << 10, 1), CacheLevel(3, 4 << 20, 1))

Caches = tuple[CacheLevel, ...]


def level(caches: Caches, number: int) -> CacheLevel:
    """That of level 1, 2 or 3."""
    found = {cache.level: cache for cache in caches}
    last = max(found, default=0)
    return found.get(number) or (found[last] if 1 < last < number else FALLBACK[number - 1])


def own(caches: Caches, number: int) -> int:
    """Bytes of one core's part."""
    found = level(caches, number)
    return found.nbytes // max(1, found.shared_by)
