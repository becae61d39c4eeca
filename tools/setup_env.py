"""Makes a checkout runnable: system packages (as root), the virtual environment, the build.

make runs this file with the machine's python3. No other tool uses the file and no wheel contains
it. Each step first checks whether it has work to do. When the file runs again, it therefore changes
nothing and ends within about one second. A lock covers the whole run: of two makes at once, the
second waits.
"""

import argparse
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys

import _packages
from _packages import PYTHON, ROOT, STAMP

VENV = STAMP.parent
# a file that lists the packages for which apt-get has run in this checkout
TRIED = ROOT / "build" / "packages-tried"
EXTRAS = "test,tools"
INSTALL = ("-y", "--no-install-recommends", "install")


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def run(*command: str) -> None:
    """Runs a command that must succeed. Its output is shown, and it cannot ask questions."""
    subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=True)


def ensure_packages(tests: bool) -> None:
    """Installs the missing packages if the user is root. For other users it prints one line that
    names them.
    """
    needed = _packages.missing("build", "bench", *(["test"] if tests else []))
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        if needed:
            names = [package.name for package in _packages.missing("build", "bench", "test")]
            say(f"missing here; install with: sudo apt-get install {' '.join(names)}")
        return
    tried = TRIED.read_text().split() if TRIED.exists() else []
    # The packages of the build are tried again each time, because nothing works without them.
    wanted = [p for p in needed if p.use == "build" or p.name not in tried]
    if not wanted:
        return
    install([package.name for package in wanted])
    TRIED.parent.mkdir(exist_ok=True)
    TRIED.write_text(" ".join(sorted({*tried, *(package.name for package in wanted)})) + "\n")


def install(names: "list[str]") -> None:
    """Installs all packages at once. If apt refuses one package, apt installs none. This function
    then installs all packages that apt does not refuse.
    """
    say(f"apt-get install {' '.join(names)}")
    apt_get("update")
    words = apt_get(*INSTALL, *names)
    if not words:
        return
    # Asks with --simulate which packages apt refuses, because this needs no network. If each
    # package were installed by its own call, each call would wait for a missing network.
    refused = [name for name in names if apt_get("--simulate", "install", name)]
    say(f"{words}\napt-get failed; going on without {' '.join(refused or names)}")
    if 0 < len(refused) < len(names):
        words = apt_get(*INSTALL, *(name for name in names if name not in refused))
        if words:
            say(f"{words}\napt-get failed for the others too")


def apt_get(*words: str) -> str:
    """Runs apt-get. Returns what apt-get printed if it failed, otherwise ""."""
    done = subprocess.run(
        ("apt-get", "-q", *words),
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout.strip() or f"status {done.returncode}" if done.returncode else ""


def wanted_stamp() -> "list[str]":
    """Returns the lines of the stamp, a file that says for what .venv was made: the checkout, the
    Python, and a hash of the requirements. Another checkout or Python needs a new .venv.
    """
    version = f"{platform.python_implementation()} {platform.python_version()} {PYTHON}"
    return [str(ROOT), version, hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()]


def ensure_venv() -> None:
    wanted = wanted_stamp()
    found = STAMP.read_text().splitlines() if STAMP.exists() else []
    if found == wanted:
        return
    if found[:2] != wanted[:2]:  # .venv is of another checkout or Python, or is incomplete
        shutil.rmtree(VENV, ignore_errors=True)
        say(f"making .venv with {PYTHON} ({platform.python_version()})")
        run(str(PYTHON), "-m", "venv", str(VENV))
    STAMP.unlink(missing_ok=True)
    say(f"installing sparkle_drv[{EXTRAS}] into .venv")
    pip = (str(VENV / "bin" / "python"), "-m", "pip", "install", "-qq", "--no-input")
    run(*pip, "setuptools>=77.0.3", "wheel", "cffi>=1.16")
    build()  # before the editable install, which hides the compiler's messages
    # compat mode only adds a path to a .pth file. The default mode would run a finder at every
    # start of the interpreter.
    editable = ("--no-build-isolation", "--config-settings", "editable_mode=compat", "--editable")
    run(*pip, *editable, f".[{EXTRAS}]")
    STAMP.write_text("\n".join(wanted) + "\n")


def build() -> None:
    """Builds the extensions into sparkle_drv/, and .pyc files, because images of containers often
    forbid writing them later.
    """
    python = str(VENV / "bin" / "python")
    run(python, "setup.py", "--quiet", "build_ext", "--inplace")
    run(python, "-m", "compileall", "-q", "sparkle_drv", "tools")


def set_up(tests: bool = False) -> None:
    with open(ROOT / "pyproject.toml", "r+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another make in this checkout")
            fcntl.flock(lock, fcntl.LOCK_EX)
        ensure_packages(tests)
        ensure_venv()
        build()


def main() -> int:
    about = (__doc__ or "").partition("\n")[0]
    top = argparse.ArgumentParser(description=about, epilog="exit codes: 0 ready, 1 not")
    top.add_argument("--tests", action="store_true", help="also packages that only the tests need")
    args = top.parse_args()
    if sys.version_info < (3, 10):
        name = platform.python_version()
        say(f"expected Python 3.10 or newer, got {name}; make PYTHON=... names another")
        return 1
    try:
        set_up(args.tests)
    except subprocess.CalledProcessError as error:
        say(f"failed with status {error.returncode}: {' '.join(error.cmd)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
