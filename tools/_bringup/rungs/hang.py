"""amdgpu, with --allow-hang: deliberate hangs and faults, after which the GPU must work again.

The kernel driver's timeout ends a job that does not end by itself. The timeout is 2 s in new Linux
versions. In old ones it is 10 s, and 60 s for compute (AMDGPU_FACTS 8). Nothing in this file asks
for a reset.
"""

from __future__ import annotations

import errno
from typing import Any

from _bringup.benches.amdgpu import Bench
from _bringup.benches.hw import NOP, Gpu, Job, Late, state_words
from _bringup.results.rung import Rung, Wrong
from sparkle_drv.lowlevel import raw

from . import kernels
from .packets import expect, store

LIMIT_S = 90.0
CANARY_S = 1.0  # native/amdgpu/progress/canary.c
# errnos that a wait for the fence of a killed job may report
ENDS = {errno.ETIME, errno.ECANCELED, errno.ENODATA}


def ended(b: Bench, gpu: Gpu, job: Job) -> str:
    """Waits for a job that cannot end well. Returns the errno's name, or "" if the kernel driver
    reports success.
    """
    try:
        gpu.wait(job, LIMIT_S - 10)
    except raw.IoctlError as error:
        if error.errno not in ENDS:
            raise
        return errno.errorcode[error.errno or 0]
    return ""


def recovered(b: Bench, gpu: Gpu) -> str:
    """Checks that a new context computes. Returns the old context's state."""
    words = state_words(gpu.state())
    fresh = b.gpu()
    fresh.next_va = gpu.next_va + (1 << 30)
    out = fresh.buffer(4096)
    for ring in range(b.rings("compute")):
        b.run(fresh, "compute", store(b, out, 0x600D + ring, ring), out, ring=ring, timeout_s=20)
        expect(f"compute[{ring}] after the hang", out, [0x600D + ring], ring)
    b.facts["last_state"] = words
    return f"the context is {words}, a new one computes"


def program(b: Bench, gpu: Gpu, words: list[int], user: list[int]) -> Job:
    code = gpu.buffer(4096, rights="rx")
    code.write(words)
    ib = kernels.launch(b.gfx, b.engines, code.va, user, (1, 1, 1), (64, 1, 1))
    return gpu.submit("compute", ib, bos=[code])


def endless(b: Bench) -> str:
    gpu = b.gpu()
    job = program(b, gpu, kernels.assemble(kernels.ENDLESS, b.gfx), [])
    how = ended(b, gpu, job)
    if not how:
        raise Wrong("the kernel driver reports that an endless kernel is done", early=True)
    return f"ended with {how}; {recovered(b, gpu)}"


def canary(b: Bench) -> str:
    """Does what the package does after a reset: runs a job of NOPs on each compute ring, each in a
    new context.
    """
    gpu = b.gpu()
    how = ended(b, gpu, program(b, gpu, kernels.assemble(kernels.ENDLESS, b.gfx), []))
    rings = b.rings("compute")
    for ring in range(rings):
        fresh = b.gpu()
        fresh.next_va = gpu.next_va + (ring + 1 << 30)
        try:
            b.run(fresh, "compute", [NOP] * 16, ring=ring, timeout_s=CANARY_S)
        except (Late, raw.IoctlError) as error:
            if getattr(error, "call", "AMDGPU_WAIT_CS") != "AMDGPU_WAIT_CS":
                raise
            raise Wrong(
                f"NOPs on compute[{ring}] do not end within {CANARY_S:g} s of a reset: {error}",
                dead_ring=True,
            ) from None
    return f"ended with {how or 'no error'}; NOPs on {rings} entities end"


def page_fault(b: Bench) -> str:
    gpu = b.gpu()
    gone = gpu.take_va(1 << 20)  # addresses that no page is mapped to
    job = program(b, gpu, kernels.assemble(kernels.STORE, b.gfx), [gone & 0xFFFFFFFF, gone >> 32])
    how = ended(b, gpu, job)
    told = fault(b)
    if told is not None and told[0] and not gone <= told[0] < gone + (1 << 20):
        raise Wrong(f"GPUVM_FAULT says {told[0]:#x}, the store went to {gone:#x}", bad_fault=True)
    said = f"GPUVM_FAULT {told[0]:#x} status {told[1]:#x}" if told else "no GPUVM_FAULT query here"
    # On silicon a page fault alone does not fail the job: the hardware drops the faulty writes and
    # the job continues.
    return f"ended {f'with {how}' if how else 'without an error'}; {said}; {recovered(b, gpu)}"


def fault(b: Bench) -> tuple[int, int, int] | None:
    """Returns the answer of GPUVM_FAULT: address, status, hub. None if the kernel
    driver has no such query.
    """
    try:
        one = b.node.info("GPUVM_FAULT", "struct drm_amdgpu_info_gpuvm_fault")
    except raw.IoctlError as error:
        if error.errno != errno.EINVAL:
            raise
        return None
    return int(one.addr), int(one.status), int(one.vmhub)


def bad_packet(b: Bench) -> str:
    gpu = b.gpu()
    # A packet of two dwords, with opcode 0xFF, which no table declares.
    how = ended(b, gpu, gpu.submit("compute", [0xC000FF00, 0]))
    return f"ended {f'with {how}' if how else 'without an error'}; {recovered(b, gpu)}"


def bad_instruction(b: Bench) -> str:
    gpu = b.gpu()
    words = [kernels.BAD_WORD, *kernels.assemble("", b.gfx)]
    how = ended(b, gpu, program(b, gpu, words, []))
    return f"ended {f'with {how}' if how else 'without an error'}; {recovered(b, gpu)}"


def after(b: Bench) -> str:
    """Computes a product by the public API, after all rungs of this file have hung the GPU."""
    import numpy as np

    import sparkle_drv as sp

    with b.card.device() as dev:
        x = np.arange(64, dtype=np.float32).reshape(8, 8)
        got = sp.ops.gemm(dev, x, x)
    if not np.array_equal(np.asarray(got), x @ x):
        raise Wrong("a matrix product is wrong after the hangs", mismatch=True)
    return "the card opens and computes"


def _rung(name: str, text: str, run: Any, *needs: str) -> Rung:
    return Rung(name, text, run, needs, LIMIT_S, hangs=True)


RUNGS = (
    _rung("reset-canary", "after a reset, a job of NOPs ends", canary, "store"),
    _rung("hang-endless", "an endless kernel is ended, and the GPU comes back", endless, "store"),
    _rung("hang-page-fault", "a store to no page, and the GPU comes back", page_fault, "store"),
    _rung("hang-bad-packet", "an invalid packet, and the GPU comes back", bad_packet, "store"),
    _rung("hang-bad-opcode", "an invalid instruction, and the GPU comes back",
          bad_instruction, "store"),
    _rung("after-hangs", "the card opens and computes as before", after, "store"),
)  # fmt: skip
