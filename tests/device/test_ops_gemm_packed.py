"""gemm with a packed b: the same results, every wrong blob refused, and changes of b noticed."""

import gc
import warnings

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.ops import gemm, ref, tiles, weights
from sparkle_drv.types import TilePlan

ISAS = ["avx512", "avx2", "neon", "ref"]
SHAPES = [(5, 300, 300), (64, 257, 513), (130, 1000, 70), (33, 33, 2100), (200, 40, 1700)]


@pytest.fixture(params=ISAS)
def dev(request, monkeypatch):
    monkeypatch.setenv("SPARKLE_CPU_ISA", request.param)
    try:
        device = sp.open("cpu")
    except sp.errors.DeviceNotFound:
        pytest.skip(f"this machine has no {request.param}")
    with device:
        yield device


@pytest.fixture
def cpu2(monkeypatch):
    monkeypatch.setenv("SPARKLE_THREADS", "2")
    with sp.open("cpu") as device:
        yield device


def operands(m, n, k, dtype, seed=1):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((m, k)).astype(dtype)
    b = rng.standard_normal((k, n)).astype(dtype)
    b.flags.writeable = False
    return a, b


def agree(got, a, b):
    tag = "gemm_f32" if got.dtype == np.float32 else "gemm_f64"
    want = ref.gemm(a, b)
    rms = float(np.sqrt(np.mean(want**2)))
    miss = ref.mismatch(got, want, ref.tolerance(tag, k=a.shape[1]), rms)
    assert miss.index is None, miss


