"""benchmarks/gpu_run.sh and its kit: what is left of a run that fails or is killed, and how the
next call goes on.

When this fails, an hour on a rented GPU is lost when one step fails.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import _crash_safety
import _gpu_site
import fakecuda
import gpu_kit
import gpu_run
import pytest
from _kit.wheel_archive import pack, unpack
from where import ROOT

pytestmark = pytest.mark.setup

RUN = ROOT / "benchmarks" / "gpu_run.sh"
STEP = """
import json, sys, time, _crash_safety
out, pause_s, status = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
print("at work", flush=True)
for i in range(20):
    _crash_safety.write(out, json.dumps({"parts": list(range(i + 1)), "finished": i == 19}))
    time.sleep(pause_s / 20)
print("why it failed" if status else "well")
sys.exit(status)
"""
ALONE = """
import os, sys
import gpu_run, _gpu_site
_gpu_site.environment = lambda kit, work, fake: dict(os.environ)
gpu_run.STEPS = tuple(gpu_run.Step(*words) for words in {steps})
sys.exit(gpu_run.main([]))
"""


def steps_of(script: Path, **statuses: int):
    """A tenth of a second each."""
    return [
        (name, 60, 60, f"{script} {{out}}/{name}.json 0.1 {status}", "", "")
        for name, status in statuses.items()
    ]


@pytest.fixture
def kit(tmp_path, monkeypatch):
    """A kit that holds nothing, of a commit of its own, for gpu_run in this process."""
    (tmp_path / "kit" / "site" / "sparkle_drv").mkdir(parents=True)
    (tmp_path / "kit" / "commit").write_text("abc\n")
    (tmp_path / "step.py").write_text(STEP)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "benchmarks")}
    monkeypatch.setattr(_gpu_site, "environment", lambda kit, work, fake: env)
    return tmp_path / "kit"


@pytest.fixture
def call(kit, monkeypatch, capsys):
    """call(steps, *words) -> (exit status, what it printed)."""

    def run(steps, *words):
        monkeypatch.setattr(gpu_run, "STEPS", tuple(gpu_run.Step(*step) for step in steps))
        given = ["--kit", kit, "--out", kit.parent / "out", "--fake", kit / "commit", *words]
        status = gpu_run.main([str(word) for word in given])
        return status, capsys.readouterr().out

    return run


def contents(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as packed:
        return {name: packed.extractfile(name).read() for name in packed.getnames()}


def whole(out: Path) -> dict[str, object]:
    """The steps that have ended, when every JSON there is whole, in the archive too."""
    files = {
        path.name: path.read_bytes() for path in out.glob("[!.]*.json")
    }  # not what a kill left
    if (out / gpu_run.ARCHIVE).exists():
        packed = contents(out / gpu_run.ARCHIVE)
        files |= {f"packed {name}": data for name, data in packed.items() if ".json" in name}
    told = {name: json.loads(data) for name, data in files.items()}
    return told.get(gpu_run.SUMMARY, {"steps": {}})["steps"]


def test_the_steps_on_a_gpu():
    names = [step.name for step in gpu_run.STEPS]
    assert names[:2] == ["conformance-cuda", "conformance-egl"]
    assert names[-1] == "peers"
    assert all(step.limit_s < 9 * 60 for step in gpu_run.STEPS)
    assert sum(step.limit_s for step in gpu_run.STEPS[:-1]) < 9 * 60, "one call for all but peers"
    assert sum(step.fake_limit_s for step in gpu_run.STEPS) < 9 * 60


def test_a_step_that_fails_leaves_the_others_and_is_not_run_again_unasked(call, kit):
    steps = steps_of(kit.parent / "step.py", first=0, second=7, third=0)
    status, said = call(steps)
    assert status == 1
    assert "second: status 7" in said
    assert "why it failed" in said
    out = kit.parent / "out"
    assert {name: one["status"] for name, one in whole(out).items()} == {
        "first": 0, "second": 7, "third": 0,
    }  # fmt: skip
    packed = contents(out / gpu_run.ARCHIVE)
    assert b"why it failed" in packed["logs/second.log"]
    assert {"first.json", "summary.txt", "logs/machine.json"} < set(packed)
    assert len(list(out.iterdir())) <= 8
    steps[1] = (*steps[1][:3], steps[1][3].replace(" 7", " 0"), "", "")
    assert call(steps)[0] == 1
    assert call(steps, "second")[0] == 0


def test_what_does_not_fit_into_a_call_is_left_for_the_next(call, kit):
    steps = steps_of(kit.parent / "step.py", first=0, second=0)
    steps[1] = ("second", 100, 100, *steps[1][3:])
    status, said = call(steps, "--call-s", 99)
    assert (status, "second: left for the next call" in said) == (3, True)
    out = kit.parent / "out"
    assert json.loads((out / gpu_run.SUMMARY).read_text())["left"] == ["second"]
    taken = shutil.copy(out / gpu_run.ARCHIVE, kit.parent)
    shutil.rmtree(out)  # where OUT is empty at the start of every call
    status, said = call(steps, "--resume", taken)
    assert status == 0
    assert "first: status" not in said
    assert set(whole(out)) == {"first", "second"}
    assert {"first.json", "logs/first.log"} < set(contents(out / gpu_run.ARCHIVE))


def test_a_step_beyond_its_limit_is_ended(call, kit):
    steps = [("slow", 1, 1, f"{kit.parent}/step.py {{out}}/slow.json 60 0", "", "")]
    status, said = call(steps)
    assert (status, "slow: status 124" in said) == (1, True)
    assert json.loads((kit.parent / "out" / "slow.json").read_text())["finished"] is False


def test_another_commit_starts_anew_and_a_damaged_archive_is_told(call, kit):
    steps = steps_of(kit.parent / "step.py", only=0)
    assert call(steps)[0] == 0
    (kit / "commit").write_text("def\n")
    status, said = call(steps)
    assert (status, "all steps run again" in said, "only: status 0" in said) == (0, True, True)
    (kit.parent / "bad").write_bytes(b"no archive")
    status, said = call(steps, "--resume", kit.parent / "bad")
    assert (status, "cannot go on with" in said) == (0, True)


def test_results_of_another_run_and_other_files_stay(call, kit):
    """OUT is used again with another commit: what the first has measured is not thrown away."""
    steps, out = steps_of(kit.parent / "step.py", only=0), kit.parent / "out"
    out.mkdir()
    (out / "own.json").write_text("mine")
    assert call(steps)[0] == 0
    first = contents(out / gpu_run.ARCHIVE)
    (kit / "commit").write_text("def\n")
    assert call(steps)[0] == 0
    assert contents(out / gpu_run.EARLIER) == first
    assert (out / "own.json").read_text() == "mine"
    assert "own.json" not in contents(out / gpu_run.ARCHIVE)


@pytest.mark.parametrize(
    "summary",
    ["[]", "null", "{", '{"key": 1, "steps": []}', '{"key": 1, "steps": {"only": {"status": 0}}}'],
)
def test_a_damaged_summary_is_as_none(call, kit, summary):
    out = kit.parent / "out"
    out.mkdir()
    (out / gpu_run.SUMMARY).write_text(summary)
    assert call(steps_of(kit.parent / "step.py", only=0))[0] == 0
    assert set(whole(out)) == {"only"}


def test_a_truncated_archive_is_told(call, kit):
    steps, archive = steps_of(kit.parent / "step.py", only=0), kit.parent / "out" / gpu_run.ARCHIVE
    assert call(steps)[0] == 0
    taken = kit.parent / "taken"
    taken.write_bytes(archive.read_bytes()[:-60])
    shutil.rmtree(archive.parent)
    status, said = call(steps, "--resume", taken)
    assert (status, "cannot go on with" in said) == (0, True)


def test_two_calls_on_one_folder(call, kit, capsys):
    out = kit.parent / "out"
    out.mkdir()
    steps = steps_of(kit.parent / "step.py", only=0)
    with gpu_run.alone(out):
        assert gpu_run.main(["--kit", str(kit), "--out", str(out)]) == 2
    assert "another call of gpu_run.py uses this folder" in capsys.readouterr().err
    assert list(out.iterdir()) == []
    assert call(steps)[0] == 0


def test_a_lock_that_a_killed_call_leaves_to_its_step_is_waited_for(call, kit):
    """Between fork and exec a child has the lock, too."""
    out = kit.parent / "out"
    out.mkdir()
    with gpu_run.alone(out):
        child = subprocess.Popen(["sleep", "0.3"], pass_fds=[_lock_of(out)])
    assert call(steps_of(kit.parent / "step.py", only=0))[0] == 0
    assert child.wait(60) == 0


def _lock_of(out: Path) -> int:
    """This process's descriptor of the folder."""
    return next(
        int(fd.name) for fd in Path("/proc/self/fd").iterdir() if fd.resolve() == out.resolve()
    )


