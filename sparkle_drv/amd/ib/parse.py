"""Parses the text form to dwords: the output of `print.text`, or a text that a person wrote. Every
error is a TextError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkle_drv.amd.tables import regs
from sparkle_drv.amd.tables.bits import U32_MAX, Addr, Element, Field, Record, Tail, Word
from sparkle_drv.amd.tables.setreg import PACKED, SetPairs, SetPairsPacked, SetRegisters

from .lex import IbToken, StatementPart, TextError, items, statements
from .model import IPS, MAX_DWORDS, Ib, read_gfx, read_ip
from .shape import BYTES, IB, NOP, RAW, WRITERS, by_name, close, implied, layout_of, required

# limit of dwords in one text; needed because a short NOP*N can mean any number of dwords
TOTAL_MAX = 1 << 22
# The largest register offset that a packet can hold. It limits the first register of a packet that
# writes consecutive registers, and each register of a packet that has two offsets in a dword.
OFFSET_MAX = 0xFFFF
NO_GFX = "no gfx is given: begin with IB gfx=11, or use --gfx"


def parse(text: str, gfx: int | None = None, ip: str = "compute") -> list[Ib]:
    """Returns the IBs of a text. `gfx` and `ip` are defaults for the IB statements. Raises
    TextError, with line and column, for a wrong statement.

    >>> lowlevel.parse("IB gfx=11 ip=compute\\nNOP payload=0\\n")[0].dwords
    (3221229568, 0)
    """
    return _IbReader(gfx, ip).read(text)


class _IbReader:
    """Collects IBs, one statement after another."""

    def __init__(self, gfx: int | None, ip: str):
        self.about: dict[str, Any] = {"gfx": gfx, "ip": ip}
        self.start = dict(self.about)
        self.ibs: list[Ib] = []
        self.dwords: list[int] = []
        self.extra = b""
        self.opened, self.total = False, 0

    def read(self, text: str) -> list[Ib]:
        for head, *rest in statements(text):
            if head.text == IB:
                self.close_ib()
                if self.total > TOTAL_MAX:
                    raise head.error(f"expected at most {TOTAL_MAX} dwords in a text, got more")
                self.about, self.opened = {**self.start, **header(rest)}, True
                continue
            if self.extra:
                raise head.error(f"nothing can follow {BYTES} in an IB")
            self.packet(head, rest)
            if len(self.dwords) > MAX_DWORDS:
                raise head.error(f"expected at most {MAX_DWORDS} dwords in an IB, got more")
        self.close_ib()
        return self.ibs

    def close_ib(self) -> None:
        if not self.opened and not self.dwords and not self.extra:
            return
        if self.about["gfx"] is None:
            raise TextError(1, 1, NO_GFX)
        self.ibs.append(Ib(tuple(self.dwords), extra=self.extra, **self.about))
        self.total += len(self.dwords)
        self.dwords, self.extra = [], b""

    def packet(self, head: IbToken, rest: list[IbToken]) -> None:
        if head.text == RAW:
            self.dwords += [ranged(token, U32_MAX, RAW) for token in rest]
        elif head.text == BYTES:
            self.extra = bytes(ranged(token, 0xFF, BYTES) for token in rest)
            if len(self.extra) > 3:
                raise head.error(
                    f"{BYTES}: expected at most three: four bytes are a dword, which needs {RAW}"
                )
        else:
            if self.about["gfx"] is None:
                raise head.error(NO_GFX)
            self.dwords += encode(head, rest, self.about["gfx"], self.about["ip"])


def header(rest: list[IbToken]) -> dict[str, Any]:
    """Returns the values of an IB statement: gfx, ip, va and padding. Ignores depth and ndw, which
    only inform a person.
    """
    values: dict[str, Any] = {}
    for item in items(rest):
        key, value = item.key, _single(item)
        try:
            if key.text == "gfx":
                values["gfx"] = read_gfx(value.text)
            elif key.text == "ip":
                values["ip"] = read_ip(value.text)
            elif key.text == "va":
                values["va"] = ranged(value, (1 << 64) - 1, "va")
            elif key.text == "padding" and value.text == "unknown":
                values["complete"] = False
            elif key.text not in ("depth", "ndw"):
                raise key.error(
                    f"the line IB: expected gfx, ip, va or padding, got {key.text[:40]}"
                )
        except TextError:
            raise
        except ValueError as error:
            raise value.error(str(error)) from None
    return values


def encode(head: IbToken, rest: list[IbToken], gfx: int, ip: str) -> list[int]:
    """Returns the dwords of one statement."""
    name, star, times = head.text.partition("*")
    packets = by_name(gfx, ip)
    if name not in packets:
        elsewhere = [i for i in IPS if name in by_name(gfx, i)]
        more = f"; {' and '.join(elsewhere)} queues have it" if elsewhere else ""
        raise head.error(
            f"gfx{gfx} {ip} queues have no packet {name[:40]!r}{more or close(name, list(packets))}"
        )
    repeat = 1
    if star:
        repeat = ranged(
            IbToken(times, head.line, head.column + len(name) + 1), MAX_DWORDS, "repeats"
        )
        if name != NOP or rest:
            raise head.error(f"only {NOP} without fields can be repeated")
    cls = packets[name]
    given = list(items(rest))
    own = [item for item in given if item.key.text in cls.ELEMENTS]
    others = [item for item in given if item.key.text not in cls.ELEMENTS]
    if others and not issubclass(cls, WRITERS):
        key = others[0].key
        names = [n for n in cls.ELEMENTS if n != "header"]
        raise key.error(
            f"{name} has no {key.text[:40]}{close(key.text, names)}; it has {', '.join(names)}"
        )
    values = elements(cls, head, own, gfx)
    try:
        if issubclass(cls, WRITERS):
            values.update(registers(cls, head, others, gfx, values.get("reg", {})))
        return cls.encode(gfx=gfx, **values) * repeat  # type: ignore[attr-defined, no-any-return]
    except TextError:
        raise
    except ValueError as error:
        raise head.error(str(error)) from None


def elements(
    cls: type[Record], head: IbToken, own: Sequence[StatementPart], gfx: int
) -> dict[str, Any]:
    """Returns the values of a packet's elements by name, as the packet's `encode` takes them.
    Raises TextError if a value is wrong, given twice or missing.
    """
    values: dict[str, Any] = {}
    for item in own:
        name = item.key.text
        element = cls.ELEMENTS[name]
        if name in implied(cls) and name != "reg":
            raise item.key.error(
                f"{cls.NAME}.{name} is computed from the registers: name those instead"
            )
        where = f"{cls.NAME}.{name}"
        if isinstance(element, Tail):
            dwords = [ranged(token, U32_MAX, where) for token in _numbers(item)]
            values[name] = values.get(name, []) + dwords
        elif name in values:
            raise item.key.error(f"{where} is given twice")
        else:
            values[name] = _value(item, element, layout_of(cls, name, element, gfx)
                                  if isinstance(element, Word) else {}, gfx, where)  # fmt: skip
    for name, element in cls.ELEMENTS.items():
        if name not in values and name not in implied(cls) and required(name, element, gfx):
            raise head.error(f"{cls.NAME} lacks {name}: {_wanted(element, gfx)}")
    return values


def _wanted(element: Element, gfx: int) -> str:
    if isinstance(element, Tail):
        return f"{element.least}..{element.most} dwords"
    if isinstance(element, Word):
        return "{" + " ".join(f"{k}={_range(f)}" for k, f in element.layout(gfx).items()) + "}"
    return f"0..{(1 << 32 * element.ndw) - 1:#x}"


def _value(
    item: StatementPart, element: Element, layout: dict[str, Field], gfx: int, where: str
) -> Any:
    if isinstance(element, Word):
        if item.fields is not None:
            return word_fields(item.fields, layout, where)
        if where.endswith(".header"):
            raise item.key.error(f"{where}: expected fields in brackets: {', '.join(layout)}")
        token = _single(item)
        value = ranged(token, U32_MAX, where)
        if odd := value & ~element.allowed(gfx):
            raise token.error(f"{where}={value:#x}: gfx{gfx} declares no bits {odd:#x} of it")
        return value
    token = _single(item)
    assert not isinstance(element, Tail)
    value = ranged(token, (1 << 32 * element.ndw) - 1, where)
    if isinstance(element, Addr):
        try:
            element.check(value, where)
        except ValueError as error:
            raise token.error(str(error)) from None
    return value


def word_fields(
    pairs: Sequence[tuple[IbToken, IbToken]], layout: dict[str, Field], where: str
) -> dict[str, int]:
    """Returns the values of a word's fields. Raises TextError for a value out of range."""
    values: dict[str, int] = {}
    for name, token in pairs:
        field = layout.get(name.text)
        if field is None:
            more = close(name.text, list(layout)) or f"; it has {', '.join(layout) or 'none'}"
            raise name.error(f"{where} has no field {name.text[:40]}{more}")
        if name.text in values:
            raise name.error(f"{where}.{name.text} is given twice")
        known = field.values.__members__ if field.values else {}
        value = int(known[token.text]) if token.text in known else token.number()
        if not 0 <= value - field.bias < 1 << field.width:
            raise token.error(
                f"{where}.{name.text}={token.text} does not fit {field}: {_range(field)}"
            )
        values[name.text] = value
    return values