def blobs(dev, owner):
    entry = dev.kept.get("ops weights", {}).get(id(owner))
    return list(entry.blobs.values()) if entry else []


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_constant_b_is_packed_once_and_results_agree(dev, shape, dtype):
    a, b = operands(*shape, dtype)
    out = np.empty((shape[0], shape[1]), dtype)
    packs = b.nbytes > 256 << 10 and dev.info.isa
    for call in range(4):
        out[:] = np.nan
        assert gemm(dev, a, b, out) is out
        agree(out, a, b)
        assert len(blobs(dev, b)) == (1 if packs and call else 0)
    agree(gemm(dev, a, b), a, b)
    agree(gemm(dev, a, b, bias=np.zeros(shape[1], dtype)), a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_bits_with_and_without_packing(dev, dtype):
    a, b = operands(50, 300, 700, dtype)
    writeable = b.copy()
    first = gemm(dev, a, writeable)
    for _ in range(3):
        assert (gemm(dev, a, b) == first).all()


@pytest.fixture
def small_caches(monkeypatch):
    """To the tile model: what comes from memory is small, then."""
    tiles.gemm.cache_clear()
    monkeypatch.setattr(tiles, "own", lambda caches, level: 1 << 16 if level == 3 else 1 << 20)
    yield
    tiles.gemm.cache_clear()


@pytest.mark.usefixtures("small_caches")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_b_from_memory_is_read_in_other_terms_but_where_it_stays(dev, dtype):
    a, b = operands(8, 300, 700, dtype)
    writeable = b.copy()
    for _ in range(3):
        agree(gemm(dev, a, writeable), a, b)
    first = gemm(dev, a, b)
    agree(first, a, b)
    for _ in range(3):
        assert (gemm(dev, a, b) == first).all()  # packed in the end: the same bits
    agree(gemm(dev, a, writeable), a, b)
    plan = gemm.plan(dev, 8, 300, 700, dtype)
    terms = plan.tile.levels[0][2]
    kept = gemm.plan(dev, 8, 300, 700, dtype, b=b)
    assert kept.tile.levels[0][2] >= terms
    if dev.info.isa == "avx512":
        assert (terms, len(blobs(dev, b))) == (16, 1)
    out = np.empty_like(first)
    kept(a, None, out).wait()
    assert (out == first).all()


@pytest.mark.usefixtures("small_caches")
def test_on_a_deterministic_device_it_does_not_matter_who_may_write_b():
    a, b = operands(8, 300, 700, np.float32)
    with sp.open("cpu", deterministic=True) as dev:
        first = gemm(dev, a, b.copy())
        for _ in range(3):
            assert (gemm(dev, a, b) == first).all()


def test_a_transposed_constant_b_is_packed(dev):
    a, bt = operands(40, 300, 400, np.float32)[0], np.ones((300, 400), np.float32)
    b = np.asfortranarray(np.random.default_rng(2).standard_normal((400, 300)).astype(np.float32))
    b.flags.writeable = False
    for _ in range(3):
        agree(gemm(dev, a, b), a, b)
    assert len(blobs(dev, b)) == 1
    assert not blobs(dev, bt)


@pytest.mark.parametrize("m", [4, 5, 32, 33])
def test_few_rows_times_a_transposed_constant_b_have_the_same_bits_in_every_call(dev, m):
    """They would have others before it is packed, so it is packed at once."""
    a, b = operands(m, 300, 400, np.float32)
    turned = np.asfortranarray(b)
    writeable = turned.copy(order="A")
    turned.flags.writeable = False
    first = gemm(dev, a, turned)
    agree(first, a, b)
    assert len(blobs(dev, turned)) == (5 <= m <= 32)
    for _ in range(3):
        assert (gemm(dev, a, turned) == first).all()
    agree(gemm(dev, a, writeable), a, b)


@pytest.mark.parametrize("m", [5, 32, 33])
def test_on_a_deterministic_device_neither_does_it_for_a_transposed_b(m):
    a, b = operands(m, 300, 700, np.float32)
    turned = np.asfortranarray(b)
    with sp.open("cpu", deterministic=True) as dev:
        first = gemm(dev, a, turned.copy(order="A"))
        turned.flags.writeable = False
        for _ in range(3):
            assert (gemm(dev, a, turned) == first).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_array_is_packed_until_it_is_written(dev, dtype):
    a, b = operands(40, 300, 500, dtype)
    da, db, out = dev.array(a), dev.array(b), dev.empty((40, 300), dtype)
    for _ in range(3):
        agree(gemm(dev, da, db, out).numpy(), a, b)
    assert len(blobs(dev, db)) == 1
    other = b * 2
    dev.default_queue.write(db, other).wait()
    for call in range(3):
        agree(gemm(dev, da, db, out).numpy(), a, other)
        assert len(blobs(dev, db)) == (1 if call else 0)


def test_a_constant_array_changed_after_a_call_while_writeable(dev):
    a, b = operands(40, 300, 500, np.float32)
    out = np.empty((40, 300), np.float32)
    for _ in range(3):
        gemm(dev, a, b, out)
    b.flags.writeable = True
    b *= 3
    agree(gemm(dev, a, b, out), a, b)
    b += 1
    agree(gemm(dev, a, b, out), a, b)
    b.flags.writeable = False
    for _ in range(3):
        agree(gemm(dev, a, b, out), a, b)


def test_a_writeable_b_or_a_view_is_never_kept(dev):
    a, b = operands(40, 300, 500, np.float32)
    b.flags.writeable = True
    view = b[:]
    view.flags.writeable = False
    out = np.empty((40, 300), np.float32)
    for x in (b, view):
        for factor in (1, 2, 3):
            b *= factor
            agree(gemm(dev, a, x, out), a, b)
            assert not blobs(dev, x)


def test_a_new_array_at_the_place_of_an_old_one(dev):
    out = np.empty((10, 300), np.float32)
    for seed in range(20):
        a, b = operands(10, 300, 300, np.float32, seed)
        for _ in range(3):
            gemm(dev, a, b, out)
            agree(out, a, b)
        del b


def test_blobs_end_with_their_owner(dev):
    a, b = operands(10, 300, 300, np.float32)
    out = np.empty((10, 300), np.float32)
    gemm(dev, a, b.copy(), out)
    gc.collect()
    before = dev.live_counts()["buffers"]
    for _ in range(3):
        gemm(dev, a, b, out)
    assert dev.live_counts()["buffers"] > before
    del b
    gc.collect()
    assert dev.live_counts()["buffers"] == before


def test_many_shapes_of_one_b(dev):
    _, b = operands(1, 300, 300, np.float32)
    for m in range(1, 40, 3):
        a = np.full((m, 300), 0.5, np.float32)
        for _ in range(3):
            agree(gemm(dev, a, b), a, b)
    assert len(blobs(dev, b)) == 1


def packer(dev, tag, kc):
    plan = TilePlan(algo="blocked", levels=((0, 0, kc), (0, 0, 0)))
    return dev.kernel(f"pack_gemm_{tag}", plan=plan)


def consumer(dev, tag, kc):
    plan = TilePlan(algo="blocked", levels=((0, 0, kc), (0, 0, 0)), pack=True)
    return dev.kernel(f"gemm_{tag}", plan=plan)


def run(dev, kernel, a, blob, m=8, n=70, k=90):
    out = dev.empty((m, n), a.dtype)
    args = (out, a, blob, None, m, n, k, k, 1, n, 1, n, 0)
    dev.default_queue.launch(kernel, *args).wait()
    return out.numpy()


def test_a_blob_of_anything_else_is_refused(dev):
    a, b = operands(8, 70, 90, np.float32)
    da, db = dev.array(a), dev.array(b)
    blob = weights.blob(dev, packer(dev, "f32", 64), db, 70, 90, 70, 1)
    agree(run(dev, consumer(dev, "f32", 64), da, blob), a, b)
    copy = dev.empty(blob.shape, blob.dtype)
    dev.default_queue.submit(sp.Commands().copy(copy, blob)).wait()
    wrong = {
        "kc": (consumer(dev, "f32", 40), blob, {}),
        "n": (consumer(dev, "f32", 64), blob, {"n": 69}),
        "k": (consumer(dev, "f32", 64), blob, {"k": 89}),
        "a copy": (consumer(dev, "f32", 64), copy, {}),
        "no blob": (consumer(dev, "f32", 64), db, {}),
        "not aligned": (consumer(dev, "f32", 64), blob.buffer.view(4), {"n": 69}),
    }
    for what, (kernel, given, sizes) in wrong.items():
        with pytest.raises(ValueError, match="refused these arguments"):
            print(what, run(dev, kernel, da, given, **sizes))
    naive = dev.kernel("gemm_f32", plan=TilePlan(algo="naive", pack=True))
    with pytest.raises(ValueError, match="refused these arguments"):
        run(dev, naive, da, blob)


def test_a_blob_of_the_other_type_is_refused(dev):
    a, b = operands(8, 70, 90, np.float64)
    blob = weights.blob(dev, packer(dev, "f64", 64), dev.array(b), 70, 90, 70, 1)
    agree(run(dev, consumer(dev, "f64", 64), dev.array(a), blob), a, b)
    with pytest.raises(ValueError, match="refused these arguments"):
        run(dev, consumer(dev, "f32", 64), dev.array(a.astype(np.float32)), blob.buffer)


def test_too_little_room_for_a_blob(dev):
    b = dev.array(np.ones((90, 70), np.float32))
    kernel, queue = packer(dev, "f32", 64), dev.default_queue
    room = dev.buffer(1 << 16)
    queue.launch(kernel, room, 64, b, 70, 90, 70, 1).wait()
    said = room.read(weights.HEADER, 1)[0]
    assert said["self"] == 0
    assert 64 + 90 * 70 * 4 <= said["nbytes"] <= 64 + 90 * 128 * 4
    assert said["nbytes"] % 64 == 0
    assert not room.read("u1", said["nbytes"] - 64, 64).any()
    with pytest.raises(ValueError, match="refused these arguments"):
        run(dev, consumer(dev, "f32", 64), dev.empty((8, 90), np.float32), room)
    for capacity, out in ((63, room), (1 << 15, room.view(32))):
        with pytest.raises(ValueError, match="refused these arguments"):
            queue.launch(kernel, out, capacity, b, 70, 90, 70, 1)
    with pytest.raises(ValueError, match="out"):  # more than there is
        queue.launch(kernel, room, (1 << 16) + 1, b, 70, 90, 70, 1)


def test_sizes_that_overflow_are_refused(dev):
    most = 2**32 - 1  # strides of 0: one element stands for all of them
    one, room = dev.array(np.ones(1, np.float32)), dev.buffer(1 << 12)
    with pytest.raises(ValueError, match="refused these arguments"):
        dev.default_queue.launch(packer(dev, "f32", 0), room, 4096, one, most, most, 0, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(8, 8, 8), (60, 300, 500)])
