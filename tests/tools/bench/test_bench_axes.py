"""Axes: what `-a AXIS=SPEC` may hold, and the combinations that come of it.

When this fails, a sweep measures other sizes than were asked for.
"""

from __future__ import annotations

import pytest
from _bench.jobs.axes import Axis, assignments, label, points, short
from _console.problems import UsageError

N = Axis("n", (16,))
LAYOUT = Axis("layout", ("NCHW",), words=("NCHW", "NHWC"), neutral="NCHW")


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        ("7", (7,)),
        ("1M,4M", (1 << 20, 4 << 20)),
        ("256..1024*2", (256, 512, 1024)),
        ("256..1024", (256, 512, 1024)),
        ("1..10*3", (1, 3, 9)),
        ("1..9+4", (1, 5, 9)),
        ("1:8:*2", (1, 2, 4, 8)),
        ("1:9:+4", (1, 5, 9)),
        ("4:16", (4, 8, 16)),
        ("1:4:*2,7", (1, 2, 4, 7)),
        ("5..5", (5,)),
        ("1K..4K", (1024, 2048, 4096)),
        ("3,1..4,3", (3, 1, 2, 4)),  # order kept, doubles dropped
        ("max(1, 2),4", (2, 4)),
    ],
)
def test_numbers(spec, values):
    assert N.parse(spec) == values


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("", "expected a number or a name"),
        ("1,,2", "expected a number or a name"),
        ("0", "axis n: 0 is below 1"),
        ("-4", "below 1"),
        ("1.5", "whole number"),
        ("8..4", "expected a rising range"),
        ("1..8*1", "expected a rising range"),
        ("8:1:*2", "expected a rising range"),
        ("1:8:2", "expected a step of the form *factor or +step"),
        ("1:8:", "expected a step"),
        ("1:", "expected a number or a name"),
        ("1..8+0", "expected a rising range"),
        ("1..100000+1", "more than 256 values"),
        ("x", "unknown name"),
    ],
)
def test_numbers_refused(spec, said):
    with pytest.raises(UsageError) as caught:
        N.parse(spec)
    assert said in str(caught.value)


def test_words():
    assert LAYOUT.parse("NHWC,NCHW") == ("NHWC", "NCHW")
    with pytest.raises(UsageError, match="axis layout: 'CHWN' is none of NCHW, NHWC"):
        LAYOUT.parse("CHWN")


def test_points_are_every_combination_in_order():
    got = points([N, LAYOUT, Axis("k", (1, 2))], {"n": "1,2", "layout": "NHWC"})
    assert got == [
        {"n": 1, "layout": "NHWC", "k": 1},
        {"n": 1, "layout": "NHWC", "k": 2},
        {"n": 2, "layout": "NHWC", "k": 1},
        {"n": 2, "layout": "NHWC", "k": 2},
    ]
    assert points([], {}) == [{}]


def test_too_many_points():
    many = ",".join(map(str, range(1, 101)))
    with pytest.raises(UsageError, match="at most 4096 combinations, got 10000"):
        points([N, Axis("k", (1,))], {"n": many, "k": many})


def test_assignments():
    assert assignments(["n=1,2", " m =3"]) == {"n": "1,2", "m": "3"}
    for wrong, said in (("n", "NAME=VALUES"), ("=3", "NAME"), ("n=", "NAME"), ("1n=2", "NAME")):
        with pytest.raises(UsageError, match=said):
            assignments([wrong])
    with pytest.raises(UsageError, match="-D n: given twice"):
        assignments(["n=1", "n=2"], "-D")


def test_label_hides_what_stands_at_neutral():
    point = {"n": 16 << 20, "layout": "NCHW", "k": 3}
    assert label(point) == "n=16M layout=NCHW k=3"
    assert label(point, {"layout": "NCHW"}) == "n=16M k=3"
    assert [short(v) for v in (1000, 16383, 16384, 1 << 20, (1 << 20) + 1, 3 << 30)] == [
        *("1000", "16383", "16K", "1M", "1048577", "3G")
    ]
