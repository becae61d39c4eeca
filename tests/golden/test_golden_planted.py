"""A single wrong constant in a table of packets or registers is found by the golden checks.

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

from sparkle_drv.backends import amdgpu

MODULES = ("bits", "descriptors", "pm4", "regs", "sdma", "type3")
# what is wrong: file, text, its wrong form
PLANTED = {
    "opcode of RELEASE_MEM": ("pm4.py", "ReleaseMem(Packet, opcode=0x49", "0x49", "0x4A"),
    "event index": ("pm4.py", "index=bits(8, 11),  # 5: end", "11", "10"),
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
    "SE4 on gfx9": ("regs.py", "GFX if n < 4 else G12 if n == 8", "n < 4", "n < 5"),
    "SE8 on gfx11": ("regs.py", "else G12 if n == 8", "G12", "G11UP"),
    "WAVESIZE of gfx11": ("regs.py", "bits(12, 26, gfx=(11,))", "26", "24"),
    "CS_W32_EN": ("regs.py", "CS_W32_EN=bits(15", "15", "12"),
    "RELAUNCH for users": ("regs.py", "0xB8C0, user=False", "False", "True"),
    "bytes - 1": ("sdma.py", "bits(0, 29, gfx=G10UP, bias=1)", "bias=1", "bias=0"),
    "op of FENCE": ("sdma.py", "Fence(Packet, op=5", "op=5", "op=7"),
    "fill on SDMA 5.2": ("sdma.py", "bits(0, 21, gfx=(9, 10), bias=1)", "0, 21", "0, 22"),
    "flat scratch": ("descriptors.py", "enable_flat_scratch_init=bits(5)", "5", "7"),
}


def load(folder, name, changes):
    """The tables under another package name, with (file, text, old, new) put into them."""
    shutil.copytree(
        next(iter(amdgpu.__path__)), folder / name, ignore=shutil.ignore_patterns("__pycache__")
    )
    for file, text, old, new in changes:
        path = folder / name / file
        whole = path.read_text()
        assert (whole.count(text), text.count(old)) == (1, 1), f"{file}: {text!r}"
        path.write_text(whole.replace(text, text.replace(old, new)))
    modules = {m: importlib.import_module(f"{name}.{m}") for m in MODULES}
    return SimpleNamespace(**modules)


@pytest.fixture
def room(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("planted")]:
        del sys.modules[name]


def test_an_unchanged_copy_passes(room):
    tables = load(room, "planted_none", [])
    for check in checks.ALL:
        check(tables)


@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_constant_is_found(room, name):
    with pytest.raises((AssertionError, ValueError, KeyError)):  # noqa: PT012 one of many fails
        tables = load(room, "planted_" + "".join(filter(str.isalnum, name)), [PLANTED[name]])
        for check in checks.ALL:
            check(tables)
