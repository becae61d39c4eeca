"""ops.layout on the cpu: every way between layouts, what is told and what is guessed.

When this fails, a change between NCHW and NHWC moves elements to the wrong place.
"""

import dataclasses
import itertools

import numpy as np
import pytest

from sparkle_drv.ops import layout, ref

LAYOUTS = ["NCHW", "NHWC", "NCHW1c", "NCHW4c", "NCHW8c", "NCHW16c", "NCHW64c"]


def image(shape=(2, 19, 5, 7), seed=41):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(LAYOUTS, LAYOUTS)))
def test_every_way(dev, source, target):
    plain = image()
    a = ref.layout(plain, "NCHW", source)
    channels = 19 if source not in ("NCHW", "NHWC") else None
    want = ref.layout(plain, "NCHW", target)
    got = layout(dev, a, target, source=source, channels=channels)
    assert got.flags.c_contiguous
    np.testing.assert_array_equal(got, want)
    held = dev.array(a, layout=source)
    made = layout(dev, held, target, channels=channels)
    assert made.layout == target
    assert made is not held
    np.testing.assert_array_equal(made.numpy(), want)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3, 65, 1, 1), (1, 7, 33, 31), (5, 16, 16, 17)])
def test_round_trips(dev, shape):
    plain = image(shape)
    for way in LAYOUTS[1:]:
        there = layout(dev, plain, way)
        channels = None if way == "NHWC" else shape[1]
        back = layout(dev, there, "NCHW", channels=channels)
        np.testing.assert_array_equal(back, plain, err_msg=way)


def test_padding_stays_unless_the_channels_are_told(dev):
    plain = image()
    blocked = layout(dev, plain, "NCHW8c")
    assert blocked.shape == (2, 3, 5, 7, 8)
    assert not blocked[:, 2, :, :, 3:].any()
    whole = layout(dev, blocked, "NHWC")
    assert whole.shape == (2, 5, 7, 24)
    assert layout(dev, blocked, "NCHW", channels=17).shape == (2, 17, 5, 7)
    rewritten = layout(dev, blocked, "NCHW8c", channels=17)
    assert rewritten[:, 2, :, :, 0].any()
    assert not rewritten[:, 2, :, :, 1:].any()


def test_what_is_guessed(dev):
    plain = image()
    nhwc = ref.layout(plain, "NCHW", "NHWC")
    np.testing.assert_array_equal(layout(dev, plain, "NHWC"), nhwc)
    np.testing.assert_array_equal(layout(dev, nhwc, "NCHW"), plain)
    assert layout(dev, plain, "NCHW4c").shape == (2, 5, 5, 7, 4)
    assert layout(dev, nhwc, "NCHW4c", source="NHWC").shape == (2, 5, 5, 7, 4)
    moved = layout(dev, dev.array(nhwc, layout="NHWC"), "NHWC")
    assert moved.layout == "NHWC"


def test_operands_in_any_memory(dev):
    turned = np.asfortranarray(image())
    np.testing.assert_array_equal(layout(dev, turned, "NHWC"), np.moveaxis(turned, 1, 3))
    np.testing.assert_array_equal(
        layout(dev, turned[::-1, ::2], "NHWC"), np.moveaxis(turned[::-1, ::2], 1, 3)
    )
    same = layout(dev, turned, "NCHW", source="NCHW")
    assert same.flags.c_contiguous
    assert not np.may_share_memory(same, turned)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(LAYOUTS[:4], LAYOUTS[:4])))
def test_out(dev, source, target):
    plain = image()
    a, want = ref.layout(plain, "NCHW", source), ref.layout(plain, "NCHW", target)
    options = {"source": source, "channels": 19 if source not in ("NCHW", "NHWC") else None}
    out = np.full(want.shape, 7, np.float32)
    assert layout(dev, a, target, out=out, **options) is out
    np.testing.assert_array_equal(out, want)
    held, there = dev.array(a, layout=source), dev.array(np.full(want.shape, 7, np.float32))
    assert layout(dev, held, target, channels=options["channels"], out=there) is there
    assert there.layout == target
    np.testing.assert_array_equal(there.numpy(), want)


def test_out_over_what_is_read(dev):
    plain = image((2, 6, 6, 6))
    for target in ("NHWC", "NCHW"):
        want = ref.layout(plain, "NCHW", target)
        host = plain.copy()
        assert layout(dev, host, target, source="NCHW", out=host) is host
        np.testing.assert_array_equal(host, want)
        held = dev.array(plain)
        over = held.buffer.view(0, held.nbytes).array(np.float32, want.shape)
        layout(dev, held, target, source="NCHW", out=over)
        np.testing.assert_array_equal(over.numpy(), want)


