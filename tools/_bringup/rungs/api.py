"""Rungs that use the public API: the whole ladder of the families cpu, egl and cuda, and the top of
the ladder on amdgpu. They only need an object whose `device_api()` returns the open device.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

import sparkle_drv as sp
from _bringup.results.rung import Rung, Skip, Wrong
from sparkle_drv import assets
from sparkle_drv.errors import SparkleError
from sparkle_drv.ops import ref

from . import patterns

LIMIT_S = 30.0


class Opened(Protocol):
    """What rungs of the public API work on: any Bench that gives a `sparkle_drv.Device`."""

    facts: dict[str, Any]

    def device_api(self) -> sp.Device:
        """Returns the open device. If `recover` closed it after a failure, opens it again."""


def compare(what: str, got: Any, want: Any, *, exact: bool = True, terms: int = 1) -> None:
    """Raises Wrong when results differ. The tolerance for floats grows with the number of terms of
    a sum.
    """
    got, want = np.asarray(got).reshape(-1), np.asarray(want).reshape(-1)
    if exact:
        bad = np.flatnonzero(got != want)
    else:
        eps = np.finfo(np.float32).eps
        scale = np.maximum(np.abs(want), np.sqrt(terms))
        bad = np.flatnonzero(~(np.abs(got - want) <= 4 * eps * np.sqrt(terms + 1) * scale))
    if bad.size:
        i = int(bad[0])
        raise Wrong(
            f"{what}: {bad.size} of {want.size} results are wrong, the first is {i}: {got[i]!r}, "
            f"expected {want[i]!r}",
            mismatch=True, unwritten=not np.any(got),
        )  # fmt: skip


def open_(b: Opened) -> str:
    info = b.device_api().info
    b.facts |= {"name": info.name, "driver": info.driver, "software": info.software}
    return f"{info.name}, {info.driver}"


def describe(b: Opened) -> str:
    info = b.device_api().info
    if info.max_group_size < 1 or min(info.max_groups) < 1 or info.memory_nbytes < 1 << 20:
        raise Wrong(f"the device reports impossible limits: {info}", bad_info=True)
    return (
        f"{info.compute_units} units, groups of {info.max_group_size}, "
        f"{info.memory_nbytes >> 20} MiB, {info.max_shared_nbytes >> 10} KiB shared"
    )


def buffers(b: Opened) -> str:
    dev = b.device_api()
    for memory in sp.Memory:
        try:
            made = dev.buffer(100_000, memory=memory)
        except (SparkleError, ValueError) as error:
            if memory is sp.Memory.SHARED:
                continue
            raise Wrong(f"cannot make a buffer in {memory.name} memory: {error}") from error
        with made:
            got = np.empty(100_000, np.uint8)
            dev.default_queue.read(made, got).wait(LIMIT_S)
            if got.any():
                raise Wrong(f"expected zeros in a new {memory.name} buffer", not_cleared=True)
    return "of each kind of memory, zero when new"


def transfer(b: Opened) -> str:
    dev, rng = b.device_api(), np.random.default_rng(1)
    queue = dev.default_queue
    for nbytes in (1, 4096, 1_000_003, 8 << 20):
        data = rng.integers(0, 256, nbytes, dtype=np.uint8)
        got = np.zeros_like(data)
        with dev.buffer(nbytes) as buffer:
            queue.write(buffer, data)
            queue.read(buffer, got).wait(LIMIT_S)
        compare(f"{nbytes} bytes", got, data)
    return "1 byte to 8 MiB, there and back"


def memory(b: Opened) -> str:
    dev, nbytes = b.device_api(), 1 << 20
    queue = dev.default_queue
    got = np.empty(nbytes // 4, np.uint32)
    count = 0
    with dev.buffer(nbytes) as buffer:
        for name, image in patterns.images(got.size, 0, 1):
            queue.write(buffer, image)
            queue.read(buffer, got).wait(LIMIT_S)
            count += 1
            bad = patterns.compare(name, got, image)
            if bad:
                raise Wrong(
                    f"device memory reads back other words than the host wrote: {bad}",
                    mismatch=True, offset=f"{bad.offset:#x}", xor_mask=f"{bad.xor:#010x}",
                    one_bit=bad.xor.bit_count() == 1,
                )  # fmt: skip
    return f"{count} passes over 1 MiB: {', '.join(patterns.PATTERNS)}"


def mapped(b: Opened) -> str:
    dev = b.device_api()
    with dev.buffer(1 << 16, memory=sp.Memory.HOST) as buffer, buffer.map() as view:
        words = np.frombuffer(view, np.uint32)
        try:
            bad = patterns.sweep(words)
        finally:
            del words
        if bad:
            raise Wrong(
                f"mapped memory reads back other words than the CPU wrote: {bad}", mismatch=True
            )
    return "patterns over 64 KiB by the CPU"


def copies(b: Opened) -> str:
    dev = b.device_api()
    data = np.arange(50_000, dtype=np.uint32)
    with dev.array(data) as src, dev.buffer(data.nbytes) as dst:
        commands = sp.Commands().copy(dst, src.buffer)
        dev.default_queue.submit(commands).wait(LIMIT_S)
        got = np.empty_like(data)
        dev.default_queue.read(dst, got).wait(LIMIT_S)
    compare("copy", got, data)
    return "200 kB on the device"


def kernel(b: Opened, name: str) -> Any:
    """Returns a kernel of the package. Raises Skip if the kernel is not made for this device."""
    backend = b.device_api().info.backend
    if backend not in assets.manifest()["kernels"][name]["backends"]:
        raise Skip(f"the package has no kernel {name} for {backend}")
    return b.device_api().kernel(name)


def noop(b: Opened) -> str:
    with kernel(b, "noop") as k:
        for _ in range(20):
            b.device_api().default_queue.launch(k, groups=1).wait(LIMIT_S)
    return "20 empty launches, each waited for"


def vecadd(b: Opened) -> str:
    dev, rng = b.device_api(), np.random.default_rng(2)
    sizes = (1, 1000, 100_003)
    with kernel(b, "vecadd_f32") as k:
        for n in sizes:
            x, y = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
            with dev.array(x) as dx, dev.array(y) as dy, dev.array(np.zeros_like(x)) as out:
                launch(b, k, "vecadd_f32", {"x": dx, "y": dy, "z": out, "n": n})
                compare(f"vecadd_f32 of {n}", out.numpy(), x + y)
    return f"{', '.join(map(str, sizes))} elements, bit for bit"


def launch(b: Opened, k: Any, name: str, values: dict[str, Any]) -> None:
    args = assets.manifest()["kernels"][name]["args"]
    given = ref.arguments(args, **values)
    b.device_api().default_queue.launch(k, *given, groups=cover(k, values["n"])).wait(LIMIT_S)


def cover(k: Any, n: int) -> int:
    """Returns the number of groups, of the kernel's own size, that cover n threads."""
    return max(1, -(-n // int(k.group_size[0])))


def gemm(b: Opened) -> str:
    dev, rng = b.device_api(), np.random.default_rng(3)
    shapes = ((1, 1, 1), (33, 65, 17), (64, 64, 64))
    for m, n, k in shapes:
        x = rng.standard_normal((m, k)).astype(np.float32)
        y = rng.standard_normal((k, n)).astype(np.float32)
        want = x.astype(np.float64) @ y.astype(np.float64)
        compare(f"gemm {m}x{n}x{k}", sp.ops.gemm(dev, x, y), want, exact=False, terms=k)
    return f"{', '.join('x'.join(map(str, s)) for s in shapes)} against float64"


def reduce(b: Opened) -> str:
    dev = b.device_api()
    data = np.arange(1, 4001, dtype=np.float32).reshape(40, 100)
    got = sp.ops.reduce(dev, data, op="sum", axis=1)
    compare("row sums", got, data.sum(axis=1, dtype=np.float64), exact=False, terms=100)
    return "sums of 40 rows"


def groups3(b: Opened) -> str:
    """Tests group and thread ids in three dimensions: a kernel turns an array from NCHW into NHWC,
    and each element must arrive at its right index.
    """
    dev = b.device_api()
    data = np.arange(2 * 3 * 5 * 7, dtype=np.float32).reshape(2, 3, 5, 7)
    got = sp.ops.layout(dev, data, "NHWC")
    compare("NCHW to NHWC", np.asarray(got), data.transpose(0, 2, 3, 1))
    return "NCHW to NHWC of (2, 3, 5, 7): every element in its place"


def timestamps(b: Opened) -> str:
    dev = b.device_api()
    with dev.queue(timing=True) as queue, kernel(b, "noop") as k:
        times = []
        for _ in range(5):
            fence = queue.launch(k, groups=1)
            fence.wait(LIMIT_S)
            times.append(fence.time_ns)
    if any(t is None or t < 0 or t > LIMIT_S * 1e9 for t in times):
        raise Wrong(f"impossible times of empty launches: {times} ns", bad_clock=True)
    return f"empty launches take {min(times)} to {max(times)} ns by the device's clock"


def in_order(b: Opened) -> str:
    """Tests that a list's commands see the results of earlier commands, and that a queue waits for
    another queue's fence.
    """
    dev = b.device_api()
    data = np.arange(10_000, dtype=np.uint32)
    back = np.empty_like(data)
    with (
        dev.buffer(data.nbytes) as one,
        dev.buffer(data.nbytes) as two,
        dev.queue() as a,
        dev.queue() as c,
    ):
        written = a.write(one, data)
        fence = a.submit(sp.Commands().copy(two, one))
        c.submit(sp.Commands().wait(fence).copy(one, two)).wait(LIMIT_S)
        c.read(one, back).wait(LIMIT_S)
        if not written.done or not fence.done:
            raise Wrong(
                "expected the fences of earlier work to be done, because later work that waited "
                "for them has ended; got one that is not done",
                out_of_order=True,
            )
    compare("across two queues", back, data)
    return "write, copy, and a second queue behind the first"


def stress(b: Opened) -> str:
    dev, rounds = b.device_api(), 200
    data = np.ones(4096, np.float32)
    with kernel(b, "saxpy_f32") as k, dev.array(data) as one, dev.array(np.zeros_like(data)) as out:
        args = assets.manifest()["kernels"]["saxpy_f32"]["args"]
        given = ref.arguments(args, x=one, y=out, a=1.0, n=data.size)
        for _ in range(rounds):
            fence = dev.default_queue.launch(k, *given, groups=cover(k, data.size))
        fence.wait(LIMIT_S)
        compare(f"{rounds} launches in a row", out.numpy(), data * rounds)
    return f"{rounds} launches in a row, each on the result of the last"


def closing(b: Opened) -> str:
    dev = b.device_api()
    with dev.buffer(4096) as buffer, dev.queue() as queue:
        queue.write(buffer, np.zeros(4096, np.uint8))
    try:
        dev.buffer(1 << 60).close()
    except (sp.OutOfDeviceMemory, ValueError):
        pass
    else:
        raise Wrong("a buffer of 2^60 bytes was made, expected an error", taken=True)
    with dev.buffer(4096):
        return "closed while in use; 2^60 bytes are refused, and the device goes on"


ALL = (
    Rung("open", "the device opens", open_),
    Rung("describe", "its limits make sense", describe, ("open",)),
    Rung("buffers", "buffers of each kind of memory", buffers, ("open",)),
    Rung("transfer", "data there and back", transfer, ("buffers",)),
    Rung("memory", "patterns over device memory", memory, ("transfer",)),
    Rung("mapped", "patterns over mapped host memory", mapped, ("buffers",)),
    Rung("copy", "copies on the device", copies, ("transfer",)),
    Rung("noop", "empty launches", noop, ("open",)),
    Rung("vecadd", "a vector sum", vecadd, ("noop", "transfer")),
    Rung("groups-3d", "an index in several dimensions", groups3, ("vecadd",)),
    Rung("gemm", "a matrix product against its reference", gemm, ("vecadd",)),
    Rung("reduce", "sums, across the threads of a group", reduce, ("vecadd",)),
    Rung("timing", "times of launches", timestamps, ("noop",)),
    Rung("order", "order within and across queues", in_order, ("copy",)),
    Rung("burst", "many launches in a row", stress, ("vecadd",)),
    Rung("closing", "closing in use, refusing impossible sizes", closing, ("buffers",)),
)


def rungs(prefix: str = "", needs: tuple[str, ...] = ()) -> tuple[Rung, ...]:
    """Returns the rungs of the public API. Their names begin with `prefix`, so that they can be the
    top of another ladder. The first rung needs the rungs in `needs`.
    """
    return tuple(
        Rung(
            prefix + one.name, one.text, one.run,
            tuple(prefix + name for name in one.needs) or needs, LIMIT_S,
        )
        for one in ALL
    )  # fmt: skip
