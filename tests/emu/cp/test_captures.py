"""What stock RADV submitted, submitted again in strict mode: the trace must be the capture.

When this fails, the emulator refuses or misreads what a real driver submits.

The captures (tests/golden/captures) hold packets, not whole IBs: single register writes here may
have been one packet there. Where a program or data lay, the captured addresses are mapped.
"""

from __future__ import annotations

import re

import pytest
from dispatches import ENDPGM
from where import ROOT

from sparkle_drv.lowlevel import pm4, regs
from sparkle_drv.testing.emulator import IP, BufferObject

CAPTURES = sorted((ROOT / "tests/golden/captures").glob("*.txt"))
PREAMBLE = 2


def ibs_of(path, gfx):
    """[(address, depth, dwords, lines)] of a capture, in the order of execution."""
    found, run = [], None
    for line in path.read_text().splitlines():
        write = re.match(r"  (SET_\w+) +(\w+) = (\w+)", line)
        if head := re.match(r"IB ip=\d depth=(\d) va=(\w+) ndw=(\d+)", line):
            found.append((int(head[2], 16), int(head[1]), [], []))
        elif packet := re.match(r"  (\w+) +hdr=(.*)", line):
            found[-1][2].extend(int(word, 16) for word in packet[2].split())
            found[-1][3].append(line)
        elif write:
            register, value = regs.find(write[2]), int(write[3], 16)
            run = put(found[-1][2], run, write[1], register.offset(gfx), value, gfx)
            found[-1][3].append(line.replace(write[2], register.name))
        run = run if write else None
    return found


def put(dwords, run, name, offset, value, gfx):
    """One register write; joins `run` = (packet, next offset, where it is) when it follows it."""
    if run and run[:2] == (name, offset):
        dwords.append(value)
        pm4.SetShReg.where("header.count").patch(head := [dwords[run[2]]], len(dwords) - run[2] - 2)
        dwords[run[2]] = head[0]
        return name, offset + 1, run[2]
    cls = next(c for c in vars(pm4).values() if getattr(c, "NAME", "") == name)
    where = {"offset": offset, "index": 3 if name.endswith("_INDEX") else 0}
    dwords += cls.encode(gfx=gfx, reg=where, values=[value])
    return name, offset + 1, len(dwords) - 3


def store(pages, va, dwords, ndw):
    """An IB of `ndw` dwords at `va`."""
    assert len(dwords) <= ndw
    pages.write(dwords + [0xFFFF1000] * (ndw - len(dwords)), (va - pages.va) // 4)


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_capture_runs_and_is_traced_as_it_was(open_rig, path):
    chip, ip = re.match(r"radv_vecadd_(gfx\d+)_(\w+)$", path.stem).groups()
    rig = open_rig(chip, trace=2)
    gpu, ibs = rig.gpu, ibs_of(path, rig.gfx)
    # Whatever the packets touch lies in these two ranges of 2 MiB; the program ends at once.
    pages = [gpu.buffer(2 << 20, va=va) for va in (0xFFFF8000_00000000, 0xFFFF8001_00000000)]
    pages[0].write([ENDPGM[rig.gfx]] * 0x1000, 0x50000 // 4)
    pages[0].write([ENDPGM[rig.gfx]] * 0x1000, 0x59000 // 4)
    expected = []
    for va, depth, dwords, lines in ibs:
        ndw = 256
        if depth:  # its size is in the packet that calls it, the caller goes on where it is full
            ndw = ibs[0][2][3]
            ends = [p.at + len(p.dwords) for p in pm4.stream(dwords, rig.gfx, ip)]
            fits = max(end for end in ends if end <= ndw)
            store(pages[1], ibs[0][0], ibs[0][2] + dwords[fits:], 256)
            dwords = dwords[:fits]
        store(pages[1], va, dwords, ndw)
        expected += [f"IB ip={IP[ip]} depth={depth} va={va:x} ndw={ndw}", *lines]
    # Each IB is a job of its own here; the first is the preamble.
    for number, va in enumerate(va for va, depth, *_ in ibs if not depth):
        ib = BufferObject(gpu.node, pages[1].handle, 256 * 4, va)
        flags = PREAMBLE if number == 0 else 0
        gpu.wait(gpu.submit_ib(ip, ib, 256, bos=pages, flags=flags))
    assert [line for line in rig.machine.trace if re.match(r"IB |  \w", line)] == expected
