"""The one function that reads the environment, called when a device is opened, and once by
ops/memory/recycled.py, never at import; and what the caller of `open` asks for beside it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from sparkle_drv.backends.abilities import takes_threads
from sparkle_drv.backends.base import Settings
from sparkle_drv.backends.machine import MOST_THREADS
from sparkle_drv.core.whole_number import within

ISAS = ("ref", "neon", "avx2", "avx512")
MOST_MIB = 1 << 40


def read() -> Settings:
    """The SPARKLE_... variables that Settings names; ValueError for values that make no sense."""
    isa = os.environ.get("SPARKLE_CPU_ISA", "").strip().lower()
    if isa and isa not in ISAS:
        raise ValueError(f"SPARKLE_CPU_ISA={isa!r}: known are {', '.join(ISAS)}")
    home = os.environ.get("SPARKLE_HOME") or os.path.join(os.path.expanduser("~"), ".sparkle")
    libcuda = os.environ.get("SPARKLE_LIBCUDA", "")
    if "\n" in libcuda:
        raise ValueError(f"SPARKLE_LIBCUDA={libcuda!r}: one path is wanted")
    return Settings(
        home=home, cpu_isa=isa, threads=_number("SPARKLE_THREADS", 1, MOST_THREADS) or 0,
        libcuda=libcuda, recycle_mib=_number("SPARKLE_RECYCLE_MIB", 0, MOST_MIB),
    )  # fmt: skip


def _number(name: str, least: int, most: int) -> int | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not (text.isdecimal() and text.isascii() and least <= int(text) <= most):
        raise ValueError(f"{name}={text!r}: a number from {least} to {most} is wanted")
    return int(text)


def switch(name: str, given: Any) -> None:
    """TypeError for what is no bool."""
    if not isinstance(given, bool):
        raise TypeError(f"{name}: True or False is wanted, got {given!r}")


def with_options(
    known: Settings, uri: str, backend: Any, threads: Any, deterministic: Any
) -> Settings:
    """The settings of a device of this backend class, after what the caller of `open` asked for.

    Raises TypeError and ValueError, naming the argument; also for an option that the backend does
    not say it takes.
    """
    switch("deterministic", deterministic)
    known = replace(known, deterministic=deterministic)
    if threads is None:
        return known
    count = within("threads", threads, 1, MOST_THREADS)
    if not takes_threads(backend):
        raise ValueError(f"threads: expected none for {uri}, which does not take it, got {count}")
    return replace(known, threads=count)
