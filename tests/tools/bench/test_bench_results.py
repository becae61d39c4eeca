"""Rows and the files made of them: the schema, strict JSON, no time for what failed.

When this fails, a failed row has a time, or the JSON file does not load.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import stat
import subprocess
import sys

import pytest
from _bench.report import csv_table, row_table, tables, writers
from _bench.rows import results
from _bench.rows.results import Measured, Report, Row, Share, Subject
from _console import table
from _console.problems import UsageError
from _console.progress import Progress

from sparkle_drv import saved_files

SUBJECT = Subject("saxpy_f32", "cpu", "Some | CPU", False, {"n": 16}, "hot")
HALF = Share("copy", "saxpy_f32", [5.0] * 6, [9.0, 10.0, 10.0, 10.0, 10.0, 12.5])
SAMPLES = [float(t) for t in range(1000, 1040)]
HOST = [float(t) for t in range(1500, 1540)]


def timed(primary="device", **more):
    measured = Measured(SAMPLES, HOST, primary, 4, "precision")
    return Row(SUBJECT, True, {"max_rel_rms": 1e-7, "tolerance": 1e-6}, measured, **more)


def failed():
    error = {"what": "wrong result", "array": "y", "first_wrong_index": [3], "expected": 1.0}
    return Row.failed(SUBJECT, {**error, "got": float("nan")}, "before timing: wrong result: y[3]")


def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "far").mkdir()
    real, link, dangling = tmp_path / "far" / "real", tmp_path / "link", tmp_path / "dangling"
    real.write_text("old")
    link.symlink_to(real)
    dangling.symlink_to(tmp_path / "far" / "new")
    for path, target in ((link, real), (dangling, tmp_path / "far" / "new")):
        saved_files.put(path, b"text")
        assert path.is_symlink()
        assert target.read_text() == "text"
    assert sorted(p.name for p in (tmp_path / "far").iterdir()) == ["new", "real"]


def test_links_in_a_circle_are_refused(tmp_path):
    path = tmp_path / "circle"
    path.symlink_to(path)
    writers.Outputs(path).check()
    with pytest.raises(OSError, match="symbolic links"):
        saved_files.put(path, b"text")
    assert path.is_symlink()


def test_a_pipe_gets_the_last_text_and_stays(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        outputs = writers.Outputs(path)
        outputs.check()
        outputs.so_far(Report({}))
        assert outputs.save(Report({}, [timed()]))
        assert len(json.loads(reader.read())["results"]) == 1
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_devices_are_never_replaced(tmp_path):
    """A device of our own where we may make one, since a mistake would destroy the machine's."""
    path = tmp_path / "full"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        path.open("w").close()
    except PermissionError:
        pytest.skip("making a device needs root")
    with pytest.raises(OSError, match="No space left"):
        saved_files.put(path, b"text")
    assert stat.S_ISCHR(path.stat().st_mode)
    assert [p.name for p in tmp_path.iterdir()] == ["full"]


@pytest.mark.parametrize("into", ["pipe", "file"])
def test_stdout_by_its_name(tmp_path, into):
    """A link to /proc/self/fd/1, as /dev/stdout is: what was printed before stays before."""
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}; from pathlib import Path\n"
        "from sparkle_drv import saved_files\n"
        f"path = Path({str(tmp_path / 'stdout')!r})\n"
        "print('before'); saved_files.put(path, b'text\\n')\n"
        "print('after')"
    )
    with open(tmp_path / "out", "w") as file:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE if into == "pipe" else file,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0
    said = done.stdout if into == "pipe" else (tmp_path / "out").read_text()
    assert said == "before\ntext\nafter\n"
    assert (tmp_path / "stdout").is_symlink()


def test_schema_of_a_timed_row():
    row = timed(gflops=2.0, gbytes_per_s=3.0, share=HALF).as_json()
    for key in ["kernel", "device", "device_name", "emulated", "axes", "mode", "verified", "error"]:
        assert key in row
    assert row["time_ns"] == {
        **{"median": 1019.5, "ci_low": 1013.0, "ci_high": 1026.0, "n": 40},
        **{"stop": "precision", "of": "device", "batch": 4},
    }
    assert row["host_ns"]["median"] == 1519.5
    assert row["device_ns"]["median"] == 1019.5
    assert row["samples_ns"] == SAMPLES
    assert (row["gflops"], row["gbytes_per_s"], row["roof_percent"]) == (2.0, 3.0, 50.0)


def test_modes_by_the_hosts_clock_have_its_samples():
    row = timed("host").as_json()
    assert row["samples_ns"] == HOST
    assert row["time_ns"]["of"] == "host"
    assert row["device_ns"]["median"] == 1019.5


