"""A file that cannot be written costs that file alone: the table is printed, the other files are
written, and one line says why. The same for standard output.

When this fails, a full disk loses an hour of measurements.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from _bench.commands import runner
from _bench.jobs import cache_reach
from _console import output
from where import ROOT

pytestmark = pytest.mark.usefixtures("no_roofs")
TINY = ("run", "saxpy_f32", "-a", "n=64", "--quick", "--timeout", "0.02")


def _circle(place):
    (place / "o").symlink_to(place / "o")
    return place / "o"


def _too_long(place):
    return place / ("o" * 256)


def _pipe(place):
    os.mkfifo(place / "o")
    return place / "o"


def _socket(place):
    path = place / "o"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))
    return path


KINDS = {
    "full device": lambda place: Path("/dev/full"),
    "circle of links": _circle,
    "name too long": _too_long,
    "pipe without reader": _pipe,
    "socket": _socket,
    # These two bind root, whom permission bits do not.
    "read-only file": lambda place: Path("/proc/version"),
    "read-only folder": lambda place: Path("/proc/self/o"),
    "no such descriptor": lambda place: Path("/proc/self/fd/987"),
}


def tree(place):
    """Every name below, with what a regular file holds."""
    return {
        str(path.relative_to(place)): path.read_text() if path.is_file() else None
        for path in sorted(place.rglob("*"))
    }


def told(capsys, path):
    """The table was printed, and one line on stderr says what could not be written."""
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()[3:]] == ["saxpy_f32"]
    assert len(err.splitlines()) == 1, err
    assert err.startswith(f"bench.py: could not write {path}: ")


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_that_cannot_be_written(bench, tmp_path, capsys, monkeypatch, kind):
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    path = KINDS[kind](place)
    before = tree(place)
    assert bench(*TINY, "--json", path, "--csv", tmp_path / "o.csv") == 1
    told(capsys, path)
    assert tree(place) == before
    with open(tmp_path / "o.csv") as file:
        assert [row["verified"] for row in csv.DictReader(file)] == ["True"]


@pytest.mark.parametrize("words", [("transfer", "-a", "nbytes=4K"), ("launch",), ("peak",)])
def test_the_other_commands(bench, capsys, monkeypatch, words):
    monkeypatch.setattr(runner.roofs, "KERNELS", {"copy_i32": ("copy",)})
    monkeypatch.setattr(cache_reach, "caches_nbytes", lambda info: 1 << 18)
    assert bench(*words, "--quick", "--timeout", "0.02", "--json", "/dev/full") == 1
    out, err = capsys.readouterr()
    assert "verified" in out
    assert err == "bench.py: could not write /dev/full: No space left on device\n"


def test_tune(bench, capsys):
    words = ("tune", "gemm_f32", "-a", "size=8", "--budget", "0.2")
    assert bench(*words, "--json", "/dev/full") == 1
    out, err = capsys.readouterr()
    assert "gemm_f32" in out
    assert err == "bench.py: could not write /dev/full: No space left on device\n"


def test_a_row_of_tune_is_in_the_file_when_it_is_done(bench, tmp_path, monkeypatch):
    path, seen = tmp_path / "o.json", []
    so_far = output.so_far

    def noted(*words):
        so_far(*words)
        seen.append(len(json.loads(path.read_text())["results"]))

    monkeypatch.setattr(output, "so_far", noted)
    words = ("tune", "gemm_f32", "-a", "size=8,9", "--budget", "0.1", "--json", path)
    assert bench(*words) == 0
    assert seen == [1, 2]


def test_a_baseline(bench, capsys, tmp_path, monkeypatch):
    """`compare --baseline` has measured, and cannot keep it."""
    monkeypatch.setattr(runner.env, "cpu_model", lambda: "x" * 300)
    words = ("compare", "--baseline", tmp_path, "--names", "saxpy_f32", "-a", "n=64")
    assert bench(*words, "--timeout", "0.02") == 1
    out, err = capsys.readouterr()
    assert "saxpy_f32" in out
    assert "File name too long" in err
    assert "Traceback" not in err


@contextlib.contextmanager
def files_of_at_most(nbytes):
    """A stand-in for a full disk: longer files raise EFBIG."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_fills_keeps_the_old_file(bench, tmp_path, capsys):
    path = tmp_path / "o.json"
    path.write_text("old")
    with files_of_at_most(100):
        assert bench(*TINY, "--json", path) == 1
    told(capsys, path)
    assert path.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["home", "o.json"]


