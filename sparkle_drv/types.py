"""Plain data that every layer shares: what a device is, what memory it gives, how an operation is
tiled.

A leaf: imports nothing of ours. Nothing here acts.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Memory(enum.Enum):
    """Where a buffer lives."""

    DEVICE = "device"  #: the device's own memory
    HOST = "host"  #: host memory that the device reads directly (pinned, GTT)
    SHARED = "shared"  #: memory that another process or device can map


@dataclass(frozen=True)
class CacheLevel:
    """One level of a memory hierarchy: size in bytes, how many compute units share one."""

    level: int
    nbytes: int
    shared_by: int


@dataclass(frozen=True)
class DeviceInfo:
    """What is known of a device before anything runs on it; sizes in bytes."""

    uri: str
    backend: str
    name: str
    kind: str  #: "cpu", "gpu" or "other"
    vendor: str = ""
    driver: str = ""
    memory_nbytes: int = 0
    unified: bool = False  #: host pointers are device pointers
    emulated: bool = False
    software: bool = False  #: a GPU interface whose work the CPU does
    compute_units: int = 1  #: threads on a cpu, CUs or SMs on a GPU
    max_group_size: int = 1
    max_groups: tuple[int, int, int] = (1, 1, 1)
    max_shared_nbytes: int = 0
    isa: str = ""
    caches: tuple[CacheLevel, ...] = ()
    shares: tuple[str, ...] = ()  #: resource groups that other devices use too
    features: tuple[str, ...] = ()
    offset_alignment: int = 1  #: bytes; where in a buffer a pointer argument may start


@dataclass(frozen=True)
class Found:
    """One node that discovery looked at: usable, or the reason why not and what would help."""

    backend: str
    uri: str
    info: DeviceInfo | None = None
    reason: str = ""
    advice: str = ""
    tried: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        return self.info is not None


@dataclass(frozen=True)
class Resources:
    """What a loaded kernel takes; None where the driver does not tell."""

    max_group_size: int
    registers: int | None = None
    shared_nbytes: int | None = None
    spill_nbytes: int | None = None
    isa: str = ""
    max_groups: tuple[int, int, int] | None = None  #: None: the device's


@dataclass(frozen=True)
class TilePlan:
    """How an operation is cut for a memory hierarchy; zero or empty means the kernel's own choice.

    `levels` are (m, n, k) tiles, outermost first: on a CPU (mc, nc, kc) then (mr, nr, 1).
    """

    algo: str = "auto"
    levels: tuple[tuple[int, int, int], ...] = ()
    vector: int = 0  #: elements a vector instruction handles
    threads: int = 0
    layout_in: str = ""
    layout_out: str = ""
    pack: bool = True
    predicted_s: float = field(default=0.0, compare=False)
