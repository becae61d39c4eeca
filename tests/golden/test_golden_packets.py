"""Our tables of packets and registers against dwords, addresses and fields from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import checks
import facts_packets
import facts_registers
import pytest

from sparkle_drv import lowlevel

GEN = Path(__file__).resolve().parents[2] / "native" / "gen"


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


def test_the_c_headers_packets():
    """Literals through the C header's places: header, RELEASE_MEM, DMA_DATA."""
    found = enumerators("pm4_packets.h")

    def get(words, name):
        dw, low, width = found[name]
        if width == 64:
            return words[dw] | words[dw + 1] << 32
        return words[dw] >> low & (1 << width) - 1

    words = checks.dwords("C0064900 06603514 40000000 00001000 0 7 0 0")
    wanted = {"EVENT_TYPE": 0x14, "EVENT_INDEX": 5, "EVENT_GLM_WB": 1, "EVENT_GLM_INV": 1,
              "EVENT_GL2_WB": 1, "EVENT_SEQ": 1, "EVENT_POLICY": 3, "EVENT_GL2_INV": 0,
              "SELECT_DATA": 2, "SELECT_INTR": 0, "ADDR": 0x1000, "VALUE": 7}  # fmt: skip
    assert {n: get(words, f"PM4_RELEASE_MEM_{n}") for n in wanted} == wanted
    assert (get(words, "PM4_HEADER_TYPE"), get(words, "PM4_HEADER_OPCODE")) == (3, 0x49)
    assert get(words, "PM4_HEADER_COUNT") == len(words) - 2 == found["PM4_RELEASE_MEM_NDW"] - 2
    words = checks.dwords("C0055000 60200000 50D00 FFFF8000 50D00 FFFF8000 80000160")
    wanted = {"CONTROL_DST_SEL": 2, "CONTROL_SRC_SEL": 3, "COMMAND_BYTE_COUNT": 0x160,
              "COMMAND_DIS_WC": 1, "SRC": 0xFFFF800000050D00}  # fmt: skip
    assert {n: get(words, f"PM4_DMA_DATA_{n}") for n in wanted} == wanted


@pytest.mark.parametrize("gfx", [9, 10, 11, 12])
def test_declared_bits_of_a_generation(gfx):
    """GCR_CNTL: bits 18:0, without GLM (5:4) on gfx12. gfx9 has no such word."""
    text = (GEN / "pm4_tables.inc").read_text().split(f"pm4_gfx{gfx}[]")[1].split("};")[0]
    row = re.search(r'"ACQUIRE_MEM(_GFX9)?".*\{(.*)\}', text)
    last = int(row[2].split(", ")[-1], 16)
    assert last == {9: 0xFFFF, 10: 0x7FFFF, 11: 0x7FFFF, 12: 0x7FFCF}[gfx]
