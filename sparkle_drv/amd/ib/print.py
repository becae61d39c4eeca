"""Prints dwords as text: one statement per packet, registers with their fields. Nothing is lost.

`parse.parse` makes the same dwords of this text. A packet that no table declares becomes a RAW
statement, with the reason in a comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from sparkle_drv.amd.tables import regs
from sparkle_drv.amd.tables.bits import Field, Record, Tail, Word
from sparkle_drv.amd.tables.packet import Decoded
from sparkle_drv.amd.tables.setreg import SetPairsPacked, register_name

from .model import Ib
from .shape import BYTES, IB, NOP, RAW, implied, layout_of, required

WIDTH = 100
DWORDS_A_LINE = 8


def text(ibs: Iterable[Ib], notes: Mapping[tuple[int, int], str] | None = None) -> str:
    """Returns the text of all IBs. `notes` has comments by (number of the IB, dword of the packet).

    >>> print(lowlevel.text([lowlevel.Ib((0xC0001000, 0), gfx=11)]), end="")
    IB gfx=11 ip=compute
    NOP payload=0
    """
    lines: list[str] = []
    for number, ib in enumerate(ibs):
        lines += [header(ib)]
        lines += ib_lines(ib, {at: note for (n, at), note in (notes or {}).items() if n == number})
    return "\n".join(lines) + "\n"


def header(ib: Ib) -> str:
    words = [IB, f"gfx={ib.gfx}", f"ip={ib.ip}"]
    words += [f"va={ib.va:#x}"] if ib.va is not None else []
    return " ".join(words + ([] if ib.complete else ["padding=unknown"]))


def ib_lines(ib: Ib, notes: Mapping[int, str]) -> Iterator[str]:
    """Yields the statements of one IB. Consecutive NOPs share a statement. `notes` maps the index
    of a packet's first dword to a comment.
    """
    for nop, run in groupby(ib.packets(), lambda p: _is_filler(p) and p.at not in notes):
        packets = list(run)
        if nop:
            yield NOP if len(packets) == 1 else f"{NOP}*{len(packets)}"
            continue
        for packet in packets:
            yield from statement(packet, ib.gfx, notes.get(packet.at, ""))
    if ib.extra:
        yield " ".join([BYTES, *(f"{byte:#04x}" for byte in ib.extra)])


def _is_filler(packet: Decoded) -> bool:
    return packet.cls is not None and packet.cls.NAME == NOP and not any(packet.fields.values())


def statement(packet: Decoded, gfx: int, note: str = "") -> Iterator[str]:
    """Yields the lines of one packet.

    >>> ib = lowlevel.Ib((0xC0001000, 0), gfx=11)
    >>> [line for packet in ib.packets() for line in lowlevel.statement(packet, ib.gfx)]
    ['NOP payload=0']
    """
    note = f"  # {note}" if note else ""
    if packet.cls is None:
        lines = list(_dword_lines(packet.dwords))
        yield f"{RAW} {lines[0]}  # {packet.error}"
        yield from (f"    {line}" for line in lines[1:])
        return
    first, *rest = _wrapped([packet.cls.NAME, *_items(packet.cls, packet.fields, gfx)])
    yield first + note
    yield from rest
    yield from (f"  {line}" for line in _register_lines(packet, gfx))


def number(value: int) -> str:
    return str(value) if value < 10 else f"{value:#x}"


def field_value(field: Field, value: int) -> str:
    """Returns the text of a packet's field: the name of an enumerator, or a number.

    >>> register = lowlevel.lookup("COMPUTE_NUM_THREAD_X", gfx=11)[0]
    >>> lowlevel.field_value(register.word.fields["FULL"][0], 64)
    '0x40'
    """
    known = field.values is not None and value in set(field.values)
    return field.values(value).name if known and field.values else number(value)


def word_value(
    word: Word, value: Mapping[str, int], layout: Mapping[str, Field], must: bool
) -> str | None:
    """Returns "{field=1 other=2}" with the fields that differ from their defaults. If no field
    differs, returns None. With `must` the result is never None. If no field differs, the result
    then has the fields whose value is stored minus a constant (`bias`), or is "0" if there are
    none.
    """
    shown = {k: v for k, v in value.items() if k in layout and v != layout[k].get(word.default)}
    if not shown and must:
        # A field with a bias is not 0 when the dword is 0. So it is written out.
        shown = {k: v for k, v in value.items() if layout[k].bias}
        if not shown:
            return "0"
    if not shown:
        return None
    return "{" + " ".join(f"{k}={field_value(layout[k], v)}" for k, v in shown.items()) + "}"


def _items(cls: type[Record], fields: Mapping[str, Any], gfx: int) -> Iterator[str]:
    for name, element in cls.ELEMENTS.items():
        if name not in fields:
            continue
        value, must = fields[name], required(name, element, gfx)
        if name in implied(cls):
            if name == "reg":
                value, must = {**value, "offset": 0}, False
            else:
                continue
        if isinstance(element, Word):
            said = word_value(element, value, layout_of(cls, name, element, gfx), must)
            if said is not None:
                yield f"{name}={said}"
        elif isinstance(element, Tail):
            for i in range(0, len(value), DWORDS_A_LINE):
                yield f"{name}={','.join(number(v) for v in value[i : i + DWORDS_A_LINE])}"
        elif must or value != element.default:
            yield f"{name}={number(value)}"


def writes(packet: Decoded) -> list[tuple[int, int]]:
    """Returns each write of a SET packet: (offset in dwords in its register space, value)."""
    fields, cls = packet.fields, packet.cls
    if cls is None or not implied(cls):
        return []
    if "values" in fields:
        first = fields["reg"]["offset"]
        return [(first + i, value) for i, value in enumerate(fields["values"])]
    if "pairs" in fields:
        return list(zip(fields["pairs"][::2], fields["pairs"][1::2], strict=True))
    return list(SetPairsPacked.registers(fields["triples"]))


def _register_lines(packet: Decoded, gfx: int) -> Iterator[str]:
    space = getattr(packet.cls, "SPACE", "")
    for offset, value in writes(packet):
        register = regs.at(space, offset, gfx)
        line = f"{register_name(space, offset, gfx)}={register_value(register, value, gfx)}"
        odd = value & ~register.word.allowed(gfx) if register else 0
        yield f"{line}  # gfx{gfx} declares no bits {odd:#x} of it" if odd else line


def register_value(register: regs.Register | None, value: int, gfx: int) -> str:
    """Returns a register's value as fields, such as "{FULL=0x40}". Returns one number if the value
    is 0, if the register is unknown or has one field, or if a set bit belongs to no field.

    >>> register = lowlevel.lookup("COMPUTE_NUM_THREAD_X", gfx=11)[0]
    >>> lowlevel.register_value(register, 64, 11)
    '{FULL=0x40}'
    """
    if register is None or value & ~register.word.allowed(gfx):
        return number(value)
    layout = register.for_gfx(gfx)
    if not value or len(layout) == 1:
        return number(value)
    said = word_value(register.word, register.decode(value, gfx), layout, False)
    return said or number(value)


def _dword_lines(dwords: Sequence[int]) -> Iterator[str]:
    for i in range(0, len(dwords), DWORDS_A_LINE):
        yield " ".join(f"{dword:#010x}" for dword in dwords[i : i + DWORDS_A_LINE])


def _wrapped(items: Iterable[str]) -> list[str]:
    """Returns the items as one line, or as several lines of which all but the first are indented.
    Breaks an item only if it does not fit on a line of its own.
    """
    lines = [""]
    for item in items:
        whole = len(item) + 4 <= WIDTH
        for word in [item] if whole else item.split(" "):
            if lines[-1] and len(lines[-1]) + 1 + len(word) > WIDTH:
                lines.append(f"    {word}")
            else:
                lines[-1] += f" {word}" if lines[-1] else word
    return lines
