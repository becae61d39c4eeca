"""Families of devices: the rungs of a URI's ladder, and the open device on which they work.

A family is a name, its rungs lowest first, and a function that makes a Bench: one device, and what
is known about it. To add a family, add an entry to FAMILIES. Rungs of the public API (rungs/api.py)
belong to all families.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from _console.problems import NoSuchDevice

from _bringup.benches import amdgpu as bench_amdgpu
from _bringup.benches import api as bench_api
from _bringup.benches import cuda as bench_cuda
from _bringup.benches.card import Emulated, Real
from _bringup.results.rung import Rung
from _bringup.rungs import api as rungs_api
from _bringup.rungs import assumptions as rungs_assumed
from _bringup.rungs import coherence as rungs_coherence
from _bringup.rungs import cuda as rungs_cuda
from _bringup.rungs import hang as rungs_hang
from _bringup.rungs import isa_name as rungs_isa_name
from _bringup.rungs import memory as rungs_memory
from _bringup.rungs import node as rungs_node
from _bringup.rungs import packets as rungs_packets
from _bringup.rungs import shader as rungs_shader
from _bringup.rungs import share as rungs_share
from _bringup.rungs import sync as rungs_sync
from sparkle_drv.testing.emulated_options import card_problem

AMDGPU = (
    *rungs_node.RUNGS,
    *rungs_isa_name.RUNGS,
    *rungs_memory.RUNGS,
    *rungs_packets.RUNGS,
    rungs_memory.HIDDEN_RUNG,
    *rungs_sync.RUNGS,
    *rungs_shader.RUNGS,
    *rungs_coherence.RUNGS,
    *rungs_share.RUNGS,
    *rungs_assumed.RUNGS,
    *rungs_api.rungs("api-", ("store",)),
    *rungs_hang.RUNGS,
)

CUDA = (*rungs_cuda.RUNGS, *rungs_api.rungs("api-", ("launch", "copies")))


@dataclass(frozen=True)
class Family:
    """A family of devices. `bench(uri)` returns the object on which the rungs work, a Bench of
    benches/. The first rung opens its device.
    """

    name: str
    uris: str  # regular expression that the family's URIs match
    rungs: tuple[Rung, ...]
    bench: Callable[[str], Any]
    text: str


def _card(uri: str) -> str:
    """Returns the name of the card in the URI of an emulated GPU: "gfx1100" for "emu:gfx1100#1"."""
    return uri.partition(":")[2].partition("#")[0] or "gfx1100"


def _emulated(uri: str) -> bench_amdgpu.Bench:
    return bench_amdgpu.Bench(Emulated(_card(uri)))


FAMILIES = (
    Family("amdgpu", r"(amdgpu|amd)(:\d+)?|/.+", AMDGPU,
           lambda uri: bench_amdgpu.Bench(Real(re.sub(r"^amd(?=:|$)", "amdgpu", uri))),
           "a render node, by number or path"),
    Family("emu", r"emu(:[\w.:-]+(#\d)?)?", AMDGPU, _emulated,
           "an emulated card of its own machine: a chip, and options after colons"),
    Family("cuda", r"(cuda|nvidia)(:\d+)?", CUDA,
           lambda uri: bench_cuda.Bench(re.sub(r"^nvidia(?=:|$)", "cuda", uri)),
           "an NVIDIA GPU, by number"),
    Family("api", r"([\w.-]+/)?\w+(:.*)?", rungs_api.rungs(), bench_api.Bench,
           "any other device, over the public API: cpu, egl:0, box1/cuda:0, ..."),
)  # fmt: skip


def of(uri: str) -> Family:
    """Returns the family of devices to which a URI belongs. Raises NoSuchDevice if there is none,
    or if the URI names an emulated card that does not exist.
    """
    for family in FAMILIES:
        if re.fullmatch(family.uris, uri):
            if family.name == "api" and re.match(r"(emu|amd|amdgpu)\b", uri):
                break
            problem = card_problem(_card(uri)) if family.name == "emu" else ""
            if problem:
                raise NoSuchDevice(f"{uri!r} names no emulated card: {problem}")
            return family
    raise NoSuchDevice(f"{uri!r}: expected amdgpu[:N], a render node's path, cuda:0, emu:gfx1100, "
                       "emu:gfx1036, cpu, egl:0 or a URI of `sparkle.py info`")  # fmt: skip
