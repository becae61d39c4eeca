"""Kernels that amdgpu writes for expressions: every size, every shape of program, strictly.

When this fails, a generated AMD kernel reads or writes outside its arrays.

The emulator stops at a register that was not written or has not arrived. It stops at an address
beyond an array, and at a right that an array does not have.
"""

from __future__ import annotations

import numpy as np
import pytest
from mapbounds import expression, value_and_bound
from mapkit import emitted, reference, run, words
from rdnakit import CHIPS, card  # noqa: F401

from sparkle_drv.amd.isa.assembly import assemble, disassemble
from sparkle_drv.codegen.rdna import emit, frame, graph
from sparkle_drv.codegen.rdna.instructions import WAIT_TRANS, Code, TooManyRegisters
from sparkle_drv.ops.expression import grammar

SIZES = [1, 3, 31, 32, 33, *range(63, 66), *range(127, 130), 511, 512, 513, 1024, 4093]


def floats(n, seed=0):
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


@pytest.mark.parametrize("n", SIZES)
def test_sizes(card, n):  # noqa: F811
    x, y = floats(n), floats(n, 1)
    want = reference("relu(a*x + y)", x=x, y=y, a=2.5)
    np.testing.assert_allclose(run(card, "relu(a*x + y)", x=x, y=y, a=2.5), want, 1e-6, 1e-6)


@pytest.mark.parametrize("n", [5, 130, 512, 700])
def test_groups_too_many_do_nothing(card, n):  # noqa: F811
    x = floats(n)
    np.testing.assert_array_equal(run(card, "x + 1", x=x, groups=7, out="x"), x + 1)


@pytest.mark.parametrize("n", [1, 100, 515])
def test_in_place(card, n):  # noqa: F811
    x, y = floats(n), floats(n, 1)
    np.testing.assert_array_equal(run(card, "x*y - x", x=x, y=y, out="x"), x * y - x)


def test_programs_of_one_step(card):  # noqa: F811
    x = floats(600)
    np.testing.assert_array_equal(run(card, "x", x=x), x)
    assert run(card, "2.5").tolist() == [2.5] * 70
    assert run(card, "a*b", a=3.0, b=0.5).tolist() == [1.5] * 70
    assert run(card, "-7", "i32").tolist() == [-7] * 70
    assert run(card, "exp(a) - b", a=0.0, b=0.5).tolist() == [0.5] * 70


def test_eight_inputs_and_as_many_constants_as_there_are(card):  # noqa: F811
    names = "abcdefgh"
    arrays = {name: floats(517, i) for i, name in enumerate(names)}
    count = frame.MOST_CONSTANTS
    text = " + ".join(f"{names[i % 8]}*{i}.5" for i in range(count))
    want = reference(text, **arrays)
    np.testing.assert_allclose(run(card, text, **arrays), want, 1e-4, 1e-3)
    # In the last instruction as in the first, and only some of the inputs.
    h, c = arrays["h"], arrays["c"]
    np.testing.assert_array_equal(run(card, "h - c", h=h, c=c), h - c)


def test_what_is_computed_twice_is_computed_once():
    found = graph.parse(words("sin(x*y) + sin(x*y) * x")[1], "f32")
    assert [node.op for node in found.nodes] == ["input", "input", "mul", "sin", "mul", "add"]
    assert found.inputs == (0, 1)
    found = graph.parse(words("where(x < y, x, 0)")[1], "f32")
    assert [node.op for node in found.nodes] == ["input", "input", "const", "where_lt"]
    assert graph.parse(words("a*2 + x", scalars="a")[1], "f32").constants == 2


@pytest.mark.parametrize("chip", CHIPS)
def test_pressure_takes_elements_from_a_thread_and_then_the_kernel(chip):
    def nested(depth):
        text = "x"
        for i in range(depth):
            text = f"(tanh(x + {i}.25) - {text})"
        return emitted(text, chip)[1]

    assert [nested(depth).elements for depth in (4, 24, 30)] == [512, 256, 256]
    with pytest.raises(frame.DoesNotFit, match="expected at most 60 constants, got 61"):
        emitted(" * ".join(f"(x + {i}.5)" for i in range(61)), chip)
    with pytest.raises(
        frame.DoesNotFit,
        match="expected at most 8000 instructions, got more, even with one element",
    ):
        emitted(" + ".join(f"sin(x*{i} + sin(x - {i}))" for i in range(50)), chip)
    with pytest.raises(frame.DoesNotFit, match="expected map_f32 or map_i32, got map_f64"):
        emitted("x + 1", chip, "f64")


