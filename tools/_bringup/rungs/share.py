"""amdgpu: the host's own memory, memory that is shared by PRIME, and many jobs at once."""

from __future__ import annotations

import mmap
import os
import time

import numpy as np

from _bringup.benches.amdgpu import Bench
from _bringup.benches.hw import NOP, Buffer, Gpu, ffi, lib, pointer
from _bringup.results.rung import Rung, Skip, Wrong
from sparkle_drv.lowlevel import sdma

from . import kernels, patterns
from .memory import bad_memory
from .packets import expect, store

REGISTER = lib.AMDGPU_GEM_USERPTR_REGISTER | lib.AMDGPU_GEM_USERPTR_VALIDATE
STRESS_JOBS = 96
PAGES = 1024
# Largest time, in ns, by which each 4 KiB page of host memory may lengthen a submission that lists
# the memory. A real kernel driver needs some tens of ns, the emulated one about 1000.
MOST_PAGE_NS = 10_000


def userptr(b: Bench) -> str:
    gpu, nbytes = b.gpu(), 1 << 16
    # The mapping is private: a shared mapping belongs to a file, which userptr's flag ANONONLY
    # refuses.
    own = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    view = np.frombuffer(own, np.uint32)
    made = b.node.call(
        "AMDGPU_GEM_USERPTR", "struct drm_amdgpu_gem_userptr",
        addr=pointer(ffi.from_buffer(own)), size=nbytes,
        flags=REGISTER | lib.AMDGPU_GEM_USERPTR_ANONONLY,
    )  # fmt: skip
    buffer = gpu.adopt(made.handle, nbytes)
    view[8] = 0x1234
    dwords = store(b, buffer, 0xBEEF, 5)
    b.run(gpu, "compute", dwords, buffer)
    got = [int(view[5]), int(view[8])]
    if got != [0xBEEF, 0x1234]:
        raise Wrong(
            f"host memory: expected 0xbeef from the GPU and 0x1234 from the CPU, got "
            f"{got[0]:#x} and {got[1]:#x}",
            mismatch=True,
        )
    buffer.close()
    del view
    return "64 KiB of the host's own memory, written by the GPU"


def userptr_cost(b: Bench) -> str:
    """Measures the cost per page of listing host memory in a submission. The kernel driver checks
    all pages, whatever the job touches.
    """
    gpu, nbytes = b.gpu(), PAGES * 4096
    own = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    view = np.frombuffer(own, np.uint32)
    view[::1024] = 1  # touches every page, so that the page exists
    made = b.node.call(
        "AMDGPU_GEM_USERPTR", "struct drm_amdgpu_gem_userptr",
        addr=pointer(ffi.from_buffer(own)), size=nbytes,
        flags=REGISTER | lib.AMDGPU_GEM_USERPTR_ANONONLY,
    )  # fmt: skip
    buffer = gpu.adopt(made.handle, nbytes)
    without, listed = (_submission(b, gpu, bos) for bos in ([], [buffer]))
    buffer.close()
    del view
    page_ns = max(0, listed - without) // PAGES
    told = f"{page_ns} ns per page of listed host memory, {page_ns >> 2} ms per GiB"
    if page_ns > MOST_PAGE_NS:
        raise Wrong(f"{told}: expected at most {MOST_PAGE_NS} ns per page", slow_userptr=page_ns)
    return f"{told}; {without // 1000} us without"


def _submission(b: Bench, gpu: Gpu, bos: list[Buffer]) -> int:
    """Returns the ns of the fastest of five submissions of NOPs that list the buffers `bos`."""
    took = []
    for _ in range(5):
        began = time.monotonic_ns()
        job = gpu.submit("compute", [NOP] * 16, bos=bos)
        took.append(time.monotonic_ns() - began)
        gpu.wait(job, b.job_s)
    return min(took)


def prime(b: Bench) -> str:
    if not b.facts.get("cap_prime", 3) & 3 == 3:
        raise Skip("expected GET_CAP PRIME to report export and import, got less")
    gpu = b.gpu()
    mine = gpu.buffer(8192)
    flags = lib.DRM_CLOEXEC | lib.DRM_RDWR
    fd = b.node.call(
        "PRIME_HANDLE_TO_FD", "struct drm_prime_handle", handle=mine.handle, flags=flags
    ).fd
    try:
        other = b.hold(b.card.open())
        handle = other.call("PRIME_FD_TO_HANDLE", "struct drm_prime_handle", fd=fd).handle
    finally:
        os.close(fd)
    peer: Gpu = b.hold(Gpu(other))
    theirs = peer.adopt(handle, 8192)
    mine.write([7, 8])
    b.run(peer, "compute", store(b, theirs, 9, 2), theirs)
    expect("by PRIME, on this side", mine, [7, 8, 9])
    expect("by PRIME, on the other side", theirs, [7, 8, 9])
    return "a BO exported, imported by another open of the node, written there, read here"


def stress(b: Bench) -> str:
    """Submits many jobs on all rings at once. Each job writes its own block of one buffer. All
    results are compared at the end.
    """
    gpu, each = b.gpu(), 4096
    rings, dma = b.rings("compute"), int(b.ip("dma").available_rings).bit_count()
    src, out = gpu.buffer(each), gpu.buffer(STRESS_JOBS * each)
    image = next(i for n, i in patterns.images(each // 4, 0, 7, ["random"]))
    np.frombuffer(src.map, np.uint32)[:] = image
    code = gpu.buffer(4096, rights="rx")
    code.write(kernels.assemble(kernels.STORE, b.gfx))
    last = {}
    for i in range(STRESS_JOBS):
        va = out.va + i * each
        if dma and i % 3 == 0:
            ring = i % dma
            dwords = sdma.CopyLinear.encode(gfx=b.gfx, count={"bytes": each}, src=src.va, dst=va)
            last["dma", ring] = gpu.submit("dma", dwords, bos=[src, out], ring=ring)
        else:
            ring = i % rings
            user = [va & 0xFFFFFFFF, va >> 32]
            dwords = kernels.launch(b.gfx, b.engines, code.va, user, (16, 1, 1), (64, 1, 1))
            last["compute", ring] = gpu.submit("compute", dwords, bos=[code, out], ring=ring)
    for job in last.values():
        gpu.wait(job, b.job_s)
    got = np.frombuffer(bytes(out.map), np.uint32).reshape(STRESS_JOBS, -1)
    index = np.arange(each // 4, dtype=np.uint32) ^ np.uint32(0xCAFEBABE)
    for i in range(STRESS_JOBS):
        want = image if dma and i % 3 == 0 else index
        bad = patterns.compare(f"job {i}", got[i], want, i * each)
        if bad:
            raise bad_memory("gtt", bad)
    return f"{STRESS_JOBS} jobs on {rings} compute and {dma} dma entities at once"


RUNGS = (
    Rung("userptr", "GEM_USERPTR: the host's own memory", userptr, ("write-data",)),
    Rung("userptr-cost", "the cost of listing host memory", userptr_cost, ("userptr",)),
    Rung("prime-self", "PRIME export and import to the same card", prime, ("write-data", "caps")),
    Rung("stress", "many jobs on all rings at once", stress, ("store",), limit_s=60),
)
