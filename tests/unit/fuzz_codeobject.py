"""Damaged code objects, as many as one likes: `fuzz_codeobject.py [--count N] [--seed S]`.

Each must load or be an ImageError; an input that does anything else, or takes a second of CPU
time, is written to --save and named with its seed. `make fuzz-elf` runs a million.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from pathlib import Path

import objectkit

import sparkle_drv as sp
from sparkle_drv.lowlevel import codeobject, targets

SIGNATURES = (None, ("f32*", "f32*", "i32"), ("i32*", "i32"), ("f32*",))
SLOW_S = 1.0


def bases() -> list[bytes]:
    """What is damaged: every build of features.cl."""
    return [path.read_bytes() for path in sorted(objectkit.FOLDER.glob("*.hsaco"))]


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


def run(count: int, seed: int, save: Path | None = None) -> Counter[str]:
    """How `count` inputs ended; AssertionError names the first that ended otherwise."""
    originals, outcomes = bases(), Counter[str]()
    names = codeobject.kernels(originals[0])
    for i in range(count):
        rng = random.Random(f"{seed} {i}")
        data = objectkit.mutated(rng, rng.choice(originals))
        start = time.process_time()
        try:
            outcomes[tried(rng, data, names)] += 1
            assert time.process_time() - start < SLOW_S, "slow"
        except Exception as error:
            if save:
                save.write_bytes(data)
            raise AssertionError(f"input {i} of seed {seed}: {error!r}") from error
    return outcomes


def main() -> int:
    top = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    top.add_argument("--count", type=int, default=1_000_000)
    top.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    top.add_argument("--save", type=Path, default=Path("build/fuzz.hsaco"))
    args = top.parse_args()
    print(f"seed {args.seed}", flush=True)
    args.save.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    outcomes = run(args.count, args.seed, args.save)
    for outcome, n in outcomes.most_common(40):
        print(f"{n:9} {outcome}")
    print(
        f"{args.count} inputs in {time.monotonic() - start:.0f} s: each loads or is an ImageError"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
