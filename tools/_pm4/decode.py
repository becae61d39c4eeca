"""The decode and encode commands: dwords to text, and text to dwords."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from _console import output
from _console.problems import FAILED, OK, UsageError

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import Ib, Step

from . import common
from .common import InputError


def add_decode(sub: common.Subcommands) -> None:
    made = common.command(
        sub, "decode", decode, "IBs as text, packets and registers with their fields"
    )
    made.add_argument("files", nargs="+", metavar="FILE", help=common.INPUT)
    common.add_inputs(made)
    made.add_argument(
        "--flat",
        action="store_true",
        help="in the order of execution, with calls followed (cannot be encoded again)",
    )
    made.add_argument("--json", action="store_true", help="as JSON, packet by packet")


def add_encode(sub: common.Subcommands) -> None:
    made = common.command(
        sub, "encode", encode, "dwords of decode's text, or of a person's own (in any form)"
    )
    made.add_argument("files", nargs="+", metavar="FILE", help=common.INPUT)
    common.add_inputs(made)
    made.add_argument("--to", choices=("hex", "bin"), default="hex", help="default hex")
    made.add_argument("--ib", type=int, metavar="N", help="only the Nth IB, from 0 on")
    made.add_argument("-o", "--output", type=Path, metavar="FILE", help="default stdout")


def decode(args: argparse.Namespace) -> int:
    ibs = common.read_all(args, args.files)
    if args.flat:
        steps = list(lowlevel.run(ibs))
        if args.json:
            common.write_json({"packets": [packet(step) for step in steps]})
            return OK
        for step in steps:
            for line in flat(step):
                print(line)
    elif args.json:
        common.write_json({"ibs": [whole(ib, number) for number, ib in enumerate(ibs)]})
    else:
        print(lowlevel.text(ibs, notes(ibs)), end="")
    return OK


def notes(ibs: list[Ib]) -> dict[tuple[int, int], str]:
    """Returns notes by (IB, position of a packet): why dwords are unknown, Mesa's trace points, and
    the target of an INDIRECT_BUFFER packet. If no IB of the input is that target, the note says so.
    """
    found: dict[tuple[int, int], str] = {}
    for number, ib in enumerate(ibs):
        for one in ib.packets():
            if gap := ib.gap(one.at, len(one.dwords)):
                found[number, one.at] = gap
            if point := trace_point(one):
                found[number, one.at] = point
            target = lowlevel.call(one)
            if target is None:
                continue
            there = lowlevel.find(ibs, target.va)
            if there is None:
                found[number, one.at] = "its target is not in the input"
            else:
                at = f" dword {there[1]}" if there[1] else ""
                found[number, one.at] = (
                    f"{'goes on in' if target.chain else 'calls'} IB {there[0]}{at}"
                )
    return found


def trace_point(one: Any) -> str:
    """Returns "Mesa's trace point N" for a NOP that marks one, or "" for another packet.

    RADV_DEBUG=hang and radeonsi number their commands by NOPs (Mesa ac_debug.h).
    """
    payload = one.fields.get("payload", ())
    if one.cls is not lowlevel.pm4.Nop or len(payload) != 1 or payload[0] >> 16 != 0xCAFE:
        return ""
    return f"Mesa's trace point {payload[0] & 0xFFFF}"


def flat(step: Step) -> list[str]:
    """Returns the lines of text for a packet. The first line begins with the packet's position. A
    packet of a called IB is indented.
    """
    indent = f"{step.number}:{step.at:05x} " + "  " * step.depth
    lines = list(lowlevel.statement(step.packet, step.ib.gfx, step.problem))
    return [indent + lines[0], *(" " * len(indent) + line for line in lines[1:])]


def packet(step: Step) -> dict[str, Any]:
    """Returns a step (a packet and its position) as an object for JSON."""
    one = step.packet
    registers = [
        {"name": write.name, "value": write.value, "text": str(write)}
        for write in lowlevel.written(step)
    ]
    return {
        "ib": step.number,
        "at": step.at,
        "depth": step.depth,
        "name": step.name,
        "dwords": list(one.dwords),
        "fields": one.fields,
        **({"registers": registers} if registers else {}),
        **({"error": one.error} if one.error else {}),
        **({"problem": step.problem} if step.problem else {}),
    }


def whole(ib: Ib, number: int) -> dict[str, Any]:
    return {
        "gfx": ib.gfx,
        "ip": ib.ip,
        "va": ib.va,
        "ndw": len(ib.dwords),
        "extra": list(ib.extra),
        "packets": [packet(Step(one, ib, number, one.at, 0)) for one in ib.packets()],
    }


def encode(args: argparse.Namespace) -> int:
    ibs = common.read_all(args, args.files)
    if args.ib is not None:
        if not 0 <= args.ib < len(ibs):
            raise UsageError(
                f"--ib: expected less than {len(ibs)}, the number of IBs, got {args.ib}"
            )
        ibs = [ibs[args.ib]]
    if args.to == "bin":
        if len(ibs) != 1:
            raise UsageError(f"{len(ibs)} IBs: expected --ib, because a file of bytes holds one IB")
        data = lowlevel.to_bytes(ibs[0])
    else:
        try:
            data = lowlevel.to_hex(ibs).encode()
        except ValueError as error:
            raise InputError(str(error)) from None
    if args.output:
        return OK if output.save("pm4.py", args.output, data) else FAILED
    if args.to == "bin":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        print(data.decode(), end="")
    return OK