@pytest.mark.parametrize("target", ["NHWC", "NCHW"])
def test_an_out_that_does_not_fit(dev, target):
    with pytest.raises(ValueError, match=r"out: expected shape .*"):
        layout(dev, A, target, source="NCHW", out=np.zeros((2, 3, 5, 4), np.float32))
    other = {"NHWC": "NCHW", "NCHW": "NHWC"}[target]
    held = dev.array(ref.layout(A, "NCHW", target), layout=other)
    with pytest.raises(ValueError, match=f"out: expected layout {target}, got {other}"):
        layout(dev, dev.array(A), target, source="NCHW", out=held)


@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5)])
def test_empty(dev, shape):
    empty = np.zeros(shape, np.float32)
    n, c, h, w = shape
    assert layout(dev, empty, "NHWC").shape == (n, h, w, c)
    assert layout(dev, empty, "NCHW8c").shape == (n, -(-c // 8), h, w, 8)
    assert layout(dev, dev.array(empty), "NHWC").shape == (n, h, w, c)
    assert layout(dev, dev.array(empty, layout="NHWC"), "NHWC").shape == shape


def test_memory_that_is_not_shared_with_the_host(dev, monkeypatch):
    monkeypatch.setattr(dev._backend, "info", dataclasses.replace(dev.info, unified=False))
    plain = image()
    want = ref.layout(plain, "NCHW", "NHWC")
    np.testing.assert_array_equal(layout(dev, plain, "NHWC"), want)
    np.testing.assert_array_equal(layout(dev, dev.array(plain), "NHWC").numpy(), want)
    np.testing.assert_array_equal(layout(dev, plain, "NCHW", source="NCHW"), plain)


A = np.ones((2, 3, 4, 5), np.float32)
B = np.ones((2, 3, 4, 5, 8), np.float32)


@pytest.mark.parametrize(
    ("a", "target", "options", "error", "match"),
    [
        ([1.0], "NHWC", {}, TypeError, "a: expected a numpy array or an Array, got list"),
        (A.astype("i2"), "NHWC", {}, TypeError, "a: layout takes float32 or .*, got int16"),
        (A, "CHWN", {}, ValueError, 'target: expected "NCHW", "NHWC", or .* got \'CHWN\''),
        (A, "NCHW0c", {}, ValueError, "target: .* block of 1 to 64"),
        (A, "NCHW65c", {}, ValueError, "target: .* block of 1 to 64 for the 8, got 'NCHW65c'"),
        (A, None, {}, TypeError, 'target: expected "NCHW", "NHWC", or "NCHW8c" .* got None'),
        (A, "NHWC", {"source": "NCWH"}, ValueError, "source: .* got 'NCWH'"),
        (A[0], "NHWC", {}, ValueError, r"a: expected 4 dimensions \(n, c, h, w\)"),
        (A[0], "NCHW", {}, ValueError, r"a: expected 4 dimensions \(n, h, w, c\)"),
        (
            A,
            "NCHW",
            {"source": "NCHW8c"},
            ValueError,
            r"a: expected 5 dimensions \(n, blocks, h, w, 8\)",
        ),
        (B, "NCHW", {"source": "NHWC"}, ValueError, r"a: expected 4 dimensions \(n, h, w, c\)"),
        (B, "NCHW", {"source": "NCHW4c"}, ValueError, r"a: expected shape \(n, blocks, h, w, 4\)"),
        (A, "NHWC", {"channels": 3}, ValueError, "channels: expected an array in a blocked"),
        (B, "NCHW", {"channels": 16}, ValueError, "channels: expected 17 to 24 in 3 blocks"),
        (B, "NCHW", {"channels": 25}, ValueError, "channels: expected 17 to 24 .* got 25"),
        (B, "NCHW", {"channels": 2.5}, TypeError, "channels: expected a whole number"),
    ],
)
def test_bad_input(dev, a, target, options, error, match):
    before = dev.default_queue.submitted
    with pytest.raises(error, match=match):
        layout(dev, a, target, **options)
    assert dev.default_queue.submitted == before


def test_an_array_knows_better_than_source(dev):
    held = dev.array(A, layout="NHWC")
    with pytest.raises(ValueError, match="source: expected NHWC, the layout of a, got 'NCHW'"):
        layout(dev, held, "NCHW8c", source="NCHW")
