"""What a backend outside this package builds on: names only; docs/plugins.md says how.

The protocol and its data (`Backend`, `Settings`, `KernelSpec`, `Generated`, `Loaded`, `Allocation`,
`Progress`); what a backend may do beside it (`abilities`); and for backends written in Python the
half of the protocol that is alike for all of them: `decode` makes data of command records,
`Kernels` checks dispatches, `Queues` keeps timelines.

    commands.py    decode: command records as data
    kernels.py     Kernels: loaded kernels by number, the check of a dispatch
    queues.py      Queues: timelines, epochs, waits, failures
    ledger.py      which submissions failed, who was told, their times
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
