"""SPIR-V modules, made here word by word: the right one passes, each wrong one is refused before a
driver could see it.

When this fails, a malformed SPIR-V module reaches the driver and crashes it.
"""

from __future__ import annotations

import contextlib
import random
import struct

import pytest

from sparkle_drv.backends.egl.spirv import is_spirv, validated
from sparkle_drv.errors import ImageError


def op(code, *operands):
    return [(len(operands) + 1) << 16 | code, *operands]


def name(text):
    raw = text.encode() + b"\0"
    return struct.unpack(f"<{(len(raw) + 3) // 4}I", raw.ljust((len(raw) + 3) // 4 * 4, b"\0"))


HEADER = [0x07230203, 0x00010000, 0, 10, 0]
CAPABILITY = op(17, 1)
MODEL = op(14, 0, 1)
ENTRY = op(15, 5, 4, *name("main"))
SIZE = op(16, 4, 17, 1, 1, 1)
TYPES = [*op(19, 2), *op(33, 3, 2)]
BODY = [*op(54, 2, 4, 0, 3), *op(248, 5), *op(253), *op(56)]


def module(*parts, header=None):
    words = [*(header or HEADER), *(word for part in parts for word in part)]
    return struct.pack(f"<{len(words)}I", *words)


GOOD = module(CAPABILITY, MODEL, ENTRY, SIZE, TYPES, BODY)


def test_a_right_module_passes_in_both_byte_orders():
    assert is_spirv(GOOD)
    assert validated(GOOD, "main", "it") == GOOD
    swapped = struct.pack(f">{len(GOOD) // 4}I", *struct.unpack(f"<{len(GOOD) // 4}I", GOOD))
    assert is_spirv(swapped)
    assert validated(swapped, "main", "it") == GOOD
    assert not is_spirv(b"#version 430\n")


@pytest.mark.parametrize(
    ("blob", "says"),
    [
        (GOOD[:16], "expected a whole"),
        (GOOD[:-1], "expected a whole"),
        (GOOD[:-4], "truncated"),
        (module(CAPABILITY, MODEL, ENTRY, SIZE, TYPES, BODY[:-1]), "truncated"),
        (GOOD + struct.pack("<I", 0), "says 0 words"),
        (GOOD + struct.pack("<I", 9 << 16 | 54), "says 9 words"),
        (module(CAPABILITY, MODEL, ENTRY, SIZE, TYPES, BODY, op(56)), "nested or end"),
        (module(CAPABILITY, MODEL, ENTRY, SIZE, TYPES, BODY[:5], BODY), "nested or end"),
        (module(CAPABILITY, MODEL, ENTRY, SIZE, TYPES, op(54, 2, 4)), "cut short"),
        (module(CAPABILITY, MODEL, ENTRY, TYPES, BODY), "no workgroup size"),
        (module(CAPABILITY, MODEL, ENTRY, op(16, 4, 17, 1, 0, 1), TYPES, BODY), "workgroup size"),
        (module(CAPABILITY, MODEL, SIZE, TYPES, BODY), "expected a compute entry point"),
        (
            module(CAPABILITY, MODEL, op(15, 4, 4, *name("main")), SIZE, TYPES, BODY),
            "expected a compute",
        ),
        (module(CAPABILITY, MODEL, op(15, 5, 4, 0x6E69616D), SIZE, TYPES, BODY), "a zero byte"),
        (module(CAPABILITY, MODEL, ENTRY, SIZE, TYPES), "is missing"),
        (module(CAPABILITY, ENTRY, SIZE, TYPES, BODY), "memory model"),
        (module(op(17, 6), MODEL, ENTRY, SIZE, TYPES, BODY), "OpenCL"),
        (module(CAPABILITY, MODEL, ENTRY, SIZE, TYPES, op(32, 6, 9, 2), BODY), "push constants"),
        (module(CAPABILITY, MODEL, ENTRY, SIZE, TYPES, op(59, 6, 7, 9), BODY), "push constants"),
        (
            module(CAPABILITY, MODEL, ENTRY, SIZE, TYPES, op(32, 99, 2, 2), BODY),
            "expected ids below",
        ),
        (module(BODY, header=[0x07230203, 0x00020000, 0, 10, 0]), "version"),
        (module(BODY, header=[0x07230203, 0x00010900, 0, 10, 0]), "version"),
        (module(BODY, header=[0x07230203, 0x00010000, 0, 0, 0]), "bound"),
        (module(BODY, header=[0x07230203, 0x00010000, 0, 1 << 30, 0]), "bound"),
        (module(BODY, header=[0x07230203, 0x00010000, 0, 10, 1]), "schema"),
    ],
)
def test_what_is_wrong_is_refused_and_named(blob, says):
    with pytest.raises(ImageError, match=says):
        validated(blob, "main", "it")


def test_another_entry_is_named_with_those_there_are():
    with pytest.raises(ImageError, match="expected a compute entry point 'other', got main"):
        validated(GOOD, "other", "it")


def test_noise_is_refused_or_passed_but_never_more():
    """Any change of a module ends in ImageError or in a module, not in another exception."""
    rng = random.Random(7)
    for _ in range(3000):
        blob = bytearray(GOOD)
        for _ in range(rng.randint(1, 6)):
            blob[rng.randrange(4, len(blob))] = rng.randrange(256)
        blob = blob[: rng.randrange(len(blob)) + 1] if rng.random() < 0.3 else blob
        with contextlib.suppress(ImageError):
            validated(bytes(blob), "main", "it")
