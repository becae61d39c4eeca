"""What of packed weights is kept, for how long, and what makes it stale."""

import gc

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.ops import weights


@pytest.fixture
def dev():
    with sp.open("cpu") as device:
        yield device


class Packer:
    """A `pack` that counts, and the blob's bytes are the count."""

    def __init__(self, dev):
        self.dev, self.calls = dev, 0

    def __call__(self):
        self.calls += 1
        return self.dev.empty(64, np.uint8)


def asked(dev, owner, pack, key="k"):
    """How often packing ran so far, after two more calls."""
    weights.packed(dev, owner, key, pack)
    found = weights.packed(dev, owner, key, pack)
    assert (found is None) == (weights._state(owner) is None)
    return pack.calls


def constant(*shape):
    made = np.ones(shape, np.float32)
    made.flags.writeable = False
    return made


def test_the_second_call_packs_and_later_ones_do_not(dev):
    for owner in (constant(4, 4), dev.array(np.ones((4, 4), np.float32))):
        pack = Packer(dev)
        assert weights.packed(dev, owner, "k", pack) is None
        made = weights.packed(dev, owner, "k", pack)
        assert made is not None
        assert weights.packed(dev, owner, "k", pack) is made
        assert pack.calls == 1
        assert asked(dev, owner, pack, "another") == 2
        assert weights.packed(dev, owner, "k", pack) is made


def test_each_key_and_owner_has_its_own(dev):
    a, b, pack = constant(2), constant(2), Packer(dev)
    assert asked(dev, a, pack, 1) == 1
    assert asked(dev, a, pack, 2) == 2
    assert asked(dev, b, pack, 1) == 3
    for key in range(3 * weights.MOST):
        asked(dev, a, pack, key)
        assert len(dev.kept["ops weights"][id(a)].blobs) <= weights.MOST


@pytest.mark.parametrize(
    "owner",
    [
        np.ones((4, 4), np.float32),
        constant(4, 4)[1:],
        np.frombuffer(b"12345678", np.float32),
        [1.0],
    ],
    ids=["writeable", "view", "foreign", "list"],
)
def test_what_others_may_change_has_nothing_kept(dev, owner):
    pack = Packer(dev)
    assert asked(dev, owner, pack) == 0
    assert not dev.kept["ops weights"]


def test_a_numpy_array_made_writeable_is_forgotten(dev):
    owner, pack = constant(4, 4), Packer(dev)
    assert asked(dev, owner, pack) == 1
    owner.flags.writeable = True
    assert weights.packed(dev, owner, "k", pack) is None
    owner[0] = 5
    owner.flags.writeable = False
    assert asked(dev, owner, pack) == 2


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (64, 96), (320, 333)])
def test_constant_weights_changed_between_two_calls_are_packed_anew(dev, shape):
    owner, pack = np.asfortranarray(constant(*shape)), Packer(dev)
    owner.flags.writeable = False
    assert asked(dev, owner, pack) == 1
    for n, change in enumerate((owner.__imul__, lambda _: owner.fill(7), owner.__isub__), 2):
        owner.flags.writeable = True
        change(3)
        owner.flags.writeable = False
        assert asked(dev, owner, pack) == n
        assert asked(dev, owner, pack) == n
    owner.flags.writeable = True
    owner[-1, -1] += 1  # the last is always looked at
    owner.flags.writeable = False
    assert asked(dev, owner, pack) == 5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_products_and_convolutions_see_constant_weights_changed_between(dev, dtype, order):
    rng = np.random.default_rng(8)
    a, b = rng.random((64, 512)).astype(dtype), rng.random((512, 300)).astype(dtype, order=order)
    x, w = (rng.random(s).astype(np.float32) for s in ((1, 32, 12, 12), (48, 32, 3, 3)))
    for owner, call in (
        (b, lambda: sp.ops.gemm(dev, a, b)),
        (w, lambda: sp.ops.conv2d(dev, x, w, padding=1)),
    ):
        owner.flags.writeable = False
        for _ in range(4):  # packed, and by the way without Python
            before = call()
        owner.flags.writeable = True
        owner *= -2
        owner.flags.writeable = False
        for _ in range(3):
            np.testing.assert_allclose(call(), -2 * before, rtol=1e-3, atol=1e-3)


def test_what_is_kept_ends_with_its_owner(dev):
    before = dev.live_counts()["buffers"]
    for make in (lambda: constant(4), lambda: dev.array(np.ones(4, np.float32))):
        owner, pack = make(), Packer(dev)
        asked(dev, owner, pack)
        assert dev.live_counts()["buffers"] > before
        del owner
        gc.collect()
        assert dev.live_counts()["buffers"] == before
        assert not dev.kept["ops weights"]


