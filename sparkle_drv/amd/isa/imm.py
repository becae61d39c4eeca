"""Prints and parses immediates that have a syntax of their own: counters, registers, messages,
swizzles.

Every print function has its parse function beside it. A parse function raises ValueError with the
unknown text.
"""

from __future__ import annotations

import re

from .names import (
    DELAY_IDS,
    DELAY_SKIPS,
    DEPCTR,
    DPP_NAMES,
    DPP_ROWS,
    HWREGS,
    MESSAGE_OPS,
    MESSAGES,
    WAITCNT,
)

_CALL = re.compile(r"(\w+)\(\s*([^()]*?)\s*\)")


def number(text: str) -> int:
    """Reads a decimal or 0x number, which may be negative. Raises ValueError for other text."""
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def named(text: str, names: dict[int, str]) -> int:
    """Returns the key of the name `text` in `names`. If `text` is a number in digits, returns that
    number.
    """
    for value, name in names.items():
        if name == text:
            return value
    if not re.match(r"-?\d", text):
        raise ValueError(f"expected a number or a known name, got {text!r}")
    return number(text)


def in_bits(value: int, nbits: int, what: str) -> int:
    if value < 0 or value >> nbits:
        raise ValueError(f"{what}: expected at most {(1 << nbits) - 1}, got {value}")
    return value


def _calls(text: str, separators: str) -> list[tuple[str, str]]:
    """Splits text such as `a(1) & b(2)` into pairs (name, argument). Raises ValueError for other
    text between the calls.
    """
    if re.sub(rf"[\s{separators}]", "", _CALL.sub("", text)):
        raise ValueError(f"expected NAME(VALUE), or several of these, got {text!r}")
    return [(call[1], call[2]) for call in _CALL.finditer(text)]


def print_waitcnt(gen: int, value: int) -> str:
    shown, full = [], []
    for name, parts in WAITCNT[gen]:
        count = place = 0
        for low, width in parts:
            count |= (value >> low & (1 << width) - 1) << place
            place += width
        text = f"{name}({count})"
        full.append(text)
        if count != (1 << place) - 1:
            shown.append(text)
    return " ".join(shown or full)


def parse_waitcnt(gen: int, text: str) -> int:
    """Returns the immediate of S_WAITCNT. A counter that the text does not name gets all ones, so
    that the instruction does not wait for it.
    """
    if re.fullmatch(r"\s*-?\w+\s*", text):
        return in_bits(number(text.strip()), 16, "s_waitcnt")
    known = dict(WAITCNT[gen])
    value = 0
    for parts in known.values():
        for low, width in parts:
            value |= (1 << width) - 1 << low
    for name, count_text in _calls(text, "&,"):
        saturates = name.endswith("_sat")
        if name.removesuffix("_sat") not in known:
            raise ValueError(f"no such counter: {name!r}; expected one of {', '.join(known)}")
        parts = known[name.removesuffix("_sat")]
        nbits = sum(width for _, width in parts)
        count = number(count_text)
        count = in_bits(min(count, (1 << nbits) - 1) if saturates else count, nbits, name)
        for low, width in parts:
            value = value & ~((1 << width) - 1 << low) | (count & (1 << width) - 1) << low
            count >>= width
    return value


def print_depctr(value: int) -> str:
    used = sum((1 << width) - 1 << low for _, low, width in DEPCTR)
    counts = [(name, value >> low & (1 << width) - 1, width) for name, low, width in DEPCTR]
    if value & ~used:  # like llvm-mc, prints symbols only if no other bit is set
        return f"{value:#x}"
    shown = [f"{name}({count})" for name, count, width in counts if count != (1 << width) - 1]
    return " ".join(shown or [f"{name}({count})" for name, count, _ in counts])


def parse_depctr(text: str) -> int:
    if re.fullmatch(r"\s*-?\w+\s*", text):
        return number(text.strip()) & 0xFFFF
    value = sum((1 << width) - 1 << low for _, low, width in DEPCTR)
    known = {name: (low, width) for name, low, width in DEPCTR}
    for name, count in _calls(text, "&,"):
        if name not in known:
            raise ValueError(f"no such counter: {name!r}")
        low, width = known[name]
        bits = in_bits(number(count), width, name) << low
        value = value & ~((1 << width) - 1 << low) | bits
    return value


