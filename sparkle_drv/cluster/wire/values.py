"""msgpack with limits: a stranger's bytes become plain data of known size, or raise `Damaged`.

No extension types and no objects: nothing from a wire is executed or constructed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack


class Damaged(ValueError):
    """Bytes that are no message of ours; the text says what is wrong."""


def pack(value: Any) -> bytes:
    """Plain data (None, bool, int, float, str, bytes, list, dict with str keys) as bytes."""
    packed: bytes = msgpack.packb(value, use_bin_type=True)
    return packed


def unpack(data: bytes | memoryview, most: int) -> Any:
    """The value that `data` encodes, all of it. `most` limits its bytes and each part's length.

    Raises Damaged.
    """
    if len(data) > most:
        raise Damaged(f"expected at most {most} bytes, got {len(data)}")
    try:
        return msgpack.unpackb(
            data, raw=False, strict_map_key=True, max_str_len=most, max_bin_len=most,
            max_array_len=most, max_map_len=1024, max_ext_len=0,
        )  # fmt: skip
    except Exception as error:  # msgpack raises a dozen kinds
        raise Damaged(f"expected a msgpack value, got {type(error).__name__}") from None


class Field:
    """What a field of a mapping must be: a type, and limits of its number or length."""

    __slots__ = ("kind", "least", "most", "optional")

    def __init__(
        self, kind: type | tuple[type, ...], least: float = 0, most: float = 2**64 - 1,
        *, optional: bool = False,
    ) -> None:  # fmt: skip
        self.kind, self.least, self.most, self.optional = kind, least, most, optional

    def wrong(self, value: Any) -> str:
        """What is wrong with the value, as text; "" if nothing is."""
        kinds = self.kind if isinstance(self.kind, tuple) else (self.kind,)
        if type(value) not in kinds:
            wanted = " or ".join(kind.__name__ for kind in kinds)
            return f"expected {wanted}, got {type(value).__name__}"
        if isinstance(value, bool) or value is None:
            return ""
        size = value if isinstance(value, int | float) else len(value)
        if not self.least <= size <= self.most:
            what = "" if isinstance(value, int | float) else "a length of "
            return f"expected {what}{self.least} to {self.most}, got {size}"
        return ""


def checked(given: Any, fields: Mapping[str, Field], what: str) -> dict[str, Any]:
    """`given`, if it is a mapping of exactly these fields. Raises Damaged for the first error."""
    if type(given) is not dict:
        raise Damaged(f"{what}: expected a mapping, got {type(given).__name__}")
    for name in given:
        if name not in fields:
            raise Damaged(f"{what}: expected known fields, got {str(name)[:40]!r}")
    for name, field in fields.items():
        if name not in given:
            if not field.optional:
                raise Damaged(f"{what}: expected the field {name}, got none")
        elif said := field.wrong(given[name]):
            raise Damaged(f"{what}: {name}: {said}")
    return given
