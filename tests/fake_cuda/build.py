"""Builds the fake CUDA driver: build/fake/libcuda.so.1, objects beside it, only what is stale.

CC, CFLAGS and LDFLAGS of the environment are honoured, as by setup.py. Warnings are errors: a
fixture is built where it is used.
"""

import argparse
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parents[1] / "native"
FLAGS = "-std=gnu11 -O2 -Wall -Wextra -Wshadow -Wconversion -Werror -fPIC -fvisibility=hidden"
FLAGS += " -fno-strict-aliasing -pthread"
LINK = "-shared -pthread -Wl,-soname,libcuda.so.1,-z,relro,-z,now,-z,defs"


def is_fresh(product: Path, command: list[str], inputs: list[Path]) -> bool:
    """Was it made by this very command after the last change of its inputs?"""
    record = product.with_suffix(".cmd")
    try:
        made = product.stat().st_mtime_ns
        return record.read_text() == shlex.join(command) and all(
            file.stat().st_mtime_ns <= made for file in inputs
        )
    except OSError:
        return False


def run(command: list[str], product: Path) -> None:
    """Runs a compiler on a new file, which takes the old one's place when it is whole."""
    fresh = product.with_suffix(f".{os.getpid()}.new")
    subprocess.run([*command, "-o", str(fresh)], check=True)
    fresh.replace(product)
    product.with_suffix(".cmd").write_text(shlex.join(command))


def build(folder: Path) -> Path:
    """Makes the library in `folder` and returns its path."""
    objects_to = folder / "obj"
    objects_to.mkdir(parents=True, exist_ok=True)
    compiler = shlex.split(os.environ.get("CC", "gcc"))
    flags_text = f"{FLAGS} {os.environ.get('CFLAGS', '')}"
    flags = shlex.split(flags_text)
    headers = [*HERE.glob("*.h"), *HERE.glob("*.def"), *HERE.glob("*.inc")]

    def compiled(source: Path) -> Path:
        target = objects_to / f"{source.stem}.o"
        command = [*compiler, *flags, f"-I{NATIVE}", "-c", str(source)]
        if not is_fresh(target, command, [source, *headers]):
            run(command, target)
        return target

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        objects = list(pool.map(compiled, sorted(HERE.glob("*.c"))))
    library = folder / "libcuda.so.1"
    link = LINK if "-fsanitize" not in flags_text else LINK.replace(",-z,defs", "")
    command = [*compiler, *shlex.split(f"{link} {os.environ.get('LDFLAGS', '')}")]
    command += [*map(str, objects), "-lm"]
    if not is_fresh(library, command, objects):
        run(command, library)
    return library


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--to", type=Path, default=HERE.parent.parent / "build" / "fake")
    try:
        build(parser.parse_args().to)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)


if __name__ == "__main__":
    main()
