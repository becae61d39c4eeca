"""Kernels of a user's on several devices: `Context.dispatch` against numpy, and what it refuses.

When this fails, a user's kernel on several devices gives other results.
"""

from __future__ import annotations

import numpy as np
import pytest
from userlib import HEAD, KERNEL

import sparkle_drv as sp
from sparkle_drv.errors import DeviceLost, ImageError
from sparkle_drv.sched.operations import dispatch
from sparkle_drv.sched.run import shards
from sparkle_drv.sched.run.shared_plan import KeptShards

F32 = np.float32
URIS = ("cpu:c0", "cpu:c1", "egl:0")
SIDE = 5

# y[i, :] = a * x[i, :] + w + i; z[i] += 1: rows are cut, w is read whole. A group has 16 rows.
ROWS_C = (
    HEAD
    + "struct args { float *y, *x, *w; uint32_t *z; float a; uint32_t n, from; };\n"
    + KERNEL.format(name="rows")
    + """
{
    const struct args *p = args;
    uint32_t end = (group[0] + 1) * size[0];
    for (uint32_t i = group[0] * size[0]; i < end && i < p->n; i++) {
        for (uint32_t j = 0; j < 5; j++)
            p->y[5 * i + j] = p->a * p->x[5 * i + j] + p->w[j] + (float)(p->from + i);
        p->z[i] += 1;
    }
}
"""
)
ROWS_GLSL = b"""\
layout(local_size_x = 16) in;
layout(std430, binding = 0) buffer Y { float y[]; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) readonly buffer W { float w[]; };
layout(std430, binding = 3) buffer Z { uint z[]; };
layout(location = 0) uniform float a;
layout(location = 1) uniform uint n;
layout(location = 2) uniform uint from;
void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i >= n)
        return;
    for (uint j = 0u; j < 5u; j++)
        y[5u * i + j] = a * x[5u * i + j] + w[j] + float(from + i);
    z[i] += 1u;
}
"""
ROWS_ARGS = "f32* y, f32* x, f32* w, u32* z, f32 a, u32 n, u32 from"
ROWS_CUT = {"y": 0, "x": 0, "z": 0, "n": "count", "from": "begin"}

# y[r][i] = 2 * x[r][i] for 3 rows of n: columns are cut.
COLUMNS_C = (
    HEAD
    + "struct args { int32_t *y, *x; uint32_t n; };\n"
    + KERNEL.format(name="columns")
    + """
{
    const struct args *p = args;
    (void)size;
    if (group[0] < p->n)
        for (uint32_t r = 0; r < 3; r++)
            p->y[r * p->n + group[0]] = 2 * p->x[r * p->n + group[0]];
}
"""
)
COLUMNS_GLSL = b"""\
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer Y { int y[]; };
layout(std430, binding = 1) readonly buffer X { int x[]; };
layout(location = 0) uniform uint n;
void main()
{
    uint i = gl_WorkGroupID.x;
    if (i < n)
        for (uint r = 0u; r < 3u; r++)
            y[r * n + i] = 2 * x[r * n + i];
}
"""


@pytest.fixture(scope="module")
def ctx():
    with sp.init(list(URIS), profile=False, topology="mesh") as made:
        yield made


@pytest.fixture
def ledgers(monkeypatch):
    """Those of the calls that follow."""
    kept, honest = [], shards.Ledger

    def made(*given):
        kept.append(honest(*given))
        return kept[-1]

    monkeypatch.setattr(shards, "Ledger", made)
    return kept


@pytest.fixture
def rows(userlib):
    return {
        "cpu": {"image": userlib.library(ROWS_C), "entry": "rows", "args": ROWS_ARGS},
        "egl": {"image": ROWS_GLSL, "entry": "main", "args": ROWS_ARGS},
    }


@pytest.fixture
def columns(userlib):
    args = "i32* i32* u32"
    return {
        "cpu": {"image": userlib.library(COLUMNS_C), "entry": "columns", "args": args},
        "egl": {"image": COLUMNS_GLSL, "entry": "main", "args": args},
    }


def all_worked(ledgers, uris=URIS):
    (ledger,) = ledgers
    ledgers.clear()
    assert set(ledger.committed.values()) == set(uris)
    assert ledger.dropped == 0


def row_arguments(n, make=np.array):
    rng = np.random.default_rng(n)
    x, w = rng.random((n, SIDE), F32), rng.random(SIDE, F32)
    z = np.arange(n, dtype=np.uint32)
    want = 2 * x + w + np.arange(n, dtype=F32)[:, None], z + 1
    given = {"y": np.full((n, SIDE), np.nan, F32), "x": x, "w": w, "z": z}
    return {**{k: make(v) for k, v in given.items()}, "a": 2.0, "n": n, "from": 0}, want


