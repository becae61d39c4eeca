"""The frame of a map kernel around its operations: arguments, loads, stores and the last group.

A group of 128 threads computes 128 * V elements; a thread has V neighbouring ones (V is 4, 2 or 1).
All groups but the last load and store V elements at once. Their addresses need only the alignment
of single elements, because the kernel driver sets SH_MEM_CONFIG.ALIGNMENT_MODE to unaligned. A last
group that is not full loads and stores one element at a time. EXEC then turns off the lanes that
have no such element. The lines between the loads and the stores are the same for both kinds of
groups.

    SGPRs                                             VGPRs
    s0..s15    initial values, later f64 constants    v0        byte offset in the group
    s16..s33   addresses: y, x0 .. x7                 others    by instructions.Code.allocate
    s34        number of elements; in the last group only those of the group
    s35        1 for a full group, else 0
    s36..s37   address of the constants
    s38..s39   byte offset of the group
    s40..s43   lanes that have a k-th element (last group)
    s44..s103  constants
    s104       instructions.MASK
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from . import operations
from .graph import MapGraph, MapNode
from .instructions import Code, Reg, TooManyRegisters, Value

GROUP = 128
VECTORS = (4, 2, 1)
POINTERS, COUNT, FULL, CONSTS, OFFSET, LANES, CONSTANTS = 16, 34, 35, 36, 38, 40, 44
MOST_CONSTANTS = 60
MOST_VGPRS = {4: 96, 2: 96, 1: 128}
"""The most VGPRs of a kernel, by elements per thread. With more VGPRs a SIMD would have too few
waves to hide loads: 96 VGPRs leave 10 of 16 waves on gfx10.3."""
MOST_LINES = {4: 3000, 2: 3000, 1: 8000}
"""The most lines of a kernel, by elements per thread. 3000 lines are about 24 KiB, which fits into
the instruction cache (32 KiB a WGP). 8000 lines take a second to assemble."""
# The SGPR that holds the group's number, by level. It follows the user SGPRs: 2 of them, or 15.
GROUP_ID = {10: "s2", 11: "s15"}


class Written(NamedTuple):
    """A kernel as assembly text, with its number of VGPRs and elements per thread."""

    text: str
    vgprs: int
    vector: int


class DoesNotFit(Exception):
    """Raised if no kernel can be generated for a map expression; the message says why.

    The manifest's kernel must then interpret the expression's program.
    """


class _TooManyLines(Exception):
    pass


def write(graph: MapGraph, dtype: str, gen: int, offsets: Mapping[str, int]) -> Written:
    """Returns a kernel, as assembly text, that computes the map expression `graph`.

    Raises DoesNotFit if the kernel would need too many constants, VGPRs or instructions.

    `offsets` has the offsets of the arguments "y", "x0", "consts" and "n" in the kernarg segment.
    """
    if graph.constants > MOST_CONSTANTS:
        raise DoesNotFit(f"expected at most {MOST_CONSTANTS} constants, got {graph.constants}")
    for vector in VECTORS:
        try:
            return _KernelWriter(graph, dtype, gen, offsets, vector).written()
        except TooManyRegisters:
            what = f"{MOST_VGPRS[vector]} VGPRs"
        except _TooManyLines:
            what = f"{MOST_LINES[vector]} instructions"
    raise DoesNotFit(f"expected at most {what}, got more, even with one element per thread")


def _pair(first: int) -> str:
    return f"s[{first}:{first + 1}]"


class _KernelWriter:
    def __init__(
        self, graph: MapGraph, dtype: str, gen: int, offsets: Mapping[str, int], vector: int
    ) -> None:
        self.graph, self.gen, self.offsets, self.vector = graph, gen, offsets, vector
        self.ops = operations.F32 if dtype == "f32" else operations.I32
        self.inputs = graph.inputs
        self.log_bytes = (GROUP * vector * 4).bit_length() - 1
        self.log_elements = self.log_bytes - 2
        self.code = Code(gen)
        self.offset = self.code.reg()
        self.index = self.code.reg()
        self.loaded = {slot: self.code.block(vector) for slot in self.inputs}
        self.result = self.code.block(vector)

    def written(self) -> Written:
        self.begin()
        self.load()
        self.operate()
        self.store()
        vgprs = self.code.allocate(MOST_VGPRS[self.vector])
        lines = [self.code.text(), *self.partial_load(), *self.partial_store()]
        return Written("\n".join([*lines, "end:", "s_endpgm", ""]), vgprs, self.vector)

    def pointer(self, name: str) -> int:
        """Returns the number of the first SGPR that holds the address of array `name`."""
        return POINTERS if name == "y" else POINTERS + 2 + 2 * int(name[1:])

    def wide(self, name: str, ndw: int) -> str:
        """Returns the mnemonic of the load or store `name` of `ndw` dwords on this GPU generation.

        An example of `name` is "global_load".
        """
        if self.gen == 11:
            return f"{name}_b{32 * ndw}"
        return f"{name}_dword" + (f"x{ndw}" if ndw > 1 else "")

    def scalar_load(self, first: int, base: str, offset: int, count: int) -> None:
        """Loads `count` dwords into SGPRs from number `first` on, in pieces that the alignment of
        SGPRs allows. The dwords lie `offset` bytes behind the address in the SGPRs `base`.
        """
        done = 0
        while done < count:
            piece = next(n for n in (16, 8, 4, 2, 1) if n <= count - done)
            while (first + done) % min(piece, 4):
                piece //= 2
            at, name = first + done, self.wide("s_load", piece)
            to = f"s{at}" if piece == 1 else f"s[{at}:{at + piece - 1}]"
            self.code.line(f"{name} {to}, {base}, {offset + 4 * done:#x}")
            done += piece

    def begin(self) -> None:
        line, group = self.code.line, GROUP_ID[self.gen]
        # The pointers y (result), x0, x1 ... (inputs) have the same order in the kernarg segment
        # and in SGPRs.
        pointers = 1 + max((slot + 1 for slot in self.inputs), default=0)
        self.scalar_load(POINTERS, _pair(0), self.offsets["y"], 2 * pointers)
        self.scalar_load(COUNT, _pair(0), self.offsets["n"], 1)
        if self.graph.constants:
            self.scalar_load(CONSTS, _pair(0), self.offsets["consts"], 2)
        line(f"v_lshlrev_b32 {{}}, {self.log_bytes - 7}, v0", [self.offset])
        line(f"s_lshl_b32 s{OFFSET}, {group}, {self.log_bytes}")
        line(f"s_lshr_b32 s{OFFSET + 1}, {group}, {32 - self.log_bytes}")
        line("s_waitcnt lgkmcnt(0)")
        if self.graph.constants:
            self.scalar_load(CONSTANTS, _pair(CONSTS), 0, self.graph.constants)
        for name in ("y", *(f"x{slot}" for slot in self.inputs)):
            low = self.pointer(name)
            line(f"s_add_u32 s{low}, s{low}, s{OFFSET}")
            line(f"s_addc_u32 s{low + 1}, s{low + 1}, s{OFFSET + 1}")
        line(f"s_lshr_b32 s{FULL}, s{COUNT}, {self.log_elements}")
        line(f"s_cmp_gt_u32 {group}, s{FULL}")
        line("s_cbranch_scc1 end")  # the group has no elements
        line(f"s_cmp_lt_u32 {group}, s{FULL}")
        line(f"s_cselect_b32 s{FULL}, 1, 0")
        line("s_cbranch_scc0 partial_load")

    def load(self) -> None:
        for slot in self.inputs:
            base = _pair(self.pointer(f"x{slot}"))
            name = self.wide("global_load", self.vector)
            self.code.line(f"{name} {{}}, {{}}, {base}", [self.loaded[slot]], [self.offset])
        # The code at partial_load writes `index` and the registers that the loop above loads, then
        # jumps to this label. The register allocator does not see that code. So the label's line
        # declares that it writes `index`.
        self.code.line("operate:", [self.index], [self.offset, *self.loaded.values()])
        if self.graph.constants:
            self.code.line("s_waitcnt lgkmcnt(0)")

    def operate(self) -> None:
        """Writes the instructions of the expression, node by node, for each element of a thread."""
        values: list[list[Value]] = []
        for node in self.graph.nodes:
            values.append(self.values(node, [values[arg] for arg in node.args]))
            if len(self.code.lines) > MOST_LINES[self.vector]:
                raise _TooManyLines
        last = self.graph.nodes[-1]
        for k, value in enumerate(values[-1]):
            if isinstance(value, Reg) and last.args and not last.uniform:
                # No other node uses the value, so it is computed directly in `result`.
                value.block, self.result.regs[k] = self.result, value
            else:
                self.code.line("v_mov_b32 {}, {}", [self.result[k]], [value])

    def values(self, node: MapNode, args: list[list[Value]]) -> list[Value]:
        if node.op == "const":
            return [f"s{CONSTANTS + node.slot}"] * self.vector
        if node.op == "input":
            after = len(self.inputs) - 1 - self.inputs.index(node.slot)
            self.code.line(f"s_waitcnt vmcnt({after})")
            return list(self.loaded[node.slot].regs)
        emit = self.ops[node.op]
        if node.uniform:
            return [emit(self.code, *(arg[0] for arg in args))] * self.vector
        return [emit(self.code, *(arg[k] for arg in args)) for k in range(self.vector)]

    def store(self) -> None:
        line = self.code.line
        line(f"s_cmp_eq_u32 s{FULL}, 0")
        line("s_cbranch_scc1 partial_store")
        name = self.wide("global_store", self.vector)
        line(f"{name} {{}}, {{}}, {_pair(self.pointer('y'))}", [], [self.offset, self.result])
        line("s_endpgm")

    def partial_load(self) -> list[str]:
        """Returns the lines that load a last group that is not full.

        After these lines, EXEC has only the lanes that have a first element. If such a lane lacks
        later elements, their registers are 0.
        """
        mask = (1 << self.log_elements) - 1
        lines = [
            "partial_load:",
            f"s_and_b32 s{COUNT}, s{COUNT}, {mask:#x}",
            f"v_lshrrev_b32 {self.index}, 2, {self.offset}",
            f"v_cmp_gt_i32 s{LANES}, s{COUNT}, {self.index}",
            f"s_mov_b32 exec_lo, s{LANES}",
            "s_cbranch_execz end",
        ]
        for block in self.loaded.values():
            lines += [f"v_mov_b32 {reg}, 0" for reg in block.regs[1:]]
        for k in range(self.vector):
            if k:
                lines += [
                    f"s_sub_i32 s{FULL}, s{COUNT}, {k}",
                    f"v_cmp_gt_i32 s{LANES + k}, s{FULL}, {self.index}",
                ]
        load = self.wide("global_load", 1)
        for k in range(self.vector):
            if k:
                lines.append(f"s_mov_b32 exec_lo, s{LANES + k}")
            for slot, block in self.loaded.items():
                base = _pair(self.pointer(f"x{slot}"))
                lines.append(f"{load} {block[k]}, {self.offset}, {base} offset:{4 * k}")
        lines += [f"s_mov_b32 exec_lo, s{LANES}"] if self.vector > 1 else []
        return [*lines, f"s_mov_b32 s{FULL}, 0", "s_waitcnt vmcnt(0)", "s_branch operate"]

    def partial_store(self) -> list[str]:
        lines = ["partial_store:"]
        store = self.wide("global_store", 1)
        base = _pair(self.pointer("y"))
        for k, reg in enumerate(self.result.regs):
            if k:
                lines.append(f"s_mov_b32 exec_lo, s{LANES + k}")
            lines.append(f"{store} {self.offset}, {reg}, {base} offset:{4 * k}")
        return lines
