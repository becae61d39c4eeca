"""Finds the values of registers at a dispatch, by following the packets that write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sparkle_drv.amd.tables import regs
from sparkle_drv.amd.tables.setreg import register_name

from .print import register_value, writes
from .run import PacketStep

DISPATCHES = ("DISPATCH_DIRECT", "DISPATCH_INDIRECT", "DISPATCH_INDIRECT_GFX")


@dataclass(frozen=True)
class RegisterWrite:
    """A write of a register: the register and its new value. `index` is the field `index` of the
    SET packet. If it is 3, the kernel driver's mask of usable CUs is applied to the value.
    """

    space: str
    offset: int
    value: int
    gfx: int
    index: int = 0

    @property
    def register(self) -> regs.Register | None:
        return regs.at(self.space, self.offset, self.gfx)

    @property
    def name(self) -> str:
        return register_name(self.space, self.offset, self.gfx)

    def get(self, field_name: str) -> int:
        """Returns a field of the written value, or 0 if the register has no such field."""
        register = self.register
        form = register.word.layout(self.gfx).get(field_name) if register else None
        return form.get(self.value) if form else 0

    def __str__(self) -> str:
        index = f" (index {self.index})" if self.index else ""
        fields = register_value(self.register, self.value, self.gfx)
        more = f" {fields}" if fields[0] == "{" else ""
        return f"{self.value:#x}{more}{index}"


def written(step: PacketStep) -> list[RegisterWrite]:
    """Returns the registers that a packet writes, in order. Most packets write none.

    >>> ib = lowlevel.Ib((0xC0017600, 0x207, 64), gfx=11)
    >>> write = lowlevel.written(next(lowlevel.run([ib])))[0]
    >>> write.space, write.offset, write.value
    ('SH', 519, 64)
    """
    pairs = writes(step.packet)
    if not pairs:
        return []
    space = getattr(step.packet.cls, "SPACE", "")
    index = step.packet.fields.get("reg", {}).get("index", 0)
    return [RegisterWrite(space, offset, value, step.ib.gfx, index) for offset, value in pairs]


State = dict[str, RegisterWrite]


@dataclass(frozen=True)
class IbEvent:
    """An executed packet that writes no register. For a dispatch, `state` has the register values
    at that dispatch; for other packets it is empty.
    """

    step: PacketStep
    state: State = field(default_factory=dict)


def is_dispatch(step: PacketStep) -> bool:
    return step.name in DISPATCHES


def play(steps: Iterable[PacketStep], state: State) -> Iterator[IbEvent]:
    """Yields an event for every step that writes no register. Stores the register writes in
    `state`, which is complete at the end.
    """
    for step in steps:
        found = written(step)
        if found:
            state.update((write.name, write) for write in found)
        else:
            yield IbEvent(step, dict(state) if is_dispatch(step) else {})