def numbers(value):
    """Every number anywhere in a JSON value, keys named."""
    if isinstance(value, dict):
        return [n for key, item in value.items() if key != "axes" for n in numbers(item)]
    if isinstance(value, list):
        return [n for item in value for n in numbers(item)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


def test_a_failed_row_has_no_time_in_any_output(tmp_path):
    report = Report({"cpu": "x"}, [failed()])
    row = report.as_json()["results"][0]
    assert row["verified"] is False
    assert row["time_ns"] is row["host_ns"] is row["device_ns"] is row["gflops"] is None
    assert row["samples_ns"] == []
    assert sorted(numbers({**row, "error": {}})) == []
    (line,) = csv.DictReader(io.StringIO(writers.as_csv(report)))
    assert line.keys() == {*csv_table.ALWAYS, "axis_n", "reason"}
    cells = dict(zip(row_table.COLUMNS, row_table.cells(report.rows[0]), strict=True))
    assert {
        cells[c] for c in ("device time", "+-", "host time", "GFLOPS", "GB/s", "% of roof", "n")
    } == {"-"}
    assert cells["check"] == "FAILED"
    assert "y[3]" in cells["notes"]


def test_files_are_strict_and_agree(tmp_path):
    outputs = writers.Outputs(*(tmp_path / name for name in ("o.json", "o.csv", "o.md")))
    outputs.check()
    report = Report({"cpu": "x", "caches": []}, [timed(gflops=2.0), failed()], interrupted=True)
    outputs.save(report)

    def no_constants(name):
        raise AssertionError(name)

    document = json.loads(outputs.json.read_text(), parse_constant=no_constants)
    assert document["schema"] == 1
    assert document["interrupted"] is True
    assert document["results"][1]["error"]["got"] == "nan"
    assert results.load(outputs.json) == document
    lines = list(csv.DictReader(outputs.csv.read_text().splitlines()))
    assert [line["verified"] for line in lines] == ["True", "False"]
    assert float(lines[0]["time_ns"]) == document["results"][0]["time_ns"]["median"]
    text = outputs.md.read_text()
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert len({len(line) for line in rows}) == 1  # aligned
    assert "| GB/s" not in rows[0]  # no row has any
    assert "Interrupted" in text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["o.csv", "o.json", "o.md"]


def test_a_replaced_file_gets_no_permission_that_it_had_not(tmp_path):
    path = tmp_path / "o"
    path.write_text("old")
    path.chmod(0o600)
    saved_files.put(path, b"new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o600)


def test_outputs_are_checked_before_work(tmp_path):
    same = tmp_path / "o"
    for outputs, said in (
        (writers.Outputs(same, same), "different files"),
        (writers.Outputs(tmp_path / "no" / "o.json"), "its folder does not exist"),
        (writers.Outputs(tmp_path), "it is a folder"),
    ):
        with pytest.raises(UsageError, match=said):
            outputs.check()


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        *((0.5, "0.5000 ns"), (12.34, "12.34 ns"), (1234.5, "1.234 us"), (5e6, "5.000 ms")),
        *((7.5e9, "7.500 s"), (None, "-")),
    ],
)
def test_duration(ns, text):
    assert table.duration(ns) == text


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_plain_table_is_aligned_and_leaves_empty_columns_out():
    out = io.StringIO()
    table.show(("kernel", "GB/s", "notes"), [["a", "1.5", ""], ["long", "22.5", "-"]], out)
    assert out.getvalue() == "kernel  GB/s\n------  ----\na        1.5\nlong    22.5\n"


def test_table_on_a_terminal(monkeypatch):
    """rich draws it when it is there; without it the plain one appears."""
    pytest.importorskip("rich")
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    table.show(("kernel", "check"), [["[red]a", "FAILED"]])
    drawn = out.getvalue()
    assert "[red]a" in drawn  # a kernel's name is no markup
    assert "━" in drawn or "─" in drawn
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    table.show(("kernel", "check"), [["a", "FAILED"]])
    assert "------  ------" in out.getvalue()


def test_progress_only_on_a_terminal():
    out = io.StringIO()
    with Progress(2, out) as progress:
        progress.step("a")
    assert out.getvalue() == ""
    out = Terminal()
    with Progress(2, out) as progress:
        progress.step("first")
        assert out.getvalue().endswith("[1/2] first")
        progress.start -= 90
        progress.step("second")
    assert "[2/2] second, about 1m30s left" in out.getvalue()
    assert out.getvalue().endswith("\r\x1b[K")


def test_a_narrow_terminal_loses_the_less_important_columns(monkeypatch):
    """Whatever the width: kernel, mode, both times and the verdict stay, and lines fit."""
    pytest.importorskip("rich")
    for width in (200, 140, 110):
        out = Terminal()
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setenv("COLUMNS", str(width))
        tables.show(Report({}, [timed(gflops=2.0, gbytes_per_s=3.0, share=HALF)]))
        drawn = re.sub("\x1b\\[[0-9;]*m", "", out.getvalue())
        assert max(map(len, drawn.splitlines())) <= width
        for word in ("saxpy_f32", "hot", "1.020 us", "1.520 us", "50% copy", "verified"):
            assert word in drawn
        assert ("1.0e-07 / 1.0e-06" in drawn) == (width >= 140)
    monkeypatch.setenv("COLUMNS", "40")  # too narrow for that: plain, and the terminal wraps it
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    tables.show(Report({}, [timed()]))
    assert "saxpy_f32" in out.getvalue().splitlines()[3]
