#!/usr/bin/env python3
"""dist/bringup.pyz: the package and its dependencies in one file, for a machine with only Python.

The file is a zipapp of _kit/archive_main.py, our abi3 wheel, the preload library, and wheels of
cffi, msgpack, numpy and pyelftools. It works with CPython 3.10 to 3.14 on x86_64 with glibc. This
script downloads the wheels once, into build/wheels; the archive itself downloads nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from _reexec import reexec

reexec()

ROOT = Path(__file__).resolve().parents[1]
WHEELS = ROOT / "build" / "wheels"
LIBRARY = ROOT / "build" / "preload" / "libsparkle_amdgpu.so"
MAIN = ROOT / "tools/_kit/archive_main.py"
# Pinned versions. numpy depends on the Python: 2.2 is the last release for 3.10, and has no wheel
# for 3.14.
PINS = ("cffi==2.0.0", "msgpack==1.1.2", "pycparser==2.23", "pyelftools==0.32")
NUMPY = {"3.14": "numpy==2.3.5"}
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
# Tags of wheels that run on glibc 2.28. The archive needs this version or a later one.
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_27_x86_64", "manylinux_2_28_x86_64")
EXIT_CODES = "exit codes: 0 the archive is made, 1 an error"


class Absent(Exception):
    """Says that a part of the archive cannot be obtained. The text is the reason."""


def run(what: str, *command: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        last = "\n".join(done.stdout.strip().splitlines()[-5:])
        raise Absent(f"{what} failed:\n{last}")


def fetched(python: str, place: Path = WHEELS) -> list[Path]:
    """Returns the wheels that one version of Python needs. Missing wheels are downloaded."""
    folder = place / python
    stamp = folder / "pins"
    pins = [*PINS, NUMPY.get(python, "numpy==2.2.6")]
    if not (stamp.exists() and stamp.read_text() == " ".join(pins)):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        platforms = [word for name in PLATFORMS for word in ("--platform", name)]
        target = ("--implementation", "cp", "--python-version", python, *platforms)
        command = ("-m", "pip", "download", "--no-deps", "--only-binary=:all:", *target)
        run(f"downloading wheels for Python {python}", *command, "-d", folder, *pins)
        stamp.write_text(" ".join(pins))
    return sorted(folder.glob("*.whl"))


def ours(place: Path = ROOT / "build" / "archive") -> Path:
    """Builds our own wheel anew and returns its path. Its images are unpacked, because a minimal
    Python may lack lzma.
    """
    shutil.rmtree(place, ignore_errors=True)
    command = ("-m", "build", "--wheel", "--no-isolation", "--outdir", place, ".")
    run("building our wheel", *command)
    wheel = next(place.glob("sparkle_drv-*.whl"))
    unpacked = wheel.with_suffix(".new")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(unpacked, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename.endswith(".xz"):
                info.filename, data = info.filename[: -len(".xz")], lzma.decompress(data)
            new.writestr(info, data, zipfile.ZIP_DEFLATED)
    return unpacked.replace(wheel)


def glibc_of(*binaries: bytes) -> tuple[int, ...]:
    """Returns the newest glibc version that these shared objects name in their version strings."""
    found = {m[1] for data in binaries for m in re.finditer(rb"GLIBC_(\d+(?:\.\d+)+)\0", data)}
    versions = [tuple(int(part) for part in one.split(b".")) for one in found]
    return max(versions, default=(2, 28))


def binaries(wheel: Path) -> list[bytes]:
    """Returns the shared objects of a wheel."""
    with zipfile.ZipFile(wheel) as packed:
        return [packed.read(name) for name in packed.namelist() if name.endswith(".so")]


def write(out: Path, own: Path, wheels: dict[str, list[Path]], library: Path) -> None:
    """Writes the archive of these parts. The same parts give the same bytes."""
    names = {f"cp{python.replace('.', '')}": files for python, files in wheels.items()}
    files = sorted(
        {path.name: path for found in (*wheels.values(), [own]) for path in found}.items()
    )
    parts = {f"wheels/{name}": path.read_bytes() for name, path in files}
    parts[f"lib/{library.name}"] = library.read_bytes()
    digest = hashlib.sha256()
    for name, data in parts.items():
        digest.update(name.encode() + hashlib.sha256(data).digest())
    # The least glibc: the later of 2.28, which manylinux_2_28 means (PEP 600), and the version
    # that our own binaries need.
    least = max((2, 28), glibc_of(*binaries(own), library.read_bytes()))
    manifest = {
        "digest": digest.hexdigest()[:16],
        "glibc": least,
        "pythons": {tag: [own.name, *(p.name for p in found)] for tag, found in names.items()},
        "libraries": [library.name],
    }
    parts["manifest.json"] = json.dumps(manifest, indent=1).encode()
    parts["__main__.py"] = MAIN.read_bytes()
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = out.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in parts.items():
                info = zipfile.ZipInfo(name)
                # Wheels are stored, because they are compressed already.
                packed = zipfile.ZIP_STORED if name.endswith(".whl") else zipfile.ZIP_DEFLATED
                info.compress_type, info.external_attr = packed, 0o644 << 16
                archive.writestr(info, data)
    fresh.chmod(0o755)
    fresh.replace(out)


def main(argv: list[str]) -> int:
    top = argparse.ArgumentParser(description=__doc__, epilog=EXIT_CODES)
    top.add_argument("--out", type=Path, default=ROOT / "dist" / "bringup.pyz", metavar="FILE")
    top.add_argument(
        "--python",
        action="append",
        choices=PYTHONS,
        help="only for these (default: all)",
    )
    args = top.parse_args(argv)
    try:
        if not LIBRARY.exists():
            run("building the preload library", "setup.py", "--quiet", "build_preload")
        wheels = {python: fetched(python) for python in args.python or PYTHONS}
        write(args.out, ours(), wheels, LIBRARY)
    except Absent as absent:
        print(f"bringup_archive.py: {absent}", file=sys.stderr)
        return 1
    print(f"{args.out}: {args.out.stat().st_size / 2**20:.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
