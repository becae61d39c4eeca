"""Objects that stand for numbers in a launch are converted once, and their exceptions propagate.

When this fails, numpy scalars and objects with __index__ reach a kernel as other numbers.
"""

from __future__ import annotations

import ctypes
import weakref

import numpy as np
import pytest

import sparkle_drv as sp


class Own(Exception):
    """Of the caller's."""


class Counted:
    """A number whose conversions are counted; `raises` comes in place of the number."""

    def __init__(self, number, raises=None):
        self.number, self.raises, self.seen = number, raises, []

    def _converted(self, how, number):
        self.seen.append(how)
        if self.raises is not None:
            raise self.raises
        return number

    def __index__(self):
        return self._converted("index", int(self.number))

    def __float__(self):
        return self._converted("float", float(self.number))


class Half:
    """A float and no integer."""

    def __init__(self, inner):
        self.inner = inner

    def __float__(self):
        return float(self.inner)


PLACES = ("a", "n", "groups", "group", "group_size", "shared")
WAYS = ("launch", "prepare", "dispatch", "patch", "wrapped")


def attempt(cpu, way, place, number):
    """A launch with `number` in that place; the way in which it goes."""
    with cpu.kernel("saxpy_f32") as k, cpu.empty(4, "f4") as x:
        values = {"a": 2.0, "n": 4, "groups": 1, "group_size": None, "shared": 0}
        values["groups" if place == "group" else place] = [number] if place == "group" else number
        a, n = values.pop("a"), values.pop("n")
        queue = cpu.default_queue
        if way == "launch":
            queue.launch(k, x, x, a, n, **values).wait()
        elif way == "wrapped":
            queue.launch(k, np.ones(4, "f4"), x, a, n, **values).wait()
        elif way == "prepare":
            go = queue.prepare(k, x, x, a, n, **values)
            for _ in range(2):
                cpu.kernel("fill_f32").close()  # it packs again
                queue.fence(go()).wait()
        else:
            if way == "patch":
                commands = sp.Commands().dispatch(k, x, x, 0.0, 1, groups=1).patch(0, x, x, a, n)
            else:
                commands = sp.Commands().dispatch(k, x, x, a, n, **values)
            for _ in range(2):
                cpu.kernel("fill_f32").close()  # it encodes again
                queue.submit(commands).wait()


def cases():
    return [
        (way, place) for way in WAYS for place in PLACES if way != "patch" or place in ("a", "n")
    ]


@pytest.mark.parametrize(("way", "place"), cases())
def test_a_number_is_converted_once(cpu, way, place):
    number = Counted(0 if place == "shared" else 1)
    attempt(cpu, way, place, number)
    assert number.seen == ["float" if place == "a" else "index"]


@pytest.mark.parametrize(("way", "place"), cases())
@pytest.mark.parametrize("kind", [KeyboardInterrupt, Own, TypeError, ValueError, MemoryError])
def test_what_a_conversion_raises_is_told_as_it_is(cpu, way, place, kind):
    number = Counted(1, kind("the caller's"))
    submitted = cpu.default_queue.submitted
    with pytest.raises(kind) as caught:
        attempt(cpu, way, place, number)
    assert caught.value is number.raises
    assert number.seen == ["float" if place == "a" else "index"]
    assert cpu.default_queue.submitted == submitted


@pytest.mark.parametrize("way", WAYS)
def test_a_number_of_a_launch_that_is_refused_for_something_else(cpu, way):
    """Too many elements, which only native code finds out."""
    number = Counted(5)
    with pytest.raises(ValueError, match=r"argument y .* n elements are 20 bytes"):
        attempt(cpu, way, "n", number)
    assert number.seen == ["index"]


def test_numbers_behind_other_objects(cpu):
    """Conversions that are C, and run Python all the same."""
    for how, place in ((lambda n: np.array(n, object), "a"), (weakref.proxy, "n"), (Half, "a")):
        number = Counted(3)
        attempt(cpu, "launch", place, how(number))
        assert len(number.seen) == 1
        number = Counted(3, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt) as caught:
            attempt(cpu, "launch", place, how(number))
        assert caught.value is number.raises
        assert len(number.seen) == 1


