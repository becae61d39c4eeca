"""gemm with a packed b: the same results, and every wrong blob is refused.

When this fails, gemm with constant weights is wrong, or takes weights of another shape.
"""

import isas
import numpy as np
import pytest
from agree import agree

import sparkle_drv as sp
from sparkle_drv.ops import constant, gemm, ref
from sparkle_drv.ops.memory import weights
from sparkle_drv.ops.tiles import blocking
from sparkle_drv.types import TilePlan

pytestmark = pytest.mark.opens(*isas.HERE)

SHAPES = [(5, 300, 300), (64, 257, 513), (130, 1000, 70), (33, 33, 2100), (200, 40, 1700)]


@pytest.fixture
def cpu2(monkeypatch):
    monkeypatch.setenv("SPARKLE_THREADS", "2")
    with sp.open("cpu") as device:
        yield device


def operands(m, n, k, dtype, seed=1):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((m, k)).astype(dtype)
    return a, rng.standard_normal((k, n)).astype(dtype)


def is_product(got, a, b):
    tag = "gemm_f32" if got.dtype == np.float32 else "gemm_f64"
    want = ref.gemm(a, b)
    rms = float(np.sqrt(np.mean(want**2)))
    agree(got, want, ref.tolerance(tag, k=a.shape[1]), rms)


def blobs(held):
    return list(held._blobs.values())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_constant_b_is_packed_once_and_results_agree(dev, shape, dtype):
    a, b = operands(*shape, dtype)
    out = np.empty((shape[0], shape[1]), dtype)
    packs = b.nbytes > 256 << 10 and dev.info.isa
    for order in "CF":
        held = constant(dev, np.array(b, order=order))
        for _ in range(3):
            out[:] = np.nan
            assert gemm(dev, a, held, out) is out
            is_product(out, a, b)
            assert len(blobs(held)) == (1 if packs else 0)
        is_product(gemm(dev, a, held), a, b)
        is_product(gemm(dev, a, held, bias=np.zeros(shape[1], dtype)), a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_bits_with_and_without_packing(dev, dtype):
    a, b = operands(50, 300, 700, dtype)
    held, first = constant(dev, b), gemm(dev, a, b)
    for _ in range(3):
        assert (gemm(dev, a, held) == first).all()


@pytest.fixture
def small_caches(monkeypatch):
    """To the tile model: what comes from memory is small, then."""
    monkeypatch.setattr(blocking, "own", lambda caches, level: 1 << 16 if level == 3 else 1 << 20)


@pytest.mark.usefixtures("small_caches")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_b_from_memory_is_read_in_other_terms_but_where_it_stays(dev, dtype):
    a, b = operands(8, 300, 700, dtype)
    for _ in range(3):
        is_product(gemm(dev, a, b), a, b)
    held = constant(dev, b)
    first = gemm(dev, a, held)
    is_product(first, a, b)
    for _ in range(3):
        assert (gemm(dev, a, held) == first).all()
    plan = gemm.plan(dev, 8, 300, 700, dtype)
    terms = plan.tile.levels[0][2]
    kept = gemm.plan(dev, 8, 300, 700, dtype, b=b)
    assert kept.tile.levels[0][2] >= terms
    if dev.info.isa == "avx512":
        assert (terms, len(blobs(held))) == (16, 1)
    out = np.empty_like(first)
    kept(a, None, out).wait()
    assert (out == first).all()


@pytest.mark.usefixtures("small_caches")
def test_on_a_deterministic_device_a_constant_gives_the_same_bits():
    a, b = operands(8, 300, 700, np.float32)
    with sp.open("cpu", deterministic=True) as dev:
        held, first = constant(dev, b), gemm(dev, a, b)
        for _ in range(3):
            assert (gemm(dev, a, held) == first).all()


def test_many_shapes_of_one_b(dev):
    _, b = operands(1, 300, 300, np.float32)
    held = constant(dev, b)
    for m in range(1, 40, 3):
        a = np.full((m, 300), 0.5, np.float32)
        for _ in range(3):
            is_product(gemm(dev, a, held), a, b)
    assert len(blobs(held)) == 1


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
    is_product(run(dev, consumer(dev, "f32", 64), da, blob), a, b)
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
    is_product(run(dev, consumer(dev, "f64", 64), dev.array(a), blob), a, b)
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
    for given in (b, dev.array(b), np.asfortranarray(b), constant(dev, b)):
        plan = gemm.plan(dev, m, n, k, dtype, b=given)
        out = np.full((m, n), np.nan, dtype)
        plan(a, None, out).wait()
        is_product(out, a, b)
        da, dout = dev.array(a), dev.empty((m, n), dtype)
        plan(da, None, dout).wait()
        is_product(dout.numpy(), a, b)
        go = plan.bind(da, None, dout)
        go()
        is_product(dout.numpy(), a, b)
        with pytest.raises(TypeError, match="b: expected None"):
            plan(da, dev.array(b), dout)
    mine = b.copy()
    plan = gemm.plan(dev, m, n, k, dtype, b=mine)
    mine[:] = 0
    out = np.empty((m, n), dtype)
    plan(a, None, out).wait()
    is_product(out, a, b)
    with pytest.raises(ValueError, match="b: expected shape"):
        gemm.plan(dev, m, n, k, dtype, b=np.zeros((k, n + 1), dtype))
    with pytest.raises(TypeError, match="b: "):
        gemm.plan(dev, m, n, k, dtype, b=b.astype(np.int32))
    with pytest.raises(TypeError, match="b: "):
        gemm.plan(dev, m, n, k, dtype, b=[[1.0]])


def test_threads_share_what_they_pack(cpu2):
    for shape in SHAPES:
        a, b = operands(*shape, np.float32)
        held = constant(cpu2, b)
        first = gemm(cpu2, a, held)
        is_product(first, a, b)
        for _ in range(3):
            assert (gemm(cpu2, a, held) == first).all()