def test_a_new_owner_at_the_place_of_an_old_one_has_nothing(dev):
    pack = Packer(dev)
    for n in range(1, 50):
        owner = constant(4)  # CPython puts it where the last one was, sooner or later
        assert asked(dev, owner, pack) == n
        del owner


def write(dev, x):
    dev.default_queue.write(x, np.zeros(4, np.float32))


def write_buffer(dev, x):
    x.buffer.write(np.zeros(4, np.float32))


def launch(dev, x):
    dev.default_queue.launch(dev.kernel("fill_f32"), x, 1.0, 4, groups=1).wait()


def launch_over_a_view(dev, x):
    view = x.buffer.view(4, 12)
    dev.default_queue.launch(dev.kernel("fill_f32"), view, 1.0, 3, groups=1).wait()


def launch_by_python(dev, x):
    k = dev.kernel("fill_f32")
    dev.default_queue.launch(k, x, 1.0, 4, groups=1, group_size=64).wait()


def submit_dispatch(dev, x):
    c = sp.Commands().dispatch(dev.kernel("fill_f32"), x, 1.0, 4, groups=1)
    dev.default_queue.submit(c).wait()


def submit_copy(dev, x):
    dev.default_queue.submit(sp.Commands().copy(x, dev.buffer(16))).wait()


def submit_fill(dev, x):
    dev.default_queue.submit(sp.Commands().fill(x, 0)).wait()


def submit_patched(dev, x):
    other = dev.empty(4, np.float32)
    c = sp.Commands().dispatch(dev.kernel("fill_f32"), other, 1.0, 4, groups=1)
    dev.default_queue.submit(c).wait()
    c.patch(0, x, 1.0, 4)
    dev.default_queue.submit(c).wait()


WRITES = [
    write, write_buffer, launch, launch_over_a_view, launch_by_python, submit_dispatch,
    submit_copy, submit_fill, submit_patched,
]  # fmt: skip


@pytest.mark.parametrize("change", WRITES, ids=lambda f: f.__name__)
def test_a_write_makes_it_stale(dev, change):
    x, pack = dev.array(np.ones(4, np.float32)), Packer(dev)
    assert asked(dev, x, pack) == 1
    change(dev, x)
    assert asked(dev, x, pack) == 2
    change(dev, x)
    assert asked(dev, x, pack) == 3


def test_a_list_submitted_again_makes_it_stale_again(dev):
    x, pack = dev.array(np.ones(4, np.float32)), Packer(dev)
    c = sp.Commands().fill(x, 0)
    for n in range(1, 5):
        dev.default_queue.submit(c).wait()
        assert asked(dev, x, pack) == n


def test_reading_leaves_it(dev):
    x, y, pack = dev.array(np.ones(4, np.float32)), dev.empty(4, np.float32), Packer(dev)
    assert asked(dev, x, pack) == 1
    dev.default_queue.launch(dev.kernel("copy_f32"), y, x, 4, groups=1).wait()
    dev.default_queue.read(x, np.empty(4, np.float32)).wait()
    x.buffer.read(np.float32, 4)
    dev.default_queue.submit(sp.Commands().copy(y, x)).wait()
    assert asked(dev, x, pack) == 1


def mapped(dev, x):
    with x.buffer.map():
        pass


def prepared(dev, x):
    dev.default_queue.prepare(dev.kernel("fill_f32"), x, 1.0, 4, groups=1)


EXPOSURES = {
    "numpy": lambda dev, x: x.numpy(),
    "map": mapped,
    "dlpack": lambda dev, x: np.from_dlpack(x),
    "interface": lambda dev, x: x.__array_interface__,
    "prepared": prepared,
}


@pytest.mark.parametrize("how", EXPOSURES)
def test_memory_that_others_may_write_has_nothing_kept(dev, how):
    x, pack = dev.array(np.ones(4, np.float32)), Packer(dev)
    assert asked(dev, x, pack) == 1
    EXPOSURES[how](dev, x)
    assert asked(dev, x, pack) == 1
    assert not dev.kept["ops weights"]


def test_shared_and_wrapped_memory_has_nothing_kept(dev):
    pack = Packer(dev)
    assert asked(dev, dev.buffer(16, sp.Memory.SHARED).array(np.float32, 4), pack) == 0
    assert asked(dev, dev.wrap(np.ones(4, np.float32)).array(np.float32, 4), pack) == 0


def test_a_closed_owner_has_nothing(dev):
    x, pack = dev.array(np.ones(4, np.float32)), Packer(dev)
    assert asked(dev, x, pack) == 1
    x.close()
    assert weights.packed(dev, x, "k", pack) is None
