"""The kernel fused_map itself: programs and geometries that make no sense are errors, and nothing
outside the arrays is touched, whatever they say.

When this fails, a corrupt map program reads or writes outside its arrays.
"""

import numpy as np
import pytest
from sparkle_drv._native import lib

from sparkle_drv.ops.expression import grammar
from sparkle_drv.ops.map import fused
from sparkle_drv.ops.shapes import space


def program(text, kinds):
    code, _ = fused.program(grammar.parse(text), kinds, {})
    return code


def launch(dev, words, cells, geometry, y, xs):
    k = dev.kernel("fused_map")
    absent = 8 - len(xs)
    dev.default_queue.launch(
        k, y, *xs, *[None] * absent, words, cells if cells.size else None, geometry,
        y.nbytes, *(x.nbytes for x in xs), *[0] * absent, words.size, cells.size, geometry.size,
    ).wait()  # fmt: skip


def plain(code, n, xs, kind="f32"):
    place = space.Space((n,), [(4,)] * (1 + len(xs)))
    return place.geometry((kind, *code.input_types), (0,) * (1 + len(xs)))


def test_it_runs_what_makes_sense(dev):
    code = program("x*y + 1.5", {"x": "f32", "y": "f32"})
    x, y, out = np.arange(9, dtype="f4"), np.ones(9, "f4"), np.zeros(9, "f4")
    launch(dev, code.words, code.cells, plain(code, 9, [x, y]), out, [x, y])
    np.testing.assert_array_equal(out, x + 1.5)


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, 0), (0, 9), (0, -1), (1, 5), (1, -1), (5, 0), (6, 10), (6, -1), (6, 2**62), (7, 7), (7, 1),
     (8, 4), (8, -4), (8, 2**63 - 1), (9, 8), (9, 2**62), (9, -2**63), (10, 1), (10, 3), (11, -4),
     (12, 1 << 40), (12, -(1 << 40))],
)  # fmt: skip
def test_geometries_that_make_no_sense(dev, at, value):
    code = program("x*2 + x", {"x": "f32"})
    x, out = np.arange(9, dtype="f4"), np.full(9, 7, "f4")
    geometry = plain(code, 9, [x])
    geometry[at] = value
    if at == 5:  # a word that only says how to store
        launch(dev, code.words, code.cells, geometry, out, [x])
        return
    with pytest.raises(ValueError, match="fused_map"):
        launch(dev, code.words, code.cells, geometry, out, [x])
    assert (out == 7).all()


@pytest.mark.parametrize(
    "fault",
    ["no words", "half an instruction", "no such op", "op of no type", "a ninth input",
     "an absent input", "an input of another type", "a constant too many", "no such register",
     "another result", "no such type", "a step in float16", "no such conversion"],
)  # fmt: skip
def test_programs_that_make_no_sense(dev, fault):
    code = program("x*2 + x", {"x": "f32"})
    x, out = np.arange(9, dtype="f4"), np.full(9, 7, "f4")
    geometry, words = plain(code, 9, [x]), code.words.copy()
    inputs, consts = lib.SP_MAP_KIND_INPUT << 28, lib.SP_MAP_KIND_CONST << 28
    match fault:
        case "no words":
            words = words[:0]
        case "half an instruction":
            words = words[:-1]
        case "no such op":
            words[0] = lib.SP_MAP_LOWERED_OPS
        case "op of no type":
            words[0] = lib.SP_MAP_EXP | lib.SP_MAP_I32 << 8
        case "a ninth input":
            words[1] = inputs | 8
        case "an absent input":
            words[1] = inputs | 1
        case "an input of another type":
            words[0] = lib.SP_MAP_ADD | lib.SP_MAP_F64 << 8
        case "a constant too many":
            words[1] = consts | code.cells.size
        case "no such register":
            words[-4] |= 0xFFFF << 16
        case "another result":
            words[-4] = lib.SP_MAP_CONVERT | lib.SP_MAP_F64 << 8
            words[-3], words[-1] = inputs, lib.SP_MAP_F32
        case "no such type":
            words[0] = lib.SP_MAP_ADD | lib.SP_MAP_TYPES << 8
        case "a step in float16":
            words[0] = lib.SP_MAP_ADD | lib.SP_MAP_F16 << 8
        case "no such conversion":
            words[0], words[3] = lib.SP_MAP_CONVERT | lib.SP_MAP_F16 << 8, lib.SP_MAP_I64
    with pytest.raises(ValueError, match="fused_map"):
        launch(dev, words, code.cells, geometry, out, [x])
    assert (out == 7).all()


@pytest.mark.unmeasured
def test_a_thousand_damaged_calls_stay_inside(dev):
    """Random words in otherwise right calls: an error, or a result; never an access outside (which
    `make asan` would see; here guards around the arrays do)."""
    rng = np.random.default_rng(77)
    code = program("where(x > y, exp(x)*y + 1, y/x) + i", {"x": "f32", "y": "f64", "i": "i32"})
    memory = np.full(4096, 99, np.uint8)
    x = np.arange(24, dtype="f4").reshape(4, 6)
    y, i = np.arange(6.0) + 1, np.arange(4, dtype=np.int32).reshape(4, 1)
    out = memory[1024 : 1024 + 24 * 8].view("f8").reshape(4, 6)
    arrays = {"x": x, "y": y, "i": i}
    given = [arrays[name] for name in code.inputs]
    shape = (4, 6)
    place = space.Space(shape, [space.broadcast(a, shape) for a in (out, *given)])
    good = place.geometry(("f64", *code.input_types), (0,) * 4)
    ran = 0
    for _ in range(1500):
        words, geometry = code.words.copy(), good.copy()
        for _ in range(int(rng.integers(1, 4))):
            if rng.integers(2):
                geometry[rng.integers(geometry.size)] = rng.choice(
                    [0, 1, 2, 3, 4, 5, 6, 8, -4, -8, 24, 48, 96, 1 << 40, -(1 << 62)]
                )
            else:
                words[rng.integers(words.size)] ^= np.uint32(1) << np.uint32(rng.integers(32))
        try:
            launch(dev, words, code.cells, geometry, out, given)
            ran += 1
        except ValueError:
            pass
    assert 0 < ran < 1500
    assert (memory[:1024] == 99).all()
    assert (memory[1024 + 24 * 8 :] == 99).all()
