"""Mutated command streams and texts against the tool's promises; also a program (make fuzz-pm4).

Dwords: text and back is exact, lint and diff end. Texts of every form: read, or a TextError with a
place inside the text; what was read survives text and back. Nothing else may be raised, and no
input may take seconds (fuzzrun.py). Every input follows from the printed seed and its number alone.
"""

from __future__ import annotations

import random
import sys

import fuzzrun
from where import ROOT

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import Ib, TextError

CAPTURES = sorted((ROOT / "tests/golden/captures").glob("*.txt"))
LEVELS = (9, 10, 11, 12)
ALPHABET = "0123456789abcdefx={},.#+-* \n\tABCDEFGHIJKLMNOPQRSTUVWXYZ_\"'\\\u00e9\u0663\0"


def corpus():
    """(ip, gfx, packet) of the captures, and an empty packet of every class that can be empty."""
    found = []
    for path in CAPTURES:
        for ib in lowlevel.read_ibs(path.read_text()):
            found += [(ib.ip, ib.gfx, list(p.dwords)) for p in ib.packets()]
    for gfx in LEVELS:
        tables = [(key, cls) for key, cls in lowlevel.type3.PACKETS.items() if key[1] == gfx]
        tables += [(key, cls) for key, cls in lowlevel.sdma.PACKETS.items() if key[2] == gfx]
        for key, cls in tables:
            ip = "sdma" if issubclass(cls, lowlevel.sdma.SdmaPacket) else key[2]
            try:
                found.append((ip, gfx, cls.encode(gfx=gfx)))
            except ValueError:  # a list that may not be empty
                filled = {
                    name: [1] * 6
                    for name, element in cls.ELEMENTS.items()
                    if isinstance(element, lowlevel.bits.Tail)
                }
                more = {"count": 4} if "triples" in filled else {}
                found.append((ip, gfx, cls.encode(gfx=gfx, **filled, **more)))
    return found


PACKETS = corpus()
TEXTS = [path.read_text() for path in CAPTURES]
TOKENS = sorted({word for text in TEXTS for word in text.split()})


def stream(rng):
    """(ip, gfx, dwords): some packets of one kind of queue, then spoilt."""
    ip, gfx, dwords = rng.choice(PACKETS)
    if rng.random() < 0.3:
        gfx = rng.choice(LEVELS)
    dwords = list(dwords)
    for _ in range(rng.randrange(8)):
        dwords += rng.choice(PACKETS)[2]
    for _ in range(rng.randrange(5)):
        spoil(rng, dwords)
    return ip, gfx, dwords


def spoil(rng, dwords):
    """One mutation, in place."""
    if not dwords:
        dwords.append(rng.getrandbits(32))
        return
    at = rng.randrange(len(dwords))
    kind = rng.randrange(7)
    if kind == 0:
        dwords[at] ^= 1 << rng.randrange(32)
    elif kind == 1:
        dwords[at] = rng.choice((0, 0xFFFFFFFF, 0x80000000, 0xFFFF1000, rng.getrandbits(32)))
    elif kind == 2:
        del dwords[at : at + rng.randrange(1, 4)]
    elif kind == 3:
        dwords.insert(at, rng.getrandbits(32))
    elif kind == 4:
        dwords[at:at] = dwords[: rng.randrange(1, 9)]
    elif kind == 5:
        dwords[at] = 3 << 30 | rng.randrange(12) << 16 | rng.randrange(256) << 8 | rng.randrange(8)
    else:
        dwords += [0xFFFF1000] * rng.randrange(20)


def scratch(rng, text):
    """A text with some of its characters, lines or words spoilt."""
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(text) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            text = text[:at] + rng.choice(ALPHABET) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + rng.randrange(1, 6) :]
        elif kind == 2:
            text = text[:at] + rng.choice(TOKENS) + text[at:]
        elif kind == 3:
            lines = text.split("\n")
            lines.insert(rng.randrange(len(lines)), rng.choice(lines))
            text = "\n".join(lines)
        else:
            text = (
                text[:at] + rng.choice(("0x" + "f" * rng.randrange(20), "-1", "9" * 50)) + text[at:]
            )
    return text


def ibs_of(rng):
    """One or two IBs; the first may call the second, or itself."""
    ip, gfx, dwords = stream(rng)
    extra = rng.randbytes(rng.randrange(4)) if rng.random() < 0.2 else b""
    if ip == "sdma" or rng.random() < 0.7:
        return [Ib(tuple(dwords), gfx, ip, extra=extra)]
    other = stream(rng)[2]
    va = rng.choice((0x1000, 0xFFFF800000001000))
    call = lowlevel.pm4.IndirectBuffer.encode(
        gfx=gfx,
        addr=va + rng.choice((0, 0, 4, -0x1000)),
        control={"ndw": len(other), "valid": 1, "chain": rng.getrandbits(1)},
    )
    where = rng.choice((call + dwords, dwords + call))
    return [
        Ib(tuple(where), gfx, ip, va=va - 0x1000, extra=extra),
        Ib(tuple(other + call * rng.getrandbits(1)), gfx, ip, va=va),
    ]


def check_dwords(rng):
    ibs = ibs_of(rng)
    text = lowlevel.text(ibs)
    assert lowlevel.parse(text) == ibs, text
    if rng.random() < 0.15:
        for finding in lowlevel.lint(ibs):
            assert str(finding)
        assert lowlevel.diff(ibs, ibs) == []
        lowlevel.diff(ibs, ibs_of(rng))
    if not any(ib.extra for ib in ibs):
        assert lowlevel.read_ibs(lowlevel.to_hex(ibs), form="hex") == ibs


def check_place(error, text):
    """A complaint's line and column are in the text, or right behind it."""
    lines = text.replace("\r\n", "\n").split("\n")
    assert 1 <= error.line <= len(lines), text
    assert 1 <= error.column <= len(lines[error.line - 1]) + 1, text


def check_text(rng):
    form = rng.choice(("text", "text", "text", "hex", "capture"))
    if form == "capture":
        lines = rng.choice(TEXTS).split("\n")
        start = rng.randrange(len(lines))
        text = "\n".join([*lines[:2], *lines[start : start + 15]])
    else:
        text = lowlevel.text(ibs_of(rng))
        if form == "hex":
            ip, gfx, dwords = stream(rng)
            text = lowlevel.to_hex([Ib(tuple(dwords), gfx, ip)])
    text = scratch(rng, text)
    gfx = rng.choice((None, 10, 11))
    try:
        ibs = lowlevel.read_ibs(text, gfx=gfx, form=form)
    except TextError as error:
        check_place(error, text)
        return f"{form} refused"
    assert lowlevel.parse(lowlevel.text(ibs)) == ibs, text
    lowlevel.read_ibs(text.encode(), gfx=gfx or 11, form="bin")
    return f"{form} read"


def one(seed, number):
    """The input of that number, checked; what it was."""
    rng = random.Random(f"{seed}:{number}")
    if rng.random() < 0.6:
        check_dwords(rng)
        return "dwords"
    return check_text(rng)


def fuzz(seed, first, count):
    """Checks inputs first..first+count; raises what one raises, with its number in front."""
    return fuzzrun.fuzz(one, seed, first, count)


if __name__ == "__main__":
    sys.exit(fuzzrun.main(one, __doc__, sys.argv[1:]))
