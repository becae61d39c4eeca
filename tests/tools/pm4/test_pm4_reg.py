"""Registers looked up by whatever name or number people have, and values read.

When this fails, a register is looked up as another one.
"""

from __future__ import annotations

import pytest

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import NoSuchRegister, TextError, regs

RSRC2 = "COMPUTE_PGM_RSRC2"


@pytest.mark.parametrize(
    "name",
    [RSRC2, "compute_pgm_rsrc2", "PGM_RSRC2", "rsrc2", "0xb84c", "0xB84C", "47180", "0x2e13",
     "0x213", "SH+0x213", "sh+531", "0x1bb3"],
)  # fmt: skip
def test_one_register_by_many_names(name):
    assert [register.name for register in lowlevel.lookup(name)] == [RSRC2]


def test_addresses_of_every_space():
    for name in ("COMPUTE_PGM_LO", "DB_RENDER_OVERRIDE", "TA_CS_BC_BASE_ADDR"):
        byte = regs.find(name).byte
        for number in (hex(byte), hex(byte // 4)):
            assert [r.name for r in lowlevel.lookup(number, 11)] == [name]


def test_one_offset_that_levels_disagree_on():
    found = {register.name for register in lowlevel.lookup("0xb8ac")}
    assert found == {"COMPUTE_RELAUNCH", "COMPUTE_STATIC_THREAD_MGMT_SE4"}
    assert [r.name for r in lowlevel.lookup("0xb8ac", 10)] == ["COMPUTE_RELAUNCH"]


@pytest.mark.parametrize(
    ("name", "close"),
    [("COMPUTE_PGM_RSCR2", RSRC2), ("RSCR2", RSRC2),
     ("THREAD_MGMT_SE4", "COMPUTE_STATIC_THREAD_MGMT_SE4"),
     ("NUM_THREADS_X", "COMPUTE_NUM_THREAD_X")],
)  # fmt: skip
def test_close_names(name, close):
    with pytest.raises(NoSuchRegister, match="did you mean") as caught:
        lowlevel.lookup(name)
    assert close in caught.value.close


@pytest.mark.parametrize(
    ("pattern", "gfx", "names"),
    [
        ("COMPUTE_NUM_THREAD_?", None, [f"COMPUTE_NUM_THREAD_{axis}" for axis in "XYZ"]),
        ("num_thread*", 11, [f"COMPUTE_NUM_THREAD_{axis}" for axis in "XYZ"]),
        ("rsrc[12]", 10, ["COMPUTE_PGM_RSRC1", RSRC2]),
        ("*DESTINATION_EN_SE0", 10, ["COMPUTE_STATIC_THREAD_MGMT_SE0"]),
        ("COMPUTE_RELAUNCH*", 10, ["COMPUTE_RELAUNCH"]),
    ],
)
def test_patterns(pattern, gfx, names):
    assert [register.name for register in lowlevel.lookup(pattern, gfx)] == names


def test_a_pattern_names_registers_of_its_generation():
    everything = {register.name for register in lowlevel.lookup("*", 11)}
    assert everything == {register.name for register in regs.of_level(11)}


@pytest.mark.parametrize("name", ["0x7ffff", "SH+0x3ff", "", "9" * 40, "zzzzzzzz"])
def test_nothing_there(name):
    with pytest.raises(NoSuchRegister, match="no register"):
        lowlevel.lookup(name)


def test_values():
    register = regs.find(RSRC2)
    assert lowlevel.read_value("0x8c", register, 11) == 0x8C
    assert lowlevel.read_value("{USER_SGPR=6 TGID_X_EN=1}", register, 11) == 0x8C
    for wrong in ("", "0x100000000", "{USER_SGPR=32}", "{USER=1}", "8c", "1 2", "{"):
        with pytest.raises(TextError):
            lowlevel.read_value(wrong, register, 11)
