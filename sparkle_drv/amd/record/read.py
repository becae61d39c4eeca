"""Reads a recording (docs/recording.md) as events, in the order of its lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from sparkle_drv.amd.ib.capture import VERBATIM
from sparkle_drv.amd.ib.model import Ib, read_gfx, read_ip

_NODE = re.compile(r"node (\d+) amdgpu (\S+) (.*)$")
_CHIP = re.compile(r"# node (\d+) is a (gfx\w+)$")
_CALL = re.compile(r"ioctl (\d+) node=(\d+) request=([0-9a-f]+) (\w+) rc=(-?\d+)$")
_WRITE = re.compile(r"(cpu|gpu) node=(\d+) bo=(\d+) at=([0-9a-f]+) ([0-9a-f]*)$")
_UNHELD = re.compile(r"unheld node=(\d+) bo=(\d+)$")
_IB = re.compile(r"IB ip=(\d+) depth=(\d+) va=([0-9a-f]+) ndw=(\d+)$")
_DWORDS = re.compile(rf"  {VERBATIM} hdr=([0-9a-f ]+)$")
_SPAN = re.compile(r" at ([0-9a-f]+) (in|out) ([0-9a-f]*)( cut)?$")


class RecordingError(ValueError):
    """The text is no recording, or a damaged one. The message has the line number.

    >>> list(lowlevel.read_recording("no recording\\n"))
    Traceback (most recent call last):
        ...
    sparkle_drv.amd.record.read.RecordingError: line 1: expected a line that begins ...
    """


@dataclass(frozen=True)
class NodeUse:
    """The event that a render node was used for the first time. `chip` is a name such as
    "gfx1100".
    """

    number: int
    chip: str
    memory: bool
    facts: str


@dataclass(frozen=True)
class Close:
    """The event that the last descriptor of a render node was closed."""

    node: int


@dataclass(frozen=True)
class Unheld:
    """The event that the memory of a BO is not recorded: it is too large, imported, or the CPU
    cannot access it.
    """

    node: int
    bo: int


@dataclass(frozen=True)
class MemoryWrite:
    """A change of a BO's memory by the CPU (`who` is "cpu") or by a job ("gpu")."""

    who: str
    node: int
    bo: int
    at: int
    data: bytes


@dataclass
class IoctlCall:
    """An ioctl: its argument before and after the call, and the memory that the argument points to,
    by address. `ibs` has the IBs of a CS, and the IBs that they call.
    """

    number: int
    node: int
    request: int
    name: str
    rc: int
    line: int
    before: bytes = b""
    after: bytes = b""
    given: dict[int, bytes] = field(default_factory=dict)
    got: dict[int, bytes] = field(default_factory=dict)
    ibs: list[Ib] = field(default_factory=list)

    def __str__(self) -> str:
        return f"ioctl {self.number} {self.name} (line {self.line})"


Event = NodeUse | Close | Unheld | MemoryWrite | IoctlCall


class _Reader:
    def __init__(self) -> None:
        self.chips: dict[int, str] = {}
        self.nodes: dict[int, str] = {}
        # IBs of the next AMDGPU_CS ioctl, each: queue, GPU address, dwords
        self.heads: list[tuple[str, int, list[int]]] = []
        self.call: IoctlCall | None = None

    def line(self, text: str, number: int) -> Iterator[Event]:
        if text.startswith(" ") and not text.startswith("  "):
            self._detail(text)
        elif found := _DWORDS.match(text):
            self.heads[-1][2].extend(int(word, 16) for word in found[1].split())
        else:
            yield from self.flush()
            yield from self._event(text, number)

    def flush(self) -> Iterator[Event]:
        """Yields the ioctl whose lines were read last, if any. The caller knows that the ioctl has
        no further lines.
        """
        if self.call:
            call, self.call = self.call, None
            yield call

    def _detail(self, text: str) -> None:
        if self.call is None:
            raise ValueError("expected an ioctl before this line")
        if found := _SPAN.match(text):
            place = self.call.given if found[2] == "in" else self.call.got
            place[int(found[1], 16)] = bytes.fromhex(found[3])
        elif text.startswith(" in "):
            self.call.before = self.call.after = bytes.fromhex(text[4:])
        elif text.startswith(" out "):
            self.call.after = bytes.fromhex(text[5:])
        else:
            raise ValueError(
                f"expected a line that begins ' in', ' out' or ' at', got {text[:20]!r}"
            )

    def _event(self, text: str, number: int) -> Iterator[Event]:
        if match := _CALL.match(text):
            node = int(match[2])
            self.call = IoctlCall(
                int(match[1]), node, int(match[3], 16), match[4], int(match[5]), number
            )
            if match[4] == "AMDGPU_CS":
                gfx = read_gfx(self.chips[node])
                self.call.ibs = [Ib(tuple(d), gfx, ip, va) for ip, va, d in self.heads]
                self.heads = []
        elif match := _WRITE.match(text):
            at, data = int(match[4], 16), bytes.fromhex(match[5])
            yield MemoryWrite(match[1], int(match[2]), int(match[3]), at, data)
        elif match := _UNHELD.match(text):
            yield Unheld(int(match[1]), int(match[2]))
        elif match := _IB.match(text):
            self.heads.append((read_ip(match[1]), int(match[3], 16), []))
        elif match := _CHIP.match(text):
            self.chips[int(match[1])] = match[2]
        elif match := _NODE.match(text):
            node = int(match[1])
            yield NodeUse(node, self.chips[node], "memory=1" in match[3], f"{match[2]} {match[3]}")
        elif text.startswith("close node="):
            yield Close(int(text.removeprefix("close node=")))
        elif not text.startswith(("#", "process ")):
            raise ValueError(f"expected a line of a recording, got one that begins {text[:20]!r}")


def read_recording(text: str) -> Iterator[Event]:
    """Yields the events of a recording. Skips a last line without its line end, which a crashed
    program leaves. Any other error raises RecordingError with the line number.

    >>> with lowlevel.recorded("run.rec", memory=False):
    ...     sp.open("emu:gfx1100").close()
    >>> with open("run.rec") as file:
    ...     events = list(lowlevel.read_recording(file.read()))
    >>> type(events[0]).__name__
    'NodeUse'
    """
    if not text.startswith("# sparkle recording 1"):
        raise RecordingError("line 1: expected a line that begins '# sparkle recording 1'")
    reader, number = _Reader(), 0
    for number, line in enumerate(text.split("\n")[:-1], 1):
        try:
            yield from reader.line(line, number)
        except (ValueError, KeyError, IndexError) as error:
            raise RecordingError(f"line {number}: {error}") from None
    yield from reader.flush()
