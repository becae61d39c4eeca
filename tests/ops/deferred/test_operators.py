"""Types, views, products and refusals of Arrays: numpy's, in one line where they are not.

When this fails, array operators give other types or values than numpy.
"""

from __future__ import annotations

import operator

import numpy as np
import pytest

import sparkle_drv as sp

pytestmark = pytest.mark.devices("cpu", "egl:0")
HOST = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_python_numbers_are_weak(fresh):
    """NEP 50: 2.5 keeps float32 what it is, numpy's own numbers do not."""
    x = fresh.array(HOST)
    assert (x * 2.5).dtype == (2 / (x + 1)).dtype == np.float32
    assert (x * np.float64(2.5)).dtype == np.float64
    assert (fresh.array(np.arange(4)) + 1).dtype == np.int64
    with pytest.raises(OverflowError):
        fresh.array(np.arange(4, dtype="u1")) + 300


def test_where_it_is_computed_is_said(fresh):
    counted = fresh.array(np.arange(4)) * 2
    expected = f"numpy on the host: multiply of int64 and int64 has no kernel on {fresh.uri}"
    if fresh.uri == "cpu":
        expected = "one map on cpu: (x0 * s0), int64[4]"
    assert counted.explain() == expected
    assert "has no kernel" in fresh.array(HOST).astype("i8").explain()


def test_float16_overflows_to_infinity_as_numpys(fresh):
    with np.errstate(over="ignore"):
        host = np.full(3, 6e4, np.float16)
        np.testing.assert_array_equal((fresh.array(host) * 2).numpy(), host * np.float16(2))


def test_which_results_share_memory(fresh):
    x = fresh.array(HOST)
    for part in (x[1:], x[2], x[None], x[...], x.reshape(4, 3), x.ravel(), x[1, 2:3]):
        assert part.buffer._storage is x.buffer._storage, part
    for copy in (x.T, x[::2], x[:, 1:], x[::-1], x.transpose(1, 0), x.astype("f4")):
        assert copy.buffer._storage is not x.buffer._storage, copy
    x[1:][0] = 7
    assert x.numpy()[1].tolist() == [7] * 4


def test_assignment_over_itself(fresh):
    x, host = fresh.array(HOST), HOST.copy()
    x[1:], host[1:] = x[:-1], HOST[:-1]
    x[:, ::-2], host[:, ::-2] = x[:, :2], host[:, :2].copy()
    x[0], host[0] = np.arange(4), np.arange(4)
    np.testing.assert_array_equal(x.numpy(), host)


@pytest.mark.parametrize(
    ("a", "b"),
    [((3, 4), (4, 2)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,)), ((5, 3, 4), (4, 2)),
     ((2, 1, 3, 4), (5, 4, 2)), ((2, 0, 4), (4, 3))],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_products(fresh, a, b, dtype):
    a, b = (np.arange(np.prod(s)).reshape(s).astype(dtype) % 7 for s in (a, b))
    made = fresh.array(a) @ fresh.array(b)
    np.testing.assert_array_equal(made.numpy(), a @ b)
    assert made.dtype == (a @ b).dtype


def test_numpys_functions(fresh):
    x = fresh.array(HOST)
    np.testing.assert_allclose(np.exp(-x).numpy(), np.exp(-HOST), 1e-6)
    np.testing.assert_array_equal((HOST + x).numpy(), HOST * 2)
    out = fresh.array(HOST)
    assert np.maximum(x, 5, out=out) is out
    np.testing.assert_array_equal(out.numpy(), np.maximum(HOST, 5))


def test_one_element_is_a_number(fresh):
    x = fresh.array(HOST)
    assert x.sum() == 66
    assert (int(x[2, 3]), float(x[0, 1]), bool(x[0, 0])) == (11, 1.0, False)


REFUSED = {
    "iteration": (TypeError, lambda x: list(x), r"x\.numpy\(\)"),
    "in": (TypeError, lambda x: 1 in x, r"\(x == value\)\.any\(\)"),
    "hash": (TypeError, lambda x: {x}, r"id\(x\)"),
    "bool": (ValueError, lambda x: bool(x), "any"),
    "function": (TypeError, lambda x: np.linalg.norm(x), r"x\.numpy\(\)"),
    "concatenate": (TypeError, lambda x: np.concatenate([x, x]), r"x\.numpy\(\)"),
    "ufunc": (TypeError, lambda x: np.spacing(x), r"x\.numpy\(\)"),
    "add.reduce": (TypeError, lambda x: np.add.reduce(x), r"x\.sum\(\)"),
    "out": (TypeError, lambda x: np.add(x, 1, out=HOST.copy()), "out: expected Array, "),
    "where=": (TypeError, lambda x: np.add(x, 1, where=HOST > 1), "where"),
    "text": (TypeError, lambda x: x + "1", "got str"),
    "objects": (TypeError, lambda x: x + np.array([None] * 4), "a fixed size"),
    "shapes": (ValueError, lambda x: x + np.ones(3, "f4"), r"\(3, 4\) and \(3,\)"),
    "step": (ValueError, lambda x: x[::0], "step"),
    "steps": (IndexError, lambda x: x[:: 2**70, 4], "axis 1"),
    "mask": (TypeError, lambda x: x[HOST > 1], "key"),
    "list": (TypeError, lambda x: x[[0, 1]], "key"),
    "indices": (IndexError, lambda x: x[0, 0, 0], "at most 2"),
    "axes": (ValueError, lambda x: x.transpose(0, 0), "axes"),
    "axis": (ValueError, lambda x: x.sum(2), "axis"),
    "inner": (ValueError, lambda x: x @ x, "inner"),
    "assign": (ValueError, lambda x: operator.setitem(x, 0, np.ones(3)), "broadcasts"),
    "assigned": (TypeError, lambda x: operator.setitem(x, 0, "1"), "got str"),
    "in place": (TypeError, lambda x: operator.iadd(x, np.float32(1) * 1j), "complex"),
    "grows": (ValueError, lambda x: operator.iadd(x[0], x), "shape"),
    "dtype": (TypeError, lambda x: x.astype("nonsense"), "dtype"),
    "object": (TypeError, lambda x: x.astype(object), "a fixed size"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(fresh, case):
    error, call, words = REFUSED[case]
    with pytest.raises(error, match=words) as told:
        call(fresh.array(HOST))
    assert "\n" not in str(told.value)


def test_operators_between_devices_are_refused(device, fresh):
    with pytest.raises(ValueError, match="of one device"):
        device.array(HOST) + fresh.array(HOST)
    with pytest.raises(ValueError, match="belongs to"):
        device.array(HOST)[0] = fresh.array(HOST[0])


@pytest.mark.parametrize("call", [lambda x: x[0], lambda x: x.T, lambda x: x + 1, lambda x: x.sum(),
                                  lambda x: x @ x, lambda x: x.astype("f8")])  # fmt: skip
def test_closed_arrays_are_refused(fresh, call):
    x = fresh.array(HOST[:3, :3].copy())
    x.close()
    with pytest.raises(ValueError, match="closed"):
        call(x)
    y = fresh.array(HOST[:3, :3].copy()) + 1
    y.close()
    with pytest.raises(ValueError, match="closed"):
        call(y)


def test_read_only_memory_is_not_written():
    host = HOST.copy()
    host.flags.writeable = False
    with sp.open("cpu") as cpu:
        x = cpu.wrap(host).array("f4", host.shape)
        with pytest.raises(ValueError, match="read-only"):
            x += 1
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 1
        np.testing.assert_array_equal((x + 1).numpy(), HOST + 1)