def registers(
    cls: type[Record], head: IbToken, parts: Sequence[StatementPart], gfx: int, reg: Any
) -> dict[str, Any]:
    """Returns the elements of a SET packet that are computed from its list of registers."""
    if not parts:
        raise head.error(f"{cls.NAME}: expected at least one register, got none")
    space = cls.SPACE  # type: ignore[attr-defined]
    pairs = [(item, *register(space, item, gfx)) for item in parts]
    limited = pairs[:1] if issubclass(cls, SetRegisters) else pairs
    if not issubclass(cls, SetPairs):
        for item, offset, _ in limited:
            if offset > OFFSET_MAX:
                raise item.key.error(
                    f"{item.key.text} does not fit: expected offsets 0..{OFFSET_MAX:#x}"
                )
    if issubclass(cls, SetRegisters):
        first = pairs[0][1]
        for i, (item, offset, _) in enumerate(pairs):
            if offset != first + i:
                raise item.key.error(f"expected the next register by address, got {item.key.text}")
        if not isinstance(reg, dict):
            raise head.error(f"{cls.NAME}.reg: expected fields in brackets")
        return {"reg": {**reg, "offset": first}, "values": [value for _, _, value in pairs]}
    if issubclass(cls, SetPairs):
        return {"pairs": [n for _, offset, value in pairs for n in (offset, value)]}
    assert issubclass(cls, SetPairsPacked)
    if len(pairs) % 2:
        raise head.error(f"{cls.NAME}: expected an even number of registers, got {len(pairs)}")
    triples: list[int] = []
    for (_, o0, v0), (_, o1, v1) in zip(pairs[::2], pairs[1::2], strict=True):
        triples += [*PACKED.encode({"offset0": o0, "offset1": o1}, gfx, cls.NAME), v0, v1]
    return {"count": len(pairs), "triples": triples}


