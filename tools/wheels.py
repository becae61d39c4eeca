"""Wheels for any Linux since glibc 2.17, x86_64 and aarch64, into dist/: `make wheels`.

zig supplies the C library's headers and symbols of that version for each machine. For this
machine's wheel the C compiler compiles and zig links, because the kernels are tuned for gcc. For
another machine's wheel zig also compiles. auditwheel then checks the tag in the wheel's name.
"""

from __future__ import annotations

from _reexec import reexec

reexec()

import argparse  # noqa: E402
import os  # noqa: E402
import platform  # noqa: E402
import shlex  # noqa: E402
import shutil  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import sysconfig  # noqa: E402
import venv  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from pathlib import Path  # noqa: E402

from _console.problems import FAILED, OK  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "wheels"
GLIBC = (2, 17)  # the oldest version for which zig links and on which numpy's wheels run
MACHINES = {"x86_64": "x86", "aarch64": "aarch64"}  # machine -> prefix of zig's header folders
PACKAGES = (
    *("auditwheel>=6.4,<7", "cffi>=1.16", "setuptools>=77.0.3", "ziglang>=0.15,<0.18"),
    "zopfli>=0.2",
)
EXIT_CODES = "exit codes: 0 well, 1 a wheel is not built or gets another tag, 2 usage"


def tools() -> Path:
    """Returns the Python of build/wheels/venv, which has PACKAGES. The environment is made when
    missing.
    """
    home, stamp = WORK / "venv", WORK / "venv" / "packages.txt"
    python = home / "bin" / "python"
    if not stamp.is_file() or stamp.read_text() != "\n".join(PACKAGES):
        venv.create(home, clear=True, with_pip=True)
        run([python, "-m", "pip", "install", "--quiet", *PACKAGES])
        stamp.write_text("\n".join(PACKAGES))
    return python


def run(command: Sequence[object], **more: str) -> str:
    """Returns the standard output of a command that must succeed. `more` is added to
    its environment.
    """
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, **more}, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise OSError(f"{shlex.join(words[:6])} ... ended with status {done.returncode}")
    return done.stdout


def python_headers() -> Path:
    """Copies Python's headers to a folder of their own, because a distribution keeps them next to
    those of its C library.
    """
    folder = WORK / "include"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sysconfig.get_path("include"), folder)
    triple = sysconfig.get_config_var("MULTIARCH") or ""
    own = Path("/usr/include", triple, f"python{sysconfig.get_python_version()}", "pyconfig.h")
    if own.is_file():  # on Debian the copied pyconfig.h only includes this file
        shutil.copy(own, folder / "pyconfig.h")
    return folder


def environment(python: Path, machine: str) -> dict[str, str]:
    """Returns setup.py's environment: the compiler, the linker and their flags."""
    where = run([python, "-c", "import ziglang; print(*ziglang.__path__)"]).strip()
    version = ".".join(map(str, GLIBC))
    zig = f"{shlex.quote(where + '/zig')} cc -target {machine}-linux-gnu.{version}"
    flags = f"-I{shlex.quote(str(python_headers()))}"
    env = {
        "LDSHARED": zig,
        "ZIG_GLOBAL_CACHE_DIR": str(WORK / "zig"),
        "ZIG_LOCAL_CACHE_DIR": str(WORK / "zig"),
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
    }
    # Without -Os zig would link its runtime with checks, which is larger.
    link = "-Os -fno-sanitize=all -ldl"
    if machine != platform.machine():
        return {**env, "CC": zig, "CFLAGS": f"{flags} -w", "LDFLAGS": link}
    cc = os.environ.get("CC", "gcc")
    libgcc = run([*shlex.split(cc), "-print-libgcc-file-name"]).strip()
    kind = MACHINES[machine]
    for name in (f"{kind}-linux-gnu", "generic-glibc", f"{kind}-linux-any", "any-linux-any"):
        flags += f" -isystem {shlex.quote(f'{where}/lib/libc/include/{name}')}"
    flags += f" -D__GLIBC_MINOR__={GLIBC[1]}"
    return {**env, "CC": cc, "CFLAGS": flags, "LDFLAGS": f"{link} -rtlib=none {libgcc}"}


def wheel(python: Path, machine: str, out: Path) -> Path:
    """Builds one wheel and checks it with auditwheel. Raises OSError when the check fails."""
    tag = "manylinux_{}_{}_{}".format(*GLIBC, machine)
    base = WORK / machine
    command = [python, "setup.py", "--quiet", "build", "--build-base", base]
    command += ["build_ext", "--build-temp", base / "obj"]
    command += ["bdist_wheel", "--plat-name", tag, "--bdist-dir", base / "dist", "--dist-dir", base]
    for old in base.glob("*.whl"):
        old.unlink()
    run(command, **environment(python, machine))
    (made,) = base.glob("*.whl")
    said = run([python, "-m", "auditwheel", "show", made])
    if f'platform tag: "{tag}"' not in " ".join(said.split()):
        raise OSError(f"{made.name}: auditwheel does not confirm the tag:\n{said}")
    out.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(made, out))


def main(argv: Sequence[str]) -> int:
    """Builds the wheels that the command line names. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="wheels.py", description=__doc__, epilog=EXIT_CODES)
    parser.add_argument("machines", nargs="*", default=list(MACHINES), metavar="MACHINE")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", metavar="FOLDER")
    args = parser.parse_args(argv)
    wrong = [name for name in args.machines if name not in MACHINES]
    if wrong:
        parser.error(f"expected {' or '.join(MACHINES)}, got {wrong[0]!r}")
    try:
        python = tools()
        for machine in args.machines:
            made = wheel(python, machine, args.out)
            print(f"{made.name} {made.stat().st_size} bytes")
    except OSError as error:
        print(f"wheels.py: {error}", file=sys.stderr)
        return FAILED
    return OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
