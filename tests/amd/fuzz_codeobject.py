"""Damaged code objects, as many as one likes: `fuzz_codeobject.py [--count N] [--seed S]`.

Each must load or be an ImageError; an input that does anything else, or takes a second of CPU
time, is named with its seed (`--first N --count 1 --seed S` has it again) and written to SAVED.
`make fuzz-elf` runs a million.
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections import Counter
from functools import cache

import fuzzrun
import objectkit
from where import CODE_OBJECTS, ROOT

import sparkle_drv as sp
from sparkle_drv.lowlevel import codeobject, targets

SIGNATURES = (None, ("f32*", "f32*", "i32"), ("i32*", "i32"), ("f32*",))
SLOW_S = 1.0
SAVED = ROOT / "build" / "fuzz.hsaco"


@cache
def bases() -> tuple[tuple[bytes, ...], tuple[str, ...]]:
    """What is damaged: every build of features.cl; and the names of its kernels."""
    found = tuple(path.read_bytes() for path in sorted(CODE_OBJECTS.glob("*.hsaco")))
    return found, tuple(codeobject.kernels(found[0]))


def tried(rng: random.Random, data: bytes, names: tuple[str, ...]) -> str:
    """Loads a damaged object and uses what came out: "loaded" or the refusal's first words."""
    mach = (*targets.accepted("gfx1036"), *targets.accepted("gfx1100"))
    try:
        code = codeobject.load(data, rng.choice(names), mach=mach, args=rng.choice(SIGNATURES))
    except sp.ImageError as error:
        words = re.sub(r"'[^']*'|[-+]?\b\d\w*", "#", str(error).split(": ", 1)[1])
        return " ".join(words.split()[:7])
    code.image.place(0x1_0000_0000)
    kernarg = code.kernarg
    assert len(kernarg.pack(bytes(kernarg.args_nbytes), (1, 2, 3), (4, 5, 6))) == kernarg.nbytes
    code.user_sgprs.values(kernarg=0x1000, scratch=0x2000, wave=code.wave, gfx=10)
    assert code.rsrc2_for() >> 15 & 511 <= 128
    assert 0 <= code.entry < code.image.nbytes
    return "loaded"


def one(seed: int, number: int) -> str:
    """The input of that number; how it ended. AssertionError, or whatever the loader raised."""
    originals, names = bases()
    rng = random.Random(f"{seed} {number}")
    data = objectkit.mutated(rng, rng.choice(originals))
    start = time.process_time()
    try:
        outcome = tried(rng, data, names)
        assert time.process_time() - start < SLOW_S, "slow"
    except (Exception, fuzzrun.Hang):
        SAVED.parent.mkdir(parents=True, exist_ok=True)
        SAVED.write_bytes(data)
        raise
    return outcome


def run(count: int, seed: int) -> Counter[str]:
    """How `count` inputs ended; AssertionError names the first that ended otherwise."""
    return fuzzrun.fuzz(one, seed, 0, count)


if __name__ == "__main__":
    sys.exit(fuzzrun.main(one, __doc__ or "", sys.argv[1:]))
