"""Finds the devices that take part only when they are named. DeviceInfo alone decides; all
functions are pure.

A software device computes on cores that another device also uses, and is slower there. Measuring
such a device would add seconds to each first call, and no call would be given to it afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparkle_drv.types import DeviceInfo, in_common

_WORDS = {"cpu": "the CPU's cores"}
"""Maps a name in `DeviceInfo.shares` to what people call that resource."""


def only_named(infos: Sequence[DeviceInfo]) -> dict[str, str]:
    """Returns the URIs of devices that take part only when they are named, with the reason for
    each.
    """
    others = tuple(name for info in infos if not info.software for name in info.shares)
    reasons = {}
    for info in infos:
        shared = [_WORDS.get(name, name) for name in in_common(info.shares, others)]
        if info.software and shared:
            reasons[info.uri] = f"it shares {' and '.join(shared)}; name it to use it"
    return reasons
