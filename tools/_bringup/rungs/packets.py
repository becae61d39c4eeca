"""amdgpu: NOPs on every ring, then packets that write, copy, wait and read the clock."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from _bringup.benches.amdgpu import Bench
from _bringup.benches.hw import NOP, Buffer
from _bringup.results.rung import Rung, Wrong
from sparkle_drv.lowlevel import pm4, sdma

MEM = {"dst_sel": 5, "wr_confirm": 1}
ROUNDS = 8
# The same event and cache actions as in the kernel driver's own fence (AMDGPU_FACTS 3.5).
EVENT = {"type": 0x14, "index": 5, "gl2_wb": 1, "glm_wb": 1, "glm_inv": 1, "seq": 1, "policy": 3}


def expect(what: str, buffer: Buffer, want: list[int], index: int = 0) -> None:
    """Compares dwords of a buffer. Raises Wrong, which names the first dword that differs."""
    got = buffer.words(index, len(want))
    for i, (a, e) in enumerate(zip(got, want, strict=True)):
        if a != e:
            raise Wrong(
                f"{what}: dword {index + i} at {buffer.va + 4 * (index + i):#x} is {a:#010x}, "
                f"expected {e:#010x} (bits {a ^ e:#010x} differ)",
                mismatch=True, xor_mask=f"{a ^ e:#010x}", unwritten=a == 0,
            )  # fmt: skip


def store(b: Bench, buffer: Buffer, value: int, index: int = 0) -> list[int]:
    """Returns a WRITE_DATA packet that writes one dword."""
    return pm4.WriteData.encode(gfx=b.gfx, control=MEM, addr=buffer.va + 4 * index, values=[value])


def await_word(b: Bench, buffer: Buffer, value: int, index: int = 0) -> list[int]:
    """Returns a WAIT_REG_MEM packet that waits until the dword is `value`."""
    return pm4.WaitRegMem.encode(
        gfx=b.gfx, control={"function": 3, "mem_space": 1}, addr=buffer.va + 4 * index,
        reference=value, mask=0xFFFFFFFF, poll={"interval": 4},
    )  # fmt: skip


def nop(ip: str) -> Callable[[Bench], str]:
    def run(b: Bench) -> str:
        count, gpu = b.rings(ip), b.gpu()
        for ring in range(count):
            words = [0] * 16 if ip == "dma" else [NOP] * 16
            gpu.wait(gpu.submit(ip, words, ring=ring, sync=False), b.job_s)
        return f"{count} entities, a job of 16 NOPs each"

    return run


def write_data(b: Bench) -> str:
    gpu, rings = b.gpu(), b.rings("compute")
    out = gpu.buffer(4096)
    for ring in range(rings):
        values = [0xC0FFEE00 + ring, 0x12345678, ~ring & 0xFFFFFFFF]
        dwords = pm4.WriteData.encode(
            gfx=b.gfx, control=MEM, addr=out.va + 64 * ring + 4, values=values
        )
        b.run(gpu, "compute", dwords, out, ring=ring)
        expect(f"WRITE_DATA on compute[{ring}]", out, [0, *values, 0], 16 * ring)
    return f"3 dwords by each of {rings} compute entities"


def write_data_gfx(b: Bench) -> str:
    gpu = b.gpu()
    b.rings("gfx")
    out = gpu.buffer(4096)
    b.run(gpu, "gfx", store(b, out, 0xFEEDBEEF, 3), out)
    expect("WRITE_DATA on gfx", out, [0, 0, 0, 0xFEEDBEEF, 0])
    return "a dword by the gfx ring"


def copy(b: Bench, src_sel: int, src: int, dst: int, *, wide: int = 0) -> list[int]:
    control = {"src_sel": src_sel, "dst_sel": 5, "count_sel": wide, "wr_confirm": 1}
    return pm4.CopyData.encode(gfx=b.gfx, control=control, src=src, dst=dst)


def copy_data(b: Bench) -> str:
    gpu = b.gpu()
    out = gpu.buffer(4096)
    out.write([0x11, 0x22])
    dwords = copy(b, 5, 0x99AABBCC_DDEEFF00, out.va + 8, wide=1)
    dwords += copy(b, 1, out.va, out.va + 16, wide=1)
    b.run(gpu, "compute", dwords, out)
    expect("COPY_DATA", out, [0x11, 0x22, 0xDDEEFF00, 0x99AABBCC, 0x11, 0x22, 0])
    return "an immediate and a memory word of 64 bits"


def wait_reg_mem(b: Bench) -> str:
    gpu = b.gpu()
    out = gpu.buffer(4096, rights="rwu")
    first = store(b, out, 7) + await_word(b, out, 7) + store(b, out, 8, 1)
    b.run(gpu, "compute", first, out)
    expect("WAIT_REG_MEM of what holds", out, [7, 8])
    job = gpu.submit("compute", await_word(b, out, 5, 2) + store(b, out, 6, 3), bos=[out])
    early = gpu.done(job, 0.02)
    wrote = out.words(3)[0]
    out.write([5], 2)
    gpu.wait(job, b.job_s)
    if early or wrote:
        raise Wrong("WAIT_REG_MEM passed before its value was written", no_wait=True)
    expect("behind WAIT_REG_MEM", out, [7, 8, 5, 6])
    return "holds at once, and waits for a word of the CPU's"


def release(b: Bench, buffer: Buffer, index: int = 0, **select: int) -> list[int]:
    """Returns a RELEASE_MEM packet, which writes at the end of the pipe."""
    return pm4.ReleaseMem.encode(
        gfx=b.gfx, event=EVENT, select=select, addr=buffer.va + 4 * index, value=0x1_00000007
    )


def release_mem(b: Bench) -> str:
    gpu = b.gpu()
    out = gpu.buffer(4096, rights="rwu")
    dwords = release(b, out, 0, data=1, intr=3) + await_word(b, out, 7)
    dwords += release(b, out, 2, data=2, intr=3) + await_word(b, out, 1, 3)
    b.run(gpu, "compute", dwords, out)
    expect("RELEASE_MEM", out, [7, 0, 7, 1])
    return "32 and 64 bits, each waited for by the packet after it"


def clock_in_order(b: Bench, before: int, stamps: list[int], after: int) -> str:
    every = [before, *stamps, after]
    if any(y < x for x, y in pairwise(every)):
        raise Wrong(
            f"expected the GPU's timestamps to rise from first to last, got {every}",
            bad_clock=True,
            unwritten=not all(stamps),
        )
    ticks = stamps[-1] - stamps[0]
    return f"{ticks} ticks of {b.device.gpu_counter_freq} kHz between the first and the last"


def timestamps(b: Bench) -> str:
    gpu = b.gpu()
    out = gpu.buffer(4096)
    before = b.node.info("TIMESTAMP", "uint64_t")
    dwords = copy(b, 9, 0, out.va, wide=1)
    dwords += release(b, out, 2, data=3)
    b.run(gpu, "compute", dwords, out)
    after = b.node.info("TIMESTAMP", "uint64_t")
    stamps = list(out.map.cast("Q")[:2])
    return clock_in_order(b, before, stamps, after)


def to_ib(b: Bench, inner: Buffer, ndw: int, chain: int) -> list[int]:
    return pm4.IndirectBuffer.encode(
        gfx=b.gfx, addr=inner.va, control={"ndw": ndw, "valid": 1, "chain": chain}
    )


def chained(b: Bench) -> str:
    """Chains one IB to another, as RADV does when an IB is full. The rung does not call an IB on a
    compute queue, because no source shows that MEC supports calls.
    """
    gpu = b.gpu()
    out, inner = gpu.buffer(4096), gpu.buffer(4096)
    body = pm4.pad(store(b, out, 1), gfx=b.gfx)
    inner.write(body)
    # The chaining packet must be the last of the IB, so padding stands before it.
    packet = to_ib(b, inner, len(body), 1)
    first = store(b, out, 2, 1)
    first += [NOP] * (-(len(first) + len(packet)) % 8)
    b.run(gpu, "compute", first + packet, out, inner)
    expect("a chained IB", out, [1, 2])
    return "an IB that goes on in another"


def nested(b: Bench) -> str:
    gpu = b.gpu()
    b.rings("gfx")
    out, inner = gpu.buffer(4096), gpu.buffer(4096)
    body = pm4.pad(store(b, out, 1), gfx=b.gfx)
    inner.write(body)
    b.run(gpu, "gfx", to_ib(b, inner, len(body), 0) + store(b, out, 2, 1), out, inner)
    expect("INDIRECT_BUFFER", out, [1, 2])
    return "an IB called from an IB, and what follows it"


def sdma_fill(b: Bench) -> str:
    rings, gpu = b.rings("dma"), b.gpu()
    out = gpu.buffer(1 << 16)
    for ring in range(rings):
        value = 0xF111ED00 + ring
        dwords = sdma.ConstFill.encode(
            gfx=b.gfx, header={"fillsize": 2}, addr=out.va + 4096, value=value,
            count={"bytes": 8192},
        )  # fmt: skip
        b.run(gpu, "dma", dwords, out, ring=ring)
        expect(f"CONST_FILL on dma[{ring}]", out, [0, *[value] * 2048, 0], 1023)
    return f"8 KiB by each of {rings} dma entities, and no byte beside them"


def sdma_gcr(b: Bench) -> str:
    """Tests the kernel driver's cache flush before SDMA copies. The CPU and a compute ring write
    words just before a copy. The copy must read these words, not stale ones.
    """
    gpu, count = b.gpu(), b.rings("dma")
    a, out = gpu.buffer(4096), gpu.buffer(4096)
    for i in range(ROUNDS):
        a.write([0xC0DE0000 + i])
        b.run(gpu, "compute", store(b, a, 0x5A5A0000 + i, 1), a)
        dwords = sdma.CopyLinear.encode(gfx=b.gfx, count={"bytes": 64}, src=a.va, dst=out.va)
        b.run(gpu, "dma", dwords, a, out, ring=i % count)
        expect(f"copy {i}", out, [0xC0DE0000 + i, 0x5A5A0000 + i])
    return f"{ROUNDS} copies of new writes by CPU and compute ring, on {count} entities"


def sdma_copy(domain_from: str, domain_to: str) -> Callable[[Bench], str]:
    def run(b: Bench) -> str:
        b.rings("dma")
        gpu, nbytes = b.gpu(), 1 << 16
        src = gpu.buffer(nbytes, domain=domain_from, flags=int(domain_from == "vram"))
        dst = gpu.buffer(nbytes, domain=domain_to, flags=int(domain_to == "vram"))
        src.write([(i * 0x9E3779B1) & 0xFFFFFFFF for i in range(nbytes // 4)])
        for at, to, count in ((0, 0, nbytes), (3, 5, 1001), (4096, 8192, 4), (1, 2, 1)):
            dst.map[:] = bytes(nbytes)
            dwords = sdma.CopyLinear.encode(
                gfx=b.gfx, count={"bytes": count}, src=src.va + at, dst=dst.va + to
            )
            b.run(gpu, "dma", dwords, src, dst)
            want = bytearray(nbytes)
            want[to : to + count] = src.map[at : at + count]
            got = bytes(dst.map)
            if got != want:
                first = next(i for i in range(nbytes) if got[i] != want[i])
                raise Wrong(
                    f"copy of {count} bytes from offset {at} to offset {to}: byte {first} of the "
                    f"target is {got[first]:#04x}, expected {want[first]:#04x}",
                    mismatch=True, xor_mask=f"{got[first] ^ want[first]:#04x}",
                    unwritten=not any(got),
                )  # fmt: skip
        return "64 KiB, and 1001, 4 and 1 bytes at odd places"

    return run


def sdma_fence(b: Bench) -> str:
    b.rings("dma")
    gpu = b.gpu()
    out = gpu.buffer(4096, rights="rwu")
    before = b.node.info("TIMESTAMP", "uint64_t")
    dwords = sdma.SdmaTimestamp.encode(gfx=b.gfx, addr=out.va + 16)
    dwords += sdma.SdmaFence.encode(
        gfx=b.gfx, header={"mtype": sdma.MTYPE_UC}, addr=out.va, value=0x600D
    )
    dwords += sdma.PollRegmem.encode(
        gfx=b.gfx, header={"function": 3, "mem": 1}, addr=out.va, value=0x600D,
        poll={"interval": 10, "retry": sdma.WAIT_FOREVER},
    )  # fmt: skip
    dwords += sdma.SdmaWrite.encode(gfx=b.gfx, addr=out.va + 4, values=[0xAF7E])
    b.run(gpu, "dma", dwords, out)
    after = b.node.info("TIMESTAMP", "uint64_t")
    expect("FENCE, POLL_REGMEM, WRITE", out, [0x600D, 0xAF7E])
    return clock_in_order(b, before, [int(out.map.cast("Q")[2])], after)


def rung(name: str, text: str, run: Any, *needs: str) -> Rung:
    return Rung(name, text, run, needs)


RUNGS = (
    rung("nop-compute", "an IB of NOPs on every compute entity", nop("compute"), "va-map",
         "ring-compute"),
    rung("nop-gfx", "an IB of NOPs on the gfx ring", nop("gfx"), "va-map", "ring-gfx"),
    rung("nop-dma", "an IB of NOPs on every dma entity", nop("dma"), "va-map", "ring-dma"),
    rung("write-data", "WRITE_DATA on every compute entity", write_data, "nop-compute"),
    rung("write-data-gfx", "WRITE_DATA on the gfx ring", write_data_gfx, "nop-gfx"),
    rung("copy-data", "COPY_DATA", copy_data, "write-data"),
    rung("wait-reg-mem", "WAIT_REG_MEM waits, and goes on", wait_reg_mem, "write-data"),
    rung("release-mem", "RELEASE_MEM writes at the end of the pipe", release_mem, "wait-reg-mem"),
    rung("timestamps", "the GPU's clock by COPY_DATA and RELEASE_MEM", timestamps, "release-mem",
         "clock"),
    rung("chained-ib", "INDIRECT_BUFFER that chains", chained, "write-data"),
    rung("nested-ib", "INDIRECT_BUFFER that calls, on the gfx ring", nested, "write-data-gfx"),
    rung("sdma-gcr", "the kernel flushes caches before SDMA IBs (EMIT_MEM_SYNC)", sdma_gcr,
         "nop-dma", "write-data"),
    rung("sdma-fill", "SDMA CONST_FILL on every dma entity", sdma_fill, "sdma-gcr"),
    rung("sdma-copy", "SDMA COPY_LINEAR, GTT to GTT", sdma_copy("gtt", "gtt"), "sdma-fill"),
    rung("sdma-vram", "SDMA COPY_LINEAR, GTT to VRAM", sdma_copy("gtt", "vram"), "sdma-copy",
         "bo-vram"),
    rung("sdma-fence", "SDMA TIMESTAMP, FENCE, POLL_REGMEM, WRITE", sdma_fence, "sdma-copy"),
)  # fmt: skip
