"""--resume: a run that was cut short goes on, and what it had measured stays measured.

When this fails, an interrupted sweep is measured twice, or takes over another machine's rows.

An hour's sweep that a crash or a power cut loses is measured twice; one that takes over another
machine's rows is worse than none.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from _bench.commands import resume, runner
from _bench.rows import read
from where import ROOT

TINY = ("--quick", "--timeout", "0.02")
RUN = ("run", "saxpy_f32", "copy_f32", "-a", "n=64,128", *TINY)
SAXPY = ("--arg", "inout:f32[N]", "--arg", "in:f32[N]", "--arg", "f32=2", "--arg", "u32=N")


def rows(path):
    return json.loads(path.read_text())["results"]


def cut(path, keep):
    """The file as a run leaves it that ended after `keep` rows."""
    document = json.loads(path.read_text())
    document["results"] = document["results"][:keep]
    path.write_text(json.dumps(document))


def near(value):
    """Samples of files have two decimals: 0.1 % of a launch of 20 ns, which its spread shows."""
    if isinstance(value, dict):
        return {key: near(item) for key, item in value.items()}
    if isinstance(value, list):
        return [near(item) for item in value]
    return pytest.approx(value, rel=1e-4, abs=0.1) if isinstance(value, float) else value


ROWS = {
    "run": ("run", "saxpy", "gemm_f32", "noop", "-a", "n=64", "-a", "size=8", "--mode", "hot,cold"),
    "pipeline": ("run", "saxpy", "-a", "n=64", "--mode", "latency,pipeline"),
    "emulated": ("run", "saxpy", "-a", "n=64", "-d", "emu:gfx1100"),
    "transfer": ("transfer", "-a", "nbytes=4K,64K", "-a", "way=write,copy"),
}


@pytest.mark.parametrize("what", ROWS)
def test_rows_of_a_file_are_rows_again(bench, tmp_path, what):
    """Also their roofs, ways of submitting, counters of emulated cards, and noise."""
    path = tmp_path / "o.json"
    assert bench(*ROWS[what], "--quick", "--timeout", "0.05", "--json", path) == 0
    for told in rows(path):
        assert json.loads(json.dumps(read.row(told).as_json())) == near(told)


@pytest.mark.usefixtures("no_roofs")
def test_done_rows_are_taken_over_in_their_places(bench, tmp_path, capsys, monkeypatch):
    path = tmp_path / "o.json"
    assert bench(*RUN, "--json", path) == 0
    whole = rows(path)
    document = json.loads(path.read_text())
    lost, failed = document["results"][1], document["results"][2]
    failed |= {"verified": False, "time_ns": None, "error": {"what": "wrong"}}
    document["results"].remove(lost)
    path.write_text(json.dumps(document))
    capsys.readouterr()
    measured, honest = [], runner.meter.Here.rows
    monkeypatch.setattr(
        runner.meter.Here,
        "rows",
        lambda self, job, mode: measured.append(job.label) or honest(self, job, mode),
    )
    more = ("--csv", tmp_path / "o.csv", "--md", tmp_path / "o.md")
    assert bench(*RUN, "--resume", path, *more) == 0
    assert measured == ["n=128", "n=64"]  # what failed is measured again
    now = rows(path)
    assert [(row["kernel"], row["axes"]) for row in now] == [
        (row["kernel"], row["axes"]) for row in whole
    ]
    assert all(row["verified"] for row in now)
    for at in (0, 3):
        assert now[at]["samples_ns"] == whole[at]["samples_ns"]
    assert {row["seed"] for row in now} == {whole[0]["seed"]}  # the inputs are the earlier run's
    said = f"2 of 4 rows were measured by the run of {document['env']['date']}"
    assert f"# {said}" in capsys.readouterr().out
    assert f"- {said}" in (tmp_path / "o.md").read_text()
    assert len((tmp_path / "o.csv").read_text().splitlines()) == 5


@pytest.mark.usefixtures("no_roofs")
def test_nothing_is_lost_when_the_run_that_resumed_ends_early(bench, tmp_path, monkeypatch):
    """A row that comes late in the order is not yet reached: it stays in the file."""
    path = tmp_path / "o.json"
    assert bench(*RUN, "--json", path) == 0
    document = json.loads(path.read_text())
    last = document["results"][3]
    document["results"] = [last]
    path.write_text(json.dumps(document))
    so_far = runner.Outputs.so_far

    def killed(self, report):
        so_far(self, report)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner.Outputs, "so_far", killed)
    assert bench(*RUN, "--resume", path, "--json", tmp_path / "new.json") == 1
    found = [(row["kernel"], row["axes"]["n"]) for row in rows(tmp_path / "new.json")]
    assert found == [("saxpy_f32", 64), ("copy_f32", 128)]
    assert rows(path) == [last]  # with --json the earlier file stays as it was


@pytest.mark.usefixtures("no_roofs")
def test_a_run_killed_in_the_middle_of_a_write_goes_on(home, bench, tmp_path):
    path = tmp_path / "o.json"
    code = (
        f"import sys, os; sys.path[:0] = [{str(ROOT / 'tools')!r}]\n"
        "import bench; from sparkle_drv import saved_files\n"
        "real, seen = saved_files.os.replace, []\n"
        "def replace(*names):\n"
        "    seen.append(names)\n"
        "    os.kill(os.getpid(), 9) if len(seen) == 3 else real(*names)\n"
        "saved_files.os.replace = replace\n"
        f"bench.main({[*RUN, '--json', str(path)]!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    before = rows(path)
    assert len(before) == 2
    assert bench(*RUN, "--resume", path) == 0
    assert len(rows(path)) == 4
    assert [row["samples_ns"] for row in rows(path)[:2]] == [row["samples_ns"] for row in before]


@pytest.mark.parametrize("words", [("launch",), ("transfer", "-a", "nbytes=4K,16K,64K"), RUN])
def test_a_row_is_in_every_file_when_it_is_done(home, tmp_path, words):
    """A process that is killed from outside leaves the rows so far, in each format."""
    files = [tmp_path / f"o.{kind}" for kind in ("json", "csv", "md")]
    given = [word for file in files for word in (f"--{file.suffix[1:]}", str(file))]
    command = [sys.executable, str(ROOT / "tools" / "bench.py"), *words, *given]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not files[2].exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert rows(files[0])
    assert len(files[1].read_text().splitlines()) > 1
    assert "| verified" in files[2].read_text()


@pytest.mark.usefixtures("no_roofs")
def test_rivals_are_taken_over_together(bench, in_this_process, library, tmp_path):
    (tmp_path / "ref.py").write_text("def saxpy(y, x, a, n):\n    return a * x + y\n")
    path, word = tmp_path / "o.json", f"{library}:good"
    sizes = ("-D", "N=64,128", "--groups", "N/64", "--group-size", "64")
    kernel = ("kernel", word, "--vs", word, "--ref", f"{tmp_path / 'ref.py'}:saxpy", *SAXPY, *sizes)
    assert bench(*kernel, *TINY, "--json", path) == 0
    whole = rows(path)
    assert len(whole) == 4
    cut(path, 3)  # the rival at N=128 is missing, and so its first counts for nothing
    assert bench(*kernel, *TINY, "--resume", path) == 0
    now = rows(path)
    assert [row["kernel"] for row in now] == [row["kernel"] for row in whole]
    assert now[1]["versus"] == near(whole[1]["versus"])
    assert now[2]["samples_ns"] != whole[2]["samples_ns"]
    (tmp_path / "ref.py").write_text("def saxpy(y, x, a, n):\n    return y + a * x\n")
    assert bench(*kernel, *TINY, "--resume", path) == 2  # the reference is another one


def test_transfers_go_on(bench, tmp_path, capsys):
    words = ("transfer", "-a", "nbytes=4K,16K", "-a", "way=write", "-a", "memory=device", *TINY)
    path = tmp_path / "o.json"
    assert bench(*words, "--json", path) == 0
    first = rows(path)[0]
    cut(path, 1)
    assert bench(*words, "--resume", path) == 0
    assert "1 of 2 rows" in capsys.readouterr().out
    assert rows(path)[0]["samples_ns"] == first["samples_ns"]
    assert json.loads(path.read_text())["fits"]


def changed(name, value):
    def change(document):
        document["env"][name] = value

    return change


def _another_device(document):
    document["devices"]["cpu"]["driver"] = "another"


def _rows_of_words(document):
    document["results"][0]["time_ns"] = {"of": "sundial", "batch": 1, "stop": ""}


def _without_a_request(document):
    del document["request"]


FOREIGN = {
    "cpu": (changed("cpu", "Z80"), 1, "expected the same cpu"),
    "model": (changed("cpu_model", "1-2"), 1, "expected the same cpu_model"),
    "commit": (changed("commit", "abc"), 1, "expected the same commit"),
    "package": (changed("sparkle_drv", "0.0"), 1, "expected the same sparkle_drv"),
    "driver": (_another_device, 1, "expected the same driver of cpu"),
    "rows": (_rows_of_words, 2, "results[0] is malformed"),
    "older": (_without_a_request, 2, "got one without 'request'"),
}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A results file of RUN, as text."""
    import bench as tool

    folder = tmp_path_factory.mktemp("done")
    os.environ["SPARKLE_HOME"] = str(folder)
    try:
        assert tool.main([*RUN, "--json", str(folder / "o.json")]) == 0
    finally:
        del os.environ["SPARKLE_HOME"]
    return json.loads((folder / "o.json").read_text())


