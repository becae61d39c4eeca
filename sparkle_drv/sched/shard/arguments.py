"""Refuses arguments that allow no plan of shares. All functions are pure."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

from sparkle_drv.ops.arguments.quoting import shown
from sparkle_drv.sched.decide.choose import Impossible

from .site import Pace, Site

MOST_SHARE = 1e300
"""The largest share. Sums of shares and their products with units stay finite."""


def check(
    sites: Sequence[Site], count: int, each: bool, shares: Mapping[str, float] | None, tail: float
) -> None:
    """Raises ValueError for arguments that allow no plan."""
    uris = [site.uri for site in sites]
    if not uris:
        raise ValueError("devices: expected a device or more, got none")
    if len(set(uris)) < len(uris):
        raise ValueError(f"devices: expected each device once, got {', '.join(uris)}")
    if count < 1:
        raise ValueError(f"expected work of 1 unit or more, got {count}")
    if not 0 <= tail < 1:
        raise ValueError(f"tail: expected a fraction of the work, from 0 to below 1, got {tail}")
    for site in sites:
        line = site.compute
        if not (0 <= line.a < math.inf and 0 < line.b < math.inf):
            raise ValueError(
                f"{site.uri}: expected a compute time that is finite and above 0, got {line}"
            )
        if not 0 < site.weight < math.inf:
            raise ValueError(f"{site.uri}: expected a weight above 0, got {site.weight}")
    if each and shares is not None:
        raise ValueError('shards: expected "each" or a share for each device, got both')
    if each and count < len(sites):
        wanted = f"1 unit of work or more for each of {len(sites)} devices"
        raise ValueError(f'shards="each": expected {wanted}, got {count} in all')
    if shares is None:
        return
    unknown = [uri for uri in shares if uri not in uris]
    if unknown:
        raise ValueError(f"shards: expected some of {', '.join(uris)}, got {', '.join(unknown)}")
    proportions(shares)


def proportions(shares: Mapping[str, Any]) -> dict[str, float]:
    """Returns these shares as floats. Raises TypeError or ValueError if they give no proportions: a
    share is no number, negative or too large, or all are 0.
    """
    proportions = {}
    for uri, share in shares.items():
        if not isinstance(share, numbers.Real):
            raise TypeError(f"shards: expected a number for {uri}, got {shown(share)}")
        try:
            proportions[uri] = float(share)
        except OverflowError:  # a whole number beyond the range of floats
            proportions[uri] = math.inf
        if not 0 <= proportions[uri] <= MOST_SHARE:
            wanted = f"a share from 0 to {MOST_SHARE:g} for {uri}"
            raise ValueError(f"shards: expected {wanted}, got {shown(share)}")
    if not sum(proportions.values()) > 0:
        raise ValueError(f"shards: expected shares with a sum above 0, got {proportions}")
    return proportions


def fits(paces: Sequence[Pace], count: int, each: bool) -> None:
    """Raises Impossible if the devices' memory cannot hold the work, however it is cut."""
    if sum(pace.most for pace in paces) < count:
        told = "; ".join(memory(pace) for pace in paces)
        raise Impossible(f"expected memory for {count} units, got {told}")
    for pace in paces if each else ():
        if pace.most < 1:
            raise Impossible(
                f'shards="each": expected memory for a unit on every device, got {memory(pace)}'
            )


def memory(pace: Pace) -> str:
    """Describes a device's memory, and the bytes that its first unit of work needs."""
    site = pace.site
    need = math.ceil(site.fixed_nbytes + site.in_nbytes + site.out_nbytes)
    return (
        f"{site.uri}: {site.memory_nbytes} bytes, room for {pace.most} units; "
        f"the first unit needs {need} bytes"
    )
