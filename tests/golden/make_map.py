"""Makes map_gfx1036.txt and map_gfx1100.txt: a map's kernel, its words by llvm-mc 19.

`make golden-llvm` runs it. The text is what amdgpu writes for EXPRESSION; llvm-mc alone makes the
words, which test_golden_map.py compares with ours. A line is `DWORDS in hex | TEXT`; a label has no
words.
"""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

from elftools.elf.elffile import ELFFile

from sparkle_drv.amd.isa.assembly import instructions
from sparkle_drv.codegen.rdna import emit
from sparkle_drv.ops.expression import program

HERE = Path(__file__).resolve().parent
CPUS = {10: "gfx1036", 11: "gfx1100"}
EXPRESSION, SCALARS = "sigmoid(a*x) - y/3", frozenset("a")


def kernel(gen: int) -> emit.Emitted:
    """The kernel of EXPRESSION."""
    words = program.compile_map(EXPRESSION, SCALARS, "f32").words.tolist()
    return emit.kernel("map_f32", tuple(words), gen=gen, chip=CPUS[gen])


def by_llvm(text: str, gen: int) -> list[int]:
    """The dwords that llvm-mc makes of assembly."""
    command = ["llvm-mc-19", "-triple=amdgcn", f"-mcpu={CPUS[gen]}", "-filetype=obj"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=True)
    code = ELFFile(io.BytesIO(done.stdout)).get_section_by_name(".text").data()
    return [int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code), 4)]


def listing(text: str, words: list[int], gen: int) -> str:
    """Text with the words of each line before it."""
    sizes = [ndw for _, _, ndw in instructions(words, gen)]
    lines, at = [], 0
    for line in text.splitlines():
        ndw = 0 if line.endswith(":") else sizes.pop(0)
        lines.append(f"{' '.join(f'{word:08x}' for word in words[at : at + ndw])} | {line}")
        at += ndw
    return "\n".join(lines) + "\n"


def main() -> None:
    for gen, cpu in CPUS.items():
        text = kernel(gen).text
        head = f"# {EXPRESSION} on {cpu}, by llvm-mc 19 (make golden-llvm)\n"
        (HERE / f"map_{cpu}.txt").write_text(head + listing(text, by_llvm(text, gen), gen))


if __name__ == "__main__":
    sys.exit(main())
