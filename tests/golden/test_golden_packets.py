"""Our tables of packets and registers against dwords, addresses and fields from elsewhere.

When this fails, driver and emulator share a wrong register, and a real card hangs.
"""

from __future__ import annotations

import re

import checks
import facts_packets
import facts_registers
import pytest
from where import ROOT

from sparkle_drv import lowlevel

GEN = ROOT / "native" / "gen"


@pytest.mark.parametrize("check", checks.ALL, ids=lambda check: check.__name__)
def test_tables_agree_with_the_facts(check):
    check(lowlevel)


def enumerators(name):
    """Name -> value of a generated header; places as (dword, lowest bit, width)."""
    found = {}
    for key, value in re.findall(r"^    (\w+) = (.*),$", (GEN / name).read_text(), re.M):
        place = re.fullmatch(r"SP_PLACE\((\d+), (\d+), (\d+), (\d+)\)", value)
        found[key] = tuple(map(int, place.groups()[:3])) if place else int(value, 0)
    return found


def test_the_c_headers_opcodes():
    found = enumerators("pm4_packets.h")
    assert {n: found[f"PM4_{n}"] for n in facts_packets.OPCODES} == facts_packets.OPCODES


def test_the_c_headers_registers():
    found = enumerators("regs.h")
    for line in facts_registers.COMPUTE.strip().splitlines():
        name, _, offset, *_ = line.split()
        assert found[f"REG_COMPUTE_{name}"] == int(offset, 16), name
    assert found["SPACE_SH"] == 0x2C00
    assert found["SPACE_CONTEXT"] == 0xA000
    assert found["SPACE_UCONFIG"] == 0xC000


def test_the_c_headers_fields():
    found = enumerators("regs.h")
    for line in facts_registers.FIELDS.strip().splitlines():
        name, field, high, low, *levels = line.split()
        place = (0, int(low), int(high) - int(low) + 1)
        key = f"COMPUTE_{name}_{field}"
        for gfx in levels:
            assert found.get(f"{key}_GFX{gfx}", found[key]) == place, line


def test_the_c_headers_places():
    found = enumerators("pm4_packets.h")
    for line in facts_packets.PLACES.strip().splitlines():
        name, field, dw, high, low = line.split()
        key = f"PM4_{name}_{field}".replace(".", "_").replace("[0]", "").upper()
        assert found[key] == (int(dw), int(low), int(high) - int(low) + 1), line
    assert found["PM4_HEADER_OPCODE"] == (0, 8, 8)
    assert found["PM4_HEADER_COUNT"] == (0, 16, 14)
    assert found["PM4_HEADER_TYPE"] == (0, 30, 2)


@pytest.mark.parametrize("gfx", [9, 10, 11, 12])
def test_declared_bits_of_a_generation(gfx):
    """GCR_CNTL: bits 18:0, without GLM (5:4) on gfx12. gfx9 has no such word."""
    text = (GEN / "pm4_tables.inc").read_text().split(f"pm4_gfx{gfx}[]")[1].split("};")[0]
    row = re.search(r'"ACQUIRE_MEM(_GFX9)?".*\{(.*)\}', text)
    last = int(row[2].rstrip("}").split(", ")[-1], 16)
    assert last == {9: 0xFFFF, 10: 0x7FFFF, 11: 0x7FFFF, 12: 0x7FFCF}[gfx]