def test_a_folder_that_cannot_be_written(call, kit, capsys, monkeypatch):
    assert gpu_run.main(["--kit", str(kit), "--out", "/proc/self/fd"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("gpu_run.py: /proc/")
    assert err.endswith(": No such file or directory\n")
    assert len(err.splitlines()) == 1
    save, left = gpu_run.Results.save, [OSError(28, "No space left on device")]

    def once_full(self):
        if self.steps and left:
            raise left.pop()
        save(self)

    monkeypatch.setattr(gpu_run.Results, "save", once_full)
    assert call(steps_of(kit.parent / "step.py", first=0, second=0))[0] == 1
    assert set(whole(kit.parent / "out")) == {"first", "second"}, "the steps to come are run"


def test_a_reader_that_leaves_ends_no_step(kit):
    reader, writer = os.pipe()
    os.close(reader)
    out = kit.parent / "out"
    run = alone(kit, out, stdout=writer, stderr=subprocess.PIPE, first=0, second=0)
    os.close(writer)
    err = run.communicate(timeout=60)[1]
    assert err == b""
    assert run.returncode == 1
    assert set(whole(out)) == {"first", "second"}


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("file", ["numpy.tar.xz", "wheels/{python}/cffi-1.whl"])
@pytest.mark.parametrize("happens", [_truncate, lambda path: path.write_text("x")])
def test_a_damaged_kit_is_told(tmp_path, file, happens):
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    made = wheel(tmp_path / "made.whl", a="0123456789" * 100)
    (tmp_path / "wheels" / python).mkdir(parents=True)
    shutil.copy(made, tmp_path / "wheels" / python / "cffi-1.whl")
    pack({python: made}, tmp_path / "numpy.tar.xz")
    _gpu_site._unpack(tmp_path, ["cffi", "numpy"], tmp_path / "well")
    happens(tmp_path / file.format(python=python))
    with pytest.raises(_gpu_site.Unfit, match="the kit is damaged: "):
        _gpu_site._unpack(tmp_path, ["cffi", "numpy"], tmp_path / "site")


def test_a_kit_that_lacks_what_is_no_wheel(tmp_path):
    with pytest.raises(_gpu_site.Unfit, match=r"damaged: .*/commit"):
        _gpu_site.commit(tmp_path)
    with pytest.raises(_gpu_site.Unfit, match=r"damaged: .*numpy\.tar\.xz"):
        _gpu_site._unpack(tmp_path, ["numpy"], tmp_path)


def test_no_room_to_unpack_is_not_the_kits_fault(tmp_path):
    wheels = tmp_path / "wheels" / f"{sys.version_info[0]}.{sys.version_info[1]}"
    wheels.mkdir(parents=True)
    site = wheel(wheels / "cffi-1.whl", a="x")  # a file, in which nothing can be unpacked
    with pytest.raises(_gpu_site.Unfit, match=f"cannot be unpacked in {site}: "):
        _gpu_site._unpack(tmp_path, ["cffi"], site)


def test_a_library_that_ends_the_python_that_tries_it(tmp_path, monkeypatch):
    (tmp_path / "cffi_of_a_bad_disk.py").write_text("import os; os.kill(os.getpid(), 7)")
    monkeypatch.setattr(_gpu_site, "NEEDED", {"cffi": "cffi_of_a_bad_disk"})
    assert _gpu_site._missed(dict(os.environ), tmp_path) == "status -7"


def alone(
    kit: Path, out: Path, stdout: int = subprocess.DEVNULL, stderr: int | None = None,
    **statuses: int,
) -> subprocess.Popen[bytes]:  # fmt: skip
    code = ALONE.format(steps=steps_of(kit.parent / "step.py", **statuses))
    env = {**os.environ, "PYTHONPATH": str(ROOT / "benchmarks"), "OUT": str(out)}
    env["GPU_KIT"] = str(kit)
    env["TMPDIR"] = str(kit.parent / "tmp")
    (kit.parent / "tmp").mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, "-c", code], env=env, stdout=stdout, stderr=stderr)


