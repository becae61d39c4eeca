"""The kernel of one expression, word for word, as llvm-mc 19 assembled it (make_map.py).

When this fails, generated AMD kernels contain instructions that LLVM encodes otherwise.
"""

from __future__ import annotations

import itertools
import re
import shutil

import make_map
import pytest

from sparkle_drv.codegen.rdna import emit
from sparkle_drv.codegen.rdna.assemble import assemble
from sparkle_drv.ops.expression import grammar, program

LABEL = re.compile(r"\b(end|operate|partial_(load|store)|near_\d+)\b")


@pytest.fixture(params=make_map.CPUS)
def golden(request):
    """(generation, text, words) of the file."""
    path = make_map.HERE / f"map_{make_map.CPUS[request.param]}.txt"
    pairs = [line.split("| ") for line in path.read_text().splitlines()[1:]]
    words = [int(word, 16) for listed, _ in pairs for word in listed.split()]
    return request.param, "\n".join(text for _, text in pairs) + "\n", words


def test_words(golden):
    gen, text, words = golden
    made = make_map.kernel(gen)
    assert made.text == text  # else: is the change meant? make golden-llvm
    ((at, code),) = made.code.image.parts
    assert at == made.code.entry == 0
    assert code[: 4 * len(words)] == b"".join(word.to_bytes(4, "little") for word in words)
    assert made.code.rsrc1 == {10: 0x60AF0001, 11: 0x60AF0001}[gen]
    assert made.code.rsrc2 == {10: 0x84, 11: 0x9E}[gen]
    assert made.code.vgprs <= 16


def test_llvm_still_says_so(golden):
    if not shutil.which("llvm-mc-19"):
        pytest.skip("not installed: llvm-19")
    gen, text, words = golden
    assert make_map.by_llvm(text, gen) == words


@pytest.mark.parametrize("gen", make_map.CPUS)
def test_every_operation_is_what_llvm_makes_of_it(gen):
    """On arrays and on constants, from whichever side: llvm-mc knows, too, which operands are
    possible together (two scalars an instruction, say)."""
    if not shutil.which("llvm-mc-19"):
        pytest.skip("not installed: llvm-19")
    binary = ["{}+{}", "{}-{}", "{}*{}", "{}/{}", "pow({}, {})", "min({}, {})", "max({}, {})"]
    binary += [f"({{}} {sign} {{}})" for sign in grammar.COMPARISONS]
    unary = [f"{op}({{}})" for op, n in grammar.ARITY.items() if n == 1]
    choices = ["where({}, {}, {})", "where({} < 3, {}, {})", "where({} != {}, {}, 7)"]
    kernels: list[str] = []
    for kind in ("f32", "i32"):
        for form in (*unary, *binary, *choices):
            for names in itertools.product("xa", repeat=form.count("{}")):
                text = f"x + {form.format(*names)}"
                try:
                    words = program.compile_map(text, frozenset("a"), kind).words.tolist()
                except TypeError:  # i32 has not all of them
                    continue
                chip = make_map.CPUS[gen]
                made = emit.kernel(f"map_{kind}", tuple(words), gen=gen, chip=chip)
                kernels.append(made.text)
    # As one text: each kernel's labels are its own.
    text = "".join(LABEL.sub(rf"\g<0>_{i}", kernel) for i, kernel in enumerate(kernels))
    assert assemble(text, gen) == make_map.by_llvm(text, gen)
