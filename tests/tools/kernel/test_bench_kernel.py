"""`bench.py kernel FILE:ENTRY`: a user's own kernel, its sizes, its reference; from a real .so.

When this fails, the time of a user's own kernel is wrong, or taken before its check.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from _bench.jobs import user_kernel
from _bench.jobs.job import Operand, Scalar
from _console.problems import UsageError

pytestmark = pytest.mark.usefixtures("in_this_process")

REF = """
import numpy as np
def saxpy(y, x, a, n):
    assert y.dtype == x.dtype == np.float64
    return a * x + y
def two(y, x, a, n):
    return y, x
def short(y, x, a, n):
    return y[1:]
def raises(y, x, a, n):
    raise KeyError("no")
not_callable = 3
"""
SAXPY = ("--arg", "inout:f32[N]", "--arg", "in:f32[N]", "--arg", "f32=2.5", "--arg", "u32=N")
QUICK = ("-D", "N=1000", "--groups", "N/256", "--timeout", "0.05", "--quick")


@pytest.fixture
def ref(tmp_path):
    path = tmp_path / "ref.py"
    path.write_text(REF)
    return path


def test_a_good_kernel_is_timed(bench, library, ref, tmp_path, capsys):
    out = tmp_path / "o.json"
    code = bench(
        "kernel", f"{library}:good", *SAXPY, *QUICK, "--ref", f"{ref}:saxpy", "--flops", "2*N",
        "--bytes", "12*N", "--json", out, "--seed", 5,
    )  # fmt: skip
    assert code == 0, capsys.readouterr().err
    (row,) = json.loads(out.read_text())["results"]
    assert row["verified"] is True
    assert row["kernel"] == "kernels.so:good"
    assert row["axes"] == {"N": 1000}
    assert (
        row["error"]["max_rel_rms"] <= row["error"]["tolerance"] == pytest.approx(1.19e-5, rel=0.01)
    )
    assert row["gflops"] == pytest.approx(2000 / row["time_ns"]["median"], rel=1e-3)
    assert row["gbytes_per_s"] == pytest.approx(12000 / row["time_ns"]["median"], rel=1e-3)
    assert row["seed"] == 5


def test_a_planted_off_by_one_is_refused(bench, library, ref, tmp_path, capsys):
    files = [tmp_path / name for name in ("o.json", "o.csv", "o.md")]
    code = bench(
        "kernel", f"{library}:off_by_one", *SAXPY, *QUICK, "--ref", f"{ref}:saxpy",
        "--json", files[0], "--csv", files[1], "--md", files[2],
    )  # fmt: skip
    captured = capsys.readouterr()
    assert code == 1
    assert "arg0[999] expected" in captured.err
    assert "(1 of 1000 wrong)" in captured.err
    (row,) = json.loads(files[0].read_text())["results"]
    assert row["error"]["first_wrong_index"] == [999]
    assert {"expected", "got"} <= set(row["error"])
    assert row["time_ns"] is None
    assert row["samples_ns"] == []
    for text in (captured.out, *(path.read_text() for path in files[1:])):
        assert " ns" not in text
        assert " us" not in text


def test_without_a_reference(bench, library, capsys, tmp_path):
    assert bench("kernel", f"{library}:good", *SAXPY, *QUICK, "--json", tmp_path / "o") == 0
    captured = capsys.readouterr()
    assert "UNVERIFIED kernels.so:good: no --ref; not timed" in captured.err
    (row,) = json.loads((tmp_path / "o").read_text())["results"]
    assert (row["verified"], row["reason"], row["time_ns"]) == (False, "no reference", None)
    assert bench("kernel", f"{library}:good", *SAXPY, *QUICK, "--unverified") == 0
    captured = capsys.readouterr()
    assert "UNVERIFIED" in captured.out
    assert " us " in captured.out or " ns " in captured.out
    assert bench("kernel", f"{library}:writes_behind", *SAXPY, *QUICK, "--unverified") == 1
    assert "guard band" in capsys.readouterr().err


def test_sizes_sweep(bench, library, ref, tmp_path):
    words = ("-D", "N=64..256", "--groups", "N/256", "--timeout", "0.02", "--mode", "hot,latency")
    code = bench(
        "kernel",
        f"{library}:good",
        *SAXPY,
        *words,
        "--ref",
        f"{ref}:saxpy",
        "--json",
        tmp_path / "o",
    )
    assert code == 0
    rows = json.loads((tmp_path / "o").read_text())["results"]
    assert [(row["axes"]["N"], row["mode"]) for row in rows] == [
        (n, mode) for n in (64, 128, 256) for mode in ("hot", "latency")
    ]


def test_input_from_a_file(bench, library, tmp_path):
    """x.npy is what the kernel gets: the reference knows its content."""
    np.save(tmp_path / "x.npy", np.arange(50, dtype=np.float32))
    (tmp_path / "r.py").write_text(
        "import numpy as np\ndef f(x, a, n):\n    assert n == 50\n    return np.arange(50)\n"
    )
    args = (
        "--arg",
        "out:f32[N]",
        "--arg",
        f"@{tmp_path / 'x.npy'}",
        "--arg",
        "f32=0",
        "--arg",
        "u32=N",
    )
    words = (*args, "-D", "N=50", "--timeout", "0.02", "--ref", f"{tmp_path / 'r.py'}:f")
    assert bench("kernel", f"{library}:copy", *words) == 0
    assert bench("kernel", f"{library}:copy_with_hole", *words) == 1


def spec(*args, groups="1", group_size="256"):
    from pathlib import Path

    return user_kernel.Spec(Path("k.so"), "k", args, groups, group_size)


def test_arguments_become_operands_and_scalars():
    job = user_kernel.make(
        spec(
            "out:f64[M,N]",
            "in:i32[2*N]",
            "f32=0.1",
            "i64=-N",
            "inout:u64[4]",
            groups="N/3,max(1,M)",
        ),
        {"M": 2, "N": 5},
    )
    got = [
        (a.type, a.access, a.shape) if isinstance(a, Operand) else (a.type, a.value)
        for a in job.args
        if isinstance(a, Operand | Scalar)
    ]
    assert got == [
        *(("f64", "w", (2, 5)), ("i32", "r", (10,)), ("f32", float(np.float32(0.1)))),
        *(("i64", -5), ("u64", "rw", (4,))),
    ]
    assert job.groups == (2, 2, 1)
    assert job.group_size == (256, 1, 1)
    assert job.nbytes == 80 + 40 + 2 * 32
    assert job.label == "M=2 N=5"


@pytest.mark.parametrize(
    ("arg", "said"),
    [
        ("f32[N]", "expected in:f32[N]"),
        ("in:f32", "expected in:f32[N]"),
        ("in:f33[N]", "unknown type 'f33'; known: f16, f32"),
        ("in:f32[Q]", "unknown name 'Q'"),
        ("in:f32[0]", "1 or more"),
        ("in:f32[]", "expected a number"),
        ("in:f32[1G*1G]", "exceed every device's memory"),
        ("in:f32[4G,4G]", "exceed every device's memory"),
        ("in:f32[1e999]", "the value is inf"),
        ("in:f32[1e300]", "beyond 64 bits"),
        ("in:f32[1e308G]", "the value is inf"),
        ("in:f32[" + "9" * 5000 + "]", "got 5000 characters"),
        ("f32=1e39", "does not fit f32"),
        ("f64=1e999", "the value is inf"),
        ("u32=1e999", "the value is inf"),
        ("u32=-1", "does not fit u32"),
        ("i32=3G", "does not fit i32"),
        ("u32=1.5", "whole number"),
        ("f32=", "expected in:f32[N]"),
        ("@missing.npy", "No such file"),
        ("in:f32[N]", "no result to check"),
    ],
)
def test_arguments_that_cannot_be(arg, said):
    with pytest.raises(UsageError) as caught:
        user_kernel.make(spec(arg), {"N": 4})
    assert said in str(caught.value)


@pytest.mark.parametrize("groups", ["0", "1,2,3,4", "N,", "-1", "1e999", "1e300"])
def test_groups_that_cannot_be(groups):
    with pytest.raises(UsageError):
        user_kernel.make(spec("out:f32[N]", groups=groups), {"N": 4})


@pytest.mark.parametrize("cost", [{"flops": "-1"}, {"nbytes": "2-N"}])
def test_costs_below_zero(cost):
    with pytest.raises(UsageError, match="is below 0"):
        user_kernel.make(replace(spec("out:f32[N]"), **cost), {"N": 4})


def test_arrays_in_files_that_cannot_be(tmp_path):
    (tmp_path / "text.npy").write_text("no")
    np.save(tmp_path / "c.npy", np.zeros(3, complex))
    np.save(tmp_path / "o.npy", np.array([{}]))
    np.save(tmp_path / "e.npy", np.zeros(0, np.float32))
    for name in ("text", "c", "o", "e"):
        with pytest.raises(UsageError, match="--arg @"):
            user_kernel.make(spec(f"@{tmp_path / name}.npy", "out:f32[1]"), {})


def test_bad_words(bench, library, ref, capsys):
    """Each is one clear line on stderr and exit 2, or 1 when the loader or device refuses."""
    good = f"{library}:good"
    for words, code, said in (
        ((f"{library}",), 2, "expected FILE:ENTRY"),
        (("missing.so:f",), 2, "no such file: missing.so"),
        ((good, *SAXPY, "-D", "N=0x"), 2, "cannot read"),
        ((good, *SAXPY), 2, "unknown name 'N'"),
        ((good, *SAXPY, "-D", "N=4", "--ref", f"{ref}"), 2, "FILE.py:function"),
        ((good, *SAXPY, "-D", "N=4", "--ref", "no.py:f"), 2, "no such file: no.py"),
        ((good, *SAXPY, "-D", "N=4", "--ref", f"{ref}:nothing"), 2, "no function 'nothing'"),
        ((good, *SAXPY, "-D", "N=4", "--ref", f"{ref}:not_callable"), 2, "no function"),
        ((good, *SAXPY, "-D", "N=4", "--ref", f"{library}:f"), 2, "expected a Python file"),
        ((good, *SAXPY, "-D", "N=4", "--ref", f"{ref}:raises"), 2, "KeyError: 'no'"),
        ((good, *SAXPY, "-D", "N=4", "--ref", f"{ref}:two"), 2, "2 results for 1 outputs"),
        ((good, *SAXPY, "-D", "N=4", "--ref", f"{ref}:short"), 1, "has 3 elements"),
        ((good, *SAXPY, "-D", "N=4", "--flops", "Q", "--ref", f"{ref}:saxpy"), 2, "'Q'"),
        (
            (good, *SAXPY, "-D", "N=4", "--group-size", "1M", "--ref", f"{ref}:saxpy"),
            1,
            "group_size",
        ),
        (
            (good, *SAXPY, "-D", "N=4", "--groups", "-1"),
            2,
            "--groups: expected one to three numbers from 1, got '-1'",
        ),
        (
            (good, *SAXPY, "-D", "N=4", "--group-size", "-1"),
            2,
            "--group-size: expected one to three numbers from 1, got '-1'",
        ),
        ((good, *SAXPY, "-D", "N=1e999"), 2, "the value is inf"),
        ((good, "--arg", "in:f32[1e999]"), 2, "the value is inf"),
        ((f"{library}:absent", *SAXPY, "-D", "N=4"), 1, "absent"),
        ((f"{ref}:saxpy", *SAXPY, "-D", "N=4"), 1, "ref.py"),
        ((good, *SAXPY, "-D", "N=4", "-d", "cpu:9"), 3, "cpu:9"),
    ):
        assert bench("kernel", *words) == code, words
        err = capsys.readouterr().err
        assert said in err, words
        assert "Traceback" not in err
        assert len(err.splitlines()) == 1, err


@pytest.mark.parametrize("leave", ["raise SystemExit(0)", "raise SystemExit(5)", "exit()"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_reference_that_wants_to_leave(bench, library, tmp_path, capsys, leave, inside):
    """It does not decide how the tool ends, in its module or in its function."""
    body = f"def f(*_):\n    {leave}\n" if inside else f"{leave}\n"
    (tmp_path / "leaves.py").write_text(body)
    words = (*SAXPY, "-D", "N=4", "--ref", f"{tmp_path / 'leaves.py'}:f")
    assert bench("kernel", f"{library}:good", *words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--ref" in line
    assert "SystemExit" in line


def test_a_reference_that_does_not_even_load(bench, library, tmp_path, capsys):
    (tmp_path / "bad.py").write_text("def f(:\n")
    words = (*SAXPY, "-D", "N=4", "--ref", f"{tmp_path / 'bad.py'}:f")
    assert bench("kernel", f"{library}:good", *words) == 2
    assert "SyntaxError" in capsys.readouterr().err
