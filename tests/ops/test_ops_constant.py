"""Constants: private copies, packed once for each plan, taken wherever arrays are.

When this fails, operations with constant weights use other weights.
"""

import copy
import gc
import pickle
import threading

import numpy as np
import pytest
from agree import agree

import sparkle_drv as sp
from sparkle_drv.ops import conv2d, gemm, ref
from sparkle_drv.ops.memory.constant import MOST

pytestmark = pytest.mark.devices("cpu", "egl:0", "emu:gfx1100")

constant = sp.ops.constant


@pytest.fixture
def ctx():
    with sp.init(["cpu"], profile=False) as context:
        yield context


def normal(seed, *shape, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def test_it_is_a_copy_of_any_source(each_dev, ctx):
    each_dev = each_dev
    w = normal(1, 30, 40)
    held = each_dev.array(w)
    spread = np.repeat(w, 2, 1)[:, ::2]
    moved = ctx.array(w.shape, w.dtype).fill(w)
    other = constant(ctx.device, w)
    for given in (w, w.T.copy().T, spread, w[::-1][::-1], held, moved, other, w.view(Sub)):
        with constant(each_dev, given) as made:
            assert (made.shape, made.dtype, made.nbytes) == (w.shape, w.dtype, w.nbytes)
            assert (made.ndim, made.size, len(made)) == (2, 1200, 30)
            np.testing.assert_array_equal(made.numpy(), w)
            np.testing.assert_array_equal(np.asarray(made), w)
            agree(gemm(each_dev, w.T.copy(), made), w.T @ w)
    held.close()


class Sub(np.ndarray):
    pass


def test_nothing_that_it_gives_can_change_it(dev):
    w = normal(1, 300, 300)
    made, wanted = constant(dev, w), w.copy()
    w[:] = 0
    given = made.numpy(), np.asarray(made), np.array(made)
    for x in given:
        x[:] = 0
    np.testing.assert_array_equal(made.numpy(), wanted)
    for name in ("buffer", "address", "map", "__dlpack__", "__array_interface__", "view", "write"):
        assert not hasattr(made, name), name
    with pytest.raises(TypeError):
        memoryview(made)
    with pytest.raises(ValueError, match="copies only"):
        made.__array__(copy=False)
    for steal in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="use its numpy"):
            steal(made)
    agree(gemm(dev, wanted, made), wanted @ wanted)


def test_the_second_call_goes_without_python(dev, slowly):
    """And a constant's table has room for several shapes of the other operand."""
    b, w = normal(1, 300, 200), normal(2, 16, 16, 3, 3)
    for held_b in (constant(dev, b), constant(dev, b.astype("f8"))):
        held_w = constant(dev, w)
        left = [normal(m, m, 300).astype(held_b.dtype) for m in (1, 8, 33)]
        images = [normal(h, 2, 16, h, h) for h in (6, 9)]
        for a in left:
            gemm(dev, a, held_b)
        for x in images:
            conv2d(dev, x, held_w, padding=1)
        for a in left:
            gemm(dev, a, held_b, np.empty((len(a), 200), a.dtype))
            gemm(dev, a, held_b, activation="relu")
        del slowly[:]
        for a in left:
            out = np.empty((len(a), 200), a.dtype)
            assert gemm(dev, a, held_b, out) is out
            agree(out, a @ b)
            agree(gemm(dev, a, held_b, activation="relu"), np.maximum(a @ b, 0))
        for x in images:
            wanted = ref.conv2d(x, w, padding=((1, 1), (1, 1)))
            agree(conv2d(dev, x, held_w, padding=1), wanted)
        assert slowly == []


