"""Numbers in expressions that are easily confused, or that a type cannot hold.

When this fails, a number in an expression is taken for another one.
"""

import numpy as np
import pytest

from sparkle_drv.ops import map, reduce

pytestmark = pytest.mark.devices("cpu", "egl:0", "emu:gfx1100")

X = np.array([1, 2, -3, 0.5], np.float32)
WHOLE = np.array([1, 2, -3], np.int32)


def len_of(number):
    return f"{number.bit_length()} bits" if isinstance(number, int) else None  # str() refuses


@pytest.mark.parametrize("first", [0.0, -0.0])
def test_zero_has_a_sign(each_dev, first):
    """Whichever was asked for first, in a text or in a function."""
    for zero in (first, -first):
        wanted = X * np.float32(zero)
        for made in (map(each_dev, f"x * {zero!r}", X), map(each_dev, lambda x, z=zero: x * z, X)):
            assert np.array_equal(np.signbit(made), np.signbit(wanted)), zero


def test_a_power_of_two_dot_is_a_float(each_dev, dev):
    assert map(dev, "x**2.0", WHOLE).dtype == np.float64
    assert map(dev, "pow(x, 2.0)", WHOLE).tolist() == [1, 4, 9]
    for text in ("x**2.0", "x**2"):
        made = map(each_dev, text, X)
        assert made.dtype == np.float32
        assert np.array_equal(made, X * X)


def test_the_square_of_whole_numbers_is_whole(each_dev):
    for expression in ("x**2", lambda x: x**2, lambda x: np.power(x, 2)):
        made = map(each_dev, expression, WHOLE)
        assert made.dtype == np.int32
        assert made.tolist() == [1, 4, 9]


@pytest.mark.parametrize("exponent", [np.inf, -np.inf, np.nan])
def test_exponents_that_are_not_finite(dev, exponent):
    made = map(dev, lambda x: x**exponent, np.abs(X))
    assert np.array_equal(made, np.abs(X) ** np.float32(exponent), equal_nan=True)


@pytest.mark.parametrize("exponent", [10**12, 10**400, 10**5000], ids=len_of)
@pytest.mark.parametrize("x", [X, WHOLE], ids=["f32", "i32"])
def test_exponents_beyond_their_type(dev, exponent, x):
    if x.dtype == np.float32 and exponent < 2**100:
        assert map(dev, lambda x: x**exponent, x)[0] == 1
        return
    with pytest.raises(ValueError, match=r"does not fit [fi]32"):
        map(dev, lambda x: x**exponent, x)


@pytest.mark.parametrize("condition", [0.5, 1e-50, 2**40, 2**400, np.nan, -0.0, 0, False, True])
def test_any_scalar_is_true_or_false(each_dev, condition):
    """whether or not the arrays' type has it."""
    for x in (X, WHOLE):
        wanted = x if condition != 0 else x + x
        assert np.array_equal(map(each_dev, "where(c, x, x + x)", x=x, c=condition), wanted)
        assert reduce(each_dev, "where(c, x, x + x)", x=x, c=condition) == wanted.sum()
        inside = map(each_dev, lambda x: np.where(condition, x, x + x), x)
        assert np.array_equal(inside, wanted)


def test_functions_of_numpy_have_its_types(dev):
    made = map(dev, lambda x: np.fabs(x), WHOLE)
    assert made.dtype == np.float64
    assert made.tolist() == [1, 2, 3]
    assert map(dev, lambda x: np.fabs(x), X).dtype == np.float32
    with pytest.raises(TypeError, match="float_power cannot be traced"):
        map(dev, lambda x: np.float_power(x, 2), X)
