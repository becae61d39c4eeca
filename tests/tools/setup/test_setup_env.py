"""tools/setup_env.py: only what is missing, never half of it. No package is installed here.

When this fails, `make build` leaves half an environment behind.
"""

from __future__ import annotations

import fcntl
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import _packages
import pytest
from where import ROOT

pytestmark = pytest.mark.setup

SCRIPT = ROOT / "tools" / "setup_env.py"

EGL = """
#include <stdint.h>
typedef void *handle;
static int good, bad;
static uint32_t devices(int most, handle *found, int *count)
{
    found[0] = &good;
    *count = most > 0;
    return 1;
}
handle eglGetProcAddress(const char *name) { return *name ? (handle)devices : 0; }
handle eglGetPlatformDisplay(uint32_t platform, handle native, handle list)
{
    (void)platform, (void)native, (void)list, (void)bad;
    %s
}
uint32_t eglInitialize(handle display, int *major, int *minor)
{
    return display == &good && !major && !minor;
}
"""


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
    monkeypatch.setattr(module, "TRIED", tmp_path / "build" / "packages-tried")
    module.steps = Steps()
    monkeypatch.setattr(module, "run", module.steps)
    monkeypatch.setattr(_packages, "PACKAGES", ())
    monkeypatch.setattr(sys, "argv", ["setup_env.py"])
    return module


@pytest.fixture
def lacks(monkeypatch):
    """lacks(gcc="build"): a table of packages, none of which is here."""

    def table(**uses: str) -> None:
        rows = tuple(_packages.Package(name, use, lambda: False) for name, use in uses.items())
        monkeypatch.setattr(_packages, "PACKAGES", rows)

    return table


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


@pytest.mark.parametrize("words", [[], ["--tests"]])
def test_without_root_one_line_names_what_both_commands_lack(
    setup, lacks, monkeypatch, capsys, words
):
    lacks(gcc="build", libegl1="bench", qemu="test")
    monkeypatch.setattr(setup.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["setup_env.py", *words])
    assert setup.main() == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "apt-get" in line]
    assert said == ["setup: missing here; install with: sudo apt-get install gcc libegl1 qemu"]
    assert setup.steps.kinds() == FULL


def test_what_only_tests_lack_is_named_by_make_test_alone(setup, lacks, monkeypatch, capsys):
    lacks(qemu="test")
    monkeypatch.setattr(setup.os, "geteuid", lambda: 1000)
    assert setup.main() == 0
    assert "apt-get" not in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["setup_env.py", "--tests"])
    assert setup.main() == 0
    assert "sudo apt-get install qemu\n" in capsys.readouterr().out


@pytest.fixture
def apt(setup, monkeypatch, tmp_path):
    """We are root; apt-get writes down what it is asked, and fails when that names `broken`."""
    log = tmp_path / "apt.log"
    script = tmp_path / "bin" / "apt-get"
    script.parent.mkdir()
    script.write_text(
        f'#!/bin/sh\necho "$DEBIAN_FRONTEND $@" >>{log}\n'
        'echo "E: words"\ncase "$*" in *broken*) exit 100; esac\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent), prepend=":")
    monkeypatch.setattr(setup.os, "geteuid", lambda: 0)

    def asked() -> list[str]:
        """The commands since the last call, without what is the same in all."""
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        same = "noninteractive -q "
        assert all(line.startswith(same) for line in lines)
        return [line.removeprefix(same) for line in lines]

    return asked


INSTALL = "-y --no-install-recommends install"


def test_root_installs_what_the_command_lacks_at_once(setup, lacks, apt, monkeypatch, capsys):
    lacks(gcc="build", libegl1="bench", qemu="test")
    assert setup.main() == 0
    assert apt() == ["update", f"{INSTALL} gcc libegl1"]
    assert "E: words" not in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["setup_env.py", "--tests"])
    assert setup.main() == 0
    assert apt() == ["update", f"{INSTALL} gcc qemu"]


def test_a_package_that_cannot_be_had_costs_no_other_and_is_tried_once(setup, lacks, apt, capsys):
    lacks(libegl1="bench", broken="bench", qemu="bench")
    assert setup.main() == 0
    assert apt() == [
        "update",
        f"{INSTALL} libegl1 broken qemu",
        *(f"--simulate install {name}" for name in ("libegl1", "broken", "qemu")),
        f"{INSTALL} libegl1 qemu",
    ]
    said = capsys.readouterr().out
    assert said.count("E: words") == 1
    assert "going on without broken\n" in said
    assert setup.steps.kinds() == FULL
    assert setup.main() == 0
    assert apt() == []


def test_what_the_build_lacks_is_tried_each_time(setup, lacks, apt):
    lacks(broken="build")
    for _ in range(2):
        assert setup.main() == 0
        assert apt() == ["update", f"{INSTALL} broken", "--simulate install broken"]


def test_nothing_missing_means_no_apt(setup, apt):
    assert setup.main() == 0
    assert apt() == []


@pytest.mark.parametrize(
    ("drivers", "status"),
    [
        ("return 0;", 1),
        ("return platform == 0x31dd ? &good : 0;", 0),
        ("return native == &good ? &good : 0;", 0),
        ("return &bad;", 1),
    ],
)
def test_gl_is_there_when_a_display_initialises(userlib, tmp_path, drivers, status):
    """A libEGL of ours: surfaceless or device 0 may serve, or neither, or one that fails."""
    (tmp_path / "libEGL.so.1").symlink_to(userlib.library(EGL % drivers))
    look = [sys.executable, SCRIPT.with_name("_egl_check.py")]
    found = subprocess.run(look, env={"LD_LIBRARY_PATH": str(tmp_path)}, timeout=60, check=False)
    assert found.returncode == status


def test_what_is_missing_is_named_as_debian_names_it(monkeypatch):
    monkeypatch.setattr(_packages.shutil, "which", lambda name: None)
    monkeypatch.setattr(_packages.glob, "glob", lambda pattern: [])
    python = f"python3.{sys.version_info.minor}"
    names = [package.name for package in _packages.missing("build", "bench", "test")]
    assert names[:3] == ["gcc", "libc6-dev", f"{python}-dev"]
    assert {"g++", "libdrm-dev", "qemu-user", "iproute2", "pocl-opencl-icd"} <= set(names)
    assert "g++" not in [package.name for package in _packages.missing("build", "bench")]


def test_the_compiler_is_the_one_that_cc_names(monkeypatch):
    for cc, there in (("no-such-compiler -m64", False), ("sh -c", True), ("", True)):
        monkeypatch.setenv("CC", cc)
        assert _packages.has_compiler() is there


def test_an_old_python_is_refused(setup, monkeypatch, capsys):
    monkeypatch.setattr(setup, "sys", SimpleNamespace(version_info=(3, 9, 2)))
    assert setup.main() == 1
    assert "3.10 or newer" in capsys.readouterr().out
    assert setup.steps == []


def test_two_at_once_take_turns(setup, tmp_path):
    """A second set-up says that it waits, and goes on when the lock is free."""
    code = f"""
import importlib.util, pathlib, sys
sys.path.insert(0, {str(SCRIPT.parent)!r})
spec = importlib.util.spec_from_file_location("setup_env", {str(SCRIPT)!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.ROOT = pathlib.Path({str(tmp_path)!r})
module.ensure_packages = lambda tests: None
module.ensure_venv = lambda: None
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