def register(space: str, item: StatementPart, gfx: int) -> tuple[int, int]:
    """Returns offset and value for `NAME=value`, `NAME={FIELD=1}` or `SH+0x20c=value`."""
    key = item.key
    if key.text.startswith(f"{space}+"):
        number = IbToken(key.text[len(space) + 1 :], key.line, key.column + len(space) + 1)
        offset, word = ranged(number, U32_MAX, f"offset in {space}"), regs.ALL
    else:
        reg = named(key, gfx)
        if reg.space != space:
            raise key.error(f"{reg.name}: expected a register of {space}, got one of {reg.space}")
        offset, word = reg.offset(gfx), reg.word
    if item.fields is not None:
        fields = word_fields(item.fields, word.layout(gfx), key.text)
        return offset, word.encode(fields, gfx, key.text)[0]
    return offset, ranged(_single(item), U32_MAX, key.text)


def named(key: IbToken, gfx: int) -> regs.Register:
    try:
        reg = regs.find(key.text)
        reg.address(gfx)
    except KeyError:
        names = [*regs.REGISTERS, *regs.ALIASES]
        raise key.error(f"no register {key.text[:60]}{close(key.text, names)}") from None
    except ValueError as error:
        raise key.error(str(error)) from None
    return reg


def ranged(token: IbToken, most: int, where: str) -> int:
    value = token.number()
    if not 0 <= value <= most:
        raise token.error(f"{where}={token.text} does not fit: 0..{most:#x}")
    return value


def _range(field: Field) -> str:
    return f"{field.bias}..{(1 << field.width) - 1 + field.bias:#x}"


def _numbers(item: StatementPart) -> list[IbToken]:
    if item.fields is not None:
        raise item.key.error(f"{item.key.text}: expected numbers, got fields")
    return item.values


def _single(item: StatementPart) -> IbToken:
    values = _numbers(item)
    if len(values) != 1:
        raise values[1].error(f"{item.key.text}: expected one value, got {len(values)}")
    return values[0]
