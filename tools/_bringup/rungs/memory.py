"""amdgpu: buffer objects, CPU patterns over every heap, addresses, and requests that
must be refused.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import numpy as np

from _bringup.benches.amdgpu import Bench
from _bringup.results.rung import Rung, Wrong
from sparkle_drv.lowlevel import raw, sdma
from sparkle_drv.lowlevel import raw_gpu as gpus

from . import patterns
from .node import refused

PAGE = gpus.PAGE
VISIBLE = raw.lib.AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED
HIDDEN = raw.lib.AMDGPU_GEM_CREATE_NO_CPU_ACCESS
USWC = raw.lib.AMDGPU_GEM_CREATE_CPU_GTT_USWC
# before 6.11, Linux clears memory only with this flag
CLEARED = raw.lib.AMDGPU_GEM_CREATE_VRAM_CLEARED
# For each heap, the domain and flags of GEM_CREATE.
HEAPS = {"gtt": ("gtt", 0), "uswc": ("gtt", USWC), "visible": ("vram", VISIBLE)}
RUNG_NBYTES = 1 << 20


def bo(domain: str, flags: int) -> Callable[[Bench], str]:
    """Returns a rung that makes a BO, maps it, writes and reads a word, and closes it. The new
    memory must be zero.
    """

    def run(b: Bench) -> str:
        gpu = b.gpu()
        for nbytes in (PAGE, 16 * PAGE, 2 << 20):
            made = gpu.create(nbytes, domain, flags)
            view = made.map
            if any(view[:: max(1, nbytes // 64)]):
                raise Wrong(f"expected zeros in a new BO of {nbytes} bytes", not_cleared=True)
            view[0] = view[nbytes - 1] = 0xA5
            if view[0] != 0xA5 or view[nbytes - 1] != 0xA5:
                raise Wrong("a byte reads back with another value than was written", xor_mask="?")
            made.close()
        refused(errno.ENOENT, "GEM_MMAP of a handle that was closed",
                lambda: b.node.call("AMDGPU_GEM_MMAP", "union drm_amdgpu_gem_mmap", handle=0xFFFF),
                )  # fmt: skip
        return "4 KiB, 64 KiB and 2 MiB made, zero, mapped, written, closed"

    return run


def bo_refused(b: Bench) -> str:
    gpu = b.gpu()
    contiguous = raw.lib.AMDGPU_GEM_CREATE_VRAM_CONTIGUOUS
    refused(errno.EINVAL, "GEM_CREATE with a flag that users may not give",
            lambda: gpu.create(PAGE, "vram", contiguous))  # fmt: skip
    refused((errno.ENOMEM, errno.EINVAL), "GEM_CREATE of 2^60 bytes", lambda: gpu.create(1 << 60))
    hidden = gpu.create(PAGE, "vram", HIDDEN)
    refused(errno.EPERM, "GEM_MMAP of a NO_CPU_ACCESS BO", lambda: hidden.map)
    return "a wrong flag, too large a size and a mapping without access are refused"


def pattern(heap: str) -> Callable[[Bench], str]:
    def run(b: Bench) -> str:
        domain, flags = HEAPS[heap]
        made = b.gpu().create(RUNG_NBYTES, domain, flags)
        check(made, heap)
        return f"{RUNG_NBYTES >> 10} KiB of {heap}: {', '.join(patterns.PATTERNS)}"

    return run


def check(buffer: gpus.BufferObject, heap: str, *, base: int = 0, seed: int = 1) -> None:
    """Runs all patterns over a buffer. Raises Wrong with the address and the bits that differ."""
    words = np.frombuffer(buffer.map, np.uint32)
    bad = patterns.sweep(words, base=base or buffer.va, seed=seed)
    del words
    if bad:
        raise bad_memory(heap, bad)


def bad_memory(heap: str, bad: patterns.Bad) -> Wrong:
    bits = bad.xor.bit_count()
    return Wrong(
        f"{heap}: {bad}", mismatch=True, heap=heap, offset=f"{bad.offset:#x}",
        xor_mask=f"{bad.xor:#010x}", one_bit=bits == 1, bad_words=bad.count, pattern=bad.pattern,
    )  # fmt: skip


def hidden_vram(b: Bench) -> str:
    """Tests VRAM that the CPU does not see: SDMA copies patterns there, and back to GTT."""
    b.rings("dma")
    gpu, nbytes = b.gpu(), RUNG_NBYTES
    here, back = gpu.buffer(nbytes), gpu.buffer(nbytes)
    there = gpu.buffer(nbytes, domain="vram", flags=HIDDEN)
    words = np.frombuffer(here.map, np.uint32)
    got = np.frombuffer(back.map, np.uint32)

    def move(source: gpus.BufferObject, target: gpus.BufferObject) -> None:
        ib = sdma.CopyLinear.encode(
            gfx=b.gfx, count={"bytes": nbytes}, src=source.va, dst=target.va
        )
        b.run(gpu, "dma", ib, source, target)

    try:
        for name, image in patterns.images(words.size, there.va, 1, list(patterns.PATTERNS)[1::2]):
            words[:] = image
            got[:] = 0
            move(here, there)
            move(there, back)
            bad = patterns.compare(name, got, image)
            if bad:
                raise bad_memory("vram", bad)
    finally:
        del words, got
    return f"{nbytes >> 10} KiB there and back"


def va_map(b: Bench) -> str:
    gpu = b.gpu()
    one, two = gpu.create(4 * PAGE), gpu.create(4 * PAGE)
    va = gpu.take_va(8 * PAGE)
    gpu.va("MAP", one, va, 4 * PAGE)
    gpu.va("REPLACE", two, va, 4 * PAGE)
    gpu.va("UNMAP", two, va, 4 * PAGE)
    gpu.va("MAP", one, va, 2 * PAGE, offset=PAGE)
    gpu.va("MAP", two, va + 2 * PAGE, 2 * PAGE, rights="r")
    gpu.va("CLEAR", None, va, 8 * PAGE)
    gpu.va("MAP", one, va, 4 * PAGE)
    top = int(b.device.virtual_address_max) - 4 * PAGE
    gpu.va("MAP", two, top, 4 * PAGE)
    gpu.va("UNMAP", two, top, 4 * PAGE)
    gpu.va("UNMAP", one, va, 4 * PAGE)
    return f"mapped, replaced, cut, cleared at {va:#x}; the last pages below {top:#x} too"


def va_refused(b: Bench) -> str:
    gpu = b.gpu()
    made = gpu.create(4 * PAGE)
    va, top = gpu.take_va(8 * PAGE), int(b.device.virtual_address_max)

    def no(what: str, at: int, nbytes: int = PAGE, op: str = "MAP", **more: Any) -> None:
        refused((errno.EINVAL, errno.ENOENT), what, lambda: gpu.va(op, made, at, nbytes, **more))

    no("MAP at an address that is not aligned", va + 0x200)
    no("MAP of half a page", va, PAGE // 2)
    no("MAP at address 0", 0)
    no("MAP in the hole of the address space", top)
    no("MAP beyond the BO", va, 8 * PAGE)
    no("MAP of an offset that is not aligned", va, offset=0x100)
    no("UNMAP of what is not mapped", va, op="UNMAP")
    gpu.va("MAP", made, va, PAGE)
    no("MAP onto a mapping", va)
    gpu.va("UNMAP", made, va, PAGE)
    return "unaligned, address 0, the hole, beyond the BO, twice, and unmapping nothing: refused"


INFO = ("contexts", "memory-info")
RUNGS = (
    Rung("bo-gtt", "buffer objects in GTT", bo("gtt", 0), INFO),
    Rung("bo-vram", "buffer objects in VRAM that the CPU sees", bo("vram", VISIBLE | CLEARED),
         INFO),
    Rung("bo-refused", "buffer objects that must be refused", bo_refused, ("bo-gtt",)),
    Rung("mem-gtt", "CPU patterns over GTT", pattern("gtt"), ("bo-gtt",)),
    Rung("mem-uswc", "CPU patterns over write-combined GTT", pattern("uswc"), ("bo-gtt",)),
    Rung("mem-visible", "CPU patterns over visible VRAM", pattern("visible"), ("bo-vram",)),
    Rung("va-map", "GEM_VA: map, replace, clear, unmap", va_map, ("bo-gtt", "device")),
    Rung("va-refused", "GEM_VA: what must be refused", va_refused, ("va-map",)),
)  # fmt: skip
# This rung needs SDMA, so in the ladder it comes after the rungs that test SDMA packets.
HIDDEN_RUNG = Rung("mem-hidden", "patterns through VRAM that the CPU does not see, by SDMA",
                   hidden_vram, ("sdma-copy",))  # fmt: skip
