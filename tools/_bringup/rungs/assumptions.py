"""amdgpu: assumptions of the package beyond packets: code in VRAM that the CPU writes, and a clock
that runs at the frequency that the kernel driver reports.
"""

from __future__ import annotations

import time

import numpy as np

from _bringup.benches.amdgpu import Bench
from _bringup.benches.hw import Gpu
from _bringup.results.rung import Rung, Skip, Wrong

from . import kernels, shader
from .memory import VISIBLE
from .node import clocks

MASKS = ("0xcafebabe", "0x600dc0de", "0x12345678")
# Largest difference, in ppm, between the stated and the measured rate of the GPU's clock. Beyond it
# the package takes the clock to have leapt (SLEW in native/amdgpu/device/anchor.c). Oscillators
# differ by some 50 ppm; a spread spectrum changes the frequency by 0.25 %.
MOST_PPM = 3900
CLOCK_S = 0.15


def _runs_from(b: Bench, gpu: Gpu, heap: str) -> None:
    """Runs several programs at one address in `heap`, one after the other. The CPU writes each
    program before its run. Raises Wrong if a program's result is wrong.
    """
    code = gpu.buffer(4096, domain=heap, flags=VISIBLE if heap == "vram" else 0, rights="rx")
    out = gpu.buffer(4096)
    for mask in MASKS:
        code.write(kernels.assemble(kernels.STORE.replace(MASKS[0], mask), b.gfx))
        user = [out.va & 0xFFFFFFFF, out.va >> 32]
        ib = kernels.launch(b.gfx, b.engines, code.va, user, (4, 1, 1), (64, 1, 1))
        out.write([0] * 256)
        b.run(gpu, "compute", ib, code, out)
        want = np.arange(256, dtype=np.uint32) ^ np.uint32(int(mask, 16))
        try:
            shader.expect(f"code in {heap}", out, want)
        except Wrong as wrong:
            wrong.facts["code_heap"] = heap
            raise


def code_placement(b: Bench) -> str:
    m, gpu = b.memory, b.gpu()
    _runs_from(b, gpu, "gtt")
    if not m.cpu_accessible_vram.total_heap_size:
        raise Skip("the CPU sees no VRAM: code stays in GTT, and is fetched over the bus")
    _runs_from(b, gpu, "vram")
    dev = b.device_api()
    before = dev._backend.counters()
    with dev.kernel("noop"):
        after = dev._backend.counters()
    took = {
        heap: after[name] - before[name]
        for heap, name in (("VRAM", "code_vram_nbytes"), ("GTT", "code_gtt_nbytes"))
    }
    where = " and ".join(f"{n} bytes in {heap}" for heap, n in took.items() if n)
    return f"{len(MASKS)} programs in a row at one address of either heap; the package has {where}"


def clock_drift(b: Bench) -> str:
    khz = b.device.gpu_counter_freq
    if not khz:
        raise Skip("gpu_counter_freq is 0: the package cannot time jobs")

    first = clocks(b)
    time.sleep(CLOCK_S)
    last = clocks(b)
    passed_ns = last[1] - first[1]
    ppm = ((last[0] - first[0]) * 1e6 / khz / passed_ns - 1) * 1e6
    said = f"{ppm:+.0f} ppm beside CLOCK_MONOTONIC over {passed_ns / 1e6:.0f} ms"
    if abs(ppm) > MOST_PPM:
        raise Wrong(
            f"the GPU's clock: expected within {MOST_PPM} ppm of its stated rate, got {said}",
            drifts=True,
            ppm=round(ppm),
        )
    return said


RUNGS = (
    Rung("code-placement", "waves run code in VRAM that the CPU wrote", code_placement,
         ("store-vram",)),
    Rung("clock-drift", "the GPU's clock keeps pace with the host's", clock_drift, ("clock",)),
)  # fmt: skip
