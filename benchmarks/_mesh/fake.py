"""Times copies between GPUs of the fake driver (tests/fake_cuda), which models the copies' time.

    python -m _mesh.fake staged ROUNDS    a copy over the host; only an upload; a copy by chunks
    python -m _mesh.fake relay ROUNDS     a copy over a third GPU; a copy over the host

Prints a JSON object. transports.py runs it and sets the environment.
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
    """Times the copies in turns and returns the seconds of each.

    Raises SystemExit unless each copy brings the bytes of `host` to `dst`. The copy named "leg"
    does not write `dst` and is not checked.
    """
    taken: dict[str, list[float]] = {name: [] for name in copies}
    for at in range(rounds + 1):
        for name in sorted(copies, reverse=at % 2 == 1):
            dst.device.default_queue.submit(sp.Commands().fill(dst, 0)).wait()
            begin = time.perf_counter()
            copies[name]()
            spent = time.perf_counter() - begin
            if name != "leg" and not np.array_equal(dst.numpy(), host):
                raise SystemExit(f"{name}: the copied bytes are wrong")
            if at:
                taken[name].append(spent)
    return taken


def staged(rounds: int) -> dict[str, object]:
    """Returns the seconds of three transfers and the bytes that the mesh moved.

    The transfers are a copy over the host ("copy"), an upload alone from page-locked memory
    ("leg"), and a copy in which each chunk arrives before the next one leaves ("serial").
    """
    uris = ["cuda:0", "cuda:1"]
    with sp.init(uris, profile=False) as ctx, ctx.create_mesh(uris) as mesh:
        source, to = ctx.devices
        host = np.random.default_rng(1).integers(0, 256, NBYTES, np.uint8)
        src, dst = source.array(host), to.empty(NBYTES, np.uint8)
        pinned = to.buffer(NBYTES, memory=sp.Memory.HOST)
        here = source.buffer(CHUNK_NBYTES, memory=sp.Memory.SHARED)
        fd = here.export()
        # `there` is the memory of `here`, imported by the second GPU; from then on it is
        # page-locked for both GPUs
        there = to.import_buffer(fd, CHUNK_NBYTES)
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
    """Returns the seconds of a copy over a third GPU ("copy") and of one over the host ("host").

    The two GPUs reach only the third one directly. The result also has the bytes that the first
    copy moved, and the mesh's text about its route.
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
        with ctx.create_mesh(uris[:2]) as pair:  # a mesh without the third GPU
            copies: Copies = {
                "copy": partial(mesh.copy, dst, src),
                "host": partial(pair.copy, dst, src),
            }
            taken = timed(copies, dst, host, rounds)
        return {**taken, "moved": moved, "said": said}


def _bytes() -> dict[str, int]:
    """Returns the number of bytes that the fake driver has copied, for each engine."""
    control = ctypes.CDLL(os.environ["SPARKLE_LIBCUDA"]).fake_cuda_control
    control.restype, control.argtypes = ctypes.c_int64, [ctypes.c_char_p]
    return {name: control(f"bytes {name}".encode()) for name in ("h2d", "d2h", "peer")}


if __name__ == "__main__":
    print(json.dumps({"staged": staged, "relay": relay}[sys.argv[1]](int(sys.argv[2]))))
