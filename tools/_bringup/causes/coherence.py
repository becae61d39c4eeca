"""Likely causes of stale bytes and of work out of order, on amdgpu.

Each cause has a source. "F 9" is section 9 of docs/AMDGPU_FACTS.md; a table in docs/bringup.md
names the sources of the sections.
"""

from __future__ import annotations

from .matching import AGAIN, LOG, Cause

DECODE = "python tools/pm4.py decode dumps/{rung}.ibs.txt"


def _stale(id_: str, loads: str, text: str) -> Cause:
    return Cause(
        id_, text, "F 6.2, 6.3", rungs=("host-coherence",), when=lambda f: f.get("stale") == loads,
        weight=1, next=DECODE,
    )  # fmt: skip


COHERENCE = (
    _stale(
        "l2-stale", "vector+scalar",
        "a cache shared by all waves keeps bytes that the CPU has overwritten: GL2_INV or GL1_INV "
        "of ACQUIRE_MEM does nothing, or the HDP is not emptied (in visible VRAM alone)",
    ),
    _stale(
        "vector-stale", "vector",
        "the vector caches keep bytes that the CPU has overwritten: GLV_INV of ACQUIRE_MEM fails",
    ),
    _stale(
        "scalar-stale", "scalar",
        "the scalar caches keep bytes that the CPU has overwritten: GLK_INV of ACQUIRE_MEM fails",
    ),
    Cause(
        "not-written-back",
        "the CPU sees an earlier job's stores: a fence is signalled before the L2 is written "
        "back",
        "F 6.1",
        rungs=("host-coherence",),
        when=lambda f: f.get("kept"),
        next=AGAIN + "release-mem,fences,host-coherence",
    ),
    Cause(
        "code-stale",
        "waves run older code of this address: GLI_INV of ACQUIRE_MEM does not empty the "
        "instruction caches, or the TLB was not flushed",
        "F 6.1, 6.2",
        rungs=("code-cache", "code-placement"),
        when=lambda f: f.get("mismatch") and not f.get("unwritten"),
        next=DECODE,
    ),
    Cause(
        "out-of-order",
        "dependencies between queues are not kept",
        "F 1.8",
        rungs=("queue-order", "order"),
        when=lambda f: f.get("out_of_order"),
        next=LOG,
    ),
    Cause(
        "copies-overtake",
        "the copy engine runs copies out of order although a NOP stands between them",
        "F 7",
        rungs=("order",),
        when=lambda f: f.get("out_of_order") == "copies",
        weight=1,
        next=AGAIN + "sdma-copy,order",
    ),
)  # fmt: skip