def test_a_plan_with_a_snapshot_of_b(dev, shape, dtype):
    m, n, k = shape
    a, b = operands(m, n, k, dtype)
    for given in (b, dev.array(b), np.asfortranarray(b)):
        plan = gemm.plan(dev, m, n, k, dtype, b=given)
        out = np.full((m, n), np.nan, dtype)
        plan(a, None, out).wait()
        agree(out, a, b)
        da, dout = dev.array(a), dev.empty((m, n), dtype)
        plan(da, None, dout).wait()
        agree(dout.numpy(), a, b)
        go = plan.bind(da, None, dout)
        go()
        agree(dout.numpy(), a, b)
        with pytest.raises(TypeError, match="b: None is wanted"):
            plan(da, dev.array(b), dout)
    mine = b.copy()
    plan = gemm.plan(dev, m, n, k, dtype, b=mine)
    mine[:] = 0
    out = np.empty((m, n), dtype)
    plan(a, None, out).wait()
    agree(out, a, b)
    with pytest.raises(ValueError, match="b: shape"):
        gemm.plan(dev, m, n, k, dtype, b=np.zeros((k, n + 1), dtype))
    with pytest.raises(TypeError, match="b: "):
        gemm.plan(dev, m, n, k, dtype, b=b.astype(np.int32))
    with pytest.raises(TypeError, match="b: "):
        gemm.plan(dev, m, n, k, dtype, b=[[1.0]])


