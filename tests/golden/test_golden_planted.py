"""A single wrong constant in a table of packets or registers is found by the golden checks.

When this fails, a wrong constant in the tables is found by nothing.

Each case copies the tables, changes one constant, and wants a check to fail on the copy. One copy
without a change passes: what fails is the constant.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from types import SimpleNamespace

import checks
import pytest

from sparkle_drv.amd import tables

MODULES = ("bits", "descriptors", "pm4", "regs", "sdma", "type3")
# what is wrong: file, text, its wrong form
PLANTED = {
    "opcode of RELEASE_MEM": ("pm4.py", "ReleaseMem(Packet, opcode=0x49", "0x49", "0x4A"),
    "event index": ("pm4.py", "index=bits(8, 11),  # 5 is end", "11", "10"),
    "count_sel of COPY_DATA": ("pm4.py", "count_sel=bits(16)", "16", "17"),
    "dst_sel of DMA_DATA": ("pm4.py", "dst_sel=bits(20, 21)", "20, 21", "21, 22"),
    "VALID of INDIRECT_BUFFER": ("pm4.py", "valid=bits(23)", "23", "22"),
    "poll interval": ("pm4.py", "Word(0xA, interval=bits(0, 15), pws_ena", "0xA", "0x4"),
    "mem_space": ("pm4.py", "mem_space=bits(4, 5)", "4, 5", "4, 6"),
    "CS_PARTIAL_FLUSH": ("values.py", "CS_PARTIAL_FLUSH = 0x07", "0x07", "0x08"),
    "GL2_INV": ("values.py", "gl2_inv=bits(14)", "14", "19"),
    "GLM on gfx12": ("values.py", "glm_wb=bits(4, gfx=(10, 11))", "(10, 11)", "(9, 10)"),
    "count of a header": ("type3.py", "count=bits(16, 29)", "16", "17"),
    "one-dword NOP": ("type3.py", "COUNT_ONE_DWORD = 0x3FFF", "0x3FFF", "0x3FFE"),
    "COMPUTE_PGM_LO": ("regs.py", '"COMPUTE_PGM_LO", 0xB830', "0xB830", "0xB828"),
    "START_DELAY": ("regs.py", "0x301EC", "0x301EC", "0x301E8"),
    "USER_SGPR": ("regs.py", "USER_SGPR=bits(1, 5)", "5", "4"),
    "SE4 on gfx9": ("regs.py", "GFX if _n < 4 else G12 if _n == 8", "_n < 4", "_n < 5"),
    "SE8 on gfx11": ("regs.py", "else G12 if _n == 8", "G12", "G11UP"),
    "WAVESIZE of gfx11": ("regs.py", "bits(12, 26, gfx=(11,))", "26", "24"),
    "CS_W32_EN": ("regs.py", "CS_W32_EN=bits(15", "15", "12"),
    "RELAUNCH for users": ("regs.py", "0xB8C0, user=False", "False", "True"),
    "bytes - 1": ("sdma.py", "bits(0, 29, gfx=G10UP, bias=1)", "bias=1", "bias=0"),
    "op of FENCE": ("sdma.py", "Fence(Packet, op=5", "op=5", "op=7"),
    "fill on SDMA 5.2": ("sdma.py", "bits(0, 21, gfx=(9, 10), bias=1)", "0, 21", "0, 22"),
    "flat scratch": ("descriptors.py", "enable_flat_scratch_init=bits(5)", "5", "7"),
}


def plant(folder, name, changes):
    """Copies the tables as package `name`, with (file, text, old, new) put into them."""
    shutil.copytree(
        next(iter(tables.__path__)), folder / name, ignore=shutil.ignore_patterns("__pycache__")
    )
    for file, text, old, new in changes:
        path = folder / name / file
        whole = path.read_text()
        assert (whole.count(text), text.count(old)) == (1, 1), f"{file}: {text!r}"
        path.write_text(whole.replace(text, text.replace(old, new)))


def load(name):
    """The tables of the package `name`. A wrong constant may already be refused here."""
    modules = {m: importlib.import_module(f"{name}.{m}") for m in MODULES}
    return SimpleNamespace(**modules)


def check_all(name):
    copy = load(name)
    for check in checks.ALL:
        check(copy)


@pytest.fixture
def room(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("planted")]:
        del sys.modules[name]


def test_an_unchanged_copy_passes(room):
    plant(room, "planted_none", [])
    check_all("planted_none")


def test_a_case_whose_text_is_gone_fails(room):
    with pytest.raises(AssertionError, match="no such text"):
        plant(room, "planted_nothing", [("pm4.py", "no such text", "no", "a")])


@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_constant_is_found(room, name):
    package = "planted_" + "".join(filter(str.isalnum, name))
    plant(room, package, [PLANTED[name]])
    with pytest.raises((AssertionError, ValueError, KeyError)):
        check_all(package)