@pytest.mark.parametrize("depth", [6, 24])
def test_kernels_of_fewer_elements_a_thread(card, depth):  # noqa: F811
    for n in (1, 130, 257, 300):
        text, x = "x", floats(n) / 8
        for i in range(depth):
            text = f"(tanh(x + {i}.25) - {text})"
        np.testing.assert_allclose(run(card, text, x=x), reference(text, x=x), 1e-5)


@pytest.mark.unmeasured
def test_random_expressions_against_float64(card):  # noqa: F811
    judged = total = 0
    for seed in range(25):
        rng = np.random.default_rng([11, seed])
        text = expression(rng, int(rng.integers(1, 7)))
        given = {name: floats(140, [seed, i]) * 2 for i, name in enumerate("abcdefgh")}
        given |= {"s": 0.75, "t": -2.0}
        values = {name: given[name] for name in grammar.parse(text).names}
        if not any(np.ndim(v) for v in values.values()):
            values["a"], text = given["a"], f"{text} + a"
        got = run(card, text, **values)
        want, bound, fair = value_and_bound(text, values)
        with np.errstate(invalid="ignore"):
            near = np.abs(got - want) <= bound
        bad = fair & ~(near | (got == want) | np.isnan(got) & np.isnan(want))
        at = int(bad.argmax())
        assert not bad.any(), f"seed {seed}: {text} at {at}: {got[at]}, {want[at]} +- {bound[at]}"
        judged, total = judged + fair.sum(), total + fair.size
    assert judged > 0.6 * total  # else nothing was tested


@pytest.mark.parametrize("chip", CHIPS)
def test_the_text_is_the_code(chip):
    """What is listed is what runs, and what the disassembler makes of that."""
    for text in ("relu(a*x + y)", "pow(x, y) / sin(x)", "x"):
        kernel = emitted(text, chip, scalars="a")[1]
        words = assemble(kernel.text, chip)
        image = np.frombuffer(kernel.code.image.parts[0][1], np.uint32).tolist()
        assert image[: len(words)] == words
        ends = assemble("s_code_end", chip)[0]
        assert set(image[len(words) :]) == {ends}
        line = 32 if chip == "gfx1100" else 16
        assert len(image) % line == 0
        assert len(image) - len(words) >= 3 * line
        assert assemble(disassemble(words, chip), chip) == words


@pytest.mark.parametrize(
    ("program", "match"),
    [
        ((), "expected one result, got 0"),
        ((1, 1), "expected one result, got 2"),
        ((3,), "add: expected 2 operands, got 0"),
        ((1, 0x7F), "unknown operation 0x7f"),
        ((0x801,), "expected an input number below 8, got 8"),
    ],
)
def test_no_program(program, match):
    with pytest.raises(ValueError, match=match):
        emit.kernel("map_f32", program, gen=11, chip="gfx1100")
    with pytest.raises(
        ValueError, match=r"'1,a' is not a program for map_i32 .*: unknown operation 0xa"
    ):
        emit.kernel("map_i32", (1, 0xA), gen=11, chip="gfx1100")


def test_transcendental_results_are_waited_for_on_gfx11():
    def after(others, gen=11):
        code = Code(gen)
        x = code.reg()
        code.line("v_mov_b32 {}, 1.0", [x])
        y = code.op("v_exp_f32", x)
        for _ in range(others):
            code.op("v_add_f32", x, x)
        code.op("v_mul_f32", y, x)
        code.allocate(32)
        return code.text().split("\n").index(WAIT_TRANS) if WAIT_TRANS in code.text() else None

    assert [after(n) for n in (0, 1, 4, 5, 6)] == [2, 3, 6, 7, None]
    assert after(0, 10) is None


def test_registers_are_taken_low_and_together():
    code = Code(11)
    a, quad = code.reg(), code.block(4)
    code.line("first {}", [a])
    code.line("wide {}", [quad])
    b = code.op("v_add_f32", quad[0], a)  # in the place of one of them
    code.line("use {} {}", [], [b, quad[3]])
    assert code.allocate(8) == 5
    assert str(quad) == "v[1:4]"
    assert (a.number, b.number) == (0, 0)
    narrow = Code(11)
    narrow.line("wide {}", [narrow.block(4)])
    with pytest.raises(
        TooManyRegisters, match="expected 4 consecutive VGPRs free, got fewer; the code may use 3"
    ):
        narrow.allocate(3)