def test_a_full_tmpfs(bench, tmp_path, capsys):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(disk)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no mount(8) here")
    if done.returncode:
        pytest.skip(f"tmpfs cannot be mounted here: {done.stderr.strip()}")
    try:
        (disk / "fill").write_bytes(bytes(4096))
        assert bench(*TINY, "--json", disk / "o.json") == 1
        told(capsys, disk / "o.json")
        assert [p.name for p in disk.iterdir()] == ["fill"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def _removed(path):
    shutil.rmtree(path.parent)


def _moved(path):
    path.parent.rename(path.parent.with_name("elsewhere"))


def _became_a_folder(path):
    path.unlink()
    path.mkdir()
    (path / "kept").write_text("old")


def _became_a_link_to_nowhere(path):
    path.unlink()
    path.symlink_to(path.parent / "no" / "o")


def _parent_became_a_file(path):
    shutil.rmtree(path.parent)
    path.parent.write_text("old")


@pytest.mark.parametrize(
    "happens",
    [_removed, _moved, _became_a_folder, _became_a_link_to_nowhere, _parent_became_a_file],
)
def test_what_happens_to_a_target_during_the_run(bench, tmp_path, capsys, monkeypatch, happens):
    """The same at the start is wrong usage: nothing has been measured then."""
    path, so_far, after = tmp_path / "folder" / "o.json", runner.Outputs.so_far, {}
    path.parent.mkdir()

    def then(self, report):
        so_far(self, report)
        assert path.is_file()
        happens(path)
        after.update(tree(tmp_path))

    monkeypatch.setattr(runner.Outputs, "so_far", then)
    assert bench(*TINY, "--json", path, "--csv", tmp_path / "o.csv") == 1
    told(capsys, path)
    written = (tmp_path / "o.csv").read_text()
    assert "saxpy_f32" in written
    assert tree(tmp_path) == after | {"o.csv": written}


def test_a_drawing_that_cannot_be_written_costs_no_other(bench, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    (tmp_path / "svg" / "distributions-cpu.svg").mkdir(parents=True)
    words = ("run", "saxpy_f32", "-a", "n=64,128", *TINY[4:])
    assert bench(*words, "--svg", tmp_path / "svg") == 1
    err = capsys.readouterr().err
    assert "svg/distributions-cpu.svg: Is a directory" in err
    assert (tmp_path / "svg" / "sweep-cpu-hot-n-saxpy-f32.svg").is_file()


def test_a_device_that_is_lost_keeps_the_rows_before_it(bench, tmp_path, capsys, monkeypatch):
    import sparkle_drv as sp

    rows = runner.meter.versus.rows

    def lost(job, *more):
        if job.kernel == "copy_f32":
            raise sp.DeviceLost("the device is gone")
        return rows(job, *more)

    monkeypatch.setattr(runner.meter.versus, "rows", lost)
    words = ("run", "saxpy_f32", "copy_f32", *TINY[2:], "--json", tmp_path / "o.json")
    assert bench(*words) == 1
    out, err = capsys.readouterr()
    assert "saxpy_f32" in out
    assert err == "bench.py: the device is gone\n"
    assert len(json.loads((tmp_path / "o.json").read_text())["results"]) == 1


@pytest.fixture(scope="module")
def python():
    with forked.Server("bench", "bringup", "sparkle", "pm4") as made:
        yield made


TWO = {  # tools that write two files of their own, beside bench.py and cpu_peers.py
    "gpu_kernels.py": ("--json", "--md"),
    "gpu_peers.py": ("--json", "--md"),
    "../tools/bringup.py": ("--json", "--bundle", "ladder", "-d", "cpu", "--only", "open"),
}


@pytest.mark.parametrize("tool", TWO)
def test_two_outputs_in_one_file_are_refused(python, tmp_path, tool):
    """The later would replace the earlier, at the end of a run of minutes."""
    first, second, *words = TWO[tool]
    (tmp_path / "link").symlink_to("o")
    words = (*words, first, "o", second, "link")
    done = python.run((ROOT / "benchmarks" / tool).resolve(), *words, cwd=tmp_path)
    assert done.returncode == 2
    assert "must be different files" in done.stderr


TOOLS = {
    "bench.py": ("list",),
    "bringup.py": ("ladder", "--list", "-d", "cpu"),
    "pm4.py": ("reg", "COMPUTE_PGM_LO"),
    "rdna_as.py": ("expression", "x*x"),
    "sparkle.py": ("explain", "--help"),
    "gen.py": ("--help",),
    "shaders.py": ("--help",),
    "../benchmarks/emu.py": ("--help",),
    "../benchmarks/against.py": ("--help",),
}


def complaint(tool, words, stdout, **more):
    """What a tool says on stderr; it must exit with 1, not with the 120 of a failed last flush."""
    command = [sys.executable, str(ROOT / "tools" / tool), *map(str, words)]
    more |= {"stderr": subprocess.PIPE, "text": True, "timeout": 60}
    done = subprocess.run(command, stdout=stdout, **more)
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize("tool", TOOLS)
def test_a_full_standard_output(python, tool):
    with open("/dev/full", "w") as full:
        script = (ROOT / "tools" / tool).resolve()
        done = python.run(script, *TOOLS[tool], stdout=full.fileno())
    assert done.returncode == 1
    said = done.stderr
    assert said == f"{Path(tool).name}: could not write standard output: No space left on device\n"


def test_a_reader_that_has_left():
    reader, writer = os.pipe()
    os.close(reader)
    try:
        said = complaint("bench.py", ("list",), writer)
    finally:
        os.close(writer)
    assert said == ""


def test_a_closed_standard_output_does_not_cost_the_file(home, tmp_path):
    path = tmp_path / "o.json"
    said = complaint("bench.py", (*TINY, "--json", path), None, preexec_fn=lambda: os.close(1))
    assert said == "bench.py: could not write standard output: it is closed\n"
    assert json.loads(path.read_text())["results"][0]["verified"] is True
