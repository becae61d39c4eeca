"""msgpack with limits. A stranger's bytes become plain data of limited size, or raise `Damaged`.

Extension types and objects are refused, so that no received data is executed or constructs
anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack


class Damaged(ValueError):
    """Raised for bytes that are not a message of this protocol. The text says what is wrong."""


def pack(value: Any) -> bytes:
    """Packs plain data: None, bool, int, float, str, bytes, list, dict with str keys."""
    packed: bytes = msgpack.packb(value, use_bin_type=True)
    return packed


def unpack(data: bytes | memoryview, most: int) -> Any:
    """Returns the value that all of `data` encodes.

    `most` limits the bytes of `data`, and the length of each str, bytes and list in the value.
    Raises Damaged for bytes that are not one such value.
    """
    if len(data) > most:
        raise Damaged(f"expected at most {most} bytes of msgpack, got {len(data)}")
    try:
        return msgpack.unpackb(
            data, raw=False, strict_map_key=True, max_str_len=most, max_bin_len=most,
            max_array_len=most, max_map_len=1024, max_ext_len=0,
        )  # fmt: skip
    except Exception as error:  # msgpack raises a dozen exception types
        raise Damaged(f"expected a msgpack value, decoding raised {type(error).__name__}") from None


class WireField:
    """The type of one field of a mapping, and the limits of its value, or of its length."""

    __slots__ = ("kind", "least", "most", "optional")

    def __init__(
        self, kind: type | tuple[type, ...], least: float = 0, most: float = 2**64 - 1,
        *, optional: bool = False,
    ) -> None:  # fmt: skip
        self.kind, self.least, self.most, self.optional = kind, least, most, optional

    def wrong(self, value: Any) -> str:
        """Returns what is wrong with the value, or "" for a valid value."""
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


def checked(mapping: Any, fields: Mapping[str, WireField], what: str) -> dict[str, Any]:
    """Returns `mapping` if it is a mapping with these fields and no others. Raises Damaged for the
    first error.
    """
    if type(mapping) is not dict:
        raise Damaged(f"{what}: expected a mapping, got {type(mapping).__name__}")
    for name in mapping:
        if name not in fields:
            raise Damaged(f"{what}: expected known fields, got {str(name)[:40]!r}")
    for name, field in fields.items():
        if name not in mapping:
            if not field.optional:
                raise Damaged(f"{what}: expected the field {name}, got none")
        elif said := field.wrong(mapping[name]):
            raise Damaged(f"{what}: {name}: {said}")
    return mapping
