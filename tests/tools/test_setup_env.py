"""tools/setup_env.py: only what is missing, never half of it. No package is installed here."""

from __future__ import annotations

import fcntl
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "setup_env.py"


class Steps(list):
    """The commands of set-up, written down instead; the first that contains `fail` fails."""

    fail = ""

    def __call__(self, *command: str) -> None:
        words = " ".join(command)
        self.append(words)
        if self.fail and self.fail in words:
            raise subprocess.CalledProcessError(7, command)
        if "-m venv" in words:
            Path(command[-1], "bin").mkdir(parents=True)

    def kinds(self) -> list[str]:
        """What kind of step each command was."""
        marks = {"-m venv": "venv", "--editable": "editable", "pip install": "pip"}
        marks |= {"build_ext": "build", "compileall": "compile"}
        return [next(kind for mark, kind in marks.items() if mark in words) for words in self]


@pytest.fixture
def setup(tmp_path, monkeypatch):
    """The script as a module, on an empty checkout, with its commands recorded in `setup.steps`."""
    spec = importlib.util.spec_from_file_location("setup_env", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "STAMP", tmp_path / ".venv" / "sparkle-stamp")
    module.steps = Steps()
    monkeypatch.setattr(module, "run", module.steps)
    monkeypatch.setattr(module, "missing_packages", list)
    monkeypatch.setattr(module, "has_gl", lambda: True)
    monkeypatch.setattr(sys, "argv", ["setup_env.py"])
    return module


FULL = ["venv", "pip", "build", "compile", "editable", "build", "compile"]


def test_everything_once_then_only_the_build(setup):
    assert setup.main() == 0
    assert setup.steps.kinds() == FULL
    setup.steps.clear()
    assert setup.main() == 0
    assert setup.steps.kinds() == ["build", "compile"]


def test_a_changed_pyproject_installs_again_into_the_same_venv(setup):
    setup.main()
    setup.steps.clear()
    (setup.ROOT / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    kept = setup.VENV / "kept"
    kept.touch()
    assert setup.main() == 0
    assert setup.steps.kinds() == FULL[1:]
    assert kept.exists()


@pytest.mark.parametrize("line", [0, 1])
def test_another_folder_or_python_makes_a_new_venv(setup, line):
    setup.main()
    stamp = setup.STAMP.read_text().splitlines()
    stamp[line] = "elsewhere"
    setup.STAMP.write_text("\n".join(stamp) + "\n")
    (setup.VENV / "old").touch()
    setup.steps.clear()
    assert setup.main() == 0
    assert setup.steps.kinds() == FULL
    assert not (setup.VENV / "old").exists()


@pytest.mark.parametrize("step", ["pip install", "build_ext", "--editable"])
def test_a_half_made_venv_is_made_anew(setup, capsys, step):
    setup.steps.fail = step
    assert setup.main() == 1
    assert "failed with status 7" in capsys.readouterr().out
    assert not setup.STAMP.exists()
    (setup.VENV / "half").touch()
    setup.steps.clear()
    setup.steps.fail = ""
    assert setup.main() == 0
    assert setup.steps.kinds() == FULL
    assert not (setup.VENV / "half").exists()


def test_without_root_one_line_says_what_to_install_and_it_goes_on(setup, monkeypatch, capsys):
    monkeypatch.setattr(setup, "missing_packages", lambda: ["gcc", "libc6-dev"])
    monkeypatch.setattr(setup.os, "geteuid", lambda: 1000)
    assert setup.main() == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("sudo apt-get install gcc libc6-dev")
    assert setup.steps.kinds() == FULL


def as_root_with_apt(setup, monkeypatch, tmp_path, status: int) -> Path:
    """Root on a machine whose apt-get writes down what it was asked, and ends so."""
    log = tmp_path / "apt.log"
    apt = tmp_path / "bin" / "apt-get"
    apt.parent.mkdir()
    apt.write_text(
        f'#!/bin/sh\necho "$DEBIAN_FRONTEND $@" >>{log}\necho "E: words"\nexit {status}\n'
    )
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(apt.parent), prepend=":")
    monkeypatch.setattr(setup.os, "geteuid", lambda: 0)
    return log


