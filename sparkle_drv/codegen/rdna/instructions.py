"""Instructions on virtual registers, and the allocation of registers.

    code = Code(11)
    x, y = code.block(4), code.block(4)
    code.line("global_load_b128 {}, v0, s[4:5]", [x])           # writes x, so it stands first
    total = code.op("v_add_f32", x[0], y[0])                    # a new register
    text = code.text()

Code has no loops: later lines read the results of earlier ones, and branches only skip downwards.
`allocate` is a linear scan over the lines. A register is allocated at the line that first writes
it, and freed at the line that last reads it. That last line may write its own result to the freed
register, because an instruction reads all operands before it writes. Consecutive registers
(`block`), which wide loads and f64 need, are allocated together and freed one by one.

Only VGPRs are allocated. SGPRs are few, and frame.py lists them. The text goes through
isa.assemble, so a listing shows exactly the assembled code.

Hazards: gfx10.3 and gfx11 interlock all dependencies of this code, except one on gfx11. The next
few VALU instructions after a transcendental instruction must not read its result (LLVM's
GCNHazardRecognizer, fixVALUTransUseHazard: 5 VALU or 1 other transcendental in between). `text`
inserts an s_waitcnt_depctr before an instruction that would read such a result too early. `text`
counts all lines as executed, also those that a branch may skip. That is safe, because enough VALU
instructions precede the only branch of the operations (sin_cos_pow.py).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_TRANS = frozenset({
    "v_exp_f32", "v_log_f32", "v_rcp_f32", "v_sqrt_f32", "v_rcp_f64",
})  # fmt: skip
DOUBLES = tuple(f"s[{first}:{first + 1}]" for first in range(0, 16, 2))
"""The SGPRs for f64 constants: the first 16, which have the kernel's initial values."""
MASK = "s104"
"""An SGPR for a second lane mask beside VCC."""
_TRANS_VALUS, _TRANS_TRANS = 5, 1
WAIT_TRANS = "s_waitcnt_depctr 0xfff"  # va_vdst(0)


class TooManyRegisters(Exception):
    """Raised if the code needs more registers than allowed."""


@dataclass(eq=False)
class Reg:
    """A VGPR, or one of a block of VGPRs; `number` is set by `allocate`."""

    block: Block
    number: int = -1

    def __str__(self) -> str:
        return f"v{self.number}"


@dataclass(eq=False)
class Block:
    """Consecutive VGPRs; a pair holds an f64."""

    regs: list[Reg] = field(default_factory=list)

    def __getitem__(self, at: int) -> Reg:
        return self.regs[at]

    def __len__(self) -> int:
        return len(self.regs)

    def __str__(self) -> str:
        first, last = self.regs[0].number, self.regs[-1].number
        return f"v{first}" if first == last else f"v[{first}:{last}]"


class Abs(NamedTuple):
    """An operand of which the instruction takes the absolute value."""

    of: Reg | Block | str

    def __str__(self) -> str:
        return f"|{self.of}|"


class Minus(NamedTuple):
    """An operand that the instruction negates."""

    of: Reg | Block | Abs | str

    def __str__(self) -> str:
        return f"-{self.of}"


Value = Reg | str
"""The operand that holds an element: a VGPR, or an SGPR or constant by name."""
Wide = Block | str
"""An operand that holds an f64."""
Operand = Reg | Block | Minus | Abs | str


def _regs(operand: Operand) -> Sequence[Reg]:
    if isinstance(operand, Minus | Abs):
        return _regs(operand.of)
    if isinstance(operand, Block):
        return operand.regs
    return [operand] if isinstance(operand, Reg) else []


def is_sgpr(operand: Operand) -> bool:
    """Returns whether an operand is in SGPRs or VCC, not in a VGPR or an inline constant."""
    return isinstance(operand, str) and operand[0] in "sv"


@dataclass(eq=False)
class AssemblyLine:
    """A line of assembly; `form` has a {} for each of `writes`, then one for each of `reads`."""

    form: str
    writes: list[Reg | Block]
    reads: list[Operand]

    def __str__(self) -> str:
        return self.form.format(*self.writes, *self.reads)

    @property
    def mnemonic(self) -> str:
        return self.form.partition(" ")[0]

    def written(self) -> Iterable[Reg]:
        return (reg for operand in self.writes for reg in _regs(operand))

    def read(self) -> Iterable[Reg]:
        return (reg for operand in self.reads for reg in _regs(operand))


