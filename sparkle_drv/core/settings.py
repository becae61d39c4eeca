"""Settings of a device: environment variables, and options of `open`.

Only `read` reads the environment. `read` runs when a device is opened, and once for
ops/memory/recycled.py, but never at import.
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
    """Returns the values of the SPARKLE_... variables. Raises ValueError for an invalid value."""
    isa = os.environ.get("SPARKLE_CPU_ISA", "").strip().lower()
    if isa and isa not in ISAS:
        raise ValueError(f"SPARKLE_CPU_ISA: expected one of {', '.join(ISAS)}, got {isa!r}")
    home = os.environ.get("SPARKLE_HOME") or os.path.join(os.path.expanduser("~"), ".sparkle")
    libcuda = os.environ.get("SPARKLE_LIBCUDA", "")
    if "\n" in libcuda:
        raise ValueError(f"SPARKLE_LIBCUDA: expected one path, got {libcuda!r}")
    return Settings(
        home=home, cpu_isa=isa, threads=_number("SPARKLE_THREADS", 1, MOST_THREADS) or 0,
        libcuda=libcuda, recycle_mib=_number("SPARKLE_RECYCLE_MIB", 0, MOST_MIB),
    )  # fmt: skip


def _number(name: str, least: int, most: int) -> int | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not (text.isdecimal() and text.isascii() and least <= int(text) <= most):
        raise ValueError(f"{name}: expected a number from {least} to {most}, got {text!r}")
    return int(text)


def switch(name: str, given: Any) -> None:
    """Raises TypeError unless `given` is a bool."""
    if not isinstance(given, bool):
        raise TypeError(f"{name}: expected True or False, got {given!r}")


def with_options(
    known: Settings, uri: str, backend: Any, threads: Any, deterministic: Any
) -> Settings:
    """Returns `known` with the options that the caller of `open` gave.

    `backend` is the backend class. Raises TypeError or ValueError for an invalid option, and
    ValueError for an option that the backend does not take. The message names the option.
    """
    switch("deterministic", deterministic)
    known = replace(known, deterministic=deterministic)
    if threads is None:
        return known
    count = within("threads", threads, 1, MOST_THREADS)
    if not takes_threads(backend):
        raise ValueError(
            f"threads: expected None for {uri}, got {count}: the device has no such option"
        )
    return replace(known, threads=count)
