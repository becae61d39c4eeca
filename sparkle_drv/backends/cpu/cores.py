"""Named cores: the meaning of "cpu:c2-5/avx2" or "cpu:node1", checked against this machine."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from sparkle_drv.backends import machine
from sparkle_drv.errors import DeviceNotFound

_FORM = re.compile(r"cpu:(?:c(\d{1,6})(?:-(\d{1,6}))?|node(\d{1,6}))(?:/(\w+))?", re.ASCII)


@dataclass(frozen=True)
class Named:
    """The named cores of one device, and the instruction set in its URI."""

    uri: str
    """The canonical URI: "cpu:c2" for "cpu:c02-2"."""
    nodes: tuple[machine.NumaNode, ...]
    """The cores by NUMA node, as `machine.nodes`; one node if the kernel does not report any."""
    isa: str
    """The instruction set in the URI; "" if the URI names none."""

    @property
    def cores(self) -> tuple[int, ...]:
        """Linux' numbers of the cores, in ascending order; never empty."""
        return tuple(sorted(cpu for node in self.nodes for cpu in node.cpus))

    @property
    def node(self) -> int | None:
        """Linux' number of the NUMA node that has all the cores; None if they are on
        several nodes.
        """
        return self.nodes[0].number if len(self.nodes) == 1 else None

    def threads(self, wanted: int) -> int:
        """Returns the number of threads: `wanted`, or one per core if that is 0. Raises ValueError
        for more than one per core.
        """
        most = min(len(self.cores), machine.MOST_THREADS)
        if wanted > most:
            raise ValueError(
                f"threads: expected at most {most} on {self.uri}, one for each core, got {wanted} "
                "(by threads= or SPARKLE_THREADS)"
            )
        return wanted or most


def named(uri: str, root: Path = Path("/")) -> Named:
    """Returns the cores that a URI names. Does not check the instruction set.

    Raises DeviceNotFound for a URI that is not written like "cpu:c0", "cpu:c2-5" or "cpu:node1",
    for cores outside the affinity mask, and for nodes without cores. Raises ValueError for a
    descending range.
    """
    match = _FORM.fullmatch(uri)
    if match is None:
        raise DeviceNotFound(
            f"{uri}: expected 'cpu' or 'cpu:0', all cores, or named ones: "
            f"'cpu:c0', 'cpu:c2-5', 'cpu:node1', each also with '/avx2'"
        )
    low, high, number, isa = match.groups()
    tail = f"/{isa}" if isa else ""
    nodes = machine.nodes(root)
    if number is not None:
        return Named(f"cpu:node{int(number)}{tail}", (_node(uri, int(number), nodes),), isa or "")
    first, last = int(low), int(high or low)
    if last < first:
        raise ValueError(f"{uri}: expected a range that ascends, got {first}-{last}")
    ours = os.sched_getaffinity(0)
    wanted = set(range(first, last + 1))
    if wanted - ours:
        raise DeviceNotFound(
            f"{uri}: expected cores that this process may use ({_ranges(ours)}), "
            f"got also {_ranges(wanted - ours)}"
        )
    text = f"{first}-{last}" if last > first else f"{first}"
    return Named(f"cpu:c{text}{tail}", _by_node(wanted, nodes), isa or "")


def _node(uri: str, number: int, nodes: tuple[machine.NumaNode, ...]) -> machine.NumaNode:
    for node in nodes:
        if node.number == number:
            return node
    there = ", ".join(str(node.number) for node in nodes) or "none"
    raise DeviceNotFound(
        f"{uri}: expected a NUMA node with cores that this process may use ({there}), got {number}"
    )


def _by_node(cores: set[int], nodes: tuple[machine.NumaNode, ...]) -> tuple[machine.NumaNode, ...]:
    parts = [
        machine.NumaNode(node.number, cpus)
        for node in nodes
        if (cpus := tuple(cpu for cpu in node.cpus if cpu in cores))
    ]
    # Linux does not report the NUMA node of every core
    if sum(len(node.cpus) for node in parts) != len(cores):
        return (machine.NumaNode(0, tuple(sorted(cores))),)
    return tuple(parts)


def _ranges(cores: set[int]) -> str:
    """Formats core numbers: {0, 1, 2, 5} as "0-2,5"."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(f"{low}-{high}" if high > low else f"{low}" for low, high in runs)
