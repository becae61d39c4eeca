"""Memory tests by the CPU: words are written and read back, and a difference is reported by its
bits.

Walking 1s find data lines that are stuck or shorted. The pattern "address in address" finds stuck
address lines and aliases. Moving inversions find cells that their neighbours disturb. Random words
find other faults (the fault classes of van de Goor's "Testing Semiconductor Memories").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
BLOCK = 1 << 18  # number of words that are written, then read back, at a time


@dataclass(frozen=True)
class Bad:
    """Words that read back wrong: the first such word, and the bits that differ in any of them."""

    pattern: str
    offset: int  # bytes
    got: int
    want: int
    xor: int
    count: int

    def __str__(self) -> str:
        return (
            f"{self.pattern}: {self.count} words wrong, the first at offset {self.offset:#x}: "
            f"{self.got:#010x} for {self.want:#010x}, bits {self.xor:#010x} differ"
        )


def compare(pattern: str, got: Words, want: Words, offset: int = 0) -> Bad | None:
    """Returns how `got` differs from `want`, or None if they are equal. `offset` is the byte offset
    of `got` in the tested memory.
    """
    wrong = np.flatnonzero(got != want)
    if not wrong.size:
        return None
    first = int(wrong[0])
    xor = int(np.bitwise_or.reduce(got[wrong] ^ want[wrong]))
    return Bad(pattern, offset + 4 * first, int(got[first]), int(want[first]), xor, wrong.size)


def _walking(words: Words, base: int, seed: int) -> Iterator[Words]:
    index = np.arange(words.size, dtype=np.uint32)
    for step in range(32):
        yield np.uint32(1) << ((index + np.uint32(step)) & np.uint32(31))


def _address(words: Words, base: int, seed: int) -> Iterator[Words]:
    address = np.arange(words.size, dtype=np.uint64) * np.uint64(4) + np.uint64(base)
    low = (address & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    high = (address >> np.uint64(32)).astype(np.uint32)
    mixed = low ^ high * np.uint32(0x9E3779B1)
    yield mixed
    yield ~mixed


def _inversions(words: Words, base: int, seed: int) -> Iterator[Words]:
    for value in (0x00000000, 0xFFFFFFFF, 0x55555555, 0xAAAAAAAA, 0x33333333, 0xCCCCCCCC):
        yield np.full(words.size, value, np.uint32)


def _random(words: Words, base: int, seed: int) -> Iterator[Words]:
    rng = np.random.default_rng([seed, base])
    image = rng.integers(0, 1 << 32, words.size, dtype=np.uint32)
    yield image
    yield ~image


Maker = Callable[[Words, int, int], Iterator[Words]]
PATTERNS: dict[str, Maker] = {
    "walking ones": _walking,
    "address in address": _address,
    "moving inversions": _inversions,
    "random": _random,
}


def images(nwords: int, base: int, seed: int, names: list[str] | None = None) -> Any:
    """Yields (pattern, words) of every pass over memory that begins at address `base`."""
    shape = np.empty(nwords, np.uint32)
    for name in names or PATTERNS:
        for image in PATTERNS[name](shape, base, seed):
            yield name, image


def sweep(
    words: Words, *, base: int = 0, seed: int = 1, names: list[str] | None = None
) -> Bad | None:
    """Runs every pattern over `words`, whose first address is `base`. All words are written before
    any is read. Returns None, or the first pass that failed.
    """
    for name in names or PATTERNS:
        if name == "moving inversions":
            bad = _moving(words, base, seed)
        else:
            bad = None
            for image in PATTERNS[name](words, base, seed):
                words[:] = image
                bad = bad or compare(name, words.copy(), image)
        if bad:
            return bad
    return None


def _moving(words: Words, base: int, seed: int) -> Bad | None:
    """Runs moving inversions with each of four values: goes up through the blocks of memory, checks
    each block and inverts its bits; then goes down and does the same. Returns the first difference,
    or None.
    """
    name = "moving inversions"
    starts = list(range(0, words.size, BLOCK))
    for value in (0x00000000, 0x55555555, 0x33333333, 0x0F0F0F0F):
        words[:] = value
        inverse = value ^ 0xFFFFFFFF
        for order, want, then in ((starts, value, inverse), (starts[::-1], inverse, value)):
            for at in order:
                block = words[at : at + BLOCK]
                expected = np.full(block.size, want, np.uint32)
                bad = compare(name, block.copy(), expected, 4 * at)
                if bad:
                    return bad
                block[:] = then
    return None
