"""ContextArrays: what they can be filled with, and which layouts they can have.

When this fails, arrays of a Context hold other values than they were filled with.
"""

import numpy as np
import pytest

import sparkle_drv as sp

F32 = np.float32


@pytest.fixture(scope="module")
def ctx():
    with sp.init(["cpu"], profile=False) as made:
        yield made


@pytest.mark.parametrize(
    ("dtype", "values", "error", "said"),
    [
        (F32, None, TypeError, "expected values that float32 can hold, got object"),
        (F32, 1j, TypeError, "got complex128"),
        (F32, "a", TypeError, "got <U1"),
        (F32, np.ma.ones((4, 3)), TypeError, "masked"),
        (F32, np.ones((3, 4)), ValueError, r"broadcasts to \(4, 3\), got \(3, 4\)"),
        (F32, np.ones((1, 4, 3)), ValueError, r"got \(1, 4, 3\)"),
        (np.int32, 2.7, TypeError, "expected values that int32 can hold, got float64"),
        (np.int32, 1 << 40, ValueError, "fit int32, got 1099511627776"),
        (np.int32, np.array([1, -(1 << 40), 2]), ValueError, "got -1099511627776"),
        (np.uint8, -1, ValueError, "fit uint8, got -1"),
        (np.int32, 1 << 70, TypeError, "got object"),
    ],
)
def test_what_it_cannot_hold_is_refused_and_changes_nothing(ctx, dtype, values, error, said):
    x = ctx.array((4, 3), dtype).fill(7)
    with pytest.raises(error, match=f"values: .*{said}"):
        x.fill(values)
    assert (x.numpy() == 7).all()


def test_what_it_can_hold(ctx):
    for dtype, values in (
        (F32, 1), (F32, np.arange(3)), (F32, np.ones((4, 1))), (F32, True), (F32, np.inf),
        (F32, [[0.1, 1e300, -1]]), (np.int32, np.arange(3)), (np.int32, np.int64(5)),
        (np.uint8, 200),
        (np.complex64, 1j), (bool, True), (np.float64, np.arange(3, dtype=">f4")),
    ):  # fmt: skip
        with np.errstate(over="ignore"):
            want = np.broadcast_to(np.asarray(values).astype(dtype), (4, 3))
            got = ctx.array((4, 3), dtype).fill(values).numpy()
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("dtype", "seed", "error", "said"),
    [
        (np.complex64, 0, TypeError, "fill_random: .* got one of complex64"),
        (bool, 0, TypeError, "got one of bool"),
        ("S3", 0, TypeError, r"got one of \|S3"),
        ([("a", "f4")], 0, TypeError, "got one of "),
        (F32, -1, ValueError, "seed: expected 0 or more"),
        (F32, True, TypeError, "seed: expected a whole number"),
        (F32, 1.5, TypeError, "seed: expected a whole number"),
    ],
)
def test_what_has_no_random_values(ctx, dtype, seed, error, said):
    with pytest.raises(error, match=said):
        ctx.array(3, dtype).fill_random(seed)


@pytest.mark.parametrize(
    ("shape", "layout", "error"),
    [
        ((1, 8, 5, 5), "XYZ", ValueError), ((1, 8, 5, 5), "nchw", ValueError),
        ((1, 8, 5, 5), 5, TypeError), ((3,), "NHWC", ValueError),
        ((1, 8, 5, 5), "NCHW8c", ValueError), ((1, 1, 5, 5, 4), "NCHW8c", ValueError),
    ],
)  # fmt: skip
def test_layouts_that_an_array_cannot_have(ctx, shape, layout, error):
    with pytest.raises(error, match=r"layout: |shape: "):
        ctx.array(shape, F32, layout=layout)