@pytest.mark.parametrize("n", [3, 100, 1001])
def test_several_written_arrays_of_rows(ctx, ledgers, rows, n):
    given, (y, z) = row_arguments(n)
    how = {"groups": -(-n // 16), "group_size": 16, "cut": ROWS_CUT, "out": ["y", "z"]}
    got = ctx.dispatch(rows, given, **how, shards="each")
    assert got[0] is given["y"]
    assert got[1] is given["z"]
    np.testing.assert_allclose(given["y"], y, rtol=1e-6)
    np.testing.assert_array_equal(given["z"], z)
    all_worked(ledgers)
    assert "dispatch_rows:" in ctx.explain_last_plan()
    assert "Gelements/s" in ctx.explain_devices()
    for devices in (["cpu:c1"], ["egl:0"]):
        again, _ = row_arguments(n)
        ctx.dispatch(rows, list(again.values()), **how, devices=devices)
        np.testing.assert_allclose(again["y"], y, rtol=1e-6)
        np.testing.assert_array_equal(again["z"], z)


def test_context_arrays_are_written_too(ctx, ledgers, rows):
    given, (y, z) = row_arguments(50, lambda v: ctx.array(v.shape, v.dtype).fill(v))
    ctx.dispatch(rows, given, groups=4, group_size=16, cut=ROWS_CUT, out=["z", "y"], shards="each")
    np.testing.assert_allclose(given["y"].numpy(), y, rtol=1e-6)
    np.testing.assert_array_equal(given["z"].numpy(), z)
    all_worked(ledgers)


@pytest.mark.parametrize("topology", ["mesh", "single"])
def test_columns(ctx, ledgers, columns, topology):
    x, y = np.arange(300, dtype=np.int32).reshape(3, 100), np.zeros((3, 100), np.int32)
    shards = {"shards": "each"} if topology == "mesh" else {}
    got = ctx.dispatch(
        columns, [y, x, 100], groups=lambda n: (n, 1, 1), cut={0: 1, 1: 1, 2: "count"}, out=0,
        topology=topology, **shards,
    )  # fmt: skip
    assert got is y
    np.testing.assert_array_equal(y, 2 * x)
    if shards:
        all_worked(ledgers)
    x = np.asfortranarray(x)[:, ::-1]
    x.flags.writeable = False
    ctx.dispatch(columns, [y, x, None], groups=100, cut={0: 1, 1: 1, 2: "count"}, out=0)
    np.testing.assert_array_equal(y, 2 * x)


def test_without_a_cut_one_device_does_it(ctx, columns):
    x, y = np.arange(300, dtype=np.int32).reshape(3, 100), np.zeros((3, 100), np.int32)
    x.flags.writeable = False
    last = ctx.last_plan
    assert ctx.dispatch(columns, [y, x, 100], groups=100, out=0) is y
    np.testing.assert_array_equal(y, 2 * x)
    for name in ("cpu", "egl"):
        y[:] = 0
        ctx.dispatch({name: columns[name]}, [y, x, 100], groups=100, out=[0])
        np.testing.assert_array_equal(y, 2 * x)
    assert ctx.last_plan == last


@pytest.mark.parametrize("n", [1, 700, 5000])
def test_a_kernel_of_the_manifest(ctx, ledgers, n):
    x, y = np.arange(n, dtype=F32), np.ones(n, F32)
    how = {"groups": -(-n // 256), "cut": {"y": 0, "x": 0, "n": "count"}}
    shards = "each" if n > 2 else "auto"
    got = ctx.dispatch("saxpy_f32", {"a": 2, "n": n, "x": x, "y": y}, **how, shards=shards)
    assert got is y
    np.testing.assert_array_equal(y, 2 * x + 1)
    if n > 2:
        all_worked(ledgers)


def test_a_device_without_an_image_is_left_out(ctx, ledgers, columns):
    x, y = np.arange(300, dtype=np.int32).reshape(3, 100), np.zeros((3, 100), np.int32)
    del columns["egl"]
    how = {"groups": 100, "cut": {0: 1, 1: 1, 2: "count"}, "out": 0}
    ctx.dispatch(columns, [y, x, 100], **how, shards="each")
    np.testing.assert_array_equal(y, 2 * x)
    all_worked(ledgers, URIS[:2])
    assert isinstance(ctx.last_plan, KeptShards)
    assert "it has no dispatch_columns:" in ctx.last_plan.left_out["egl:0"]
    with pytest.raises(ValueError, match="kernel: expected a kernel for any of egl:0, got cpu"):
        ctx.dispatch(columns, [y, x, 100], **how, devices=["egl:0"])


def test_a_device_lost_in_the_middle(ctx, rows, monkeypatch):
    given, (y, z) = row_arguments(400)
    run, lost = dispatch.DispatchOperation.launch_piece, []
    how = {"groups": 25, "group_size": 16, "cut": ROWS_CUT, "out": ["y", "z"]}
    with sp.init(list(URIS), profile=False, topology="mesh") as ctx:
        ctx.dispatch(rows, row_arguments(400)[0], **how, shards="each")

        def failing(self, device, task, reads, begin, end):
            made = run(self, device, task, reads, begin, end)
            if device.uri == "cpu:c1":
                lost.append(begin)
                raise DeviceLost("it was reset")
            return made

        monkeypatch.setattr(dispatch.DispatchOperation, "launch_piece", failing)
        ctx.dispatch(rows, given, **how, shards="each")
        assert lost
        np.testing.assert_allclose(given["y"], y, rtol=1e-6)
        np.testing.assert_array_equal(given["z"], z)  # each piece counts once
        assert ctx._executor.costs.nodes["cpu:c1"].lost == "it was reset"


def test_all_fail_and_the_arrays_are_as_they_were(rows, monkeypatch):
    given, _ = row_arguments(400)

    def failing(self, device, task, reads, begin, end):
        raise DeviceLost(f"{device.uri}: it was reset")

    with sp.init(list(URIS[:2]), profile=False, topology="mesh") as ctx:
        how = {"groups": 25, "group_size": 16, "cut": ROWS_CUT, "out": ["y", "z"]}
        ctx.dispatch(rows, row_arguments(400)[0], **how, shards="each")
        monkeypatch.setattr(dispatch.DispatchOperation, "launch_piece", failing)
        with pytest.raises(DeviceLost, match="it was reset"):
            ctx.dispatch(rows, given, **how, shards="each")
        assert np.isnan(given["y"]).all()
        np.testing.assert_array_equal(given["z"], np.arange(400))


def test_its_class_is_its_code_and_its_shapes(ctx, columns):
    def call(kernel, rows_of, n):
        x = np.ones((rows_of, n), np.int32)
        y = x.copy()
        ctx.dispatch(kernel, [y, x, n], groups=n, cut={0: 1, 1: 1, 2: "count"}, out=0)
        return ctx.last_plan.work.op

    assert call(columns, 3, 64) == call(columns, 3, 640) != call(columns, 4, 64)
    other = {"cpu": columns["cpu"]}
    assert call(other, 3, 64) != call(columns, 3, 64)


def changed(**more):
    """The arguments of a call that is right but for these."""
    x = np.ones((100, SIDE), F32)
    given = {"y": x.copy(), "x": x, "w": x[0], "z": np.ones(100, np.uint32)}
    given = {**given, "a": 1.0, "n": 100, "from": 0}
    how = {"groups": 7, "group_size": 16, "cut": ROWS_CUT, "out": ["y", "z"]}
    args = {**given, **{k: v for k, v in more.items() if k in given}}
    how.update({k: v for k, v in more.items() if k not in given})
    return how.pop("args", args), how


SHARED = np.ones((101, SIDE), F32)
READONLY = np.ones((100, SIDE), F32)
READONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({"args": 3}, TypeError, "args: expected a list, or a mapping by name, got 3"),
        ({"args": [1, 2]}, ValueError, "args: expected 7 .y, x, w, z, a, n, from., got 2"),
        ({"args": {"y": 1}}, ValueError, "args: expected the names y, x, w, z, a, n, from, got y"),
        ({"x": [1.0]}, TypeError, "x: expected a numpy array or a ContextArray, got list"),
        ({"x": np.ma.ones((100, SIDE), F32)}, TypeError, "x: expected a numpy array or a Context"),
        ({"x": np.ones((100, SIDE))}, TypeError, "x: expected elements of f32, got float64"),
        ({"a": "2"}, TypeError, "a: expected a number for f32, got '2'"),
        ({"n": 1.5}, TypeError, r"n: expected a number for u32, got 1\.5"),
        ({"n": 99}, ValueError, "n: expected 100, the count of the whole call, got 99"),
        ({"from": 1}, ValueError, "from: expected 0, the begin of the whole call, got 1"),
        ({"x": np.ones((99, SIDE), F32)}, ValueError, "equal size .*100 of y, 99 of x, 100 of z"),
        ({"cut": 3}, TypeError, "cut: expected a dict from arguments to axes, got 3"),
        ({"cut": {"q": 0}}, ValueError, "cut: expected one of y, x, w, .* or its number, got 'q'"),
        ({"cut": {7: 0}}, ValueError, "cut: expected one of y, .*, got 7"),
        ({"cut": {"y": -1}}, ValueError, "cut: expected an axis of y, from 0 to 1, got -1"),
        ({"cut": {"y": 2}}, ValueError, "cut: expected an axis of y, from 0 to 1, got 2"),
        ({"cut": {"y": "n"}}, TypeError, "cut: expected an axis of y, got 'n'"),
        ({"cut": {"n": "all"}}, ValueError, "cut: expected 'count' or 'begin' .* got 'all' for u3"),
        ({"cut": {"a": "count"}}, ValueError, "cut: expected 'count' .* got 'count' for f32 a"),
        ({"cut": {"n": "count"}}, ValueError, "cut: expected axes of one equal size .* no array"),
        ({"cut": {"y": 0, "x": 0}}, ValueError, "cut: expected an axis of z, which is writ"),
        ({"out": None}, ValueError, "out: expected the arrays that the kernel writes, got None"),
        ({"out": "a"}, ValueError, "out: expected the arrays that the kernel writes, got 'a'"),
        ({"out": "q"}, ValueError, "out: expected one of y, x, .* got 'q'"),
        ({"out": ["y", "x", "z"], "y": SHARED[1:], "x": SHARED[:-1]}, ValueError,
         "y: expected memory apart from x, got shared"),
        ({"y": READONLY}, ValueError, "y: expected a writable array, got a read-only one"),
        ({"groups": 0}, ValueError, "groups: expected 1 or more along each axis, got 0"),
        ({"groups": "7"}, TypeError, "groups: "),
        ({"groups": None}, TypeError, "(rows|main): expected groups="),
        ({"group_size": -1}, ValueError, "group_size"),
        ({"topology": "ring"}, ValueError, "topology: expected 'single' or 'mesh', got 'ring'"),
        ({"prefer_p2p": 1}, TypeError, "prefer_p2p: expected True or False"),
        ({"max_vram_gb": -1}, ValueError, "max_vram_gb: expected more than 0"),
        ({"shards": {"cpu:c0": -1}}, ValueError, "expected"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(ctx, rows, more, error, said):
    args, how = changed(**more)
    with pytest.raises(error, match=said):
        ctx.dispatch(rows, args, **how)
    args, how = changed()
    ctx.dispatch(rows, args, **how)  # a mistake says nothing of the kernel
    assert (args["z"] == 2).all()


@pytest.mark.parametrize(
    ("kernel", "error", "said"),
    [
        (3, TypeError, "kernel: expected a name, or a mapping by backend, got 3"),
        ({}, TypeError, "kernel: expected a name, or a mapping by backend, got {}"),
        ("saxpy", ValueError, "kernel: expected a name of the manifest, got 'saxpy'"),
        ({"cpu": {"image": b""}}, TypeError, "kernel: cpu: expected image, entry and args, got"),
        ({"cpu": {"image": "/no/such.so", "entry": "f", "args": ""}}, FileNotFoundError, "such"),
        ({"cpu": {"image": b"", "entry": "f", "args": "f31*"}}, ValueError, "args: 'f31"),
        ({"egl": {"image": b"void", "entry": "main", "args": ROWS_ARGS}}, ImageError, "main|void"),
        ({"cuda": {"image": b"", "entry": "f", "args": ROWS_ARGS}}, ValueError,
         "kernel: expected a kernel for any of cpu:c0, cpu:c1, egl:0, got cuda"),
        ({"cpu": {"image": b"", "entry": "f", "args": "f32*"},
          "egl": {"image": b"", "entry": "f", "args": "f64*"}}, ValueError,
         "kernel: expected the same args for all backends, got 'f32.' for cpu and 'f64.' for egl"),
    ],
)  # fmt: skip
def test_what_is_no_kernel(ctx, kernel, error, said):
    args, how = changed()
    with pytest.raises(error, match=said):
        ctx.dispatch(kernel, args, **how)


def test_what_a_manifest_kernel_cannot_have(ctx):
    x = np.ones(8, F32)
    with pytest.raises(ValueError, match="out: expected None for a kernel of the manifest, got"):
        ctx.dispatch("saxpy_f32", [x.copy(), x, 1.0, 8], groups=1, out=0)
    with pytest.raises(
        ValueError, match="kernel: expected a kernel that writes an array, got noop"
    ):
        ctx.dispatch("noop", [], groups=1)
    with pytest.raises(ValueError, match="x"):  # shorter than n says, and not cut
        ctx.dispatch("saxpy_f32", [x.copy(), x[:4], 1.0, 8], groups=1)


def test_arrays_and_contexts_that_are_closed_or_not_its_own(ctx, columns):
    x, y = np.ones((3, 4), np.int32), ctx.array((3, 4), np.int32)
    with sp.init(["cpu"], profile=False) as other, pytest.raises(ValueError, match="of this Conte"):
        other.dispatch(columns, [y, x, 4], groups=4, out=0)
    y.close()
    with pytest.raises(ValueError, match="expected an open ContextArray"):
        ctx.dispatch(columns, [y, x, 4], groups=4, out=0)
    with pytest.raises(DeviceLost, match="the Context is closed"):
        other.dispatch(columns, [x, x.copy(), 4], groups=4, out=0)
