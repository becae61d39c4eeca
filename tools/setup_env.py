"""Makes a checkout runnable: system packages (as root), the virtual environment, the build.

Called by make with whatever python3 the machine has; no tool and no installed package uses it. Every step looks first
whether there is anything to do, so running it again costs a second and changes nothing. It holds a lock for its whole
run: two makes at once take turns.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "sparkle-stamp"
EXTRAS = "test,tools"
OLDEST = (3, 10)


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def run(*command: str, **env: str) -> None:
    """Runs a command that must succeed; its words go to our output, it can ask nothing."""
    subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, stdin=subprocess.DEVNULL, check=True)


def succeeds(*command: str, text: str = "") -> bool:
    """Does this command, with `text` on its input, end well?"""
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def can_make_venvs() -> bool:
    """Debian's python3 has `venv` but not what it needs to put pip in, until python3-venv is there."""
    with tempfile.TemporaryDirectory() as folder:
        return succeeds(sys.executable, "-c", "import ensurepip, venv") and succeeds(
            sys.executable, "-m", "venv", "--without-pip", folder
        )


def missing_packages() -> list[str]:
    """Debian's names of what this machine lacks; each is judged by what it is for, not by dpkg."""
    checks = {
        "gcc": lambda: shutil.which(os.environ.get("CC", "gcc")) is not None,
        "libc6-dev": lambda: (Path("/usr/include/stdio.h")).exists(),
        "python3-dev": lambda: Path(sysconfig.get_path("include"), "Python.h").exists(),
        "python3-venv": lambda: VENV.exists() or can_make_venvs(),
    }
    return [name for name, present in checks.items() if not present()]


def ensure_system() -> None:
    """Installs what is missing when it may, else says in one line what to install and goes on."""
    missing = missing_packages()
    if not missing:
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        say(f"apt-get install {' '.join(missing)}")
        run("apt-get", "-qq", "update", DEBIAN_FRONTEND="noninteractive")
        install = ("apt-get", "-qq", "-y", "--no-install-recommends", "install")
        run(*install, *missing, DEBIAN_FRONTEND="noninteractive")
    else:
        say(f"missing on this system; install with: sudo apt-get install {' '.join(missing)}")


def wanted_stamp() -> list[str]:
    """Where, with which Python, from which requirements: lines 1 and 2 make a new venv, line 3 an update."""
    version = f"{platform.python_implementation()} {sys.version.split()[0]} {sys.executable}"
    return [str(ROOT), version, hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()]


def ensure_venv() -> None:
    wanted = wanted_stamp()
    found = STAMP.read_text().splitlines() if STAMP.exists() else []
    if found == wanted:
        return
    python = str(VENV / "bin" / "python")
    if found[:2] != wanted[:2]:  # another folder or Python, or an attempt that did not end: start clean
        shutil.rmtree(VENV, ignore_errors=True)
        say(f"making .venv with {sys.executable} ({platform.python_version()})")
        run(sys.executable, "-m", "venv", str(VENV))
    STAMP.unlink(missing_ok=True)
    say(f"installing sparkle_drv[{EXTRAS}] into .venv")
    pip = (python, "-m", "pip", "install", "-qq", "--disable-pip-version-check")
    run(*pip, "setuptools>=77.0.3", "wheel", "cffi>=1.16")
    build()  # before the editable install, which would hide what the compiler says
    compat = ("--config-settings", "editable_mode=compat")  # else a finder slows every interpreter start
    run(*pip, "--no-build-isolation", *compat, "--editable", f".[{EXTRAS}]")
    STAMP.write_text("\n".join(wanted) + "\n")


def build() -> None:
    """Both extensions into sparkle_drv/, and .pyc files: many images forbid Python to write them itself."""
    python = str(VENV / "bin" / "python")
    run(python, "setup.py", "--quiet", "build_ext", "--inplace")
    run(python, "-m", "compileall", "-q", "sparkle_drv", "tools")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    if sys.version_info < OLDEST:
        say(f"Python 3.10 or newer is needed, this is {platform.python_version()}: make PYTHON=python3.12 ...")
        return 1
    with open(ROOT / "pyproject.toml", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            ensure_system()
            ensure_venv()
            build()
        except subprocess.CalledProcessError as error:
            say(f"failed (status {error.returncode}): {' '.join(map(str, error.cmd))}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
