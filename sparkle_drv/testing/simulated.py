"""Simulated devices: a virtual clock, and devices whose times follow from stated rates. They do not
compute: they only have times and failures. sim.py turns them into devices that can be opened and
that compute.

`machine(seed)` makes a machine on which no device is the best at everything. Such a machine judges
the scheduler. The scheduler learns from the noisy times that `run` returns. Its plans are judged by
the true times, which `mean_s` returns without noise.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING

from .sim_clock import Clock

if TYPE_CHECKING:
    from sparkle_drv.mesh.links.network import Port

    from .sim_links import Fabric, SimLink


@dataclass(frozen=True)
class Rate:
    """The time of one operation on one device: launch_s + size / per_s. Work smaller than
    `bend_size` does not fill the device, and reaches only (size / bend_size)**bend of its rate.
    """

    launch_s: float
    per_s: float
    bend_size: float = 0.0
    bend: float = 0.0

    def mean_s(self, size: float) -> float:
        """Returns the seconds that an operation of this size takes, without noise."""
        bent = 0 < size < self.bend_size
        full = (size / self.bend_size) ** self.bend if bent else 1.0
        return self.launch_s + size / (self.per_s * full)


@dataclass
class SimDevice:
    """One simulated device."""

    uri: str
    rates: dict[str, Rate]
    """By operation."""
    to_s: tuple[float, float] = (0.0, 0.0)
    """(latency in seconds, bytes per second) to and from the host; (0, 0) if unified."""
    noise: float = 0.0
    """Standard deviation of log(time)."""
    spikes: float = 0.0
    """Part of runs that take `SPIKE` times as long, as if another program had the machine."""
    memory_nbytes: int = 0
    shares: tuple[str, ...] = ()
    slower: float = 1.0
    """A factor on all its times: drift, set while a simulation runs."""
    fails: float = 0.0
    """Part of runs that end in DeviceLost."""
    drift: float = 0.0
    """log of the factor by which its times grow per second of the clock."""
    other: Rate = Rate(2e-6, 1e10)
    """The rate of operations that `rates` lacks, by bytes."""
    runs: int = 0

    SPIKE = 3.0

    def mean_s(self, op: str, size: float) -> float:
        """Returns the seconds that the operation takes now, without noise. `slower` is the present
        slowdown.
        """
        return self.slower * self.rates.get(op, self.other).mean_s(size)

    def transfer_s(self, nbytes: float) -> float:
        """Returns the seconds of a transfer to or from the host."""
        latency, rate = self.to_s
        return latency + nbytes / rate if rate else 0.0


@dataclass
class SimMachine:
    """Simulated devices with one clock and one source of random numbers."""

    devices: dict[str, SimDevice]
    random: random.Random
    clock: Clock = field(default_factory=Clock)
    links: dict[tuple[str, str], SimLink] = field(default_factory=dict)
    """By (from, to): links of pairs. Other transfers go over the host."""
    ports: dict[str, Port] = field(default_factory=dict)
    """By URI: the port that all links of a device share."""
    seed: int = 0
    """Seed of draws, if there are links."""
    _draws: dict[tuple[str, str], int] = field(default_factory=dict)

    @cached_property
    def fabric(self) -> Fabric:
        """The links and ports with their current transfers."""
        from .sim_links import Fabric

        return Fabric(self.clock, self.links, self.ports)

    def chance(self, uri: str, op: str) -> Random:
        """Returns the random generator for the next time to draw for an operation of a device.

        With links, devices run in parallel, and draw their times in any order. The generator then
        depends only on the number of earlier calls for this operation on this device.
        """
        if not self.links:
            return self.random
        at = self._draws[uri, op] = self._draws.get((uri, op), 0) + 1
        return Random(f"{self.seed} {uri} {op} {at}")

    def run(self, uri: str, op: str, size: float) -> float:
        """Runs the operation and returns the measured seconds."""
        seconds = self.draw(uri, op, size)
        self.clock.advance(seconds)
        return seconds

    def draw(self, uri: str, op: str, size: float) -> float:
        """Returns the seconds of a run of the operation that begins now."""
        device = self.devices[uri]
        device.runs += 1
        chance = self.chance(uri, op)
        seconds = device.mean_s(op, size) * math.exp(chance.gauss(0.0, device.noise))
        if chance.random() < device.spikes:
            seconds *= device.SPIKE
        return seconds * math.exp(device.drift * self.clock.now_s)

    def transfer(self, uri: str, nbytes: float) -> float:
        """Moves bytes between host and device. Returns the measured seconds."""
        seconds = self.draw_transfer(uri, nbytes)
        self.clock.advance(seconds)
        return seconds

    def draw_transfer(self, uri: str, nbytes: float) -> float:
        """Returns the seconds of a transfer between host and device that begins now."""
        device = self.devices[uri]
        chance = self.chance(uri, "transfer")
        return device.transfer_s(nbytes) * math.exp(chance.gauss(0.0, device.noise / 2))


LEAST, MOST = 1e3, 1e10
"""The range of sizes, in operations, over which the devices of `machine` differ."""


def machine(seed: int, op: str = "gemm_f32") -> SimMachine:
    """Returns a machine of two to four devices. Each is the best for some sizes between LEAST and
    MOST.

    The first device is a CPU with the host's memory. Each further device is faster for large work
    and costs more to reach, by factors drawn from `seed`. A draw is repeated if one device is best
    for nearly all sizes.
    """
    chance = random.Random(seed)
    while True:
        devices = _devices(chance, op)
        if _crosses(devices, op):
            return SimMachine({d.uri: d for d in devices}, random.Random(chance.random()))


def _devices(chance: random.Random, op: str) -> list[SimDevice]:
    rate = 10 ** chance.uniform(9.5, 10.5)
    launch = 10 ** chance.uniform(-6.5, -5.5)
    noise = chance.uniform(0.02, 0.10)
    devices = [SimDevice("sim:cpu", {op: _rate(chance, launch, rate)}, noise=noise, spikes=0.01)]
    for i in range(chance.randint(1, 3)):
        rate *= 10 ** chance.uniform(0.5, 1.3)
        launch *= 10 ** chance.uniform(0.5, 1.5)
        link = (10 ** chance.uniform(-5.3, -4.3), 10 ** chance.uniform(9.5, 10.7))
        devices.append(
            SimDevice(
                f"sim:gpu{i}",
                {op: _rate(chance, launch, rate)},
                link,
                noise=chance.uniform(0.02, 0.10),
                spikes=0.01,
            )
        )
    return devices


def _rate(chance: random.Random, launch: float, rate: float) -> Rate:
    if chance.random() < 0.5:
        return Rate(launch, rate)
    return Rate(launch, rate, 10 ** chance.uniform(5, 8), chance.uniform(0.1, 0.4))


def nbytes_of(size: float) -> tuple[int, int]:
    """Returns (bytes in, bytes out) of a square float32 product of `size` operations, 2 *
    side**3.
    """
    side = (size / 2) ** (1 / 3)
    return int(8 * side * side), int(4 * side * side)


def true_s(device: SimDevice, op: str, size: float) -> float:
    """Returns the seconds of the operation with its transfers from and to the host,
    without noise.
    """
    into, out = nbytes_of(size)
    return device.transfer_s(into) + device.mean_s(op, size) + device.transfer_s(out)


def _crosses(devices: list[SimDevice], op: str) -> bool:
    """Returns whether each of at least two devices is the best for a tenth of the sizes, on a log
    scale.
    """
    steps = 40
    best = [0] * len(devices)
    for i in range(steps):
        size = LEAST * (MOST / LEAST) ** ((i + 0.5) / steps)
        times = [true_s(d, op, size) for d in devices]
        best[times.index(min(times))] += 1
    return sum(1 for count in best if count >= steps / 10) >= 2
