"""The one function that reads the environment, called when a device is opened, never at import."""

from __future__ import annotations

import os

from sparkle_drv.backends.base import Settings

ISAS = ("ref", "neon", "avx2", "avx512")


def read() -> Settings:
    """The SPARKLE_... variables that Settings names; ValueError for values that make no sense."""
    isa = os.environ.get("SPARKLE_CPU_ISA", "").strip().lower()
    if isa and isa not in ISAS:
        raise ValueError(f"SPARKLE_CPU_ISA={isa!r}: known are {', '.join(ISAS)}")
    threads = os.environ.get("SPARKLE_THREADS", "").strip()
    if threads and not (threads.isdecimal() and threads.isascii() and 1 <= int(threads) <= 1024):
        raise ValueError(f"SPARKLE_THREADS={threads!r}: a number from 1 to 1024 is wanted")
    home = os.environ.get("SPARKLE_HOME") or os.path.join(os.path.expanduser("~"), ".sparkle")
    libcuda = os.environ.get("SPARKLE_LIBCUDA", "")
    if "\n" in libcuda:
        raise ValueError(f"SPARKLE_LIBCUDA={libcuda!r}: one path is wanted")
    return Settings(home=home, cpu_isa=isa, threads=int(threads or 0), libcuda=libcuda)
