"""tools/_reexec.py: a tool typed with any Python goes on in .venv, or says what to do.

When this fails, a tool started with another Python fails with an import error.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from where import ROOT

pytestmark = pytest.mark.setup

FILE = ROOT / "tools" / "_reexec.py"
TOOL = "from _reexec import reexec; reexec()\nimport sys; print('ran', sys.argv[1:])\n"


@pytest.fixture
def checkout(tmp_path):
    """A checkout with one tool and no environment."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "tools" / "_reexec.py").write_text(FILE.read_text())
    (tmp_path / "tools" / "tool.py").write_text(TOOL)
    return tmp_path


def make_venv(checkout: Path, python: str) -> None:
    """A stamped .venv whose interpreter is this shell script."""
    folder = checkout / ".venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").write_text(f"#!/bin/sh\n{python}\n")
    (folder / "python").chmod(0o755)
    (checkout / ".venv" / "sparkle-stamp").touch()


def run(checkout: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    env = {**os.environ, **env}
    return subprocess.run(
        command, cwd=checkout, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def test_without_an_environment_it_names_make_bench(checkout):
    done = run(checkout, "tools/tool.py", "x")
    assert (done.returncode, done.stdout) == (1, "")
    assert "`make bench`" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_half_made_environment_does_not_count(checkout):
    make_venv(checkout, "echo never")
    (checkout / ".venv" / "sparkle-stamp").unlink()
    assert run(checkout, "tools/tool.py").returncode == 1


def test_it_restarts_with_all_arguments_and_the_exit_code(checkout):
    make_venv(checkout, 'for a in "$@"; do echo "[$a]"; done; exit 3')
    done = run(checkout, "-X", "utf8", "tools/tool.py", "a b", "", "--c")
    assert done.stdout.splitlines() == ["[-X]", "[utf8]", "[tools/tool.py]", "[a b]", "[]", "[--c]"]
    assert done.returncode == 3


def test_a_broken_environment_ends_the_restarts(checkout):
    make_venv(checkout, f'exec "{sys.executable}" "$@"')
    done = run(checkout, "tools/tool.py")
    assert done.returncode == 1
    assert "is broken" in done.stderr


def test_a_child_of_a_tool_restarts_too(checkout):
    make_venv(checkout, "echo restarted")
    assert run(checkout, "tools/tool.py", SPARKLE_REEXECED="1").stdout == "restarted\n"


def test_inside_the_environment_nothing_happens(checkout):
    (checkout / ".venv").symlink_to(sys.prefix)
    assert run(checkout, "tools/tool.py", "x").stdout == "ran ['x']\n"


def test_an_installed_tool_stays_where_it_is(checkout):
    (checkout / "pyproject.toml").unlink()
    assert run(checkout, "tools/tool.py", "x").stdout == "ran ['x']\n"


def test_a_tool_run_by_the_package_stays_where_it_is(checkout):
    (checkout / "sparkle_drv").mkdir()
    (checkout / "sparkle_drv" / "__init__.py").touch()
    code = "import sys; sys.path.insert(0, 'tools'); import sparkle_drv, tool"
    assert run(checkout, "-c", code).stdout == "ran []\n"


def test_an_old_python_can_read_it():
    ast.parse(FILE.read_text(), feature_version=(3, 5))
