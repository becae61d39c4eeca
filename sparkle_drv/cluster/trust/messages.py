"""The fields of handshake messages, sent before a session has keys, and how a refusal is sent.

A message is a dict of str to int, str, bytes or bool. A field has a type and limits. A message must
have exactly the expected fields. Otherwise Refused is raised, and no other exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkle_drv.cluster.refused import Refused

MOST_REFUSED = 300
"""Characters of a refusal that travels, at most."""


@dataclass(frozen=True)
class MessageField:
    """The type of a field, with limits of an int's value, or of the length of str and bytes. All
    characters of a str must be printable.
    """

    kind: type
    least: int = 0
    most: int = 0

    def complaint(self, value: object) -> str:
        """Returns what is wrong with a value, or "" for a valid value."""
        # `type`, since bool is a subclass of int but not allowed as a number
        if type(value) is not self.kind:
            return f"expected {self.kind.__name__}, got {type(value).__name__}"
        if isinstance(value, bool):
            return ""
        size = value if isinstance(value, int) else len(value)  # type: ignore[arg-type]
        if self.least <= size <= self.most:
            bad = isinstance(value, str) and not value.isprintable()
            return "expected characters that print, got others" if bad else ""
        span = f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"
        unit = {int: "", str: " characters", bytes: " bytes"}[self.kind]
        # Python refuses to print very long numbers.
        got = f"{size}" if abs(size) < 1 << 64 else "a number beyond 64 bits"
        return f"expected {span}{unit}, got {got}"


def checked(message: object, fields: Mapping[str, MessageField], whose: str) -> dict[str, Any]:
    """Returns `message` if it has exactly `fields`. Otherwise raises Refused, with the other end's
    reason if the message is a refusal.
    """
    raise_if_refusal(message, whose)
    if type(message) is not dict:
        raise Refused(f"{whose}: expected a message with fields, got {type(message).__name__}")
    if missing := [name for name in fields if name not in message]:
        raise Refused(f"{whose}: expected the field {missing[0]}, got none")
    for name, value in message.items():
        field = fields.get(name) if isinstance(name, str) else None
        if field is None:
            raise Refused(f"{whose}: expected {len(fields)} known fields, got also {shown(name)}")
        if complaint := field.complaint(value):
            raise Refused(f"{whose}: {name}: {complaint}")
    return message


def shown(value: object) -> str:
    """Makes a peer's text fit for our messages: shortened, with printable characters only."""
    if not isinstance(value, str):
        return f"a {type(value).__name__}"
    return printable(repr(value[:40]), 64)


def printable(text: str, most: int) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[: most + 1])[:most]


def refusal(error: Refused) -> dict[str, Any]:
    """Returns the message that tells the other end of a refusal."""
    return {"refused": printable(str(error), MOST_REFUSED)}


def raise_if_refusal(message: object, whose: str) -> None:
    """Raises Refused with the other end's text if the message is a refusal."""
    if type(message) is dict and "refused" in message:
        said = message["refused"]
        text = printable(said, MOST_REFUSED) if isinstance(said, str) else "no reason given"
        raise Refused(f"{whose} refused: {text}")
