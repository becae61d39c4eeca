"""-D as macros of GLSL, sweeps of the group size, and what the kernel command's table adds.

When this fails, a sweep of group sizes measures other kernels than it says.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from _bench.jobs import images, sweeps
from _bench.report import sweep_table
from _bench.rows.results import Measured, Row, Subject
from _console.problems import UsageError

pytestmark = pytest.mark.usefixtures("in_this_process")

SCALE = """#version 430
// #extension GL_none : require
#extension GL_ARB_compute_shader : enable

layout(local_size_x = SPARKLE_GROUP_SIZE_X, local_size_y = SPARKLE_GROUP_SIZE_Y) in;
layout(std430, binding = 0) writeonly buffer Y { float y[]; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
void main()
{
    uint at = gl_WorkGroupID.x * SPARKLE_GROUP_SIZE_X * SPARKLE_GROUP_SIZE_Y
              + gl_LocalInvocationIndex;
    if (at < N)
        y[at] = float(FACTOR) * x[at];
}
"""
ARGS = ("--arg", "out:f32[N]", "--arg", "in:f32[N]", "--quick", "--timeout", "0.02")


@pytest.fixture
def scale(tmp_path):
    (tmp_path / "scale.comp").write_text(SCALE)
    (tmp_path / "ref.py").write_text("def f(x):\n    return 3 * x\n")
    return f"{tmp_path / 'scale.comp'}:main"


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("#version 430\nint a;\n", "#version 430\n#define N 4\n#line 2\nint a;\n"),
        ("int a;\n", "#define N 4\n#line 1\nint a;\n"),
        ("#version 430", "#version 430\n#define N 4\n#line 2\n"),
        (
            "/* #version 1\n*/\n#version 430\n#extension X : a\n\nint a;\n",
            "/* #version 1\n*/\n#version 430\n#extension X : a\n\n#define N 4\n#line 6\nint a;\n",
        ),
        (
            "#version 430\n#ifdef X\n#extension X : enable\n#endif\n",
            "#version 430\n#define N 4\n#line 2\n#ifdef X\n#extension X : enable\n#endif\n",
        ),
    ],
)
def test_where_macros_stand(text, head):
    assert images.with_macros(text, {"N": 4}) == head


def test_values_of_macros():
    values = {"A": -5, "B": 1 << 31, "C": 1 << 32, "D": 0}
    assert images.with_macros("x", values) == (
        "#define A (-5)\n#define B 2147483648u\n#define D 0\n#line 1\nx"
    )
    assert images.with_macros("x", {"C": 1 << 40}) == "x"


def test_what_is_glsl(tmp_path, library):
    made = tmp_path / "k"
    for text, is_glsl in (
        (SCALE, True),
        (".version 7.0\n.target sm_80\n// void main\n.visible .entry f() { }\n", False),
        ("// void main()\n", False),
        ("\x7fELF\0void main()", False),
    ):
        made.write_text(text)
        assert (images.glsl(made) is not None) == is_glsl
    assert images.glsl(library) is None
    assert images.glsl(tmp_path / "missing") is None


def test_a_sweep_on_egl(bench, scale, tmp_path, capsys):
    words = ("-d", "egl:0", "-D", "N=1000", "-D", "FACTOR=3", "--groups", "N/(GX*GY)")
    sizes = ("--group-size", "8,8:16,16:32,4", "--json", tmp_path / "o")
    assert bench("kernel", scale, *ARGS, *words, *sizes, "--unverified") == 0
    rows = json.loads((tmp_path / "o").read_text())["results"]
    assert [row["axes"]["group_size"] for row in rows] == ["8x8", "16x16", "32x4"]
    assert [row["resources"]["max_group_size"] for row in rows] == [64, 256, 128]
    assert all(row["resources"]["registers"] is None for row in rows)  # llvmpipe does not tell
    head, _, *lines = capsys.readouterr().out.splitlines()[1:]
    for column in ("group_size", "registers", "shared", "spills", "max group"):
        assert f" {column}" in head
    assert " axes " in head  # N and FACTOR stand still
    assert "best" not in "".join(lines)  # nothing is verified


def test_the_factor_reaches_the_source(bench, scale, tmp_path, capsys):
    words = ("--group-size", "8,8", "--groups", "N/64", "--ref", f"{tmp_path / 'ref.py'}:f")
    given = ("-d", "egl:0", "-D", "N=100", "-D", "FACTOR=3,4", "--mode", "latency")
    assert bench("kernel", scale, *ARGS, *words, *given) == 1
    captured = capsys.readouterr()
    assert "FAILED scale.comp:main N=100 FACTOR=4" in captured.err
    (good,) = [line for line in captured.out.splitlines() if " verified " in line]
    assert good.split()[1:5] == ["egl:0", "N=100", "3", "latency"]  # FACTOR has its column


def test_the_log_has_the_lines_of_the_file(bench, scale, capsys):
    """FACTOR is nowhere defined; it is used in line 13."""
    words = ("-d", "egl:0", "-D", "N=100", "--group-size", "8,8", "--groups", "2", "--unverified")
    assert bench("kernel", scale, *ARGS, *words) == 1
    err = capsys.readouterr().err.splitlines()[-1]
    assert "scale.comp: " in err
    assert "13 | y[at] = float(FACTOR) * x[at];" in err


def test_without_a_group_size_a_source_has_its_own(bench, tmp_path):
    fixed = SCALE.replace("SPARKLE_GROUP_SIZE_X", "32").replace("SPARKLE_GROUP_SIZE_Y", "2")
    (tmp_path / "fixed.comp").write_text(fixed)
    words = ("-d", "egl:0", "-D", "N=100", "-D", "FACTOR=3", "--groups", "N/64", "--unverified")
    assert bench("kernel", f"{tmp_path / 'fixed.comp'}:main", *ARGS, *words) == 0


@pytest.mark.parametrize(
    ("defines", "sizes", "said"),
    [
        (["gl_N=1"], "", "reserved"),
        (["GL_N=1"], "", "reserved"),
        (["a__b=1"], "", "reserved"),
        (["SPARKLE_GROUP_SIZE_X=1"], "", "reserved"),
        (["é=1"], "", "C identifier"),
        (["GX=1"], "", "--group-size gives"),
        (["group_size=1"], "", "--group-size gives"),
        (["1N=1"], "", "NAME=VALUES"),
        ([], "8,8:", "expected a number or a name"),
        ([], "8:0", "from 1"),
        ([], "8:1,2,3,4", "one to three"),
        ([], "8:N", "unknown name 'N'"),
        (["N=1..4096+1"], "1:2", "values"),
        (["A=1:200:+1", "B=1:200:+1"], "", "more than 4096 rows"),
        ([f"{name}=1:200:+1" for name in "ABCD"], "", "1048576 combinations, got 1600000000"),
        (["and=1"], "", "--where uses that word"),
    ],
)
def test_sweeps_that_cannot_be(defines, sizes, said):
    with pytest.raises(UsageError) as caught:
        sweeps.sweep(defines, sizes)
    assert said in str(caught.value)


def test_the_points_of_a_sweep():
    found = sweeps.sweep(["N=4,8"], "N:8,1:2,2,2")
    assert [tuple(point.values()) for point in found] == [
        *((4, "4"), (4, "8"), (4, "2x2x2")),
        *((8, "8"), (8, "2x2x2")),  # N and 8,1 are the same there
    ]
    assert sweeps.sweep(["N=4"], "16,16") == [{"N": 4}]


def test_where_keeps_some_points():
    def kept(*where, sizes=""):
        defines = ["BLOCK=64,128,256", "UNROLL=1:8:*2"]
        return [tuple(p.values()) for p in sweeps.sweep(defines, sizes, where)]

    assert kept("BLOCK*UNROLL <= 128") == [(64, 1), (64, 2), (128, 1)]
    assert kept("BLOCK > 64", "UNROLL == 8 or 8 < UNROLL") == [(128, 8), (256, 8)]
    assert kept("UNROLL == 8 and GX == BLOCK", sizes="64:BLOCK") == [
        *((64, 8, "64"), (128, 8, "128"), (256, 8, "256"))
    ]
    assert kept("GX*GY < 100", "BLOCK == 64 and UNROLL == 1", sizes="8,8") == [(64, 1)]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("A > 9", "none of 4 combinations is allowed"),
        ("A >", "expected a number or a name"),
        ("Q > 1", "unknown name 'Q'"),
        ("GX > 1", "unknown name 'GX'"),
        ("1/(A-1)", "divides by zero"),
    ],
)
def test_conditions_that_cannot_be(where, said):
    with pytest.raises(UsageError) as caught:
        sweeps.sweep(["A=1,2", "B=1,2"], "", [where])
    assert said in str(caught.value)


def test_conditions_cut_off_whole_branches():
    """700 000 combinations, of which a condition over the first two axes leaves 100 to look at."""
    defines = [f"{name}=1:99:+1" for name in "AB"] + ["C=1:70:+1"]
    found = sweeps.sweep(defines, "", ["A == 7 and B == 9", "C % 70 == 0"])
    assert found == [{"A": 7, "B": 9, "C": 70}]


def row(kernel, time, verified=True, rate=None, **axes):
    subject = Subject(kernel, "cpu", "x", False, axes, "hot")
    measured = Measured([time] * 9, [time] * 9, "device", 1, "precision")
    return Row(subject, verified, {}, measured, gbytes_per_s=rate)


def test_the_best_row():
    assert sweep_table.best([row("a", 3.0, n=1), row("a", 2.0, n=2), row("b", 1.0, n=1)]) == [1]
    rates = [row("a", 1.0, rate=1.0, n=1), row("a", 8.0, rate=4.0, n=8)]
    assert sweep_table.best(rates) == [1]
    assert sweep_table.best([row("a", 1.0, False), row("a", 2.0), row("a", 3.0)]) == [1]
    assert sweep_table.best([]) == []
    sizes = [
        row("a", t, N=n, BLOCK=b)
        for t, n, b in ((1.0, 1, 1), (2.0, 1, 2), (9.0, 8, 1), (8.0, 8, 2))
    ]
    for one in sizes:
        one.extra["operands"] = [f"f32[{one.subject.axes['N']}]"]
    assert sweep_table.best(sizes) == [0, 3]  # not one over both sizes
    emulated = [replace(one, subject=replace(one.subject, emulated=True)) for one in sizes]
    assert sweep_table.best(emulated) == []
    assert sweep_table.swept([row("a", 1.0, n=1, m=2), row("a", 1.0, n=2, m=2)]) == ["n"]
