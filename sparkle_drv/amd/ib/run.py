"""Lists the packets of IBs in the order in which the command processor executes them, and follows
INDIRECT_BUFFER.

The target of a call is looked up by its address in the given IBs. A call is not followed if its
target is missing, if the target is one of its callers, or if calls are nested too deeply. The step
of that call says why. Predication is ignored: every packet counts as executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparkle_drv.amd.tables.bits import canonical
from sparkle_drv.amd.tables.packet import Decoded

from .model import Ib

MAX_DEPTH = 8
# `run` follows at most this number of packets, plus four for each dword of the IBs.
MAX_REPEATS = 1 << 15


class TooManyPackets(ValueError):
    """Too many packets to follow, because the IBs call each other many times.

    >>> try:
    ...     raise lowlevel.TooLong("more than 1000000 packets")
    ... except ValueError as error:
    ...     print(error)
    more than 1000000 packets
    """


@dataclass(frozen=True)
class PacketStep:
    """One executed packet. `number` is the index of its IB among the given IBs. `at` is the
    packet's first dword in that IB. `called` is True if the packet calls another IB and the next
    steps are those of that IB. `problem` says why the steps of a called IB do not follow.

    >>> ib = lowlevel.Ib((0xC0001000, 0), gfx=11)
    >>> [(step.at, step.packet.cls.NAME) for step in lowlevel.run([ib])]
    [(0, 'NOP')]
    """

    packet: Decoded
    ib: Ib
    number: int
    at: int
    depth: int
    called: bool = False
    problem: str = ""

    @property
    def name(self) -> str:
        return self.packet.cls.NAME if self.packet.cls else "RAW"

    @property
    def where(self) -> str:
        """The place of the packet: "IB 0 (0xffff800100069000) dword 12"."""
        va = f" ({self.ib.va:#x})" if self.ib.va is not None else ""
        return f"IB {self.number}{va} dword {self.at}"


@dataclass(frozen=True)
class IbCall:
    """The target of an INDIRECT_BUFFER packet, or of SDMA's INDIRECT."""

    va: int
    ndw: int
    chain: bool  # whether the call is a jump without return


def call(packet: Decoded) -> IbCall | None:
    """Returns the IB that a packet calls or jumps to, or None.

    >>> ib = lowlevel.Ib((0xC0001000, 0), gfx=11)
    >>> [lowlevel.call(packet) for packet in ib.packets()]
    [None]
    """
    fields = packet.fields
    if packet.cls is None:
        return None
    if packet.cls.NAME == "INDIRECT_BUFFER":
        control = fields["control"]
        return IbCall(fields["addr"], control["ndw"], bool(control["chain"]))
    if packet.cls.NAME == "INDIRECT":
        return IbCall(fields["base"], fields["size"]["ndw"], False)
    return None


def find(ibs: Sequence[Ib], va: int) -> tuple[int, int] | None:
    """Returns the IB number and the dword at an address, or None.

    >>> ib = lowlevel.Ib((0xC0001000, 0), gfx=11, va=0x1000)
    >>> lowlevel.find([ib], 0x1004)
    (0, 1)
    """
    for number, ib in enumerate(ibs):
        if ib.va is not None:
            offset = canonical(va) - canonical(ib.va)
            if 0 <= offset < 4 * max(len(ib.dwords), 1) and offset % 4 == 0:
                return number, offset // 4
    return None


def submitted(ibs: Sequence[Ib]) -> list[int]:
    """Returns the indexes of the IBs that no other IB calls. If every IB is called, returns all
    indexes.
    """
    inner: set[int] = set()
    for number, ib in enumerate(ibs):
        for packet in ib.packets():
            target = call(packet)
            found = find(ibs, target.va) if target else None
            if found and found[1] == 0 and found[0] != number:
                inner.add(found[0])
    return [n for n in range(len(ibs)) if n not in inner] or list(range(len(ibs)))


def run(ibs: Sequence[Ib]) -> Iterator[PacketStep]:
    """Yields every packet in the order of execution, one IB after another. Raises TooManyPackets
    if the IBs call each other so often that too many packets run.

    >>> ib = lowlevel.Ib((0xC0001000, 0), gfx=11)
    >>> [step.packet.cls.NAME for step in lowlevel.run([ib])]
    ['NOP']
    """
    most = MAX_REPEATS + 4 * sum(len(ib.dwords) for ib in ibs)
    for count, step in enumerate(_all(ibs)):
        if count >= most:
            raise TooManyPackets(f"more than {most} packets: do the IBs call each other?")
        yield step


def _all(ibs: Sequence[Ib]) -> Iterator[PacketStep]:
    for number in submitted(ibs):
        yield from _walk(ibs, number, 0, len(ibs[number].dwords), ())


def _walk(
    ibs: Sequence[Ib], number: int, start: int, end: int, callers: tuple[tuple[int, int], ...]
) -> Iterator[PacketStep]:
    """Yields the packets from dword `start` to `end` of IB `number`, and of the IBs that they call.
    After a jump to a chained IB, the packets of that IB follow, and the rest of IB `number` is
    skipped.
    """
    walked = {*callers, (number, start)}
    while True:
        ib, jump = ibs[number], None
        for packet in ib.packets(start, end):
            target = call(packet)
            at = start + packet.at
            if target is None:
                yield PacketStep(packet, ib, number, at, len(callers))
                continue
            place = find(ibs, target.va)
            problem = _problem(place, walked, len(callers))
            yield PacketStep(packet, ib, number, at, len(callers), not problem, problem)
            if problem or place is None:
                continue
            if target.chain:
                jump = (place, target.ndw)
                break
            yield from _walk(ibs, *place, place[1] + target.ndw, (*callers, (number, start)))
        if jump is None:
            return
        (number, start), ndw = jump
        end = start + ndw
        walked.add((number, start))


def _problem(place: tuple[int, int] | None, walked: set[tuple[int, int]], depth: int) -> str:
    if place is None:
        return "its target is not in the input"
    if place in walked:
        return "it calls one of its callers"
    if depth + 1 >= MAX_DEPTH:
        return f"more than {MAX_DEPTH} deep"
    return ""
