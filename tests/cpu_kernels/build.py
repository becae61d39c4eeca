"""Builds cpu_kernels: native/cpu, native/core and the checks of this folder as one program.

    python tests/cpu_kernels/build.py KIND [OBJECTS]     KIND: host, asan, tsan, lowered or aarch64

makes build/cpu_kernels/KIND/cpu_kernels and prints its path. "lowered" is for x86-64 machines that
have AVX2 alone: of AVX-512's kernels it checks the C, not the instructions. OBJECTS is a folder
with what setup.py compiled of native/ by the same flags, where that is there already (`make asan`,
`make tsan`).
Only what is stale is compiled. Warnings are errors.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PARTS = ("native/cpu", "native/core")
FLAGS = "-std=gnu11 -Wall -Wextra -Wshadow -Wconversion -Werror -fno-strict-aliasing -pthread"
SANITIZE = "-fsanitize=address,undefined"
RACES = "-fsanitize=thread"
AARCH64 = "aarch64-linux-gnu-gcc"
# How the name of the file ends that compiles the kernels of AVX-512.
AVX512 = "avx512.c"
KINDS = {
    "host": ("gcc", "-O2", ""),
    "asan": ("gcc", f"{SANITIZE} -fno-omit-frame-pointer -g -O1", SANITIZE),
    "tsan": ("gcc", f"{RACES} -fno-omit-frame-pointer -g -O1", RACES),
    "lowered": ("gcc", "-O0 -Wno-psabi '-D__builtin_cpu_supports(name)=1'", ""),
    "aarch64": (AARCH64, "-O2", "-static"),  # so that qemu-user needs no libraries of that machine
}


def is_fresh(product: Path, command: list[str], dep: Path) -> bool:
    """Was it made by this very command after the last change of what it was made from?"""
    try:
        made = product.stat().st_mtime_ns
        seen = shlex.split(dep.read_text().replace("\\\n", " ").partition(":")[2])
        return product.with_suffix(".cmd").read_text() == shlex.join(command) and all(
            Path(name).stat().st_mtime_ns <= made for name in seen
        )
    except OSError:
        return False


def lowered(source: Path, folder: Path) -> Path:
    """AVX-512's file with AVX2 for a target: gcc makes two of each vector of 64 bytes."""
    text, changed = re.subn(r'(pragma GCC target\(")avx512[^"]*', r"\1avx2,fma", source.read_text())
    assert changed == 1, f"{source.name} names its target in another way"
    text = f'#include "{HERE / "lowered.h"}"\n{text}'
    copy = folder / "cpu" / source.name
    copy.parent.mkdir(exist_ok=True)
    if not copy.exists() or copy.read_text() != text:
        copy.write_text(text)
    return copy


def build(
    kind: str, objects: Path | None = None, name: str = "cpu_kernels", defines: tuple[str, ...] = ()
) -> Path:
    """Makes the program `name`, its checks with `defines`, and returns its path.

    Raises subprocess.CalledProcessError, whose `stderr` has the compiler's words.
    """
    compiler, flags, link = KINDS[kind]
    folder = ROOT / "build/cpu_kernels" / kind
    folder.mkdir(parents=True, exist_ok=True)

    def compiled(source: Path) -> Path:
        ours = source.parent == HERE
        beside = source.parent  # its neighbours have bare names
        room = name if ours else "_".join(beside.relative_to(ROOT / "native").parts)
        if kind == "lowered" and source.name.endswith(AVX512):
            source = lowered(source, folder)
        target = folder / f"{room}_{source.stem}.o"
        dep = target.with_suffix(".d")
        command = [compiler, *shlex.split(f"{FLAGS} {flags}"), *(defines if ours else ())]
        command += ["-I", str(ROOT / "native"), "-iquote", str(beside), "-MMD", "-MF", str(dep)]
        command += ["-c", str(source), "-o", str(target)]
        if not is_fresh(target, command, dep):
            subprocess.run(command, check=True, capture_output=True, text=True)
            target.with_suffix(".cmd").write_text(shlex.join(command))
        return target

    sources = sorted(HERE.glob("*.c"))
    there: list[Path] = []
    native = [path for part in PARTS for path in sorted((ROOT / part).rglob("*.c"))]
    if objects:
        there += (objects / path.relative_to(ROOT).with_suffix(".o") for path in native)
    else:
        sources += native
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        there += pool.map(compiled, sources)
    program = folder / name
    fresh = program.with_suffix(f".{os.getpid()}.new")
    command = [compiler, "-pthread", *shlex.split(link), *map(str, there), "-lm", "-ldl"]
    subprocess.run([*command, "-o", str(fresh)], check=True, capture_output=True, text=True)
    fresh.replace(program)
    return program


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in KINDS:
        sys.exit(f"usage: build.py {'|'.join(KINDS)} [OBJECTS]")
    try:
        print(build(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) == 3 else None))
    except subprocess.CalledProcessError as error:
        sys.exit(error.stderr)
