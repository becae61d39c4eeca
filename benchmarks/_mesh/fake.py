"""Copies between GPUs of the fake driver (tests/fake_cuda), whose time is modelled.

    python -m _mesh.fake staged ROUNDS    over the host, by its slower leg and by a chunk at a time
    python -m _mesh.fake relay ROUNDS     over a third GPU, by over the host

Prints a JSON object. Run by transports.py, which sets the environment.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import sparkle_drv as sp

from .figures import MIB

NBYTES, CHUNK_NBYTES = 64 * MIB, 2 * MIB
Copies = dict[str, Callable[[], object]]


def timed(
    copies: Copies, dst: sp.Array, host: np.ndarray[Any, Any], rounds: int
) -> dict[str, list[float]]:
    """Seconds of each in turns. SystemExit unless all except "leg" bring the bytes of `host`."""
    taken: dict[str, list[float]] = {name: [] for name in copies}
    for at in range(rounds + 1):
        for name in sorted(copies, reverse=at % 2 == 1):
            dst.device.default_queue.submit(sp.Commands().fill(dst, 0)).wait()
            begin = time.perf_counter()
            copies[name]()
            spent = time.perf_counter() - begin
            if name != "leg" and not np.array_equal(dst.numpy(), host):
                raise SystemExit(f"{name}: the bytes are wrong")
            if at:
                taken[name].append(spent)
    return taken


def staged(rounds: int) -> dict[str, object]:
    """Seconds of a copy over the host, of its upload alone from page-locked memory, and of the same
    copy if each chunk arrives before the next one leaves.
    """
    uris = ["cuda:0", "cuda:1"]
    with sp.init(uris, profile=False) as ctx, ctx.create_mesh(uris) as mesh:
        source, to = ctx.devices
        host = np.random.default_rng(1).integers(0, 256, NBYTES, np.uint8)
        src, dst = source.array(host), to.empty(NBYTES, np.uint8)
        pinned = to.buffer(NBYTES, memory=sp.Memory.HOST)
        here = source.buffer(CHUNK_NBYTES, memory=sp.Memory.SHARED)
        fd = here.export()
        there = to.import_buffer(fd, CHUNK_NBYTES)  # the same memory, page-locked for both
        os.close(fd)

        def leg() -> None:
            to.default_queue.submit(sp.Commands().copy(dst.buffer, pinned)).wait()

        def serial() -> None:
            for at in range(0, NBYTES, CHUNK_NBYTES):
                read = sp.Commands().copy(here, src.buffer.view(at, CHUNK_NBYTES))
                source.default_queue.submit(read).wait()
                write = sp.Commands().copy(dst.buffer.view(at, CHUNK_NBYTES), there)
                to.default_queue.submit(write).wait()

        copies: Copies = {"leg": leg, "copy": partial(mesh.copy, dst, src), "serial": serial}
        taken = timed(copies, dst, host, rounds)
        return {**taken, "moved": mesh.moved}


def relay(rounds: int) -> dict[str, object]:
    """Seconds of a copy between GPUs that reach only a third one, and of one over the host. Also
    the bytes that the former moved, and the mesh's text about the route.
    """
    uris = ["cuda:0", "cuda:1", "cuda:2"]
    with sp.init(uris, profile=False) as ctx, ctx.create_mesh(uris) as mesh:
        source, to, _ = ctx.devices
        host = np.random.default_rng(1).integers(0, 256, NBYTES, np.uint8)
        src, dst = source.array(host), to.empty(NBYTES, np.uint8)
        said = mesh.explain_route("cuda:0", "cuda:1", NBYTES)
        before = _bytes()
        mesh.copy(dst, src)
        moved = {name: n - before[name] for name, n in _bytes().items()}
        with ctx.create_mesh(uris[:2]) as pair:  # without the third GPU
            copies: Copies = {
                "copy": partial(mesh.copy, dst, src),
                "host": partial(pair.copy, dst, src),
            }
            taken = timed(copies, dst, host, rounds)
        return {**taken, "moved": moved, "said": said}


def _bytes() -> dict[str, int]:
    """The number of bytes that the driver has copied, by its engine."""
    control = ctypes.CDLL(os.environ["SPARKLE_LIBCUDA"]).fake_cuda_control
    control.restype, control.argtypes = ctypes.c_int64, [ctypes.c_char_p]
    return {name: control(f"bytes {name}".encode()) for name in ("h2d", "d2h", "peer")}


if __name__ == "__main__":
    print(json.dumps({"staged": staged, "relay": relay}[sys.argv[1]](int(sys.argv[2]))))
