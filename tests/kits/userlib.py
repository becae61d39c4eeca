"""User kernels for the tests: C compiled to shared libraries, once per session and source.

Not a test; imported by conftest.py as the `userlib` fixture.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

HEAD = "#include <stdint.h>\n"
KERNEL = "void {name}(const void *args, const uint32_t group[3], const uint32_t size[3])"

# y[group] = {value}: shows which library's code ran, and that each group came once.
MARK = (
    HEAD
    + KERNEL.format(name="mark")
    + """
{{
    uint32_t *y = *(uint32_t *const *)args;
    (void)size;
    y[group[0]] += {value};
}}
"""
)

# Spins until *flag is not 0: a kernel that never ends unless somebody lets it.
SPIN = (
    HEAD
    + KERNEL.format(name="spin")
    + """
{
    volatile uint32_t *flag = *(volatile uint32_t *const *)args;
    (void)group;
    (void)size;
    while (!*flag)
        __asm__ __volatile__("" ::: "memory");
}
"""
)

# Writes down what it was called with, one record of eight numbers a group.
SHOW = (
    HEAD
    + """
struct args { double d; float f; int8_t *bytes; int32_t i; uint64_t *out; int64_t q; };
"""
    + KERNEL.format(name="show")
    + """
{
    const struct args *a = args;
    uint64_t *o = a->out + 8 * (group[0] + 4 * group[1] + 12 * group[2]);
    o[0] = (uint64_t)(a->d * 2);
    o[1] = (uint64_t)(a->f * 2);
    o[2] = (uint64_t)a->bytes[0];
    o[3] = (uint64_t)(int64_t)a->i;
    o[4] = (uint64_t)a->q;
    o[5] = size[0] + 100 * size[1] + 10000 * size[2];
    o[6] += 1;
    o[7] = (uint64_t)(uintptr_t)args % 8;
}
"""
)


class Compiler:
    """`library(source)` -> path of a shared library."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cc = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

    def library(self, source: str) -> Path:
        if self.cc is None:
            pytest.skip("no C compiler on this machine")
        path = self.folder / f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.so"
        if not path.exists():
            path.with_suffix(".c").write_text(source)
            command = [
                self.cc,
                "-O1",
                "-shared",
                "-fPIC",
                str(path.with_suffix(".c")),
                "-o",
                str(path),
            ]
            subprocess.run(command, check=True, timeout=60)
        return path

    def mark(self, value: int) -> Path:
        return self.library(MARK.format(value=value))

    def spin(self) -> Path:
        return self.library(SPIN)

    def show(self) -> Path:
        return self.library(SHOW)
