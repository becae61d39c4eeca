"""The base for backends outside this package. This file has only names; see docs/plugins.md.

The names are the protocol and its data (`Backend`, `Settings`, `KernelSpec`, `Generated`, `Loaded`,
`Allocation`, `Progress`), and optional `abilities`. For backends written in Python there is the
common half of the protocol: `decode` turns command records into data, `Kernels` checks dispatches,
and `Queues` keeps timelines.

    commands.py    decode: command records as data
    kernels.py     Kernels: loaded kernels by number, the check of a dispatch
    queues.py      Queues: timelines, epochs, waits, failures
    ledger.py      failed submissions, the waits that reported them, and times
"""

from sparkle_drv.backends import abilities
from sparkle_drv.backends.base import (
    ANY_EPOCH,
    Allocation,
    Backend,
    Generated,
    KernelSpec,
    Loaded,
    Progress,
    Settings,
)
from sparkle_drv.core.abi import records
from sparkle_drv.plugin.commands import (
    Barrier,
    Command,
    Copy,
    Dispatch,
    Fill,
    Given,
    Timestamp,
    Wait,
    decode,
)
from sparkle_drv.plugin.kernels import Entry, Kernels
from sparkle_drv.plugin.queues import Failed, News, Queues, Timeline, Work

__all__ = [
    "ANY_EPOCH",
    "Allocation",
    "Backend",
    "Barrier",
    "Command",
    "Copy",
    "Dispatch",
    "Entry",
    "Failed",
    "Fill",
    "Generated",
    "Given",
    "KernelSpec",
    "Kernels",
    "Loaded",
    "News",
    "Progress",
    "Queues",
    "Settings",
    "Timeline",
    "Timestamp",
    "Wait",
    "Work",
    "abilities",
    "decode",
    "records",
]
