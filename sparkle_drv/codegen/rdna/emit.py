"""Generates a kernel for one map expression, without a compiler.

The result is a code object in memory. The amdgpu backend loads it like a code object from a file.

    made = emit.kernel("map_f32", plan.program, gen=11, chip="gfx1100")
    made.code               # a codeobject.CodeObject
    print(made.text)        # its assembly

graph.py reads the program. operations.py and sin_cos_pow.py turn operations into instructions.
instructions.py gives them registers. frame.py puts loads and stores around them. assemble.py makes
words of the text. This file adds the register words and arguments that a compiler would put into a
code object's descriptor and metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sparkle_drv import assets
from sparkle_drv.amd.code import kernarg, usersgprs
from sparkle_drv.amd.code.codeobject import CodeObject
from sparkle_drv.amd.code.image import PAGE, Image
from sparkle_drv.amd.code.metadata import ArgNote, KernelNote
from sparkle_drv.amd.tables import regs
from sparkle_drv.amd.tables.granules import vgpr_granule

from . import frame, graph
from .assemble import assemble
from .frame import DoesNotFit as DoesNotFit

DTYPES = {"map_f32": "f32", "map_i32": "i32"}
_FLOAT_MODE = 0xF0  # rounds to nearest even; keeps denormals of f32 and f64
# User SGPRs of a kernel, by level. gfx11.0 requires 16 user and system SGPRs together: 15 and one.
_USER_SGPRS = {10: 2, 11: 15}
_CODE_END = 0xBF9F0000
_LINE_NBYTES = {10: 64, 11: 128}  # bytes of a line of the instruction cache, by level
_CODE_VERSION = 5


@dataclass(frozen=True)
class Emitted:
    """A generated kernel: its code object, its assembly text, and the elements per workgroup."""

    code: CodeObject
    text: str
    elements: int
    group_size: tuple[int, int, int]


def kernel(name: str, program: tuple[int, ...], *, gen: int, chip: str) -> Emitted:
    """Returns machine code of kernel `name` that runs only the map program `program`.

    Raises ValueError for an invalid program. Raises DoesNotFit if no code can be generated for the
    program. The manifest's kernel must then interpret it.
    """
    if name not in DTYPES:
        raise DoesNotFit(f"kernel: expected {' or '.join(DTYPES)}, got {name}")
    return _kernel(name, program, gen, chip)


@lru_cache(maxsize=128)
def _kernel(name: str, program: tuple[int, ...], gen: int, chip: str) -> Emitted:
    note, offsets = _arguments(name)
    assembly = frame.write(graph.parse(program, DTYPES[name]), DTYPES[name], gen, offsets)
    words = assemble(assembly.text, gen)
    group_size = (frame.GROUP, 1, 1)
    code = CodeObject(
        entry_name=name,
        target=chip,
        version=_CODE_VERSION,
        image=_image(words, gen),
        entry=0,
        wave=32,
        rsrc1=regs.COMPUTE_PGM_RSRC1.encode(
            gfx=gen,
            VGPRS=-(-assembly.vgprs // vgpr_granule(32)) - 1,
            FLOAT_MODE=_FLOAT_MODE,
            DX10_CLAMP=1,
            IEEE=1,
            WGP_MODE=1,
            MEM_ORDERED=1,
        ),
        rsrc2=regs.COMPUTE_PGM_RSRC2.encode(gfx=gen, USER_SGPR=_USER_SGPRS[gen], TGID_X_EN=1),
        rsrc3=0,
        lds_nbytes=0,
        scratch_nbytes=0,
        scratch_wave_nbytes=0,
        scratch_wavesize=0,
        kernarg=kernarg.lay_out(note, None, False),
        user_sgprs=usersgprs.UserSgprs({"kernarg_segment_ptr": 0}, 2),
        max_group_size=frame.GROUP,
        required_group_size=group_size,
        vgprs=assembly.vgprs,
        sgprs=106,
        spills=0,
    )
    return Emitted(code, assembly.text, frame.GROUP * assembly.vector, group_size)


def _arguments(name: str) -> tuple[KernelNote, dict[str, int]]:
    """Returns (the metadata that a compiler would write, offsets of the arguments by name)."""
    args, offsets, at = [], {}, 0
    for arg in assets.manifest()["kernels"][name]["args"]:
        pointer = arg["type"].endswith("*")
        nbytes = 8 if pointer else 4
        at += -at % nbytes
        kind = "global_buffer" if pointer else "by_value"
        args.append(ArgNote(arg["name"], kind, at, nbytes, "global" if pointer else "", "", 1))
        offsets[arg["name"]] = at
        at += nbytes
    note = KernelNote(
        name=name, symbol="", kernarg_nbytes=at + -at % 8, kernarg_align=8, lds_nbytes=0,
        scratch_nbytes=0, wave=32, sgprs=0, vgprs=0, sgpr_spills=0, vgpr_spills=0,
        max_group_size=frame.GROUP, required_group_size=None, dynamic_stack=False,
        args=tuple(args),
    )  # fmt: skip
    return note, offsets


def _image(words: Sequence[int], gen: int) -> Image:
    """Returns the code with padding behind it, which the instruction prefetch may read.

    LLVM pads kernels in the same way: s_code_end fills the last cache line and three more lines.
    """
    line = _LINE_NBYTES[gen] // 4
    padded = [*words, *[_CODE_END] * (-len(words) % line + 3 * line)]
    blob = b"".join(word.to_bytes(4, "little") for word in padded)
    nbytes = -(-len(blob) // PAGE) * PAGE
    return Image(nbytes, PAGE, 0, False, ((0, blob),), ())
