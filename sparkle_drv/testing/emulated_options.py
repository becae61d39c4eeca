"""Checks the options of a Machine: words for the C enums of sp_emu.h, numbers and their ranges.
Each error is a TypeError or ValueError that names the argument.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from .._emu import ffi, lib
from ..amd.kmd.gpu import one_of

__all__ = [
    "FAULT_KINDS",
    "FLAWS",
    "LENIENT",
    "RECOVERY",
    "card_problem",
    "card_texts",
    "options",
    "words",
]


def words(enum: str, prefix: str) -> dict[str, int]:
    """Returns the constants of a C enum as lower-case words: SP_FAULT_TRAP is "trap"."""
    elements = ffi.typeof(f"enum {enum}").elements
    return {name.removeprefix(prefix).lower(): value for value, name in sorted(elements.items())}


RECOVERY = words("sp_emu_recovery", "SP_EMU_RECOVER_")
LENIENT = words("sp_emu_lenient", "SP_LENIENT_")
FLAWS = {k: v for k, v in words("sp_emu_flaw", "SP_FLAW_").items() if k != "sp_flaws"}
FAULT_KINDS = tuple(words("sp_emu_fault_kind", "SP_FAULT_"))

THREADS_MOST = 64  # the limit of native/emu/run/dispatch.c
# The integer options, and the largest value of each. All default to 0.
MOST = {
    "threads": THREADS_MOST,
    "kms_minor": 2**31 - 1,  # the limit of an int, the type of drm_version.version_minor
    "seed": 2**64 - 1,
    "vram_nbytes": 2**62 - 1,  # the limit of one file, since all memory of a machine is one file
    "visible_nbytes": 2**62 - 1,
    "gtt_nbytes": 2**62 - 1,
    "trace": 2,
}


def _whole(argument: str, value: object, most: int) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{argument}: expected an integer, got {type(value).__name__}") from None
    if not 0 <= number <= most:
        raise ValueError(f"{argument}: expected 0 to {most}, got {number}")
    return number


def _nanoseconds(argument: str, value: object) -> int:
    """Converts seconds to nanoseconds: at least 1, or 0 for 0 seconds, which means the default."""
    if not isinstance(value, int | float):
        raise TypeError(f"{argument}: expected seconds as a number, got {type(value).__name__}")
    if not (math.isfinite(value) and 0 <= value <= 1e9) or 0 < value < 1e-9:
        raise ValueError(f"{argument}: expected 0, or 1e-9 to 1e9 seconds, got {value}")
    return int(value * 1e9)


def _leniencies(value: object) -> int:
    if isinstance(value, int):
        return _whole("lenient", value, sum(LENIENT.values()))
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"lenient: expected words, or an int of bits, got {type(value).__name__}")
    return sum(LENIENT[one_of("lenient", word, LENIENT)] for word in set(value))


def card_problem(text: str) -> str:
    """Returns why `text` names no card, or "" for a valid text such as "gfx1103:kms-3.42"."""
    why = ffi.new("char[]", 256)
    lib.sp_emu_check_card(text.encode(), why, len(why))
    said: str = ffi.string(why).decode(errors="replace")
    return said


def card_texts(chips: Sequence[str]) -> list[str]:
    """Returns `chips` as a list. Raises TypeError or ValueError for a name of no emulated card."""
    if isinstance(chips, str) or not isinstance(chips, Iterable):
        raise TypeError(f"chips: expected a list of chip names, got {chips!r}")
    names = list(chips)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"chips: expected strings, got {type(name).__name__}")
        if problem := card_problem(name):
            raise ValueError(f"chips: {name!r}: {problem}")
    return names


def options(
    *,
    lenient: int | Iterable[str],
    recovery: str,
    job_limit_s: float,
    delay_s: float,
    sys_nice: bool,
    name_stale: bool,
    keep_caches: bool,
    **numbers: int,
) -> Any:
    """Returns a `struct sp_emu_options *`. `numbers` has integer options, which MOST lists."""
    struct = ffi.new("struct sp_emu_options *")
    struct.lenient = _leniencies(lenient)
    struct.recovery = RECOVERY[one_of("recovery", recovery, RECOVERY)]
    struct.job_limit_ns = _nanoseconds("job_limit_s", job_limit_s)
    struct.delay_ns = _nanoseconds("delay_s", delay_s)
    struct.sys_nice = bool(sys_nice)
    struct.name_stale = bool(name_stale)
    struct.keep_caches = bool(keep_caches)
    for name, value in numbers.items():
        setattr(struct, name, _whole(name, value, MOST[name]))
    return struct
