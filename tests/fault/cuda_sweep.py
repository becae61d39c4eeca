"""Every call of the driver fails, in every way: run by test_cuda_sweep.py and `make cuda-sweep`, in
a process of its own on the fake driver.

    SPARKLE_LIBCUDA=build/fake/libcuda.so.1 python tests/fault/cuda_sweep.py CALL... [--codes 2,700]

For each call, CUresult and manner (once, always, from the fourth call on) a workload that uses all
of the device runs. It must end: each step right, or with an error of ours that names the driver's
call; nothing is alive afterwards. Prints a line for each failure; exit status 1 when there is one.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from fakecuda import Control
from where import ROOT

import sparkle_drv as sp

CODES = (1, 2, 4, 201, 700, 702, 709, 719, 999)
MANNERS = {"once": "times=1", "always": "times=-1", "from the fourth on": "times=-1 after=3"}
CALLS = re.findall(r"^SP_CU\(\w+, \d+, (\w+)", (ROOT / "native/dl/cuda.def").read_text(), re.M)
N = 40_000
WAIT_S = 10.0  # a fence that takes longer hangs
NAMED = re.compile(r"\bcu[A-Z]\w+")
RELEASE = "cuDevicePrimaryCtxRelease_v2"
MEANT = {("cuFuncGetParamInfo", 1)}  # the driver's word for "no such argument": an ImageError
NO_CALL = ("reset the device's context", "is closed or gone")


class Workload:
    """Steps on one device; `errors` are those of ours, `wrong` what may not be."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.wrong: list[str] = []

    def step(self, what: Callable[[], object]) -> object:
        """What the step returns; None when it failed with an error of ours."""
        try:
            return what()
        except sp.FenceTimeout as error:
            self.wrong.append(f"hangs: {error}")
        except (sp.SparkleError, ValueError, NotImplementedError) as error:
            self.errors.append(error)
            if not NAMED.search(str(error)) and not any(word in str(error) for word in NO_CALL):
                self.wrong.append(f"names no call: {type(error).__name__}: {error}")
        return None

    def equal(self, what: str, got: np.ndarray, wanted: object) -> None:
        if not (got == wanted).all():
            self.wrong.append(f"{what}: wrong result without an error")

    def run(self) -> None:
        dev = self.step(lambda: sp.open("cuda:0"))
        if dev is None:
            return
        try:
            self.use(dev)
        finally:
            dev.close()

    def use(self, dev: sp.Device) -> None:
        for part in (self.launches, self.transfers, self.memory, self.peers):
            self.step(lambda part=part: part(dev))

    def launches(self, dev: sp.Device) -> None:
        with (
            dev.queue() as q,
            dev.queue(timing=True) as timed,
            dev.kernel("saxpy_f32") as k,
            dev.array(np.ones(64, np.float32)) as x,
            dev.array(np.zeros(64, np.float32)) as y,
            dev.empty(64, np.float32) as z,
        ):
            go = q.prepare(k, y, x, 1.0, 64, groups=1)
            for _ in range(70):  # past the event that every 64th launch has
                fence = q.launch(k, y, x, 1.0, 64, groups=1)
            fence.wait(WAIT_S)
            q.fence(go()).wait(WAIT_S)
            c = sp.Commands()
            for _ in range(10):
                c.dispatch(k, y, x, 1.0, 64, groups=1)
            c.copy(z, y).fill(z.buffer.view(0, 4), 3, 2)
            for i in range(4):  # call by call, then a graph, then one with new arguments
                c.patch(0, y, x, float(1 + i), 64)
                fence = q.submit(c)
            fence.wait(WAIT_S)
            stamp = dev.timestamp()
            fence = timed.submit(sp.Commands().wait(fence).timestamp(stamp).fill(x, 0))
            fence.wait(WAIT_S)
            assert fence.time_ns is not None
            stamp.close()
            self.equal("launches", y.numpy(), 71 + 4 * 10 + 6)
            self.equal("fill", x.numpy(), 0)
            self.equal("list", z.numpy()[1:], 71 + 4 * 10 + 6)
            self.equal("fill of 16 bits", z.numpy()[:1].view(np.uint16), 3)

    def transfers(self, dev: sp.Device) -> None:
        data = np.arange(N, dtype=np.float32)
        out = np.zeros_like(data)
        with dev.queue() as q, dev.buffer(data.nbytes) as b, dev.buffer(data.nbytes) as c:
            q.write(b, data)
            q.write(b, data[::-1].copy())
            q.submit(sp.Commands().copy(c, b).copy(b.view(4, 4096), b.view(0, 4096)))
            q.read(c, out).wait(WAIT_S)
            self.equal("transfer", out, data[::-1])
            q.read(b, out).wait(WAIT_S)
            self.equal("overlapping copy", out[1:1025], data[::-1][:1024])

    def memory(self, dev: sp.Device) -> None:
        with (
            dev.buffer(4096, sp.Memory.HOST) as h,
            dev.buffer(4096, sp.Memory.SHARED) as s,
            dev.buffer(4096, exportable=True) as e,
        ):
            for fd in (s.export(), e.export()):
                os.close(fd)
            dev.default_queue.submit(sp.Commands().fill(h, 7, 1).copy(s, h).copy(e, s)).wait(WAIT_S)
            self.equal("memory", e.read(np.uint8, 4096), 7)
        host = np.zeros(4096, np.uint8)
        with sp.wrap(dev, host) as w:
            dev.default_queue.submit(sp.Commands().fill(w, 9, 1)).wait(WAIT_S)
            self.equal("wrapped memory", host, 9)
        dev._backend.owns(4096)
        dev._backend.sensors()
        dev.default_queue.order_stream(1)

    def peers(self, dev: sp.Device) -> None:
        with sp.open("cuda:1") as peer, peer.array(np.arange(100)) as a, dev.buffer(800) as b:
            dev.default_queue.copy_peer(b, a.buffer).wait(WAIT_S)
            self.equal("copy_peer", b.read(np.int64, 100), np.arange(100))


