"""Devices of "all" that take part only when they are named. Pure: DeviceInfo alone decides.

A software device computes on cores that another device also uses, and is slower there. Measuring it
would add seconds to each first call, and it is not chosen afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparkle_drv.types import DeviceInfo, in_common

_WORDS = {"cpu": "the CPU's cores"}
"""What people call a name of `DeviceInfo.shares`."""


def only_named(infos: Sequence[DeviceInfo]) -> dict[str, str]:
    """By URI: the devices that take part only when they are named, and why."""
    others = tuple(name for info in infos if not info.software for name in info.shares)
    found = {}
    for info in infos:
        shared = [_WORDS.get(name, name) for name in in_common(info.shares, others)]
        if info.software and shared:
            found[info.uri] = f"it shares {' and '.join(shared)}; name it to use it"
    return found
