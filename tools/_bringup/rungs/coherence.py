"""amdgpu: do readers see earlier writes? Writers and readers are the CPU, waves and the copy
engine; new code and consecutive dispatches are tested, too.

The package's own packets must keep the caches coherent. The kernel driver is asked to flush them
only before copies, because copy packets cannot flush.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from _bringup.benches.amdgpu import Bench
from _bringup.benches.hw import IP, Buffer, Gpu, Job, ffi, lib
from _bringup.results.rung import Rung, Wrong
from sparkle_drv.lowlevel import pm4, sdma

from . import kernels, packets, shader
from .memory import HEAPS

ROUNDS = 4
GROUPS = 32  # workgroups of a dispatch: enough to run on several CUs
WORDS = 64 * GROUPS
Words = shader.Ints


def launch(
    b: Bench, gpu: Gpu, code: Buffer, out: Buffer, *bos: Buffer, user: tuple[int, ...] = ()
) -> None:
    """Launches a dispatch with `out`'s address in s[0:1], and waits for it."""
    values = [out.lo, out.hi, *user]
    ib = kernels.launch(b.gfx, b.engines, code.va, values, (GROUPS, 1, 1), (64, 1, 1))
    b.run(gpu, "compute", ib, code, out, *bos)


def seen(out: Buffer, count: int) -> Words:
    return np.frombuffer(bytes(out.map[: 4 * count]), np.uint32)


def host_coherence(b: Bench) -> str:
    gpu, told = b.gpu(), []
    code = gpu.buffer(4096, rights="rx")
    code.write(kernels.assemble(kernels.ECHO, b.gfx))
    for heap, (domain, flags) in HEAPS.items():
        if domain == "vram" and not b.memory.cpu_accessible_vram.total_heap_size:
            continue
        src = gpu.buffer(4096, domain=domain, flags=flags)
        out = gpu.buffer(8 * WORDS, domain=domain, flags=flags)
        for i in range(1, ROUNDS + 1):
            src.write([(i << 24) + k for k in range(64)])
            launch(b, gpu, code, out, src, user=(src.lo, src.hi, i << 16))
            echoed(heap, i, seen(out, 2 * WORDS))
        told.append(heap)
    return f"{ROUNDS} rounds of CPU, waves, CPU over the same bytes of {', '.join(told)}"


def echoed(heap: str, i: int, got: Words) -> None:
    """Checks what the kernel of round `i` read from memory of `heap` and stored in `got`. The first
    half of `got` comes from vector loads, the second half from scalar loads.

    Bits 24 to 31 of a word are the round in which the CPU wrote what the load read. Bits 16 to 23
    are the round of the dispatch that stored the word.
    """
    lane = np.tile(np.arange(64, dtype=np.uint32), GROUPS)
    base = np.concatenate([lane, np.zeros_like(lane)])
    wrong = np.flatnonzero(got != base + np.uint32((i << 24) + (i << 16)))
    if not wrong.size:
        return
    at = int(wrong[0])
    stale = np.isin(got - base, [(k << 24) + (i << 16) for k in range(1, i)])
    kept = bool(np.isin(got - base, [(k << 24) + (k << 16) for k in range(1, i)]).any())
    old = [n for n, half in (("vector", stale[:WORDS]), ("scalar", stale[WORDS:])) if half.any()]
    what = f"{' and '.join(old)} loads get an older write of the CPU" if old else "wrong values"
    what = "the CPU sees an earlier dispatch's store" if kept else what
    raise Wrong(
        f"{heap}, round {i}: {what}, in {wrong.size} of {got.size} words; the first is {at}: "
        f"{int(got[at]):#010x}",
        mismatch=True, heap=heap, unwritten=not got.any(), stale="+".join(old), kept=kept,
    )  # fmt: skip


def code_cache(b: Bench) -> str:
    gpu = b.gpu()
    code, other, staged, out = (gpu.buffer(n) for n in (4096, 4096, 4096, 4 * WORDS))
    masks = [0x11111111 * (k + 1) for k in range(5)]

    def program(mask: int) -> list[int]:
        return kernels.assemble(kernels.STORE.replace("0xcafebabe", hex(mask)), b.gfx)

    def check(how: str, k: int) -> None:
        launch(b, gpu, code, out, other)
        index = np.arange(WORDS, dtype=np.uint32)
        got = seen(out, WORDS)
        if np.array_equal(got, index ^ np.uint32(masks[k])):
            return
        old = any((got == index ^ np.uint32(m)).any() for m in masks[:k])
        ran = "the earlier code" if old else "something else"
        raise Wrong(
            f"code {how}: expected waves to run the new code, they ran {ran}",
            mismatch=True,
            unwritten=not got.any(),
        )

    for k in range(3):
        code.write(program(masks[k]))
        check("written by the CPU", k)
    other.write(program(masks[3]))
    gpu.va("REPLACE", other, code.va, 4096)
    check("of another BO at this address", 3)
    ways = "written by the CPU, of another BO"
    if int(b.ip("dma").available_rings):
        staged.write(program(masks[4]))
        ib = sdma.CopyLinear.encode(gfx=b.gfx, count={"bytes": 4096}, src=staged.va, dst=code.va)
        b.run(gpu, "dma", ib, staged, other)
        check("copied by SDMA", 4)
        ways += ", copied by SDMA"
    return f"new code at one address, {ways}: waves run it"