def test_root_installs_what_is_missing_and_asks_nothing(setup, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(setup, "missing_packages", lambda: ["gcc"])
    log = as_root_with_apt(setup, monkeypatch, tmp_path, 0)
    assert setup.main() == 0
    update, install = log.read_text().splitlines()
    assert update == "noninteractive -q update"
    assert install == "noninteractive -q -y --no-install-recommends install gcc"
    assert "E: words" not in capsys.readouterr().out


def test_when_apt_fails_it_shows_why_and_goes_on(setup, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(setup, "missing_packages", lambda: ["gcc"])
    as_root_with_apt(setup, monkeypatch, tmp_path, 100)
    assert setup.main() == 0
    assert "E: words" in capsys.readouterr().out
    assert setup.steps.kinds() == FULL


def test_mesa_is_installed_once_where_no_context_can_be_made(setup, monkeypatch, tmp_path):
    monkeypatch.setattr(setup, "has_gl", lambda: False)
    log = as_root_with_apt(setup, monkeypatch, tmp_path, 0)
    assert setup.main() == 0
    assert log.read_text().splitlines()[1].endswith("install libegl1 libgl1-mesa-dri")
    log.unlink()
    assert setup.main() == 0
    assert not log.exists()


def test_whether_there_is_a_context_is_asked_of_the_built_package(setup, monkeypatch, tmp_path):
    monkeypatch.undo()
    for status, there in ((0, True), (1, False)):
        python = tmp_path / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(f'#!/bin/sh\ncase "$2" in *egl:0*) exit {status};; esac\nexit 9\n')
        python.chmod(0o755)
        monkeypatch.setattr(setup, "VENV", tmp_path / ".venv")
        monkeypatch.setattr(setup, "ROOT", tmp_path)
        assert setup.has_gl() is there
    monkeypatch.setattr(setup, "VENV", tmp_path / "nowhere")
    assert not setup.has_gl()


def test_nothing_missing_means_no_apt(setup, monkeypatch, tmp_path):
    log = as_root_with_apt(setup, monkeypatch, tmp_path, 0)
    assert setup.main() == 0
    assert not log.exists()


def test_what_is_missing_is_named_as_debian_names_it(setup, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    monkeypatch.setattr(setup.sysconfig, "get_path", lambda name: "/no/such/folder")
    python = f"python3.{sys.version_info.minor}"
    assert {"gcc", f"{python}-dev"} <= set(setup.missing_packages())


def test_an_old_python_is_refused(setup, monkeypatch, capsys):
    monkeypatch.setattr(setup, "sys", SimpleNamespace(version_info=(3, 9, 2)))
    assert setup.main() == 1
    assert "3.10 or newer" in capsys.readouterr().out
    assert setup.steps == []


def test_two_at_once_take_turns(setup, tmp_path):
    """A second set-up says that it waits, and goes on when the lock is free."""
    code = f"""
import importlib.util, pathlib, sys
spec = importlib.util.spec_from_file_location("setup_env", {str(SCRIPT)!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.ROOT = pathlib.Path({str(tmp_path)!r})
module.ensure_system = module.ensure_venv = module.ensure_gl = lambda: None
module.build = lambda: print("built", flush=True)
module.set_up()
"""
    with (tmp_path / "pyproject.toml").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert "waiting" in child.stdout.readline()
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert child.communicate(timeout=60)[0] == "built\n"
    assert child.returncode == 0


def test_what_only_tests_need_is_asked_for_by_make_test_alone(setup, monkeypatch):
    asked = []
    monkeypatch.setattr(setup, "ensure_judges", lambda: asked.append("judges"))
    monkeypatch.setattr(setup, "ensure_aarch64", lambda: asked.append("aarch64"))
    monkeypatch.setattr(setup, "ensure_opencl", lambda: asked.append("opencl"))
    assert setup.main() == 0
    assert asked == []
    monkeypatch.setattr(sys, "argv", ["setup_env.py", "--tests"])
    assert setup.main() == 0
    assert asked == ["judges", "aarch64", "opencl"]


def test_what_cannot_be_installed_is_tried_once(setup, monkeypatch):
    tried = []
    monkeypatch.setattr(setup, "install_packages", tried.append)
    monkeypatch.setattr(setup.os, "geteuid", lambda: 0)
    setup.VENV.mkdir()
    setup.install_once("gl", [])
    setup.install_once("gl", ["libegl1"])
    setup.install_once("gl", ["libegl1"])
    assert tried == [["libegl1"]]


def test_packages_for_aarch64_are_named_as_debian_names_them(setup, monkeypatch):
    asked = []
    monkeypatch.setattr(setup, "install_once", lambda what, packages: asked.append(packages))
    monkeypatch.setattr(setup.shutil, "which", lambda name: None)
    setup.ensure_aarch64()
    monkeypatch.setattr(setup.shutil, "which", lambda name: f"/usr/bin/{name}")
    setup.ensure_aarch64()
    libc = "libc6-dev-arm64-cross"
    assert [name for name in asked[0] if name != libc] == ["gcc-aarch64-linux-gnu", "qemu-user"]
    assert [name for name in asked[1] if name != libc] == []
