"""Classes that declare data that hardware reads: bit fields, words, 64-bit numbers, records.

One declaration gives encoding, decoding, the place of every field in the encoded dwords, and
(through tools/gen.py) the C header. Nothing here knows packets or registers. A declaration of
overlapping fields raises ValueError. A value that does not fit, or a set bit without a field,
raises a ValueError that names the field.

A level is a generation of hardware: 9 is gfx9, 10 is gfx10.3, 11 is gfx11, 12 is gfx12. A field
exists on every level unless it names its levels. A field that moved between levels is declared as a
tuple of Fields, one for each place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, ClassVar

GFX = (9, 10, 11, 12)
G9, G10, G12 = (9,), (10,), (12,)
G10UP, G11UP = (10, 11, 12), (11, 12)
U32_MAX = 0xFFFFFFFF


def level(gfx: float) -> int:
    """Returns the level whose tables apply: 10 for 10.3. Raises ValueError if no tables apply."""
    if int(gfx) not in GFX:
        raise ValueError(f"gfx={gfx} is not one of {GFX} (10 is gfx10.3)")
    return int(gfx)


def canonical(va: int) -> int:
    """Returns the canonical form of a 48-bit address: bit 47 is extended to bits 63:48."""
    va &= (1 << 48) - 1
    return va | (0xFFFF << 48 if va >> 47 else 0)


@dataclass(frozen=True)
class Field:
    """Bits lo..hi of a dword. A dword holds the value minus `bias`, as in "bytes - 1"."""

    lo: int
    hi: int
    values: type[IntEnum] | None = None
    gfx: tuple[int, ...] = GFX
    bias: int = 0

    @cached_property
    def width(self) -> int:
        return self.hi - self.lo + 1

    @cached_property
    def mask(self) -> int:
        return ((1 << self.width) - 1) << self.lo

    def put(self, value: int, name: str) -> int:
        stored = int(value) - self.bias
        if not 0 <= stored < 1 << self.width:
            most = (1 << self.width) - 1 + self.bias
            raise ValueError(f"{name}={value:#x} does not fit {self}: {self.bias}..{most:#x}")
        return stored << self.lo

    def get(self, dword: int) -> int:
        return ((dword & self.mask) >> self.lo) + self.bias

    def __str__(self) -> str:
        return f"bits [{self.hi}:{self.lo}]"


def bits(
    lo: int,
    hi: int | None = None,
    values: type[IntEnum] | None = None,
    *,
    gfx: tuple[int, ...] = GFX,
    bias: int = 0,
) -> Field:
    """Declares the field of bits lo..hi of a dword, on the levels of `gfx`. Without `hi` it is the
    one bit `lo`.
    """
    hi = lo if hi is None else hi
    if not 0 <= lo <= hi <= 31:
        raise ValueError(f"bits [{hi}:{lo}] are not inside a dword")
    return Field(lo, hi, values, tuple(level(g) for g in gfx), bias)


@dataclass(frozen=True)
class ValuePlace:
    """The place of a value in encoded dwords. With it a caller can patch a template."""

    dw: int
    lo: int
    width: int  # bits of the value; 64 means this dword and the next
    bias: int = 0

    def get(self, dwords: Sequence[int]) -> int:
        """Returns the value at this place in `dwords`."""
        if self.width == 64:
            return dwords[self.dw] | dwords[self.dw + 1] << 32
        return Field(self.lo, self.lo + self.width - 1, bias=self.bias).get(dwords[self.dw])

    def after(self, ndw: int) -> ValuePlace:
        """Returns this place counted from `ndw` dwords earlier, as when the record follows other
        dwords in an IB.
        """
        return ValuePlace(self.dw + ndw, self.lo, self.width, self.bias)

    def patch(self, dwords: list[int], value: int) -> None:
        """Stores `value` at this place in `dwords`."""
        if self.width == 64:
            dwords[self.dw : self.dw + 2] = [value & U32_MAX, value >> 32 & U32_MAX]
            return
        field = Field(self.lo, self.lo + self.width - 1, bias=self.bias)
        dwords[self.dw] = dwords[self.dw] & ~field.mask | field.put(value, "value")


class Word:
    """A dword that is split into fields. Its value is a dict of the fields, or an int for the whole
    dword.
    """

    ndw = 1

    def __init__(self, default: int = 0, **fields: Field | tuple[Field, ...]):
        self.default = default
        self.fields = {n: f if isinstance(f, tuple) else (f,) for n, f in fields.items()}
        self._layouts = {g: self._layout(g) for g in GFX}
        self._allowed = {g: sum(f.mask for f in self._layouts[g].values()) for g in GFX}

    def _layout(self, gfx: int) -> dict[str, Field]:
        layout: dict[str, Field] = {}
        for name, forms in self.fields.items():
            for form in forms:
                if gfx not in form.gfx:
                    continue
                for other, there in layout.items():
                    if there.mask & form.mask:
                        raise ValueError(f"gfx{gfx}: {name} {form} overlaps {other} {there}")
                layout[name] = form
        return layout

    def layout(self, gfx: int) -> dict[str, Field]:
        """Returns the fields of a level, by name, in the order of their declaration."""
        return self._layouts[gfx]

    def allowed(self, gfx: int) -> int:
        """Returns the mask of all bits that the fields of a level declare."""
        return self._allowed[gfx]

    def check(self, dword: int, gfx: int, name: str) -> int:
        if not 0 <= dword <= U32_MAX:
            raise ValueError(f"{name}={dword:#x} is not a dword")
        if odd := dword & ~self._allowed[gfx]:
            raise ValueError(f"{name}={dword:#010x}: bits {odd:#x} are not declared on gfx{gfx}")
        return dword

    def encode(self, value: Any, gfx: int, name: str) -> list[int]:
        if value is None:
            return [self.default & self._allowed[gfx]]
        if not isinstance(value, Mapping):
            return [self.check(int(value), gfx, name)]
        layout, dword = self._layouts[gfx], 0
        for key, given in value.items():
            if key not in layout:
                raise ValueError(f"gfx{gfx} has no field {name}.{key}, only {', '.join(layout)}")
            dword |= layout[key].put(given, f"{name}.{key}")
        if self.default:
            for key in layout.keys() - value.keys():
                dword |= self.default & layout[key].mask
        return [dword]

    def decode(self, dwords: Sequence[int], gfx: int, name: str) -> dict[str, int]:
        self.check(dwords[0], gfx, name)
        return {key: field.get(dwords[0]) for key, field in self._layouts[gfx].items()}

    def places(self, dw: int, gfx: int, name: str) -> Iterator[tuple[str, ValuePlace]]:
        yield name, ValuePlace(dw, 0, 32)
        for key, field in self._layouts[gfx].items():
            yield f"{name}.{key}", ValuePlace(dw, field.lo, field.width, field.bias)

    def masks(self, gfx: int) -> list[int]:
        return [self._allowed[gfx]]


class U32:
    """A dword that holds one number."""

    ndw = 1

    def __init__(self, default: int = 0):
        self.default = default

    def encode(self, value: Any, gfx: int, name: str) -> list[int]:
        number = self.default if value is None else int(value)
        if not 0 <= number < 1 << 32 * self.ndw:
            raise ValueError(f"{name}={number:#x} does not fit {32 * self.ndw} bits")
        return [number >> 32 * i & U32_MAX for i in range(self.ndw)]

    def decode(self, dwords: Sequence[int], gfx: int, name: str) -> int:
        return sum(dwords[i] << 32 * i for i in range(self.ndw))

    def places(self, dw: int, gfx: int, name: str) -> Iterator[tuple[str, ValuePlace]]:
        yield name, ValuePlace(dw, 0, 32 * self.ndw)

    def masks(self, gfx: int) -> list[int]:
        return [U32_MAX] * self.ndw


class U64(U32):
    """A number of two dwords, the low dword first."""

    ndw = 2


class Addr(U64):
    """A GPU address of two dwords, the low dword first. It is a multiple of `align` bytes. Bits
    63:48 are 0 or repeat bit 47.
    """

    def __init__(self, align: int = 4):
        super().__init__()
        self.align = align

    def check(self, va: int, name: str) -> int:
        if va % self.align:
            raise ValueError(f"{name}={va:#x} is not a multiple of {self.align}")
        if va >> 48 and va != canonical(va):
            raise ValueError(f"{name}={va:#x} is not canonical: bits 63:48 must repeat bit 47")
        return va

    def encode(self, value: Any, gfx: int, name: str) -> list[int]:
        return super().encode(None if value is None else self.check(int(value), name), gfx, name)

    def decode(self, dwords: Sequence[int], gfx: int, name: str) -> int:
        return self.check(super().decode(dwords, gfx, name), name)

    def masks(self, gfx: int) -> list[int]:
        return [U32_MAX & ~(self.align - 1), U32_MAX]


class Tail:
    """All dwords up to the end of the record: `least` or more, in steps of `step`."""

    ndw = 0

    def __init__(self, least: int = 1, most: int = 0x3FFF, step: int = 1):
        self.least, self.most, self.step = least, most, step

    def check(self, count: int, name: str) -> None:
        if not self.least <= count <= self.most or count % self.step:
            step = f", a multiple of {self.step}" if self.step > 1 else ""
            raise ValueError(
                f"{name}: got {count} dwords, expected {self.least}..{self.most}{step}"
            )

    def encode(self, value: Any, gfx: int, name: str) -> list[int]:
        dwords = [int(v) for v in value or ()]
        self.check(len(dwords), name)
        for i, dword in enumerate(dwords):
            if not 0 <= dword <= U32_MAX:
                raise ValueError(f"{name}[{i}]={dword:#x} is not a dword")
        return dwords

    def decode(self, dwords: Sequence[int], gfx: int, name: str) -> list[int]:
        self.check(len(dwords), name)
        return list(dwords)

    def places(self, dw: int, gfx: int, name: str) -> Iterator[tuple[str, ValuePlace]]:
        yield f"{name}[0]", ValuePlace(dw, 0, 32)

    def masks(self, gfx: int) -> list[int]:
        return []


Element = Word | U32 | Tail


class Record:
    """A sequence of elements that a subclass declares. A header comes first, a Tail last."""

    ELEMENTS: ClassVar[dict[str, Element]] = {}
    NAME: ClassVar[str] = ""

    @classmethod
    def declare(cls, header: Word | None, name: str) -> None:
        """Collects the elements of the class body, in order, after `header` if there is one."""
        cls.NAME = name
        kinds = (Word, U32, Tail)
        own = {k: v for k, v in vars(cls).items() if isinstance(v, kinds) and k != "header"}
        cls.ELEMENTS = {"header": header, **own} if header else own
        for i, element in enumerate(own.values()):
            if isinstance(element, Tail) and i != len(own) - 1:
                raise ValueError(f"{name}: expected a Tail as the last element only")

    @classmethod
    def tail(cls) -> Tail | None:
        last = list(cls.ELEMENTS.values())[-1]
        return last if isinstance(last, Tail) else None

    @classmethod
    def fixed_ndw(cls) -> int:
        """Returns the number of dwords of the header and of all elements but the Tail."""
        return sum(element.ndw for element in cls.ELEMENTS.values())

    @classmethod
    def encode_elements(cls, gfx: int, values: Mapping[str, Any]) -> list[int]:
        if unknown := values.keys() - cls.ELEMENTS.keys():
            raise ValueError(f"{cls.NAME} has no {', '.join(sorted(unknown))}: {_names(cls)}")
        dwords: list[int] = []
        for name, element in cls.ELEMENTS.items():
            dwords += element.encode(values.get(name), gfx, f"{cls.NAME}.{name}")
        return dwords

    @classmethod
    def decode_elements(cls, gfx: int, dwords: Sequence[int]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        at = 0
        for name, element in cls.ELEMENTS.items():
            end = len(dwords) if isinstance(element, Tail) else at + element.ndw
            values[name] = element.decode(dwords[at:end], gfx, f"{cls.NAME}.{name}")
            at = end
        return values

    @classmethod
    def check_length(cls, ndw: int) -> None:
        tail, fixed = cls.tail(), cls.fixed_ndw()
        if tail is None and ndw != fixed:
            raise ValueError(f"{cls.NAME}: got {ndw} dwords, expected {fixed}")
        if ndw < fixed:
            raise ValueError(f"{cls.NAME}: got {ndw} dwords, expected at least {fixed}")
        if tail is not None:
            tail.check(ndw - fixed, f"{cls.NAME}.{list(cls.ELEMENTS)[-1]}")

    @classmethod
    def places(cls, gfx: int = 11) -> dict[str, ValuePlace]:
        """Returns the place of every field in the encoded dwords, by name. Dword 0 is the packet's
        header.
        """
        places: dict[str, ValuePlace] = {}
        at = 0
        for name, element in cls.ELEMENTS.items():
            places.update(element.places(at, gfx, name))
            at += element.ndw
        return places

    @classmethod
    def where(cls, name: str, gfx: float = 11) -> ValuePlace:
        """Returns the place of a field such as "addr", "event.type" or "values[0]". Raises KeyError
        with the names that exist.
        """
        places = cls.places(level(gfx))
        if name not in places:
            raise KeyError(f"{cls.NAME} has no {name}; it has {', '.join(places)}")
        return places[name]

    @classmethod
    def masks(cls, gfx: int) -> list[int]:
        """Returns, for each dword before the Tail, the mask of the bits that a level declares."""
        return [mask for element in cls.ELEMENTS.values() for mask in element.masks(gfx)]


def _names(cls: type[Record]) -> str:
    return "it has " + ", ".join(cls.ELEMENTS)
