"""One repetition of the measurement of one peer, in its own process.

`-m _gpu_peers.child NAME BORN JIT.ptx TAG [--quick]` prints a JSON object of figures. BORN is
CLOCK_MONOTONIC in ns when the process was started. JIT.ptx is compiled for the figures of compiling
PTX. TAG makes its text unique, so that no cache has its code yet.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from _gpu_peers import images
from _gpu_peers.base import Call, Peer

GRAPHS = (1, 10, 100, 1000)
SIZES = (*(4096 << 3 * i for i in range(6)), 1 << 30)  # 4 KiB to 128 MiB, 1 GiB
FEW, MANY = 20, 60  # rounds
BATCH = 100  # launches between two waits: far fewer than a driver's queue holds
COPY_NBYTES = 1 << 30  # approximate sum of the bytes of all copies of one size
# once the rounds of one figure have taken this many ns in all, no further round begins
FIGURE_NS = 1_000_000_000


def rss_mib() -> float:
    """Returns the resident memory of this process in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def each(call: Call, sync: Call, rounds: int, batch: int) -> float:
    """Returns the median ns that a call takes on the host. Calls are made in batches of `batch`;
    the wait after a batch is not counted.
    """
    taken = []
    for _ in range(rounds + 1):
        start = time.perf_counter_ns()
        for _ in range(batch):
            call()
        taken.append((time.perf_counter_ns() - start) / batch)
        sync()
    return median(taken[1:])  # the first round warms up


def whole(call: Call, sync: Call, rounds: int) -> float:
    """Returns the median ns of a call and the wait for it. Two rounds always run; no further
    round begins after FIGURE_NS.
    """
    taken: list[int] = []
    while len(taken) < 2 or (len(taken) <= rounds and sum(taken) < FIGURE_NS):
        start = time.perf_counter_ns()
        call()
        sync()
        taken.append(time.perf_counter_ns() - start)
    return median(taken[1:])  # the first round warms up


class Figures:
    """The measured figures of a peer by name. For a figure that could not be measured, `errors` has
    the reason.
    """

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.errors: dict[str, str] = {}

    def take(self, name: str, measure: Callable[[], float]) -> None:
        try:
            self.values[name] = measure()
        except NotImplementedError:
            pass  # the peer lacks this ability
        except Exception as error:  # a library may raise anything; other figures are still measured
            self.errors[name] = f"{type(error).__name__}: {error}"[:300]


def measure(peer: Peer, born: int, jit: bytes, tag: str, quick: bool) -> dict[str, object]:
    """Returns all figures of one peer in seconds, MiB or ns. Figures of graphs and copies include
    the wait.
    """
    found = Figures()
    first = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    version = peer.start()
    imported = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    peer.init()
    opened = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    probe = 4  # the number of kernel arguments; every peer supports 4
    memory: list[object] = [peer.device(4096) for _ in range(4)]
    kernel = peer.kernel(images.empty(probe), images.ENTRY, images.TYPES[probe])
    args = images.arguments(probe, memory)
    peer.launch(kernel, args)()
    peer.sync()
    done = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    found.values |= {
        "python_s": (first - born) / 1e9,
        "import_s": (imported - first) / 1e9,
        "init_s": (opened - imported) / 1e9,
        "first_kernel_s": (done - opened) / 1e9,
        "start_s": (done - born) / 1e9,
        "rss_mib": rss_mib(),
    }
    rounds = 3 if quick else MANY

    def launched(count: int) -> float:
        loaded = peer.kernel(images.empty(count), images.ENTRY, images.TYPES[count])
        call = peer.launch(loaded, images.arguments(count, memory))
        return each(call, peer.sync, rounds, BATCH)

    for count in images.TYPES:
        found.take(f"launch_{count}_ns", lambda count=count: launched(count))  # type: ignore[misc]
    found.take("prepared_4_ns", lambda: each(peer.prepared(kernel, args), peer.sync, rounds, BATCH))
    found.take("launch_sync_ns", lambda: whole(peer.launch(kernel, args), peer.sync, rounds))
    for nodes in GRAPHS:
        found.take(
            f"graph_{nodes}_ns",
            lambda nodes=nodes: whole(peer.graph(kernel, args, nodes), peer.sync, rounds),  # type: ignore[misc]
        )
    _copies(peer, found, quick)

    def pair() -> None:
        peer.free(peer.device(1 << 20))

    found.take("alloc_free_ns", lambda: each(pair, peer.sync, rounds, 10))
    fresh = images.unseen(jit, tag)

    def loaded() -> float:
        once, start = peer.load(fresh, "gemm_f32"), time.perf_counter_ns()
        once()
        return time.perf_counter_ns() - start

    found.take("ptx_cold_ns", loaded)
    found.take("ptx_cached_ns", loaded)
    return {"version": version, "values": found.values, "errors": found.errors}


def _copies(peer: Peer, found: Figures, quick: bool) -> None:
    for nbytes in SIZES[:2] if quick else SIZES:
        try:
            to, of = peer.device(nbytes), peer.device(nbytes)
        except Exception as error:  # a library may raise anything
            found.errors[f"d2d_{nbytes}_ns"] = f"{type(error).__name__}: {error}"[:300]
            continue
        _copies_of(peer, found, nbytes, to, of, quick)
        peer.free(to)
        peer.free(of)


def _copies_of(peer: Peer, found: Figures, nbytes: int, to: Any, of: Any, quick: bool) -> None:
    rounds = 3 if quick else max(3, min(FEW, COPY_NBYTES // nbytes))

    def take(name: str, make: Callable[[], Call]) -> None:
        found.take(f"{name}_{nbytes}_ns", lambda: whole(make(), peer.sync, rounds))

    for kind in ("pageable", "pinned"):
        try:
            host = peer.host(nbytes, kind == "pinned")
        except NotImplementedError:
            continue
        take(f"h2d_{kind}", partial(peer.h2d, to, host))
        take(f"d2h_{kind}", partial(peer.d2h, host, to))
    take("d2d", partial(peer.d2d, to, of))


def main(argv: list[str]) -> int:
    name, born, jit, tag, *rest = argv
    try:
        peer = import_module(f".{name}", __package__).PEER()
        image = Path(jit).read_bytes() + b"\0"
        told = measure(peer, int(born), image, tag, "--quick" in rest)
    except ImportError as error:
        told = {"absent": str(error)}
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