def refused(bench, capsys, words, code, said):
    assert bench(*words) == code, words
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert said in err


@pytest.mark.usefixtures("no_roofs")
@pytest.mark.parametrize("what", FOREIGN)
def test_another_machines_file_is_refused(bench, done, tmp_path, capsys, monkeypatch, what):
    change, code, said = FOREIGN[what]
    document = json.loads(json.dumps(done))
    document["env"]["sparkle_environment"] = runner.env.describe()["sparkle_environment"]
    change(document)
    path = tmp_path / "o.json"
    path.write_text(json.dumps(document))
    before = path.read_text()
    refused(bench, capsys, (*RUN, "--resume", path), code, said)
    assert path.read_text() == before


@pytest.mark.usefixtures("no_roofs")
def test_what_cannot_be_resumed(bench, done, tmp_path, capsys):
    path = tmp_path / "o.json"
    path.write_text(json.dumps(done))
    other = ("run", "saxpy_f32", "copy_f32", "-a", "n=64", *TINY)
    refused(bench, capsys, (*other, "--resume", path), 2, "got axes ['n=64'] where the file has")
    refused(bench, capsys, (*RUN, "--seed", "1", "--resume", path), 2, "expected seed")
    refused(bench, capsys, ("transfer", *TINY, "--resume", path), 2, "the same command")
    for content, said in (
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"{}", "expected a results file"),
        (b'{"schema": 9, "results": []}', "expected schema 1, got 9"),
    ):
        path.write_bytes(content)
        refused(bench, capsys, (*RUN, "--resume", path), 2, said)
        assert path.read_bytes() == content
    refused(bench, capsys, (*RUN, "--resume", tmp_path / "no"), 2, "No such file")
    refused(bench, capsys, (*RUN, "--resume", tmp_path), 2, "Is a directory")


@pytest.mark.usefixtures("no_roofs")
def test_a_home_that_cannot_be_written_costs_nothing(bench, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARKLE_HOME", "/proc/nowhere")
    monkeypatch.setenv("HOME", "/proc/nowhere")
    assert bench(*RUN, "--json", tmp_path / "o.json") == 0
    assert len(rows(tmp_path / "o.json")) == 4


def test_files_that_a_command_names_are_part_of_it(tmp_path):
    """By their content: a kernel that was compiled again is another one."""
    (tmp_path / "a kernel.so").write_bytes(b"1")
    (tmp_path / "x.npy").write_bytes(b"2")

    class Args:
        image = f"{tmp_path}/a kernel.so:entry"
        vs, ref, args = [f"{tmp_path}/x.npy:entry groups=1"], "", [f"@{tmp_path}/x.npy"]

    one = Args()
    one.__dict__.update(image=Args.image, vs=Args.vs, args=Args.args, json="o.json", seed=4)
    asked = resume.request(one)
    assert set(asked["files"]) == {f"{tmp_path}/a kernel.so", f"{tmp_path}/x.npy"}
    assert "json" not in asked
    assert "seed" not in asked
    (tmp_path / "x.npy").write_bytes(b"3")
    assert resume.request(one) != asked