def test_threads_share_what_they_pack(cpu2):
    for shape in SHAPES:
        a, b = operands(*shape, np.float32)
        writeable = b.copy()
        alone = gemm(cpu2, a, writeable)
        agree(alone, a, b)
        for _ in range(3):
            assert (gemm(cpu2, a, b) == alone).all()


def test_strides_set_in_place_are_noticed(opened):
    dev = opened("cpu")
    rng = np.random.default_rng(2)
    a, b = rng.random((64, 512), np.float32), rng.random((512, 512), np.float32)
    out = np.empty((64, 512), np.float32)
    b.flags.writeable = False
    for _ in range(4):
        gemm(dev, a, b, out)
    with warnings.catch_warnings():  # NumPy 2.4 says that it will not always be possible
        warnings.simplefilter("ignore", DeprecationWarning)
        b.strides = b.strides[::-1]
    gemm(dev, a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-4)


@pytest.mark.parametrize("between", [dict(algo="naive"), dict(rows=1), dict(rows=4)])
def test_any_call_while_they_are_writeable_forgets_packed_weights(opened, between):
    dev = opened("cpu")
    rng = np.random.default_rng(2)
    a, b = rng.random((256, 512), np.float32), rng.random((512, 512), np.float32)
    b.flags.writeable = False
    for _ in range(4):
        gemm(dev, a, b)
    b.flags.writeable = True
    b[...] = rng.random(b.shape)
    gemm(dev, a[: between.get("rows", 256)], b, algo=between.get("algo", "auto"))
    b.flags.writeable = False
    np.testing.assert_allclose(gemm(dev, a, b), a @ b, rtol=1e-4)
