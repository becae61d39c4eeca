"""Bad arguments. Each raises TypeError or ValueError with the argument's name, before anything is
submitted. The device still works afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import sparkle_drv as sp
from sparkle_drv.testing.checks.base import NotProvided, check, kernel, raises

Attempt = tuple[type[BaseException], str, Callable[[], object]]


def _refused(dev: sp.Device, attempts: list[Attempt]) -> None:
    submitted = dev.default_queue.submitted
    for kind, says, attempt in attempts:
        with raises(kind, says=says):
            attempt()
    assert dev.default_queue.submitted == submitted, "something was submitted all the same"


def _ways(dev: sp.Device, k: Any, *args: Any, **shape: Any) -> list[Callable[[], object]]:
    """Returns functions that pass these arguments to launch, to prepare, and to a command list."""
    queue = dev.default_queue
    return [
        lambda: queue.launch(k, *args, **shape),
        lambda: queue.prepare(k, *args, **shape),
        lambda: queue.submit(sp.Commands().dispatch(k, *args, **shape)),
    ]


@check("arguments")
def check_arguments_of_a_launch(dev: sp.Device) -> None:
    with kernel(dev, "saxpy_f32") as k, dev.buffer(400) as y, dev.buffer(400) as x:
        wrong: list[tuple[type[BaseException], str, tuple[Any, ...]]] = [
            (TypeError, "4 arguments, got 3", (y, x, 1.0)),
            (TypeError, "4 arguments, got 5", (y, x, 1.0, 100, 1)),
            (TypeError, "4 arguments, got 0", ()),
            (TypeError, "argument y", (None, x, 1.0, 100)),
            (TypeError, "argument x", (y, None, 1.0, 100)),
            (TypeError, "argument x", (y, "x", 1.0, 100)),
            (TypeError, "argument x", (y, 7, 1.0, 100)),
            (TypeError, "argument a", (y, x, "1.0", 100)),
            (TypeError, "argument a", (y, x, None, 100)),
            (TypeError, "argument a", (y, x, x, 100)),
            (TypeError, "argument n", (y, x, 1.0, 100.0)),
            (TypeError, "argument n", (y, x, 1.0, None)),
            (ValueError, "argument n", (y, x, 1.0, -1)),
            (ValueError, "argument n", (y, x, 1.0, 2**32)),
            (ValueError, "argument a", (y, x, 1e300, 100)),
            (ValueError, "404 bytes", (y, x, 1.0, 101)),
            (ValueError, "argument x", (y, x.view(0, 396), 1.0, 100)),
            (ValueError, "argument y", (y.view(4), x, 1.0, 100)),
            (ValueError, "argument y", (y, x, 1.0, 2**32 - 1)),
        ]
        for kind, says, args in wrong:
            _refused(dev, [(kind, says, way) for way in _ways(dev, k, *args, groups=1)])
        dev.default_queue.launch(k, y, x, np.float32(1), np.int64(100), groups=np.int32(1)).wait()


@check("arguments")
def check_strided_extents(dev: sp.Device) -> None:
    """Checks that a product needs only those bytes of c, a and b that the strides reach.

    A buffer without the padding after the last row must be accepted.
    """
    with kernel(dev, "gemm_f32") as k, dev.buffer(4 * 100) as x:
        # m, n, k, the strides of rows (rs) and columns (cs), and the activation. In order: m, n, k,
        # rsa, csa, rsb, csb, rsc, act.
        sizes = (3, 4, 5, 10, 2, 7, 1, 9, 0)
        enough = {"c": 2 * 9 + 4, "a": 2 * 10 + 4 * 2 + 1, "b": 4 * 7 + 4, "bias": 4}
        exact = {name: x.view(0, 4 * n) for name, n in enough.items()}
        for short in enough:
            args = {**exact, short: x.view(0, 4 * enough[short] - 4)}
            for way in _ways(dev, k, *args.values(), *sizes):
                _refused(dev, [(ValueError, f"argument {short}", way)])
        with dev.buffer(4 * 100) as c:
            dev.default_queue.launch(k, c.view(0, 88), *list(exact.values())[1:], *sizes).wait()


@check("arguments")
def check_shapes_of_a_launch(dev: sp.Device) -> None:
    info = dev.info
    with kernel(dev, "fill_f32") as k, dev.buffer(400) as y:
        most = min(info.max_group_size, k.resources.max_group_size)
        limits = k.resources.max_groups or info.max_groups
        wrong: list[tuple[type[BaseException], str, dict[str, Any]]] = [
            (TypeError, "groups", {"groups": "many"}),
            (TypeError, "groups", {"groups": 1.5}),
            (TypeError, "groups", {"groups": (1, None)}),
            (ValueError, "groups", {"groups": ()}),
            (ValueError, "groups", {"groups": (1, 1, 1, 1)}),
            (ValueError, "groups", {"groups": -1}),
            (ValueError, "groups", {"groups": limits[0] + 1}),
            (ValueError, "groups", {"groups": (1, 2)}),  # the kernel has one dimension
            (ValueError, "groups", {"groups": (1, 1, 2)}),
            (ValueError, "group_size", {"groups": 1, "group_size": most + 1}),
            (ValueError, "group_size", {"groups": 1, "group_size": (most, 2)}),
            (ValueError, "group_size", {"groups": 1, "group_size": 0}),
            (ValueError, "group_size", {"groups": 1, "group_size": -1}),
            (TypeError, "group_size", {"groups": 1, "group_size": "big"}),
            (ValueError, "shared", {"groups": 1, "shared": info.max_shared_nbytes + 1}),
            (ValueError, "shared", {"groups": 1, "shared": -1}),
            (TypeError, "shared", {"groups": 1, "shared": "some"}),
        ]
        if not k.groups:  # the kernel's arguments give no grid, so `groups` is required
            wrong.append((TypeError, "groups", {}))
        for kind, says, shape in wrong:
            _refused(dev, [(kind, says, way) for way in _ways(dev, k, y, 1.0, 100, **shape)])
        assert not y.read(np.uint8, 400).any()


@check("arguments")
def check_what_is_no_kernel(dev: sp.Device) -> None:
    with dev.buffer(400) as y:
        for wrong in (None, "fill_f32", y):
            _refused(dev, [(TypeError, "kernel", way) for way in _ways(dev, wrong, y, groups=1)])


@check("arguments")
def check_things_of_another_device(dev: sp.Device) -> None:
    queue = dev.default_queue
    with (
        sp.open(dev.uri) as other,
        other.buffer(400) as theirs,
        dev.buffer(400) as ours,
        kernel(dev, "fill_f32") as k,
        kernel(other, "fill_f32") as foreign,
    ):
        fence = other.default_queue.submit(sp.Commands())
        fence.wait()
        out = np.zeros(100, np.float32)
        stamp = other.timestamp()
        _refused(
            dev,
            [
                *[
                    (ValueError, "argument y", way)
                    for way in _ways(dev, k, theirs, 1.0, 100, groups=1)
                ],
                (ValueError, "kernel", lambda: queue.launch(foreign, ours, 1.0, 100, groups=1)),
                (ValueError, "kernel", lambda: queue.prepare(foreign, ours, 1.0, 9, groups=1)),
                (
                    ValueError, "belongs to",
                    lambda: queue.submit(
                        sp.Commands().dispatch(foreign, theirs, 1.0, 100, groups=1)
                    ),
                ),
                (ValueError, "dst", lambda: queue.submit(sp.Commands().copy(theirs, ours))),
                (ValueError, "src", lambda: queue.submit(sp.Commands().copy(ours, theirs))),
                (ValueError, "dst", lambda: queue.submit(sp.Commands().fill(theirs, 0))),
                (ValueError, "wait", lambda: queue.submit(sp.Commands().wait(fence))),
                (ValueError, "timestamp", lambda: queue.submit(sp.Commands().timestamp(stamp))),
                (ValueError, "buffer", lambda: queue.write(theirs, out)),
                (ValueError, "buffer", lambda: queue.read(theirs, out)),
                (ValueError, "queue", lambda: dev.pipeline(2, None, other.default_queue)),
            ],
        )  # fmt: skip


@check("arguments")
def check_arguments_of_commands(dev: sp.Device) -> None:
    with dev.buffer(64) as a, dev.buffer(63) as b:
        c = sp.Commands()
        _refused(
            dev,
            [
                (ValueError, "64 bytes", lambda: c.copy(a, b)),
                (TypeError, "dst", lambda: c.copy(None, a)),  # type: ignore[arg-type]
                (TypeError, "src", lambda: c.copy(a, b"bytes")),  # type: ignore[arg-type]
                (TypeError, "dst", lambda: c.fill("a", 0)),  # type: ignore[arg-type]
                (ValueError, "pattern_nbytes", lambda: c.fill(a, 0, 3)),
                (ValueError, "pattern_nbytes", lambda: c.fill(a, 0, 8)),
                (ValueError, "63", lambda: c.fill(b, 0, 4)),
                (ValueError, "pattern", lambda: c.fill(a, 256, 1)),
                (ValueError, "pattern", lambda: c.fill(a, -1)),
                (TypeError, "wait", lambda: c.wait(3)),  # type: ignore[arg-type]
                (TypeError, "kernel", lambda: c.dispatch(None, groups=1)),  # type: ignore[arg-type]
                (TypeError, "submit", lambda: dev.default_queue.submit([])),  # type: ignore[arg-type]
                (ValueError, "patch", lambda: c.patch(0)),
                (ValueError, "patch", lambda: c.patch("0")),  # type: ignore[arg-type]
            ],
        )
        assert not len(c), "a refused command was recorded"


@check("arguments")
def check_arguments_of_memory_calls(dev: sp.Device) -> None:
    queue = dev.default_queue
    with dev.buffer(64) as a:
        big, out = np.zeros(65, np.uint8), np.zeros(64, np.uint8)
        out.flags.writeable = False
        attempts: list[Attempt] = [
            (TypeError, "nbytes", lambda: dev.buffer(1.5)),  # type: ignore[arg-type]
            (TypeError, "nbytes", lambda: dev.buffer("64")),  # type: ignore[arg-type]
            (ValueError, "nbytes", lambda: dev.buffer(-1)),
            (ValueError, "nbytes", lambda: dev.buffer(1 << 63)),
            (TypeError, "memory", lambda: dev.buffer(64, "device")),  # type: ignore[arg-type]
            (ValueError, "view", lambda: a.view(65)),
            (ValueError, "view", lambda: a.view(-1)),
            (ValueError, "view", lambda: a.view(0, 65)),
            (ValueError, "view", lambda: a.view(32, 33)),
            (TypeError, "view", lambda: a.view(0.5)),  # type: ignore[arg-type]
            (ValueError, "65 bytes", lambda: queue.write(a, big)),
            (ValueError, "65 bytes", lambda: queue.read(a, big)),
            (ValueError, "out", lambda: queue.read(a, out)),
            (ValueError, "out", lambda: queue.read(a, np.zeros((8, 8), np.uint8).T[:4])),
            (TypeError, "out", lambda: queue.read(a, None)),
            (TypeError, "array", lambda: queue.write(a, None)),
            (TypeError, "buffer", lambda: queue.write(None, big)),  # type: ignore[arg-type]
            (ValueError, "view", lambda: a.write(big, 65)),
            (ValueError, "64", lambda: a.array(np.float64, 9)),
            (ValueError, "shape", lambda: a.array(np.float32, (2, -1))),
            (TypeError, "shape", lambda: a.array(np.float32, "ab")),  # type: ignore[arg-type]
            (TypeError, "dtype", lambda: a.array(object, 1)),
            (ValueError, "align", lambda: a.view(1).array(np.float32, 4)),
            (ValueError, "nbytes", lambda: dev.import_buffer(0, 0)),
        ]
        _refused(dev, attempts)


@check("arguments")
def check_names_of_kernels(dev: sp.Device) -> None:
    missing = "/no/such/file"
    attempts: list[Attempt] = [
        (ValueError, "did you mean saxpy_f32", lambda: dev.kernel("saxpy_f99")),
        (ValueError, "not in the manifest", lambda: dev.kernel("zzz")),
        (TypeError, "name", lambda: dev.kernel(3)),  # type: ignore[arg-type]
        (TypeError, "name", lambda: dev.kernel()),
        (TypeError, "name", lambda: dev.kernel("noop", image=b"")),
        (TypeError, "entry=", lambda: dev.kernel(image=b"x")),
        (TypeError, "args=", lambda: dev.kernel(image=b"x", entry="f")),
        (ValueError, "f31", lambda: dev.kernel(image=b"x", entry="f", args="f31*")),
        (FileNotFoundError, missing, lambda: dev.kernel(image=missing, entry="f", args="")),
        (sp.ImageError, "", lambda: dev.kernel(image=b"no image at all", entry="f", args="")),
        (sp.ImageError, "", lambda: dev.kernel(image=b"", entry="f", args="")),
    ]  # fmt: skip
    _refused(dev, attempts)


@check("arguments")
def check_read_only_host_memory(dev: sp.Device) -> None:
    if not dev.info.unified:
        raise NotProvided("expected a device that can use host memory in place, this one cannot")
    host = np.ones(100, np.float32)
    host.flags.writeable = False
    with sp.wrap(dev, host) as y, kernel(dev, "fill_f32") as k, dev.buffer(400) as a:
        assert y.readonly
        assert y.view(4).readonly
        wrong: list[Attempt] = [
            (ValueError, "argument y", way) for way in _ways(dev, k, y, 2.0, 100, groups=1)
        ]
        wrong += [
            (ValueError, "read-only", lambda: sp.Commands().fill(y, 0)),
            (ValueError, "read-only", lambda: sp.Commands().copy(y.view(), a)),
            (ValueError, "read-only", lambda: dev.default_queue.write(y, host)),
            (ValueError, "argument y", lambda: dev.default_queue.launch(k, host, 2.0, 9, groups=1)),
        ]
        _refused(dev, wrong)
        dev.default_queue.submit(sp.Commands().copy(a, y)).wait()
        assert (a.read(np.float32, 100) == 1).all()
    assert (host == 1).all()
