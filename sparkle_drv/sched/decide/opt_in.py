"""Which devices of "all" take part only where somebody names them. Pure: DeviceInfo alone decides.

A software device computes on cores that another device computes on, too, and does so more slowly.
To measure it takes seconds of each first call, and it is not chosen afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparkle_drv.types import DeviceInfo, in_common

_WORDS = {"cpu": "the CPU's cores"}
"""By names in `DeviceInfo.shares`, what people call them."""


def only_named(infos: Sequence[DeviceInfo]) -> dict[str, str]:
    """By URI, the devices of these that take part only where somebody names them, and why."""
    others = tuple(name for info in infos if not info.software for name in info.shares)
    found = {}
    for info in infos:
        shared = [_WORDS.get(name, name) for name in in_common(info.shares, others)]
        if info.software and shared:
            found[info.uri] = f"it shares {' and '.join(shared)}; name it to use it"
    return found
