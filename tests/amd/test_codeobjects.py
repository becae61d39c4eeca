"""One launch for each thing that a compiled kernel expects of the driver. The objects are those of
tests/kits/codeobjects.

When this fails, a compiled kernel finds other arguments or group ids than its compiler promised.
"""

from __future__ import annotations

import itertools
import struct

import numpy as np
import pytest
from codekit import Operand, Program
from where import CODE_OBJECTS

from sparkle_drv import assets
from sparkle_drv.lowlevel import codeobject, targets
from sparkle_drv.testing.emulator import EmulatedGpu, Machine

BUILDS = [
    (4, "gfx1036", "gfx1036"), (5, "gfx1036", "gfx1036"), (5, "gfx1100", "gfx1100"),
    (6, "gfx1036", "gfx10-3-generic"), (6, "gfx1100", "gfx11-generic"),
]  # fmt: skip


@pytest.fixture(scope="module", params=BUILDS, ids=lambda b: f"v{b[0]}-{b[1]}-{b[2]}")
def card(request):
    version, chip, target = request.param
    blob = (CODE_OBJECTS / f"features.v{version}.{target}.hsaco").read_bytes()
    with Machine([chip]) as machine, machine.open() as node, EmulatedGpu(node) as gpu:
        yield chip, gpu, blob


def run(card, entry, layout, *args, words=64, groups=(1, 1, 1), size=(64, 1, 1), shared=0, times=1):
    """The first argument's dwords after `times` launches; arguments after it are given."""
    chip, gpu, blob = card
    code = codeobject.load(blob, entry, mach=targets.accepted(chip))
    out = Operand(gpu, np.full(words, 0xDEADBEEF, np.uint32), "rw")
    arrays = [a for a in args if isinstance(a, Operand)]
    values = [a.va if isinstance(a, Operand) else a for a in args]
    try:
        with Program(gpu, chip, code) as program:
            for _ in range(times):
                program.launch(
                    struct.pack("<Q" + layout, out.va, *values), groups, size,
                    bos=[out.buffer, *(a.buffer for a in arrays)], shared=shared,
                )  # fmt: skip
        return out.values()
    finally:
        for operand in (out, *arrays):
            operand.buffer.close()


def test_arguments_and_groups(card):
    x = np.arange(150, dtype=np.float32)
    out = run(card, "simple", "Qi", Operand(card[1], x, "r"), 150, words=150, groups=(3, 1, 1))
    np.testing.assert_array_equal(out.view(np.float32), x + 1)


def test_scratch_memory(card):
    out = run(card, "stack", "i", 7, words=192, groups=(3, 1, 1))
    lanes = np.tile(np.arange(64), 3)
    np.testing.assert_array_equal(out, 7 * lanes + 7 * 7)


def test_local_memory(card):
    np.testing.assert_array_equal(run(card, "lds", "i", 100), 163 - np.arange(64))


def test_ids_in_three_dimensions(card):
    out = run(card, "xyz", "", words=8 * 6 * 4, groups=(2, 2, 2), size=(4, 3, 2))
    z, y, x = np.indices((4, 6, 8))
    np.testing.assert_array_equal(out, (10000 * z + 100 * y + x).ravel())


def test_hidden_arguments(card):
    if codeobject.load(card[2], "hidden", mach=targets.accepted(card[0])).version == 4:
        return  # its layout is another one, and has nothing but zeros
    out = run(card, "hidden", "", words=11, groups=(5, 6, 7), size=(8, 2, 3))
    assert list(out) == [5, 6, 7, 8, 2, 3, 0, 0, 0, 3, 0]


def test_a_local_pointer_lies_behind_the_static_part(card):
    out = run(card, "local_pointer", "i4x", 3, shared=256)
    np.testing.assert_array_equal(out, 3 * (63 - np.arange(64)) + 5)


def test_relocated_pointers_to_data_that_is_written(card):
    assert run(card, "relocated", "i4x", 0, words=1, size=(1, 1, 1), times=3)[0] == 7


def test_small_scalars_lie_where_c_puts_them(card):
    out = run(card, "scalars", "b7xdh6xqf4x", 1, 2.5, 3, 4, 0.25, words=2, size=(1, 1, 1))
    assert out.view(np.float64)[0] == 10.75


DEALLOC, NOP = 0xBFB60003, 0xBF80  # s_sendmsg DEALLOC_VGPRS; the upper half of s_nop


def test_registers_are_given_back_behind_a_nop():
    """gfx11 wants one (docs/AMDGPU_FACTS.md 4.3); LLVM puts it there."""
    images = [
        *assets.folder("shaders").rglob("*.gfx11*.hsaco"),
        *CODE_OBJECTS.glob("*gfx11*.hsaco"),
    ]
    sent = 0
    for path in images:
        data = path.read_bytes()
        words = struct.unpack(f"<{len(data) // 4}I", data[: len(data) & ~3])
        for before, word in itertools.pairwise(words):
            sent += word == DEALLOC
            assert word != DEALLOC or before >> 16 == NOP, path
    assert sent > 40