def print_delay(value: int) -> str:
    id0, skip, id1 = value & 15, value >> 4 & 7, value >> 7 & 15
    if max(id0, id1) >= len(DELAY_IDS) or skip >= len(DELAY_SKIPS) or value >> 11:
        return f"{value:#x}"
    parts = [f"instid0({DELAY_IDS[id0]})"] if id0 else []
    parts += [f"instskip({DELAY_SKIPS[skip]})"] if skip else []
    parts += [f"instid1({DELAY_IDS[id1]})"] if id1 else []
    return " | ".join(parts) or "0"


def parse_delay(text: str) -> int:
    if re.fullmatch(r"\s*-?\w+\s*", text):
        return in_bits(number(text.strip()), 16, "s_delay_alu")
    places = {"instid0": (0, DELAY_IDS), "instskip": (4, DELAY_SKIPS), "instid1": (7, DELAY_IDS)}
    value = 0
    for name, what in _calls(text, "|"):
        if name not in places or what not in places[name][1]:
            raise ValueError(f"no such delay: {name}({what})")
        low, names = places[name]
        value |= names.index(what) << low
    return value


def print_hwreg(gen: int, value: int) -> str:
    register, offset, size = value & 63, value >> 6 & 31, (value >> 11) + 1
    name = HWREGS[gen].get(register, str(register))
    return f"hwreg({name})" if (offset, size) == (0, 32) else f"hwreg({name}, {offset}, {size})"


def parse_hwreg(gen: int, text: str) -> int:
    found = re.fullmatch(r"hwreg\(([^()]*)\)", text)
    if not found:
        return in_bits(number(text) & 0xFFFF, 16, "hwreg")
    parts = [part.strip() for part in found[1].split(",")]
    if len(parts) not in (1, 3):
        raise ValueError("expected hwreg(NAME) or hwreg(NAME, OFFSET, SIZE)")
    names = HWREGS[gen] | {-key - 1: name[7:] for key, name in HWREGS[gen].items()}
    register = named(parts[0], names)
    register = -register - 1 if register < 0 else register
    offset, size = (number(parts[1]), number(parts[2])) if len(parts) == 3 else (0, 32)
    in_bits(register, 6, "the register's number")
    in_bits(offset, 5, "the first bit")
    in_bits(size - 1, 5, "the number of bits - 1")
    return register | offset << 6 | size - 1 << 11


def print_message(gen: int, value: int) -> str:
    names = MESSAGES[gen]
    if gen >= 11:
        if value in names:
            return f"sendmsg({names[value]})"
        return f"sendmsg({value}, 0, 0)" if value < 256 else str(value)
    message, op, stream = value & 15, value >> 4 & 7, value >> 8 & 3
    if value & ~0x37F:
        return str(value)
    ops = MESSAGE_OPS.get(message, {})
    if message in names and not ops and not op and not stream:
        return f"sendmsg({names[message]})"
    if message in names and op in ops and (message, op) != (15, 3):
        if message == 15 or not op:
            if not stream:
                return f"sendmsg({names[message]}, {ops[op]})"
        else:
            return f"sendmsg({names[message]}, {ops[op]}, {stream})"
    return f"sendmsg({message}, {op}, {stream})"


def parse_message(gen: int, text: str) -> int:
    found = re.fullmatch(r"sendmsg\(([^()]*)\)", text)
    if not found:
        return in_bits(number(text), 16, "sendmsg")
    parts = [part.strip() for part in found[1].split(",")]
    message = in_bits(named(parts[0], MESSAGES[gen]), 8 if gen >= 11 else 4, "the message")
    op = named(parts[1], MESSAGE_OPS.get(message, {})) if len(parts) > 1 else 0
    stream = number(parts[2]) if len(parts) > 2 else 0
    if gen >= 11:
        if op or stream:
            raise ValueError("a message of gfx11 has neither operation nor stream")
        return message
    return message | in_bits(op, 3, "the operation") << 4 | in_bits(stream, 2, "the stream") << 8


def _mask_letters(value: int) -> str:
    """Returns the five letters of BITMASK_PERM, one for each bit of the lane index, the highest bit
    first: 0, 1, p (the bit stays) or i (the bit is inverted).
    """
    keep, force, flip = value & 31, value >> 5 & 31, value >> 10 & 31
    at0, at1 = force ^ flip, (keep | force) ^ flip
    letters = ""
    for bit in (16, 8, 4, 2, 1):
        if (at0 ^ at1) & bit:
            letters += "i" if at0 & bit else "p"
        else:
            letters += "1" if at0 & bit else "0"
    return letters