class Code:
    """The assembly lines of a GPU kernel for one generation: 10 is gfx10.3, 11 is gfx11."""

    def __init__(self, gen: int) -> None:
        self.gen = gen
        self.lines: list[AssemblyLine] = []
        self.labels = 0
        self.doubles: dict[int, str] = {}

    def block(self, count: int) -> Block:
        made = Block()
        made.regs = [Reg(made) for _ in range(count)]
        return made

    def reg(self) -> Reg:
        return self.block(1)[0]

    def label(self, name: str) -> str:
        """Returns a new, unique label that begins with `name`."""
        self.labels += 1
        return f"{name}_{self.labels}"

    def double(self, value: float) -> str:
        """Returns `value` as an operand of f64 instructions.

        A value whose lower 32 bits are 0 is a literal, which holds the upper half. Any other value
        is loaded into a pair of SGPRs. If no pair is free, the pair with the oldest value is
        reused.
        """
        bits = int.from_bytes(struct.pack("<d", value), "little")
        if not bits & 0xFFFFFFFF:
            return f"{bits >> 32:#x}"
        if bits not in self.doubles:
            pair = next((p for p in DOUBLES if p not in self.doubles.values()), None)
            if pair is None:
                pair = self.doubles.pop(next(iter(self.doubles)))
            self.doubles[bits] = pair
            low, high = pair[2:-1].split(":")
            self.line(f"s_mov_b32 s{low}, {bits & 0xFFFFFFFF:#x}")
            self.line(f"s_mov_b32 s{high}, {bits >> 32:#x}")
        return self.doubles[bits]

    def line(
        self, form: str, writes: Sequence[Reg | Block] = (), reads: Sequence[Operand] = ()
    ) -> None:
        self.lines.append(AssemblyLine(form, list(writes), list(reads)))

    def _op(self, name: str, target: Reg | Block, reads: Sequence[Operand], first: str) -> None:
        self.line(f"{name} {{}}, {first}{', '.join(['{}'] * len(reads))}", [target], reads)

    def op(self, name: str, *reads: Operand, into: Reg | None = None, also: str = "") -> Reg:
        """Appends the instruction `name into, also, reads...` and returns `into`.

        If `into` is None, the result goes to a new VGPR. `also` is the text of a second
        destination.
        """
        target = into or self.reg()
        self._op(name, target, reads, f"{also}, " if also else "")
        return target

    def op64(self, name: str, *reads: Operand) -> Block:
        """Appends `name result, reads...` and returns the result, a new pair of VGPRs."""
        target = self.block(2)
        self._op(name, target, reads, "")
        return target

    def compare(self, name: str, *reads: Operand, into: str = "vcc_lo") -> str:
        """Appends the comparison `name into, reads...` and returns `into`.

        The SGPR `into` gets a bit for each lane where the comparison is true.
        """
        self.line(f"{name} {into}, {', '.join(['{}'] * len(reads))}", [], reads)
        return into

    def select(self, lanes: str, yes: Operand, no: Operand, into: Reg | None = None) -> Reg:
        """Appends an instruction that selects between two operands, and returns its VGPR.

        The VGPR gets `yes` in each lane whose bit in the SGPR `lanes` is set, `no` in the others.
        """
        # An instruction reads two SGPRs at most, and `lanes` is one of them.
        if is_sgpr(yes) and is_sgpr(no):
            yes = self.op("v_mov_b32", yes)
        return self.op("v_cndmask_b32", no, yes, lanes, into=into)

    def allocate(self, most: int) -> int:
        """Numbers all registers and returns how many VGPRs the code needs.

        Raises TooManyRegisters if these are more than `most`.
        """
        last: dict[Reg, int] = {}
        for at, line in enumerate(self.lines):
            for reg in (*line.written(), *line.read()):
                last[reg] = at
        free = [True] * most
        used = 0
        for at, line in enumerate(self.lines):
            for reg in set(line.read()):
                if last[reg] == at:
                    free[reg.number] = True
            for reg in line.written():
                if reg.number < 0:
                    used = max(used, _take(reg.block, free))
            for reg in set(line.written()):
                if last[reg] == at:  # no later line uses this register
                    free[reg.number] = True
        return used

    def text(self) -> str:
        """Returns the assembly text; `allocate` must have run."""
        lines: list[str] = []
        # For each earlier VALU line: (is it transcendental, numbers of the VGPRs that it writes).
        recent: list[tuple[bool, set[int]]] = []
        for line in self.lines:
            name = line.mnemonic
            if self.gen == 11 and name.startswith("v_"):
                if _too_early(recent, {reg.number for reg in line.read()}):
                    lines.append(WAIT_TRANS)
                    recent.clear()
                recent.append((name in _TRANS, {reg.number for reg in line.written()}))
                del recent[: -_TRANS_VALUS - 1]
            lines.append(str(line))
        return "\n".join(lines)


def _too_early(recent: list[tuple[bool, set[int]]], read: set[int]) -> bool:
    others = 0
    for is_trans, written in reversed(recent):
        if is_trans and written & read:
            return True
        others += is_trans
        if others > _TRANS_TRANS:
            return False
    return False


def _take(block: Block, free: list[bool]) -> int:
    """Gives a block the lowest consecutive free VGPRs; returns its highest VGPR number plus 1.

    Raises TooManyRegisters if no such VGPRs are free.
    """
    count = len(block)
    for first in range(len(free) - count + 1):
        if all(free[first : first + count]):
            for at, reg in enumerate(block.regs, first):
                reg.number, free[at] = at, False
            return first + count
    raise TooManyRegisters(
        f"expected {count} consecutive VGPRs free, got fewer; the code may use {len(free)}"
    )