def test_a_grid_that_follows_from_arguments_that_are_converted(device):
    with device.kernel("fill_f32") as k, device.empty(300, "f4") as y:
        shape = {} if k.groups else {"groups": 300}  # the cpu's kernels do not know their grids
        for _ in range(2):
            number = Counted(300)
            device.default_queue.launch(k, y, 3.0, number, **shape).wait()
            assert number.seen == ["index"]
        np.testing.assert_array_equal(y.numpy(), np.full(300, 3, "f4"))


class Whole(int):
    """An int that says something else when it is asked."""

    def __index__(self):
        raise Own

    __hash__ = __eq__ = None


@pytest.mark.parametrize(
    ("place", "given", "kind", "says"),
    [
        ("n", 2.0, TypeError, "argument n .u32.: expected a whole number, got float 2.0"),
        ("n", np.float32(2), TypeError, "argument n .u32.: expected a whole number, got float32"),
        ("n", np.ones(2, int), TypeError, "argument n .*, got ndarray"),
        ("n", "2", TypeError, "argument n .*, got str '2'"),
        ("a", "2", TypeError, "argument a .f32.: expected a number, got str '2'"),
        ("a", np.str_("2"), TypeError, "argument a .f32.: expected a number, got str_"),
        ("a", b"2", TypeError, "argument a .*, got bytes"),
        ("a", 2j, TypeError, "argument a .*, got complex"),
        ("a", np.complex64(2 + 1j), TypeError, "argument a .*, got complex64"),
        ("a", np.ones(2), TypeError, "argument a .*, got ndarray"),
        ("a", 10**400, ValueError, "argument a .* expected a smaller number"),
        ("a", np.float64(1e300), ValueError, "argument a .* expected a smaller number, got"),
        ("n", np.int64(-1), ValueError, "argument n .u32.: expected 0 to 4294967295, got -1"),
        ("n", ctypes.c_int(1), TypeError, "argument n .*, got c_int"),
        ("groups", [1, 2.0], TypeError, "groups: expected a whole number or up to three, got"),
        ("groups", [1, 1, 1, 1], ValueError, "groups: expected one to three numbers"),
        ("group_size", "1", TypeError, "group_size: expected a whole number or up to three"),
        ("shared", 0.0, TypeError, "shared: expected a number of bytes, got float 0.0"),
    ],
)
@pytest.mark.parametrize("way", ["launch", "prepare", "dispatch"])
def test_what_is_no_number_is_told_by_name(cpu, way, place, given, kind, says):
    with pytest.raises(kind, match=says):
        attempt(cpu, way, place, given)


def test_an_int_is_what_c_makes_of_it(cpu):
    for place in ("n", "groups", "group", "group_size"):
        attempt(cpu, "launch", place, Whole(1))


def test_an_interface_is_asked_once_and_what_it_raises_is_told(cpu):
    class Exporter:
        def __init__(self, raises=None):
            self.array, self.asked, self.raises = np.full(4, 2, "f4"), 0, raises

        @property
        def __array_interface__(self):
            self.asked += 1
            if self.raises is not None:
                raise self.raises
            return self.array.__array_interface__

    queue = cpu.default_queue
    with cpu.kernel("copy_f32") as k, cpu.empty(4, "f4") as y:
        given = Exporter()
        queue.launch(k, y, given, 4, groups=1).wait()
        np.testing.assert_array_equal(y.numpy(), given.array)
        assert given.asked == 1
        for kind in (KeyboardInterrupt, Own, TypeError, ValueError, MemoryError):
            given = Exporter(kind("the caller's"))
            with pytest.raises(kind) as caught:
                queue.launch(k, y, given, 4, groups=1)
            assert caught.value is given.raises
            assert given.asked == 1
