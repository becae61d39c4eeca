"""amdgpu: waves, from an empty program to LDS, scratch and wave64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from _bringup.benches.amdgpu import Bench
from _bringup.benches.hw import Buffer, Gpu
from _bringup.results.rung import Rung, Wrong

from . import kernels

Ints = npt.NDArray[np.uint32]


def dispatch(
    b: Bench, gpu: Gpu, text: str, out: Buffer, groups: Sequence[int], size: Sequence[int], *,
    user: Sequence[int] = (), bos: Sequence[Buffer] = (), ip: str = "compute", ring: int = 0,
    raw_words: Sequence[int] = (), **more: Any,
) -> list[int]:  # fmt: skip
    """Assembles and uploads a program, launches it with `out`'s address in s[0:1], and waits.
    Returns the IB.
    """
    words = kernels.assemble(text, b.gfx)
    words = [*raw_words, *words]
    # 256 bytes more, because the GPU fetches instructions ahead
    code = gpu.buffer(4 * len(words) + 256, rights="rx")
    code.write(words)
    values = [out.va & 0xFFFFFFFF, out.va >> 32, *user]
    ib = kernels.launch(b.gfx, b.engines, code.va, values, groups, size, **more)
    b.run(gpu, ip, ib, code, out, *bos, ring=ring)
    return ib


def expect(what: str, out: Buffer, want: Ints) -> None:
    """Raises Wrong unless `out` begins with the dwords `want` and is zero after them."""
    got = np.frombuffer(bytes(out.map), np.uint32)
    full = np.zeros(got.size, np.uint32)
    full[: want.size] = want
    wrong = np.flatnonzero(got != full)
    if wrong.size:
        at = int(wrong[0])
        xor = int(got[at] ^ full[at])
        raise Wrong(
            f"{what}: {wrong.size} of {want.size} results are wrong, the first is {at}: "
            f"{int(got[at]):#010x}, expected {int(full[at]):#010x}",
            mismatch=True, xor_mask=f"{xor:#010x}", unwritten=not got.any(),
        )  # fmt: skip


def endpgm(b: Bench) -> str:
    gpu, rings = b.gpu(), b.rings("compute")
    out = gpu.buffer(4096)
    for ring in range(rings):
        dispatch(b, gpu, "", out, (1, 1, 1), (64, 1, 1), ring=ring)
    dispatch(b, gpu, "", out, (64, 1, 1), (256, 1, 1))
    expect("s_endpgm", out, np.zeros(0, np.uint32))
    return f"a group on each of {rings} entities, then 64 groups"


def store(b: Bench) -> str:
    gpu = b.gpu()
    sizes = (1, 7, 300)
    for groups in sizes:
        out = gpu.buffer(256 * groups + 64)
        dispatch(b, gpu, kernels.STORE, out, (groups, 1, 1), (64, 1, 1))
        index = np.arange(64 * groups, dtype=np.uint32)
        expect(f"{groups} groups", out, index ^ np.uint32(0xCAFEBABE))
    return f"{', '.join(map(str, sizes))} groups of 64"


def store_gfx(b: Bench) -> str:
    b.rings("gfx")
    gpu = b.gpu()
    out = gpu.buffer(4096)
    dispatch_on_gfx(b, gpu, out)
    index = np.arange(128, dtype=np.uint32)
    expect("gfx ring", out, index ^ np.uint32(0xCAFEBABE))
    return "2 groups of 64 on the gfx ring"


def dispatch_on_gfx(b: Bench, gpu: Gpu, out: Buffer) -> None:
    """Dispatches on the gfx ring. There the headers of the packets must say that the shader is a
    compute shader.
    """
    from sparkle_drv.lowlevel import pm4

    words = kernels.assemble(kernels.STORE, b.gfx)
    code = gpu.buffer(4 * len(words) + 256, rights="rx")
    code.write(words)
    values = [out.va & 0xFFFFFFFF, out.va >> 32]
    ib = kernels.launch(b.gfx, b.engines, code.va, values, (2, 1, 1), (64, 1, 1))
    shader = (pm4.SetShReg.OPCODE, pm4.DispatchDirect.OPCODE)
    marked: list[int] = []
    for one in pm4.stream(ib, b.gfx, "gfx"):
        dwords = list(one.dwords)
        if dwords[0] >> 8 & 0xFF in shader:
            dwords[0] |= 2  # shader type bit: compute (AMDGPU_FACTS 3.1)
        marked += dwords
    b.run(gpu, "gfx", marked, code, out)


def vram(b: Bench) -> str:
    gpu = b.gpu()
    out = gpu.buffer(1 << 16, domain="vram", flags=1)
    dispatch(b, gpu, kernels.STORE, out, (100, 1, 1), (64, 1, 1))
    expect("VRAM", out, np.arange(6400, dtype=np.uint32) ^ np.uint32(0xCAFEBABE))
    return "100 groups of 64 into VRAM, read by the CPU"


def ids3(b: Bench) -> str:
    gpu = b.gpu()
    out = gpu.buffer(4096)
    dispatch(b, gpu, kernels.IDS3, out, (3, 2, 4), (4, 3, 2))
    gz, gy, gx, tz, ty, tx = np.meshgrid(
        *(np.arange(n, dtype=np.uint32) for n in (4, 2, 3, 2, 3, 4)), indexing="ij"
    )
    want = tx | ty << 4 | tz << 8 | gx << 12 | gy << 16 | gz << 20
    expect("3-D ids", out, want.astype(np.uint32).reshape(-1))
    return "groups (3, 2, 4) of (4, 3, 2): six ids each"


def lds(b: Bench) -> str:
    gpu = b.gpu()
    out = gpu.buffer(4096)
    dispatch(b, gpu, kernels.LDS, out, (1, 1, 1), (256, 1, 1), lds_nbytes=1024)
    want = (255 - np.arange(256, dtype=np.uint32)) * np.uint32(0x101)
    expect("LDS", out, want)
    return "256 threads in 8 waves exchange words across a barrier"


def scratch(b: Bench) -> str:
    keep(b, "scratch", 64, 4, 128)  # four waves per group, so that some share a CU and its cache
    return "512 threads keep four words each and take them back"


def scratch_per_engine(b: Bench) -> str:
    """Tests scratch memory with the fewest slots that each shader engine needs: one for each wave
    of one group.
    """
    groups = min(4 * b.engines, 24)
    keep(b, "scratch per engine", 8, groups, 256)
    return f"{groups} groups of 8 waves on {b.engines} engines, with 8 slots of scratch in each"


def keep(b: Bench, what: str, slots: int, groups: int, size: int) -> None:
    """Runs a program in which each thread stores four words in scratch and reads them back. `slots`
    is the number of scratch slots per shader engine.

    The field WAVES of COMPUTE_TMPRING_SIZE counts one engine's slots on gfx11. On older chips it
    counts the slots of all engines (AMDGPU_FACTS 5.5).
    """
    gpu, gfx = b.gpu(), b.gfx
    wave_nbytes, waves = 1024, slots * (1 if gfx == 11 else b.engines)
    memory = gpu.buffer(wave_nbytes * slots * b.engines, rights="rw")
    out = gpu.buffer(4 * groups * size + 4096)
    # The last four words are the buffer descriptor of the scratch memory; its word3 is that for
    # wave32 (AMDGPU_FACTS 5.5).
    user = [0, 0, memory.va & 0xFFFFFFFF, memory.va >> 32 | 1 << 31, 0xFFFFFFFF, 0x21C14FAC]
    given = kernels.Scratch(memory.va, wave_nbytes, waves)
    text = kernels.scratch(gfx)
    shape = (groups, 1, 1), (size, 1, 1)
    dispatch(b, gpu, text, out, *shape, user=user, bos=[memory], scratch=given)
    # The programs assume groups of 64 threads: larger groups write some words twice, with the same
    # values.
    index = np.arange(64 * (groups - 1) + size, dtype=np.uint32)
    taken = [index + np.uint32(4 - i) for i in range(4)]
    want = taken[0]
    for i in range(1, 4):
        want = want ^ taken[i] << np.uint32(8 * i)
    expect(what, out, want)


def wave64(b: Bench) -> str:
    gpu = b.gpu()
    out = gpu.buffer(4096)
    dispatch(b, gpu, kernels.WAVE, out, (4, 1, 1), (64, 1, 1), wave=64)
    lane = np.tile(np.arange(64, dtype=np.uint32), 4)
    expect("wave64", out, lane << np.uint32(8) | np.uint32(64))
    return "4 waves of 64 lanes, each counts itself"


def atomics(b: Bench) -> str:
    gpu = b.gpu()
    out = gpu.buffer(4096)
    dispatch(b, gpu, kernels.ATOMIC, out, (40, 1, 1), (128, 1, 1))
    expect("global_atomic_add", out, np.array([40 * 128], np.uint32))
    return "5120 threads add 1 to one word"


RUNGS = (
    Rung("s-endpgm", "waves that start and end", endpgm, ("write-data", "device")),
    Rung("store", "waves that store to GTT", store, ("s-endpgm",)),
    Rung("store-gfx", "a dispatch on the gfx ring", store_gfx, ("store", "write-data-gfx")),
    Rung("store-vram", "waves that store to VRAM", vram, ("store", "bo-vram")),
    Rung("ids-3d", "ids of groups and threads in three dimensions", ids3, ("store",)),
    Rung("lds-barrier", "LDS and s_barrier", lds, ("store",)),
    Rung("scratch", "scratch memory", scratch, ("store",)),
    Rung("scratch-per-se", "scratch slots for one group in each engine", scratch_per_engine,
         ("scratch",)),
    Rung("wave64", "waves of 64 lanes", wave64, ("store",)),
    Rung("atomics", "atomic adds to one word", atomics, ("store",)),
)  # fmt: skip