def test_a_run_that_is_killed_at_any_moment_leaves_what_was_done(kit):
    out, rng, ended = kit.parent / "out", random.Random(17), set()
    for _ in range(10):
        run = alone(kit, out, first=0, second=0, third=0)
        time.sleep(rng.uniform(0, 0.7))
        run.kill()
        run.wait()
        if out.exists():
            now = set(whole(out))
            assert ended <= now, "a step that had ended is lost"
            ended = now
    assert alone(kit, out, first=0, second=0, third=0).wait(60) == 0
    assert not list(kit.parent.glob("tmp/*")), "nor does a temporary folder stay"
    assert set(whole(out)) == {"first", "second", "third"}
    assert all(json.loads((out / f"{name}.json").read_text())["finished"] for name in ended)
    assert not list(out.glob(".*")), "what a kill left there is swept away"


def test_a_run_that_is_stopped_packs_what_is_done(kit):
    out = kit.parent / "out"
    run = alone(kit, out, first=0, second=0)
    until = time.monotonic() + 60
    while not (out / "second.json").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    run.send_signal(signal.SIGTERM)
    assert run.wait(60) == 143
    assert set(whole(out)) == {"first"}
    assert b"at work" in contents(out / gpu_run.ARCHIVE)["logs/second.log"]


def test_a_killed_runs_step_goes_with_it(kit):
    """It would write its results while the next call runs the same step."""
    done = subprocess.run(
        [sys.executable, "-c", """
import os, signal, subprocess, sys
from _crash_safety import end_with_parent
from functools import partial
child = subprocess.Popen(["sleep", "60"], preexec_fn=partial(end_with_parent, os.getpid()))
print(child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""],
        env={**os.environ, "PYTHONPATH": str(ROOT / "benchmarks")}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    until = time.monotonic() + 20
    while Path(f"/proc/{int(done.stdout)}/exe").exists():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_step_whose_parent_has_ended_already_does_not_begin():
    """Killed between fork and the call that ties the step to its parent."""
    done = subprocess.run(
        [sys.executable, "-c", "import os, _crash_safety as c; c.end_with_parent(os.getpid())"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "benchmarks")}, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1


def test_a_device_is_written_to_and_a_file_replaced(tmp_path):
    _crash_safety.write("/dev/null", "x")
    assert Path("/dev/null").is_char_device()
    file = tmp_path / "a.json"
    _crash_safety.write(file, "1")
    _crash_safety.write(file, b"2")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert file.read_text() == "2"


def wheel(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("numpy/", "")
        for name, content in files.items():
            zipped.writestr(f"numpy/{name}", content)
    return path


def test_wheels_of_several_pythons_in_one_archive(tmp_path):
    same = "0123456789" * 1000
    wheels = {
        "3.10": wheel(tmp_path / "a.whl", a=same, b=same, own="ten"),
        "3.14": wheel(tmp_path / "b.whl", a=same, own="fourteen", empty=""),
    }
    pack(wheels, tmp_path / "packed.tar.xz")
    with tarfile.open(tmp_path / "packed.tar.xz") as packed:
        assert len(packed.getnames()) == 1 + 4, "every content once"
    for python, path in wheels.items():
        unpack(tmp_path / "packed.tar.xz", python, tmp_path / python)
        with zipfile.ZipFile(path) as zipped:
            names = [name for name in zipped.namelist() if not name.endswith("/")]
            assert all((tmp_path / python / n).read_bytes() == zipped.read(n) for n in names)
    with pytest.raises(KeyError):
        unpack(tmp_path / "packed.tar.xz", "3.9", tmp_path)


def test_the_kit_has_wheels_for_every_python(tmp_path, monkeypatch):
    asked = []

    def call(*command, cwd=None):
        version = command[command.index("--python-version") + 1]
        asked.append(version)
        got = Path(command[command.index("--dest") + 1])
        got.mkdir()
        for name in ("numpy", "cffi", "pycparser"):
            wheel(got / f"{name}-1-{version}.whl", a=version)
        return ""

    monkeypatch.setattr(gpu_kit, "call", call)
    gpu_kit.wheels(tmp_path)
    assert asked == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    for python in asked:
        there = {path.name for path in (tmp_path / "wheels" / python).iterdir()}
        assert there == {f"cffi-1-{python}.whl", f"pycparser-1-{python}.whl"}
        unpack(tmp_path / "numpy.tar.xz", python, tmp_path / python)
        assert (tmp_path / python / "numpy" / "a").read_text() == python


def test_the_vendors_opengl_by_the_path_that_the_loader_finds(tmp_path, monkeypatch):
    monkeypatch.setattr(_gpu_site, "VENDORS", (str(tmp_path / "none"),))
    env = {"LD_LIBRARY_PATH": "/theirs"}
    found = {"libEGL.so.1": "/lib/libEGL.so.1", "libEGL_nvidia.so.0": "/a/libEGL_nvidia.so.0"}
    monkeypatch.setattr(_gpu_site, "_found", lambda name, env: found.get(name, ""))

    def entry(more):
        return json.loads(Path(more["__EGL_VENDOR_LIBRARY_FILENAMES"]).read_text())["ICD"]

    more = _gpu_site._opengl(tmp_path / "kit", tmp_path, env, False)
    assert entry(more) == {"library_path": "/a/libEGL_nvidia.so.0"}
    assert more["LD_LIBRARY_PATH"] == "/theirs"
    (tmp_path / "libEGL_nvidia.so.0").touch()  # beside the driver, outside the loader's path
    found = {"libcuda.so.1": str(tmp_path / "libcuda.so.1")}
    more = _gpu_site._opengl(tmp_path / "kit", tmp_path, env, False)
    assert entry(more) == {"library_path": str(tmp_path / "libEGL_nvidia.so.0")}
    folders = more["LD_LIBRARY_PATH"].split(":")
    assert folders[0] == str(tmp_path)
    assert folders[1].startswith(f"{tmp_path}/kit/gl/usr/lib/")
    found = {}
    assert "__EGL_VENDOR_LIBRARY_FILENAMES" not in _gpu_site._opengl(tmp_path, tmp_path, env, False)


def test_the_file_that_the_loader_takes():
    path = _gpu_site._found("libc.so.6", dict(os.environ))
    assert Path(path).name.startswith("libc")
    assert Path(path).is_absolute()
    assert _gpu_site._found("libnone.so.9", dict(os.environ)) == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "expected steps of conformance-cuda, "),
        (["--fake", "none.so"], "expected a driver library, got "),
        (["--kit", "none"], "run make gpu-kit first"),
        (["--out", "/dev/null/x"], "OUT: "),
    ],
)
def test_it_cannot_begin(kit, words, said, capsys):
    given = ["--kit", str(kit), "--out", str(kit.parent / "out"), *words]
    with pytest.raises(SystemExit) as left:
        gpu_run.main(given)
    assert left.value.code == 2
    assert said in capsys.readouterr().err


def test_an_old_python_is_told_what_is_expected(tmp_path):
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\ntest "$1" = -V && echo Python 3.9.1\nexit 1\n')
    old.chmod(0o755)
    env = {**os.environ, "PYTHON": str(old)}
    done = subprocess.run([str(RUN)], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "expected Python 3.10 or later" in done.stderr
    assert "got Python 3.9.1" in done.stderr


def pythons() -> dict[str, str]:
    """Those of this machine, by version: on the path, or pyenv's."""
    found = {}
    for version in gpu_kit.PYTHONS:
        kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
        own = sorted(kept.glob(f"{version}.*/bin/python{version}"))
        if path := str(own[-1]) if own else shutil.which(f"python{version}"):
            found[version] = path
    return found


@pytest.mark.slow
@pytest.mark.parametrize("version", gpu_kit.PYTHONS)
def test_every_python_with_none_of_our_packages_over_the_fake(tmp_path, version):
    """The checkout and the kit are plain folders elsewhere; the kit's path is a relative one."""
    if not (ROOT / "build" / "gpu-kit" / "numpy.tar.xz").exists():
        pytest.skip("needs build/gpu-kit: make gpu-kit (network)")
    if version not in pythons():
        pytest.skip(f"needs a Python {version}")
    bare = tmp_path / "bare"
    subprocess.run([pythons()[version], "-m", "venv", "--without-pip", str(bare)], check=True)
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks")
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    shutil.copytree(ROOT / "build" / "gpu-kit", tmp_path / "kit", symlinks=True)
    env = {"OUT": "out", "GPU_KIT": "kit", "PYTHON": str(bare / "bin" / "python")}
    env |= {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        ["benchmarks/gpu_run.sh", "--fake", fakecuda.library()], env=env, cwd=tmp_path,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(whole(tmp_path / "out")) == {step.name for step in gpu_run.STEPS}
    assert json.loads((tmp_path / "out" / "peers.json").read_text())["label"] == "fake"


@pytest.mark.slow
def test_run_over_the_fake(tmp_path):
    kit = tmp_path / "kit"
    (kit / "site").mkdir(parents=True)
    (kit / "wheels").mkdir()
    (kit / "commit").write_text("abc\n")
    (kit / "site" / "sparkle_drv").symlink_to(ROOT / "sparkle_drv")
    source = ROOT / "benchmarks/_gpu_peers/baseline.c"
    compiler = shutil.which("gcc") or "cc"
    subprocess.run([compiler, "-o", str(kit / "baseline"), str(source), "-ldl"], check=True)
    env = {**os.environ, "OUT": str(tmp_path / "out"), "GPU_KIT": str(kit)}
    env |= {"PYTHON": sys.executable, "PYTHONPATH": ""}
    command = [str(RUN), "--fake", fakecuda.library()]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout
    out = tmp_path / "out"
    summary = (out / "summary.txt").read_text().splitlines()
    assert [line.split(":")[0] for line in summary] == [
        "conformance-cuda", "conformance-egl", "kernels", "peers",
    ]  # fmt: skip
    assert json.loads((out / "peers.json").read_text())["commit"] == "abc"
    assert all(json.loads(file.read_text()).get("finished", True) for file in out.glob("*.json"))