def test_in_every_place_of_an_operation(each_dev):
    each_dev = each_dev
    a, b, bias = normal(1, 20, 30), normal(2, 30, 40), normal(3, 40)
    x, w, each = normal(4, 1, 6, 7, 7), normal(5, 8, 6, 3, 3), normal(6, 8)
    A, B, D, X, W, E = (constant(each_dev, given) for given in (a, b, bias, x, w, each))
    image = ref.conv2d(x, w, each)
    for left, right, row in ((A, b, None), (a, B, bias), (A, B, D), (a, b, D)):
        wanted = a @ b + (0 if row is None else bias)
        found = gemm(each_dev, left, right, bias=row)
        assert type(found) is np.ndarray
        agree(found, wanted)
    for pixels, filters, row in ((X, w, each), (x, W, each), (X, W, E)):
        found = conv2d(each_dev, pixels, filters, row)
        assert type(found) is np.ndarray
        agree(found, image)
    with each_dev.array(a) as held, gemm(each_dev, held, B, bias=D) as made:
        assert isinstance(made, sp.Array)
        agree(made.numpy(), a @ b + bias)
    with each_dev.array(b) as held, gemm(each_dev, A, held) as made:
        agree(made.numpy(), a @ b)
    with each_dev.array(x) as held, conv2d(each_dev, held, W, E) as made:
        agree(made.numpy(), image)
    agree(sp.ops.map(each_dev, "relu(a*x + y)", a=2.0, x=A, y=normal(7, 20, 30)),
          np.maximum(2 * a + normal(7, 20, 30), 0))  # fmt: skip
    with each_dev.array(a) as held, sp.ops.map(each_dev, "x - y", held, A) as made:
        assert not made.numpy().any()
    agree(sp.ops.reduce(each_dev, A, axis=1), a.sum(1))
    agree(sp.ops.reduce(each_dev, "x*y", x=A, y=a), (a * a).sum())
    agree(sp.ops.layout(each_dev, X, "NHWC"), x.transpose(0, 2, 3, 1))
    for held in (A, B, D, X, W, E):
        held.close()


def test_plans(each_dev):
    each_dev = each_dev
    a, b, x, w, each = (
        normal(1, 20, 300), normal(2, 300, 260), normal(3, 1, 16, 9, 9), normal(4, 24, 16, 3, 3),
        normal(5, 24),
    )  # fmt: skip
    B, W, E = (constant(each_dev, given) for given in (b, w, each))
    image = ref.conv2d(x, w, each)
    held = each_dev.array(a), each_dev.empty((20, 260), np.float32)
    for plan, right in (
        (gemm.plan(each_dev, 20, 260, 300, b=B), None),
        (gemm.plan(each_dev, 20, 260, 300), B),
    ):
        plan(held[0], right, held[1]).wait()
        agree(held[1].numpy(), a @ b)
        go = plan.bind(held[0], right, held[1])
        go()
        agree(held[1].numpy(), a @ b)
    plan = conv2d.plan(each_dev, x.shape, W, E)
    pixels, made = each_dev.array(x), each_dev.empty(plan.out_shape, np.float32)
    plan(pixels, made).wait()
    agree(made.numpy(), image)
    for given in (B, W, E):
        given.close()
    with pytest.raises(ValueError, match="closed"):
        plan(pixels, made)
    for given in (*held, pixels, made):
        given.close()


@pytest.mark.parametrize("kind", ["numpy", "Array"])
def test_plans_copy_arrays(dev, kind):
    """Later changes of weights and of a bias do not reach a plan."""
    b, w, each, x, a = (
        normal(1, 300, 260), normal(2, 24, 16, 3, 3), normal(3, 24), normal(4, 1, 16, 9, 9),
        normal(5, 20, 300),
    )  # fmt: skip
    product, image = a @ b, ref.conv2d(x, w, each)
    if kind == "Array":
        b, w, each = dev.array(b), dev.array(w), dev.array(each)
    plans = gemm.plan(dev, 20, 260, 300, b=b), conv2d.plan(dev, x.shape, w, each)
    for given in (b, w, each):
        np.asarray(given)[...] = 0
    out, y = np.empty((20, 260), np.float32), np.empty(plans[1].out_shape, np.float32)
    plans[0](a, None, out).wait()
    plans[1](x, y).wait()
    agree(out, product)
    agree(y, image)


def test_a_bias_and_numbers_are_read_in_each_call(dev):
    a, b, x, w = normal(1, 8, 8), normal(2, 8, 8), normal(3, 1, 4, 6, 6), normal(4, 8, 4, 1, 1)
    bias, number = normal(5, 8), np.float32(1.5).reshape(())
    plan, out = gemm.plan(dev, 8, 8, 8), np.empty((8, 8), np.float32)
    for step in range(4):
        bias.flags.writeable = True
        bias[step] = 100
        bias.flags.writeable = False
        number = np.array(step, np.float32)
        for _ in range(2):
            agree(gemm(dev, a, b, bias=bias), a @ b + bias)
            agree(conv2d(dev, x, w, bias), ref.conv2d(x, w, bias))
            plan(a, b, out, bias).wait()
            agree(out, a @ b + bias)
            agree(sp.ops.map(dev, "x*s + y", x=a, s=number, y=bias), a * step + bias)