def alive(tell: Control) -> dict[str, int]:
    """Native objects of ours, and the driver's contexts, beyond which it keeps nothing."""
    gc.collect()
    with sp.open("cpu") as cpu:
        ours = cpu.live_counts()
    known = {k: v for k, v in ours.items() if k.startswith("native_")}
    return known | {"contexts": tell("live contexts")}


def once(tell: Control, call: str, code: int, manner: str) -> list[str]:
    """What is wrong, in words."""
    load = Workload()
    tell(f"fail {call} {code} {manner}")
    begun = time.monotonic()
    load.run()
    tell("reset")
    wrong = [] if (call, code) in MEANT else load.wrong
    if time.monotonic() - begun > WAIT_S:
        wrong.append(f"took {time.monotonic() - begun:.0f} s")
    load.errors.clear()
    gc.collect()  # their frames hold what was in use
    after = Workload()
    after.run()
    lasting = [e for e in after.errors if "start a new one" not in str(e)]
    wrong += after.wrong + [f"the next device: {type(e).__name__}: {e}" for e in lasting]
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("calls", nargs="*", default=CALLS)
    parser.add_argument("--codes", default=",".join(map(str, CODES)))
    args = parser.parse_args()
    tell = Control(os.environ["SPARKLE_LIBCUDA"])
    first = Workload()
    first.run()
    assert not first.errors, first.errors
    assert not first.wrong, first.wrong
    unused = [call for call in CALLS if not tell(f"calls {call}")]
    print("never called by the workload:", *unused)
    del first
    before, failures, count = alive(tell), 0, 0
    for call in sorted(args.calls, key=RELEASE.__eq__):  # the last one: its context never ends
        for code in map(int, args.codes.split(",")):
            for manner, how in MANNERS.items():
                print(call, code, manner, file=sys.stderr, flush=True)  # if it crashes
                wrong = once(tell, call, code, how)
                now = alive(tell)
                if now != before and call != RELEASE:
                    more = {k: (before[k], v) for k, v in now.items() if v != before[k]}
                    wrong.append(f"left alive (before, after): {more}")
                before, count = now, count + 1
                failures += bool(wrong)
                for words in wrong:
                    print(f"{call} gives {code} {manner}: {words}", flush=True)
    print(f"{count} ways to fail, {failures} of them wrong")
    return failures != 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
