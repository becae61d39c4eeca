"""What one client and one session may hold. An error names the quota, its value and the request."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from sparkle_drv.errors import OutOfDeviceMemory

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# Quotas that raise OutOfDeviceMemory when they are full; all others raise ValueError.
_MEMORY = ("memory", "buffers")


@dataclass(frozen=True)
class Quotas:
    """The limits of one client, over all sessions of its certificate's name. Only `queues`,
    `kernels` and `prepared` are limits of one session.
    """

    memory: int = 8 << 30
    """Bytes of buffers. Bytes of a freed buffer count until no work uses them."""
    buffers: int = 1 << 16
    queues: int = 16
    kernels: int = 1024
    prepared: int = 1 << 16
    """Prepared launches."""
    flight: int = 256 << 20
    """Bytes of transfers in flight; also the largest transfer."""
    waiting: int = 128 << 20
    """Bytes of requests that have arrived and were not executed."""
    sessions: int = 8
    """Sessions at a time. An endpoint's credit has room for 11 or more."""

    def by_name(self) -> dict[str, int]:
        """Returns the quotas by name."""
        return asdict(self)

    def check(self, name: str, in_use: int, more: int = 1) -> None:
        """Raises OutOfDeviceMemory or ValueError if `in_use + more` exceeds the quota `name`."""
        most: int = getattr(self, name)
        if in_use + more > most:
            kind = OutOfDeviceMemory if name in _MEMORY else ValueError
            raise kind(
                f"quota {name}: expected at most {most}, got {more} more beside {in_use} in use"
            )


def parse(text: str) -> Quotas:
    """Parses text such as "memory=8G,queues=4". A quota that the text does not name has its
    default. Raises ValueError for an unknown quota or a wrong number.
    """
    known = {field.name for field in fields(Quotas)}
    numbers: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in known:
            raise ValueError(f"quota: expected one of {', '.join(sorted(known))}, got {name!r}")
        numbers[name] = _number(name, value)
    return Quotas(**numbers)


def _number(name: str, text: str) -> int:
    unit = _UNITS.get(text[-1:].upper(), 1)
    digits = text[:-1] if unit > 1 else text
    if not (digits.isascii() and digits.isdecimal() and 0 < int(digits) * unit < 2**62):
        raise ValueError(f"quota {name}: expected a number such as 16 or 8G, got {text!r}")
    return int(digits) * unit