def print_swizzle(value: int) -> str:
    """Returns the name of the swizzle `value` if parsing that name gives the same value. Otherwise
    returns the number as text.
    """
    text = _swizzle_name(value)
    return text if text and parse_swizzle(text) == value else str(value)


def _swizzle_name(value: int) -> str:
    if value & 0xFF00 == 0x8000:
        lanes = ",".join(str(value >> 2 * i & 3) for i in range(4))
        return f"swizzle(QUAD_PERM,{lanes})"
    if value & 0x8000:
        return ""
    keep, force, flip = value & 31, value >> 5 & 31, value >> 10 & 31
    if keep == 31 and not force and flip:
        if not flip & (flip - 1):
            return f"swizzle(SWAP,{flip})"
        if not (flip + 1) & flip:
            return f"swizzle(REVERSE,{flip + 1})"
    size = 32 - keep
    if size > 1 and not size & (size - 1) and force < size and not flip:
        return f"swizzle(BROADCAST,{size},{force})"
    return f'swizzle(BITMASK_PERM,"{_mask_letters(value)}")'


def parse_swizzle(text: str) -> int:
    found = re.fullmatch(r"swizzle\(\s*(\w+)\s*,(.*)\)", text)
    if not found:
        return in_bits(number(text), 16, "the offset")
    mode, parts = found[1], [part.strip() for part in found[2].split(",")]
    if mode == "BITMASK_PERM":
        return _bitmask(parts[0].strip('"'))
    values = [number(part) for part in parts]
    if mode == "QUAD_PERM" and len(values) == 4 and all(0 <= v < 4 for v in values):
        return 0x8000 | sum(v << 2 * i for i, v in enumerate(values))
    if mode == "SWAP" and values in ([1], [2], [4], [8], [16]):
        return 31 | values[0] << 10
    if mode == "REVERSE" and values in ([2], [4], [8], [16], [32]):
        return 31 | values[0] - 1 << 10
    sizes = (2, 4, 8, 16, 32)
    if (
        mode == "BROADCAST"
        and len(values) == 2
        and values[0] in sizes
        and values[1] in range(values[0])
    ):
        return 32 - values[0] | values[1] << 5
    raise ValueError(f"no such swizzle: {text!r}")


def _bitmask(letters: str) -> int:
    if not re.fullmatch(r"[01pi]{5}", letters):
        raise ValueError(f"BITMASK_PERM: expected five of 0 1 p i, got {letters!r}")
    value = 0
    for i, letter in enumerate(letters):
        value |= {"0": 0, "1": 0x20, "p": 1, "i": 0x401}[letter] << 4 - i
    return value


def print_dpp(ctrl: int) -> str:
    if ctrl < 0x100:
        return "quad_perm:[" + ",".join(str(ctrl >> 2 * i & 3) for i in range(4)) + "]"
    if ctrl in DPP_NAMES:
        return DPP_NAMES[ctrl]
    for name, code, low, high in DPP_ROWS:
        if code <= ctrl <= code + high - low:
            return f"{name}:{ctrl - code + low}"
    return f"/* unknown dpp_ctrl {ctrl:#x} */"


def parse_list(text: str, count: int, most: int) -> list[int]:
    """Reads a list such as `[1,0,...]` of exactly `count` numbers from 0 to `most`."""
    found = re.fullmatch(r"\[([^\]]*)\]", text)
    values = [number(part.strip()) for part in found[1].split(",")] if found else []
    if len(values) != count or not all(0 <= value <= most for value in values):
        raise ValueError(f"expected [{count} numbers of 0..{most}], got {text!r}")
    return values


def parse_dpp(name: str, value: str) -> int | None:
    """Returns the value of DPP_CTRL for the modifier `name:value`, or None if `name` is no DPP
    modifier.
    """
    if name == "quad_perm":
        return sum(lane << 2 * i for i, lane in enumerate(parse_list(value, 4, 3)))
    for code, plain in DPP_NAMES.items():
        if name == plain:
            return code
    for row, code, low, high in DPP_ROWS:
        if name == row:
            count = number(value)
            if not low <= count <= high:
                raise ValueError(f"{name}: got {count}, expected {low}..{high}")
            return code + count - low
    return None