def behind(gpu: Gpu, job: Job) -> list[tuple[int, Any]]:
    """Returns a list with one CS chunk, by which a submission waits for `job` of context `gpu`."""
    chunk = ffi.new("struct drm_amdgpu_cs_chunk_dep *")
    chunk.ip_type, chunk.ring, chunk.ctx_id, chunk.handle = IP[job.ip], job.ring, gpu.ctx, job.seq
    return [(lib.AMDGPU_CHUNK_ID_DEPENDENCIES, chunk)]


def copies(b: Bench, places: list[Buffer]) -> list[int]:
    """Returns an IB that copies each buffer of `places` to the next one, with a NOP between the
    copies.
    """
    ib: list[int] = []
    for src, dst in pairwise(places):
        ib += sdma.CopyLinear.encode(gfx=b.gfx, count={"bytes": src.nbytes}, src=src.va, dst=dst.va)
        ib += [0] * 8
    return ib


def order(b: Bench) -> str:
    """Submits a chain of three jobs: compute, copies, compute. Each waits for the one before.
    Further copies wait for no job and must end while the chain still waits.
    """
    b.rings("dma")
    gpu = b.gpu()
    out = gpu.buffer(4096, rights="rwu")
    times = gpu.buffer(4096, rights="rwu")
    places = [gpu.buffer(1 << 16) for _ in range(4)]
    apart = [gpu.buffer(1 << 16) for _ in range(4)]
    for k, place in enumerate((*places[1:], *apart)):
        place.write([k + 1] * (place.nbytes // 4))
    before = b.node.info("TIMESTAMP", "uint64_t")
    gate = packets.await_word(b, out, 1) + packets.store(b, places[0], 0x0DE2)
    gate += packets.release(b, times, 0, data=3)
    first = gpu.submit("compute", gate, bos=[out, times, places[0]])
    free = gpu.submit("dma", copies(b, apart), bos=apart)
    stamp = sdma.SdmaTimestamp.encode(gfx=b.gfx, addr=times.va + 8)
    second = gpu.submit(
        "dma", copies(b, places) + stamp, bos=[times, *places], chunks=behind(gpu, first)
    )
    last = pm4.AcquireMem.encode(gfx=b.gfx, gcr=kernels.ALL_CACHES)
    last += packets.copy(b, 1, places[-1].va, out.va + 8) + packets.release(b, times, 4, data=3)
    third = gpu.submit("compute", last, bos=[out, times, places[-1]], ring=b.rings("compute") - 1,
                       chunks=behind(gpu, second))  # fmt: skip
    beside = gpu.done(free, b.job_s)
    early = gpu.done(second, 0.02) or gpu.done(third, 0.0)
    out.write([1])
    gpu.wait(third, b.job_s)
    if not beside:
        raise Wrong(
            "expected a copy without dependency to end at once, but it waits for a compute job",
            late=True,
        )
    if early:
        raise Wrong("a job ended before the one that it depends on", out_of_order="engines")
    for name, chain, want in (("dependent", places, 0x0DE2), ("free", apart, 4)):
        for k, place in enumerate(chain[1:]):
            if place.words()[0] != want:
                raise Wrong(f"{name} copy {k} of 3 ran before the one that it depends on",
                            out_of_order="copies", mismatch=True)  # fmt: skip
    packets.expect("compute behind copies behind compute", out, [1, 0, 0x0DE2])
    stamps = list(times.map.cast("Q")[:3])
    said = packets.clock_in_order(b, before, stamps, b.node.info("TIMESTAMP", "uint64_t"))
    return f"compute, copies, compute, and copies beside them; {said}"


def dispatches(b: Bench) -> str:
    """Runs three dispatches in one IB, each of which uses the results of the earlier ones."""
    gpu = b.gpu()
    out = gpu.buffer(1 << 14)
    code, more = gpu.buffer(4096, rights="rx"), gpu.buffer(4096, rights="rx")
    code.write(kernels.assemble(kernels.STORE, b.gfx))
    more.write(kernels.assemble(kernels.TWICE, b.gfx))
    ib: list[int] = []
    for program in (code, more, more):
        ib += kernels.launch(b.gfx, b.engines, program.va, [out.lo, out.hi], (50, 1, 1), (64, 1, 1))
    b.run(gpu, "compute", ib, code, more, out)
    first = np.arange(3200, dtype=np.uint32) ^ np.uint32(0xCAFEBABE)
    shader.expect("three dispatches", out, (first * np.uint32(4) + np.uint32(3)).astype(np.uint32))
    return "three dispatches in one IB, each sees the results of the last"


RUNGS = (
    Rung("host-coherence", "waves see the CPU's writes, the CPU the waves' writes", host_coherence,
         ("store",)),
    Rung("code-cache", "waves run new code at an old address", code_cache, ("host-coherence",)),
    Rung("dispatch-order", "dispatches of one IB see each other", dispatches, ("store",)),
    Rung("order", "jobs of several engines, with and without dependency; copies at NOPs", order,
         ("queue-order", "sdma-fence", "timestamps")),
)  # fmt: skip
