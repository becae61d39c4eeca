"""IBs as others print them: a devcoredump of Linux, umr's text, Mesa's trace.log.

The forms are typed from amdgpu_dev_coredump.c, umr's ring_stream.c and Mesa's ac_parse_ib.
"""

from __future__ import annotations

from sparkle_drv.lowlevel import pm4

RESET, CYAN, YELLOW = "\x1b[0m", "\x1b[1;36m", "\x1b[1;33m"


def ring(name, dwords, wptr=0, rptr=0):
    """A ring as a devcoredump has it. Its size is a power of two."""
    lines = [
        f"ring name: {name}",
        f"Rptr: {rptr:#x} Wptr: {wptr:#x} RB mask: {len(dwords) - 1:x}",
        f"Ring size in dwords: {len(dwords)}",
        "Ring contents",
        "Offset \t Value",
        *(f"{4 * i:#x} \t {dword:#x}" for i, dword in enumerate(dwords)),
    ]
    return "\n".join(lines) + "\n"


def kernel_ib(number, ib, told=True):
    """An IB as a devcoredump has it; the kernel may not have been able to read it."""
    lines = ["", f"IB #{number} {ib.va:#x} {len(ib.dwords)} dw"]
    return "\n".join([*lines, *(f"{d:#010x}" for d in ib.dwords if told)]) + "\n"


def devcoredump(ibs=(), rings="", version="11.0.0", kind=1):
    """The whole file. `version` is None on kernels that do not tell it."""
    major_minor = f"HWIP: GC[1][0]: v{version}.0.0\n" if version else ""
    return (
        "**** AMDGPU Device Coredump ****\nversion: 1\nkernel: 6.18.0\nmodule: amdgpu\n"
        "time: 29.725011811\nprocess_name: test PID: 1720\n\nHW IP Version Information\n"
        f"{major_minor}HWIP: SDMA0[3][0]: v6.0.0.0.0\n\nIP Firmwares\n"
        "ME feature version: 32, fw version: 0x00000063\n\nRing timed out details\n"
        f"IP Type: {kind} Ring Name: comp_1.0.0\n\n[gfxhub] Page fault observed\n"
        "Faulty page starting at address: 0x0000000000000000\n"
        "Protection fault status register: 0x0\n\nIP Dump\nIP: gfx_v11_0\n"
        "regGRBM_STATUS                                     0xa0003028\n\n"
        f"Ring buffer information\n{rings}VRAM is lost due to GPU reset!\n"
        + "".join(kernel_ib(number, ib) for number, ib in enumerate(ibs))
    )


def mesa(ib, name="Main IB", ip=" - COMPUTE", nested=None, colours=True, depth=0):
    """A section of trace.log. `nested` is what each INDIRECT_BUFFER calls."""
    pad, inner = " " * 4 * depth, []
    for packet in ib.packets():
        word = packet.cls.NAME if packet.cls else "UNKNOWN(0x00)"
        head = f"{CYAN}{word}{RESET}:" if colours else f"{word}:"
        inner.append(f"{pad}{packet.dwords[0]:08x} {head}")
        for value in packet.dwords[1:]:
            inner.append(f"{pad}{value:08x} ")
            inner.append(f"{pad}{' ' * 17}{YELLOW if colours else ''}VALUE <- {value:#010x}")
        if word == "INDIRECT_BUFFER" and nested:
            inner += [f"{pad}{' ' * 9}{'-' * 18} nested begin {'-' * 18}"]
            inner += mesa(nested, colours=colours, depth=depth + 1).splitlines()[1:-1]
            inner += [f"{pad}{' ' * 9}{'-' * 19} nested end {'-' * 19}"]
    begin = f"{'-' * 18} {name} begin{ip} {'-' * 18}"
    return "\n".join([begin, *inner, f"{'-' * 19} {name} end{ip} {'-' * 19}"]) + "\n"


def umr(ib, chip="gfx1100", prefix="reg"):
    """What umr's ring stream prints of a PM4 IB: nothing of the offset in SET packets."""
    lines = [f"Decoding IB at 0x3@{ib.va or 0:#x} from 0x0@0x0 of {len(ib.dwords)} words (type 4)"]
    for packet in ib.packets():
        fields = dict(enumerate(packet.dwords))
        names = {}
        if packet.cls and hasattr(packet.cls, "SPACE") and "values" in packet.fields:
            del fields[1]
            names = dict(enumerate(registers(packet, ib.gfx), 2))
        for i, value in fields.items():
            place = (
                f"[0x3@{ib.va or 0:#010x} + {4 * (packet.at + i):#06x}]\t[        {value:#010x}]"
            )
            if i == 0:
                words = f"Opcode 0x0 [PKT3_X] ({len(packet.dwords) - 1} words, type: 3, hdr: 0x0)"
            else:
                words = f"|---> {chip}.{prefix}{names[i]}=0x0" if i in names else "|---> FIELD=0"
            lines.append(f"{place}\t{words}")
    return "\n".join([*lines, "", "Done decoding IB", ""]) + "\n"


def registers(packet, gfx):
    """The names of the registers that a SET packet writes."""
    first = packet.fields["reg"]["offset"]
    space = packet.cls.SPACE
    return [pm4.register_name(space, first + i, gfx) for i in range(len(packet.fields["values"]))]


def umr_sdma(ib):
    """What umr prints of an SDMA IB: every dword."""
    lines = [f"Decoding IB at 1@{ib.va:#x} from 0@0x0 of {len(ib.dwords)} words"]
    for packet in ib.packets():
        for i, value in enumerate(packet.dwords):
            words = (
                "Opcode 0x1 [COPY] Sub-Opcode 0 (7 words, hdr: 0x1)" if i == 0 else "|---> A=0x0"
            )
            place = f"[1@{ib.va:#010x} + {4 * (packet.at + i):#06x}]"
            lines.append(f"{place} [{value:#010x}]\t{words}")
    return "\n".join([*lines, "Done decoding IB", ""])


def umr_ring(name, dwords, chip="navi21"):
    """What umr --ring printed before there was a ring stream."""
    head = f"{chip}.{name}.rptr == 0\n{chip}.{name}.wptr == 8\n"
    return head + "".join(
        f"{chip}.{name}.ring[{i:4}] == {dword:#010x}    ... \n" for i, dword in enumerate(dwords)
    )
