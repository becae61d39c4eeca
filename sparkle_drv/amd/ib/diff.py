"""Compares two lists of IBs by the registers at each dispatch, and by the packets that run.

The packets of both lists are followed in the order of execution. Padding, the packing of register
writes, and the order of these writes make no difference: a register counts only at a dispatch and
at the end. Packets with equal contents are matched first. The others are matched by name, in their
order. On compute queues the shader type in a header has no meaning, so it is ignored.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from typing import Any

from sparkle_drv.amd.tables.bits import U32_MAX, Word

from .model import Ib
from .print import field_value, number
from .run import PacketStep, run
from .shape import NOP, layout_of
from .state import IbEvent, RegisterWrite, State, is_dispatch, play

# Limit of differing packets that are matched by contents. To match more could take minutes, so
# beyond this limit packets are matched by name.
MATCHED = 500


@dataclass(frozen=True)
class ValueChange:
    """A register or a field that differs. `old` and `new` are texts; a missing value is "not
    written". `parts` has (name, old, new) for each differing field of a register.

    >>> lowlevel.Change("COMPUTE_NUM_THREAD_X", "0x40", "0x80").new
    '0x80'
    """

    name: str
    old: str
    new: str
    parts: tuple[tuple[str, str, str], ...] = ()

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {old} -> {new}" for name, old, new in self.parts)
        return f"{self.name}: {self.old} -> {self.new}" + (f"  ({parts})" if parts else "")


@dataclass(frozen=True)
class Difference:
    """One difference. `kind` is "only in A", "only in B", "packet" (its fields differ), "dispatch"
    (registers at a dispatch differ) or "end" (registers at the end differ). `a` and `b` are the
    steps. A step is None at the end, or if that list of IBs has no such packet.

    >>> a = lowlevel.Ib((0xC0017600, 0x207, 64), gfx=11)
    >>> b = lowlevel.Ib((0xC0017600, 0x207, 32), gfx=11)
    >>> [difference.kind for difference in lowlevel.diff([a], [b])]
    ['end']
    """

    kind: str
    what: str
    a: PacketStep | None
    b: PacketStep | None
    changes: tuple[ValueChange, ...] = ()


def diff(a: Sequence[Ib], b: Sequence[Ib], ignore: Sequence[str] = ()) -> list[Difference]:
    """Returns the differences in the order of execution, or [] if both lists of IBs mean the same.
    `ignore` has shell patterns of registers ("COMPUTE_PGM_*") and fields ("DMA_DATA.src"). Raises
    TooLong, a ValueError, if the IBs call each other so often that too many packets run.

    >>> a = lowlevel.Ib((0xC0017600, 0x207, 64), gfx=11)
    >>> b = lowlevel.Ib((0xC0017600, 0x207, 32), gfx=11)
    >>> lowlevel.diff([a], [a])
    []
    >>> [change.name for difference in lowlevel.diff([a], [b]) for change in difference.changes]
    ['COMPUTE_NUM_THREAD_X']
    """

    def kept(name: str) -> bool:
        return not any(fnmatchcase(name, pattern) for pattern in ignore)

    state_a: State = {}
    state_b: State = {}
    events_a = [e for e in play(run(a), state_a) if _counts(e.step)]
    events_b = [e for e in play(run(b), state_b) if _counts(e.step)]
    differences: list[Difference] = []
    for one, other in _paired(events_a, events_b, kept):
        differences += _compare(one, other, kept)
    if end := _registers(state_a, state_b, kept):
        differences.append(Difference("end", "registers at the end", None, None, tuple(end)))
    return differences


def _counts(step: PacketStep) -> bool:
    return step.name != NOP and not step.called


Kept = Callable[[str], bool]
Pair = tuple[IbEvent | None, IbEvent | None]


def fields_of(step: PacketStep, kept: Kept) -> dict[str, str]:
    """Returns the texts of a packet's fields that are compared, by names such as "control.dst_sel".
    Leaves out fields of a word that are 0, and fields for whose names `kept` returns False.
    """
    packet = step.packet
    if packet.cls is None:
        return {f"[{i}]": f"{dword:#010x}" for i, dword in enumerate(packet.dwords)}
    texts: dict[str, str] = {}
    for name, element in packet.cls.ELEMENTS.items():
        value: Any = packet.fields.get(name, {} if name == "header" else None)
        if isinstance(element, Word):
            layout = layout_of(packet.cls, name, element, step.ib.gfx)
            for key, form in layout.items():  # leaves out a field that is 0 or absent
                if value.get(key) and not (key == "shader_type" and step.ib.ip == "compute"):
                    texts[f"{name}.{key}"] = field_value(form, value[key])
        elif isinstance(value, list):
            texts.update((f"{name}[{i}]", number(dword)) for i, dword in enumerate(value))
        else:
            texts[name] = number(value)
    return {name: text for name, text in texts.items() if kept(f"{step.name}.{name}")}


def _paired(a: list[IbEvent], b: list[IbEvent], kept: Kept) -> Iterator[Pair]:
    """Yields the events of both lists of IBs in pairs. None stands for a missing counterpart."""
    keys_a, keys_b = ([(e.step.name, *fields_of(e.step, kept).items()) for e in x] for x in (a, b))
    start = 0
    while start < min(len(a), len(b)) and keys_a[start] == keys_b[start]:
        yield a[start], b[start]
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and keys_a[-1 - end] == keys_b[-1 - end]:
        end += 1
    middle_a, middle_b = a[start : len(a) - end], b[start : len(b) - end]
    if max(len(middle_a), len(middle_b)) > MATCHED:
        yield from _by_name(middle_a, middle_b)
    else:
        matcher = SequenceMatcher(
            None, keys_a[start : len(a) - end], keys_b[start : len(b) - end], autojunk=False
        )
        for tag, i, i_end, j, j_end in matcher.get_opcodes():
            if tag == "equal":
                yield from zip(middle_a[i:i_end], middle_b[j:j_end], strict=True)
            else:
                yield from _by_name(middle_a[i:i_end], middle_b[j:j_end])
    yield from zip(a[len(a) - end :], b[len(b) - end :], strict=True)


def _by_name(a: Sequence[IbEvent], b: Sequence[IbEvent]) -> Iterator[Pair]:
    """Pairs events that differ: each event of `a` with the next event of `b` that has the same
    name.
    """
    places: dict[str, list[int]] = {}
    for j, other in enumerate(b):
        places.setdefault(other.step.name, []).append(j)
    at = 0
    for event in a:
        same = places.get(event.step.name, [])
        k = bisect_left(same, at)
        if k == len(same):
            yield event, None
            continue
        match = same[k]
        yield from ((None, b[j]) for j in range(at, match))
        yield event, b[match]
        at = match + 1
    yield from ((None, b[j]) for j in range(at, len(b)))


def _compare(left: IbEvent | None, right: IbEvent | None, kept: Kept) -> Iterator[Difference]:
    if left is None or right is None:
        only = left or right
        assert only is not None
        what = f"{only.step.name} {_summary(only.step, kept)}".strip()
        kind = "only in A" if left else "only in B"
        yield Difference(kind, what, left.step if left else None, right.step if right else None)
        return
    name = left.step.name
    a, b = fields_of(left.step, kept), fields_of(right.step, kept)
    if changes := list(_changed(a, b)):
        yield Difference("packet", name, left.step, right.step, tuple(changes))
    if is_dispatch(left.step) and (registers := _registers(left.state, right.state, kept)):
        what = f"registers at {name}"
        yield Difference("dispatch", what, left.step, right.step, tuple(registers))


def _summary(step: PacketStep, kept: Kept) -> str:
    """Returns up to 12 fields of a packet that are not 0, as text."""
    shown = [f"{k}={v}" for k, v in fields_of(step, kept).items() if v not in ("0", "0x00000000")]
    text = " ".join(shown[:12])
    return text + (" ..." if len(shown) > 12 else "")


def _changed(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[ValueChange]:
    for name in [*a, *(name for name in b if name not in a)]:
        if a.get(name) != b.get(name):
            none = "0" if "." in name else "not there"
            yield ValueChange(name, a.get(name, none), b.get(name, none))


def _registers(a: State, b: State, kept: Kept) -> list[ValueChange]:
    """Returns the registers that differ, in the order in which they were first written."""
    changes = []
    for name in [*a, *(name for name in b if name not in a)]:
        old, new = a.get(name), b.get(name)
        if _said(old) == _said(new) or not kept(name):
            continue
        parts = _parts(old, new) if old and new else ()
        kept_parts = tuple(p for p in parts if kept(f"{name}.{p[0]}"))
        if parts and not kept_parts:
            continue
        changes.append(ValueChange(name, _text(old), _text(new), kept_parts))
    return changes


def _said(write: RegisterWrite | None) -> tuple[int, int] | None:
    return (write.value, write.index) if write else None


def _text(write: RegisterWrite | None) -> str:
    return str(write) if write else "not written"


def _parts(before: RegisterWrite, after: RegisterWrite) -> tuple[tuple[str, str, str], ...]:
    """Returns the fields in which two writes of a register differ. Returns () if the register has
    only one field, or if a bit that is set belongs to no field.
    """
    if before.register is None or after.register is None:
        return ()
    a, b = before.register.for_gfx(before.gfx), after.register.for_gfx(after.gfx)
    covered = before.register.word.allowed(before.gfx) | after.register.word.allowed(after.gfx)
    if (before.value | after.value) & U32_MAX & ~covered or len({**a, **b}) == 1:
        return ()
    if before.index != after.index:
        return ()
    parts = []
    for name in {**a, **b}:
        old = number(a[name].get(before.value)) if name in a else "0"
        new = number(b[name].get(after.value)) if name in b else "0"
        if old != new:
            parts.append((name, old, new))
    return tuple(parts)