def test_a_closed_one_is_refused_everywhere(dev, ctx):
    a, b = normal(1, 20, 300), normal(2, 300, 260)
    held = constant(dev, b)
    gemm(dev, a, held)
    held.close()
    held.close()
    assert held.closed
    assert "closed" in repr(held)
    for use in (
        lambda: gemm(dev, a, held),
        lambda: gemm(dev, held, a),
        lambda: gemm.plan(dev, 20, 260, 300, b=held),
        lambda: gemm.plan(dev, 20, 260, 300)(a, held, np.empty((20, 260), np.float32)),
        lambda: conv2d(dev, a[None, None], held),
        lambda: sp.ops.map(dev, "x", x=held),
        lambda: sp.ops.reduce(dev, held),
        lambda: constant(dev, held),
        held.numpy,
        lambda: ctx.gemm(a, held),
    ):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_wrong_arguments_are_refused(dev, each_dev):
    w = normal(1, 8, 8)
    for wrong in ([1.0], None, 3, np.ma.array(w), np.array([object()])):
        with pytest.raises(TypeError):
            constant(dev, wrong)
    with pytest.raises(TypeError, match="dev"):
        constant(None, w)
    with constant(dev, w) as held:
        with pytest.raises(TypeError, match="out"):
            gemm(dev, w, w, held)
        with pytest.raises(ValueError, match="expected an open Constant of"):
            gemm(each_dev, w, held)
        with pytest.raises(TypeError, match="b: "):
            gemm(dev, w.astype("f8"), held)
        with pytest.raises(ValueError, match="b: expected shape"):
            gemm(dev, w[:, :7], held)
    gone = dev.array(w)
    gone.close()
    with pytest.raises(ValueError, match="open Array"):
        constant(dev, gone)


def test_a_closed_device(own_dev):
    held = constant(own_dev, normal(1, 8, 8))
    gemm(own_dev, np.ones((8, 8), np.float32), held)
    own_dev.close()
    with pytest.raises((sp.errors.DeviceLost, ValueError)):
        gemm(own_dev, np.ones((8, 8), np.float32), held)
    held.close()


def test_a_new_default_queue(dev):
    a, b = normal(1, 20, 300), normal(2, 300, 260)
    held = constant(dev, b)
    for _ in range(2):
        for _ in range(2):
            agree(gemm(dev, a, held), a @ b)
        dev.default_queue.close()


def test_its_memory_ends_with_it(own_dev):
    a = normal(1, 20, 300)
    gemm(own_dev, a, constant(own_dev, normal(2, 300, 260)))
    gc.collect()
    before = own_dev.live_counts()["buffers"]
    held = constant(own_dev, normal(2, 300, 260))
    for _ in range(2):
        gemm(own_dev, a, held)
    assert own_dev.live_counts()["buffers"] > before
    held.close()
    assert own_dev.live_counts()["buffers"] == before


def test_images_of_many_sizes_keep_a_few_packed_copies(dev):
    held, w = constant(dev, normal(1, 8, 8, 3, 3)), normal(1, 8, 8, 3, 3)
    for side in range(4, 4 + 3 * MOST):
        x = normal(side, 1, 8, side, side)
        agree(conv2d(dev, x, held), ref.conv2d(x, w))
        assert len(held._blobs) <= MOST


def test_several_threads_pack_it_once(dev):
    a, b = normal(1, 64, 400), normal(2, 400, 400)
    held, wrong, wanted = constant(dev, b), [], normal(1, 64, 400) @ b
    at_once = threading.Barrier(4)

    def work():
        at_once.wait(10)
        for _ in range(20):
            if not np.allclose(gemm(dev, a, held), wanted, atol=1e-3):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not wrong
    assert len(held._blobs) == 1


def test_one_without_dimensions_is_a_number_of_each_call(dev):
    x = normal(1, 5)
    for value in (3, 4):
        held = constant(dev, np.array(value, np.float32))
        for _ in range(3):
            agree(sp.ops.map(dev, "k*x", k=held, x=x), value * x)
        agree(sp.ops.map(dev, "k*k", k=held), value * value)
        agree(sp.ops.reduce(dev, "k*x", k=held, x=x), (value * x).sum())
        held.close()
        with pytest.raises(ValueError, match="k: expected an open Constant"):
            sp.ops.map(dev, "k*x", k=held, x=x)
