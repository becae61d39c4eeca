"""Describes devices as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkle_drv.core.device import Device
from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.sched.model.costs import Costs
from sparkle_drv.sched.model.explain import seconds
from sparkle_drv.sched.operations.table import rate_unit
from sparkle_drv.types import DeviceInfo, in_common


def devices(opened: Sequence[Device], costs: Costs, aside: Mapping[str, str]) -> str:
    """Describes each device in a paragraph: what it is, and its measured rates.

    `aside` has devices that take part only when they are named, each with the reason.
    """
    lines = []
    for device in opened:
        info, node = device.info, costs.nodes[device.uri]
        kind = "emulated " * info.emulated + "software " * info.software + info.kind
        units = f"{info.compute_units} units"
        lines.append(f"{device.uri}: {info.name}, {kind}, {units}, {info.driver}")
        memory = "unified with the host" if info.unified else "its own memory"
        lines.append(f"    {info.memory_nbytes / 2**30:.1f} GiB, {memory}{_shared(device, opened)}")
        lines.append(f"    {_measured(device.uri, costs)}; {_peers(device, opened)}")
        if rates := best(info):
            lines.append(f"    at best: {rates}")
        if device.uri in aside:
            lines.append(f"    not used: {aside[device.uri]}")
        if node.lost:
            lines.append(f"    lost: {node.lost}")
        lines += _unmeasured(device.uri, costs)
        for (source, to), line in sorted(costs.links.items()):
            if device.uri in (source, to):
                way = "from the host" if source == HOST else "to the host"
                if HOST not in (source, to):
                    way = f"from {source}" if to == device.uri else f"to {to}"
                rate = f"{1e-9 / line.b:.3g} GB/s" if line.b else "no rate"
                lines.append(f"    {way}: {seconds(line.a)} and {rate}")
        for (op, uri), speed in sorted(costs.speeds.items()):
            if uri == device.uri:
                rate = f"{1e-9 / speed.line.b:.4g} {rate_unit(op)}" if speed.line.b else "no rate"
                lines.append(
                    f"    {op}: {seconds(speed.line.a)} and {rate}, scatter {speed.noise:.0%}, "
                    f"{speed.runs} runs" + ", predicted" * speed.predicted
                )
    return "\n".join(lines)


def best(info: DeviceInfo) -> str:
    """Describes the peak rates in DeviceInfo; "" if none was measured."""
    flops = [f"{info.peak_gflops:.4g} GFLOPS of float32"] if info.peak_gflops else []
    memory = [f"{info.mem_bw_gbs:.4g} GB/s of its memory"] if info.mem_bw_gbs else []
    return ", ".join(flops + memory)


def _unmeasured(uri: str, costs: Costs) -> list[str]:
    """Returns a line for each operation or link of a device that could not be measured. The line
    says why, and whether the measurement will be tried again.
    """
    lines = []
    for (what, at), failed in sorted(costs.unmeasured.items()):
        if at == uri:
            name = f"from {what}" if what in costs.nodes else what
            name = "from the host and to it" if what == HOST else name
            again = "; tried again when next asked for" if costs.to_probe(what, uri) else ""
            lines.append(f"    {name}: {failed}{again}")
    return lines


def _measured(uri: str, costs: Costs) -> str:
    """Describes the device's best measured rate in each unit: GFLOPS, GB/s and Gelements/s. Leaves
    out a unit in which no class of work was measured. Adds the least latency of all classes.
    """
    best: dict[str, float] = {}
    known = list(costs.speeds.items())  # a copy, because another thread may add an entry meanwhile
    lines = {op: speed.line for (op, at), speed in known if at == uri}
    for op, line in lines.items():
        if line.b:
            unit = rate_unit(op)
            best[unit] = max(best.get(unit, 0.0), 1e-9 / line.b)
    if not lines:
        return "nothing measured yet"
    rates = [f"{rate:.4g} {unit}" for unit, rate in sorted(best.items())]
    latency = f"{seconds(min(line.a for line in lines.values()))} a call"
    return "measured: " + ", ".join([*rates, latency])


def _shared(device: Device, opened: Sequence[Device]) -> str:
    """Describes the resources that the device shares, and the devices that it shares them with.
    Devices that share a resource slow one another down.
    """
    names: dict[str, list[str]] = {}  # resources, by the devices that share them
    for name in device.info.shares:
        others = [d.uri for d in opened if d is not device and in_common((name,), d.info.shares)]
        names.setdefault(", ".join(others), []).append(name)
    words = [
        f"{', '.join(of)} with {them}" if them else ", ".join(of) for them, of in names.items()
    ]
    return f", shares {'; '.join(words)}" if words else ""


def _peers(device: Device, opened: Sequence[Device]) -> str:
    """Names the device's peers, from which the driver copies to this device directly, without the
    host (Queue.copy_peer). Says also if the device exports its memory.
    """
    same = [d.uri for d in opened if d is not device and device.is_peer(d)]
    memory = ", exports its memory" if "ipc" in device.info.features else ""
    return (f"peers: {', '.join(same)}" if same else "no peers") + memory
