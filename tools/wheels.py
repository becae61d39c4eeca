"""Wheels for any Linux since glibc 2.17, x86_64 and aarch64, into dist/: `make wheels`.

zig brings the C library's headers and symbols of that version for each machine. This machine's own
wheel is compiled by its C compiler and linked by zig: the kernels are tuned for gcc. Another
machine's is compiled by zig too. auditwheel then has to grant the tag in the wheel's name.
"""

from __future__ import annotations

from _hop import hop

hop()

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
GLIBC = (2, 17)  # the oldest that zig links for, and that numpy's wheels run on
MACHINES = {"x86_64": "x86", "aarch64": "aarch64"}  # and how zig names their headers
PACKAGES = (
    *("auditwheel>=6.4,<7", "cffi>=1.16", "setuptools>=77.0.3", "ziglang>=0.15,<0.18"),
    "zopfli>=0.2",
)
EXIT_CODES = "exit codes: 0 well, 1 a wheel is not built or gets another tag, 2 usage"


def tools() -> Path:
    """The Python of build/wheels/venv, which has PACKAGES: made when it is not there."""
    home, stamp = WORK / "venv", WORK / "venv" / "packages.txt"
    python = home / "bin" / "python"
    if not stamp.is_file() or stamp.read_text() != "\n".join(PACKAGES):
        venv.create(home, clear=True, with_pip=True)
        run([python, "-m", "pip", "install", "--quiet", *PACKAGES])
        stamp.write_text("\n".join(PACKAGES))
    return python


def run(command: Sequence[object], **more: str) -> str:
    """The standard output of a command that has to end well; `more` is for its environment."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, **more}, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise OSError(f"{shlex.join(words[:6])} ... ended with {done.returncode}")
    return done.stdout


def python_headers() -> Path:
    """Python's headers alone: a distribution's lie beside those of its C library."""
    folder = WORK / "include"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sysconfig.get_path("include"), folder)
    triple = sysconfig.get_config_var("MULTIARCH") or ""
    own = Path("/usr/include", triple, f"python{sysconfig.get_python_version()}", "pyconfig.h")
    if own.is_file():  # Debian's other one includes this by its path
        shutil.copy(own, folder / "pyconfig.h")
    return folder


def environment(python: Path, machine: str) -> dict[str, str]:
    """What setup.py is told: the compiler, the linker and their flags."""
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
    # Without -Os zig links its checked, and larger, runtime.
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
    """Builds one, and holds it to what auditwheel says. OSError: it is not what it should be."""
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
        raise OSError(f"{made.name}: auditwheel does not grant the tag:\n{said}")
    out.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(made, out))


def main(argv: Sequence[str]) -> int:
    """Builds what the command line says."""
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
