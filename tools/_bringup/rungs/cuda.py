"""cuda: from the driver library up to peers. Each rung tests only what the next one needs.

Native functions that make no context find the library, call cuInit and read the driver's facts.
From the rung `context` on, the rungs use the package's device, with one or two driver calls each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import sparkle_drv as sp
from _bringup.benches.cuda import Bench
from _bringup.results.rung import Rung, Skip, Wrong
from sparkle_drv.lowlevel import cuda_driver as driver

from .api import LIMIT_S, compare

# CUDA 11.0 is the oldest version with all required symbols of dl/cuda.def. It added the newest of
# them, cuDevicePrimaryCtxRelease_v2.
OLDEST = 11000
PTX = b"""
.version 6.4
.target sm_60
.address_size 64
.visible .entry noop() { ret; }
"""
"""An empty kernel. Its PTX ISA 6.4 is that of CUDA 10.1 (PTX ISA, release notes). The tests'
fake driver knows the name `noop`."""
NODES = 16  # launches in the list of commands that runs as a CUDA graph


def library(b: Bench) -> str:
    rc, out = b.probe()
    tried = driver.text(out.report).splitlines()
    b.facts["tried"] = tried
    if rc:
        raise Wrong(
            "no driver library can be used; tried " + "; ".join(tried),
            tried=tried, no_library=True, lacks_symbol="has no symbol" in " ".join(tried),
            named=bool(b.first),
        )  # fmt: skip
    b.facts["library"] = driver.text(out.library)
    return f"{b.facts['library']}, of {len(tried)} tried: {'; '.join(tried)}"


def init(b: Bench) -> str:
    _, out = b.probe()
    if out.init_result:
        name = driver.text(out.init_name) or f"error {out.init_result}"
        raise Wrong(
            f"expected CUDA_SUCCESS from cuInit, got {name}", cuda_result=name, cuda_call="cuInit"
        )
    return "cuInit: CUDA_SUCCESS"


def version(b: Bench) -> str:
    _, out = b.probe()
    number = int(out.driver_version)
    b.facts["driver_version"] = number
    words = f"CUDA {number // 1000}.{number % 1000 // 10}"
    if number < OLDEST:
        raise Wrong(f"expected a driver for CUDA 11.0 or newer, got one for {words}", old=True)
    return f"the driver is for {words}"


def devices(b: Bench) -> str:
    _, out = b.probe()
    if b.ordinal >= out.device_count:
        raise Wrong(
            f"the driver knows {out.device_count} devices, {b.uri} is none of them", no_device=True
        )
    return "; ".join(driver.text(out.devices).splitlines())


def attributes(b: Bench) -> str:
    info = driver.described(b.first, b.ordinal, b.uri)
    b.facts |= {"name": info.name, "isa": info.isa}
    if not (info.max_group_size and info.compute_units and min(info.max_groups)):
        raise Wrong(f"the device reports impossible limits: {info}", bad_info=True)
    if info.memory_nbytes < 1 << 20:
        raise Wrong(
            f"{info.name}: expected at least 1 MiB of memory, got {info.memory_nbytes} bytes",
            bad_info=True,
        )
    return (
        f"{info.name}, {info.isa}, {info.compute_units} multiprocessors, "
        f"{info.memory_nbytes >> 20} MiB, groups of {info.max_group_size}; "
        f"{', '.join(info.features) or 'no optional features'}"
    )


def context(b: Bench) -> str:
    dev = b.device_api()
    return f"the primary context of {dev.uri} is retained"


def alloc(b: Bench) -> str:
    dev = b.device_api()
    sizes = (1, 4096, 1 << 20, 16 << 20)
    for nbytes in sizes:
        with dev.buffer(nbytes) as made:
            if not made.address:
                raise Wrong(
                    f"expected an address of an allocation of {nbytes} bytes, got 0", bad_info=True
                )
    return "1 byte to 16 MiB, allocated and freed"


def pinned(b: Bench) -> str:
    with b.device_api().buffer(1 << 16, sp.Memory.HOST) as made, made.map() as view:
        words = np.frombuffer(view, np.uint32)
        try:
            words[:] = np.arange(words.size, dtype=np.uint32)
            compare("page-locked memory", words, np.arange(words.size, dtype=np.uint32))
        finally:
            del words
    return "64 KiB of page-locked memory, written and read by the host"


def stream(b: Bench) -> str:
    with b.device_api().queue() as queue:
        return f"a stream at {queue.stream:#x}, made and destroyed"


def copies(b: Bench) -> str:
    dev = b.device_api()
    data = np.arange(70_001, dtype=np.uint32)
    got = np.zeros_like(data)
    with dev.queue() as queue, dev.buffer(data.nbytes) as one, dev.buffer(data.nbytes) as two:
        queue.write(one, data)
        queue.submit(sp.Commands().copy(two, one))
        queue.read(two, got).wait(LIMIT_S)
    compare("H2D, D2D, D2H", got, data)
    return f"{data.nbytes} bytes to the device, on it, and back"


def event(b: Bench) -> str:
    dev = b.device_api()
    with dev.queue(timing=True) as queue, dev.buffer(4096) as made:
        fence = queue.submit(sp.Commands().fill(made, 0))
        fence.wait(LIMIT_S)
        taken = fence.time_ns
    if not 0 < taken < LIMIT_S * 1e9:
        raise Wrong(f"impossible time of a fill of 4 KiB by its events: {taken} ns", bad_clock=True)
    return f"two events around a fill, {taken / 1e3:.1f} us apart"


def noop(b: Bench) -> Any:
    return b.device_api().kernel(image=PTX, entry="noop", args="", group_size=1)


def ptx(b: Bench) -> str:
    with noop(b) as kernel:
        found = kernel.resources
        return f"PTX compiled for {found.isa}, {found.registers} registers"


def launch(b: Bench) -> str:
    with noop(b) as kernel, b.device_api().queue() as queue:
        for _ in range(20):
            queue.launch(kernel, groups=1).wait(LIMIT_S)
    return "20 empty launches, each waited for"


def graph(b: Bench) -> str:
    dev = b.device_api()
    if "graphs" not in dev.info.features:
        raise Skip("this driver has no graphs that can be updated, which need CUDA 12.0")
    with noop(b) as kernel, dev.queue() as queue:
        commands = sp.Commands()
        for _ in range(NODES):
            commands.dispatch(kernel, groups=1)
        backend: Any = dev._backend
        before = backend.counters()["graph_launches"]
        for _ in range(4):
            queue.submit(commands).wait(LIMIT_S)
        count = backend.counters()["graph_launches"] - before
    if count != 3:  # from its second submission on, a list of commands runs as a CUDA graph
        raise Wrong(
            f"expected 3 of 4 submissions of a list to run as CUDA graphs, got {count}",
            graphs=count,
        )
    return f"a list of {NODES} launches, submitted four times, three of them as a graph"


def peer(b: Bench) -> str:
    _, out = b.probe()
    if out.device_count < 2:
        raise Skip("expected two CUDA devices for a peer copy, got one")
    other = f"cuda:{1 if b.ordinal == 0 else 0}"
    data = np.arange(20_000, dtype=np.uint32)
    got = np.zeros_like(data)
    dev = b.device_api()
    with sp.open(other) as far, far.array(data) as src, dev.buffer(data.nbytes) as dst:
        dev.default_queue.copy_peer(dst, src.buffer).wait(LIMIT_S)
        dev.default_queue.read(dst, got).wait(LIMIT_S)
    compare(f"from {other}", got, data)
    return f"{data.nbytes} bytes from {other}"


RUNGS = (
    Rung("library", "libcuda.so.1 is found, with all required symbols", library),
    Rung("init", "cuInit", init, ("library",)),
    Rung("version", "cuDriverGetVersion: new enough", version, ("library",)),
    Rung("devices", "cuDeviceGetCount: the device is one of them", devices, ("init",)),
    Rung("attributes", "cuDeviceGetAttribute: numbers that make sense", attributes, ("devices",)),
    Rung("context", "cuDevicePrimaryCtxRetain", context, ("attributes", "version")),
    Rung("alloc", "device memory, allocated and freed", alloc, ("context",)),
    Rung("pinned", "page-locked host memory", pinned, ("context",)),
    Rung("stream", "cuStreamCreate", stream, ("context",)),
    Rung("copies", "copies to the device, on it, and back", copies, ("alloc", "stream")),
    Rung("event", "events with times", event, ("alloc", "stream")),
    Rung("ptx", "cuModuleLoadDataEx compiles PTX", ptx, ("context",)),
    Rung("launch", "cuLaunchKernel", launch, ("ptx", "stream")),
    Rung("graph", "a list submitted again, as a CUDA graph", graph, ("launch",), LIMIT_S),
    Rung("peer", "a copy from another device", peer, ("copies",), LIMIT_S),
)
