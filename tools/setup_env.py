"""Makes a checkout runnable: system packages (as root), the virtual environment, the build.

Called by make with whatever python3 the machine has; no other tool uses it and no wheel carries it.
Every step looks first whether there is anything to do, so running it again costs a second and
changes nothing. It holds a lock for its whole run: two makes at once take turns.
"""

import argparse
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "sparkle-stamp"
EXTRAS = "test,tools"
# Resolved: the same answer when somebody runs make inside .venv, which must not delete itself.
PYTHON = Path(sys.executable).resolve()


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def run(*command: str) -> None:
    """Runs a command that must succeed; its words go to our output, it can ask nothing."""
    subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=True)


def missing_packages() -> "list[str]":
    """Debian's names of what this machine lacks, judged by what each is for, not by dpkg."""
    python = "python{}.{}".format(*sys.version_info)
    compiler = os.environ.get("CC", "gcc").split()[0]
    ensurepip = [str(PYTHON), "-c", "import ensurepip, venv"]
    present = {
        "gcc": shutil.which(compiler) is not None,
        "libc6-dev": Path("/usr/include/stdio.h").exists(),
        f"{python}-dev": Path(sysconfig.get_path("include"), "Python.h").exists(),
        f"{python}-venv": STAMP.exists()
        or subprocess.run(ensurepip, capture_output=True, check=False).returncode == 0,
    }
    return [name for name, found in present.items() if not found]


def ensure_system() -> None:
    """Installs what is missing when it may, else says in one line what to install and goes on."""
    missing = missing_packages()
    if missing:
        install_packages(missing)


def install_packages(missing: "list[str]") -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        say(f"missing here; install with: sudo apt-get install {' '.join(missing)}")
        return
    say(f"apt-get install {' '.join(missing)}")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ("-y", "--no-install-recommends", "install", *missing)
    for step in (("update",), install):
        done = subprocess.run(
            ("apt-get", "-q", *step),
            env=quiet,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            say(f"{done.stdout}\napt-get failed; going on without {' '.join(missing)}")
            return


def has_gl() -> bool:
    """Can a context be made? Only the egl backend itself can tell; a library alone is no driver."""
    look = "import sparkle_drv; sparkle_drv.open('egl:0').close()"
    python = VENV / "bin" / "python"
    try:
        done = subprocess.run([python, "-c", look], cwd=ROOT, capture_output=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def install_once(what: str, packages: "list[str]") -> None:
    """Installs packages that are nice to have; when that fails, not again for this .venv."""
    tried = VENV / f"sparkle-{what}"
    if not packages or tried.exists():
        return
    install_packages(packages)
    if os.geteuid() == 0 and VENV.is_dir():
        tried.touch()


def ensure_gl() -> None:
    """Mesa's software OpenGL where no device gives a context."""
    if not has_gl():
        install_once("gl", ["libegl1", "libgl1-mesa-dri"])


def ensure_judges() -> None:
    """What judges the emulated AMD GPU in the tests: the kernel's own declarations, stock Mesa."""
    present = {
        "libdrm-dev": Path("/usr/include/libdrm/amdgpu_drm.h").exists(),
        "libvulkan-dev": Path("/usr/include/vulkan/vulkan.h").exists(),
        "mesa-opencl-icd": any(Path("/usr/lib").glob("*/libMesaOpenCL.so.1")),
        "mesa-vulkan-drivers": any(Path("/usr/share/vulkan/icd.d").glob("radeon_icd*.json")),
        "vulkan-tools": shutil.which("vulkaninfo") is not None,
    }
    install_once("judges", [name for name, found in present.items() if not found])


def ensure_opencl() -> None:
    """OpenCL on the CPU, for the tests of examples/plugin_opencl, which skip without."""
    if not any(Path("/etc/OpenCL/vendors").glob("pocl*.icd")):
        install_once("opencl", ["pocl-opencl-icd"])


def ensure_aarch64() -> None:
    """What builds and runs the kernels for another machine in the tests (tests/cpu_kernels)."""
    present = {
        "gcc-aarch64-linux-gnu": shutil.which("aarch64-linux-gnu-gcc") is not None,
        "libc6-dev-arm64-cross": Path("/usr/aarch64-linux-gnu/include/stdio.h").exists(),
        "qemu-user": shutil.which("qemu-aarch64") is not None,
    }
    install_once("aarch64", [name for name, found in present.items() if not found])


def wanted_stamp() -> "list[str]":
    """Where and with which Python (another means a new venv), then from which requirements."""
    version = f"{platform.python_implementation()} {platform.python_version()} {PYTHON}"
    return [str(ROOT), version, hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()]


def ensure_venv() -> None:
    wanted = wanted_stamp()
    found = STAMP.read_text().splitlines() if STAMP.exists() else []
    if found == wanted:
        return
    if found[:2] != wanted[:2]:  # made elsewhere or otherwise, or an attempt that did not end
        shutil.rmtree(VENV, ignore_errors=True)
        say(f"making .venv with {PYTHON} ({platform.python_version()})")
        run(str(PYTHON), "-m", "venv", str(VENV))
    STAMP.unlink(missing_ok=True)
    say(f"installing sparkle_drv[{EXTRAS}] into .venv")
    pip = (str(VENV / "bin" / "python"), "-m", "pip", "install", "-qq", "--no-input")
    run(*pip, "setuptools>=77.0.3", "wheel", "cffi>=1.16")
    build()  # before the editable install, which hides what the compiler says
    # compat: a path in a .pth file; the default puts a finder into every start of the interpreter
    editable = ("--no-build-isolation", "--config-settings", "editable_mode=compat", "--editable")
    run(*pip, *editable, f".[{EXTRAS}]")
    STAMP.write_text("\n".join(wanted) + "\n")


def build() -> None:
    """Both extensions into sparkle_drv/, and .pyc files: many images forbid Python to write any."""
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
        ensure_system()
        ensure_venv()
        build()
        ensure_gl()
        if tests:
            ensure_judges()
            ensure_aarch64()
            ensure_opencl()


def main() -> int:
    about = (__doc__ or "").partition("\n")[0]
    top = argparse.ArgumentParser(description=about, epilog="exit codes: 0 ready, 1 not")
    top.add_argument("--tests", action="store_true", help="also what only the tests need")
    args = top.parse_args()
    if sys.version_info < (3, 10):
        name = platform.python_version()
        say(f"needs Python 3.10 or newer and this is {name}; make PYTHON=... names another")
        return 1
    try:
        set_up(args.tests)
    except subprocess.CalledProcessError as error:
        say(f"failed with status {error.returncode}: {' '.join(error.cmd)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
