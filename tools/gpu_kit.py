"""Collects what benchmarks/gpu_run.py needs on a machine with a GPU and without a network.

build/gpu-kit has four parts:
* site/: the package with its built extensions, which work with every Python from 3.10 on;
* wheels of its dependencies for each of PYTHONS, numpy's in one archive (_kit/wheel_archive.py);
* the GL loader's libraries from Debian;
* the C baseline as a program.

gpu_run.py uses the wheels of those packages that the machine lacks. The kit contains none of the
other libraries ("peers") that benchmarks compare: gpu_run.py measures those that the machine has.
"""

from __future__ import annotations

from _reexec import reexec

reexec()

import argparse  # noqa: E402
import platform  # noqa: E402
import shutil  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from pathlib import Path  # noqa: E402

from _bench.machine import env  # noqa: E402
from _kit.wheel_archive import pack  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
KIT = ROOT / "build" / "gpu-kit"
# largest size of the kit; kit and tracked files of the checkout (11 MiB) stay below 64 MiB
MOST_MIB = 53
NEEDED = ("cffi", "msgpack", "numpy", "pyelftools")
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
# Tags of glibc 2.28 (Debian 10, RHEL 8) and older. pip needs every older tag by name.
GLIBCS = ("_2_28", "_2_27", "_2_24", "_2_17", "2014", "_2_12", "2010", "_2_5", "1")
# The packages of libglvnd, which finds the vendor's OpenGL. The vendor's libraries come with the
# GPU's driver.
LOADER = ("libegl1", "libglvnd0", "libopengl0")


def call(*command: str, cwd: Path = ROOT) -> str:
    """Runs a command and returns its output. Raises CalledProcessError if the command fails."""
    done = subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def package(kit: Path) -> None:
    """Puts the package into the kit as pip would install it, with extensions and shaders."""
    site = str(kit / "site")
    setup = (sys.executable, "setup.py", "--quiet")
    call(*setup, "build_py", "--build-lib", site, "build_ext", "--build-lib", site)


def wheels(kit: Path, pythons: Sequence[str] = PYTHONS) -> None:
    """Puts wheels of the package's dependencies (NEEDED), and of what these depend on, into the
    kit, for each Python.
    """
    numpies: dict[str, Path] = {}
    with tempfile.TemporaryDirectory() as folder:
        for python in pythons:
            to, got = kit / "wheels" / python, Path(folder) / python
            to.mkdir(parents=True)
            call(
                sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:",
                "--python-version", python, "--implementation", "cp",
                *(f"--platform=manylinux{glibc}_{platform.machine()}" for glibc in GLIBCS),
                "--dest", str(got), *NEEDED,
            )  # fmt: skip
            for wheel in got.glob("*.whl"):
                if wheel.name.startswith("numpy-"):
                    numpies[python] = wheel
                else:
                    shutil.move(wheel, to)
        pack(numpies, kit / "numpy.tar.xz")


def loader(kit: Path) -> None:
    """Unpacks the GL loader into kit/gl/usr/lib/..."""
    with tempfile.TemporaryDirectory() as folder:
        call("apt-get", "-q", "download", *LOADER, cwd=Path(folder))
        for package_file in sorted(Path(folder).glob("*.deb")):
            call("dpkg-deb", "-x", str(package_file), str(kit / "gl"))
    shutil.rmtree(kit / "gl" / "usr" / "share", ignore_errors=True)


def baseline(kit: Path) -> None:
    """Compiles benchmarks/_gpu_peers/baseline.c to a program in the kit."""
    source = ROOT / "benchmarks/_gpu_peers/baseline.c"
    call("gcc", "-std=c11", "-O2", "-o", str(kit / "baseline"), str(source), "-ldl")


def main(argv: Sequence[str], kit: Path = KIT) -> int:
    top = argparse.ArgumentParser(
        prog="gpu_kit.py",
        description=(__doc__ or "").partition("\n")[0],
        epilog=f"exit codes: 0 well, 1 a needed part is missing, or more than {MOST_MIB} MiB",
    )
    top.parse_args(argv)
    shutil.rmtree(kit, ignore_errors=True)
    kit.mkdir(parents=True)
    steps: tuple[tuple[bool, str, Callable[[], None]], ...] = (
        (True, "the package", lambda: package(kit)),
        (True, "wheels", lambda: wheels(kit)),
        (True, "the C baseline", lambda: baseline(kit)),
        (False, "the GL loader", lambda: loader(kit)),
    )
    for needed, what, step in steps:
        try:
            step()
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"gpu_kit.py: {what}: {error}", file=sys.stderr)
            if needed:
                return 1
    (kit / "commit").write_text((env.commit() or "unknown") + "\n")
    mib = sum(file.stat().st_size for file in kit.rglob("*") if file.is_file()) / (1 << 20)
    shown = kit.relative_to(ROOT) if kit.is_relative_to(ROOT) else kit
    print(f"{shown}: {mib:.1f} MiB of at most {MOST_MIB}")
    return 1 if mib > MOST_MIB else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
