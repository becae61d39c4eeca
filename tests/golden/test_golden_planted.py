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
import marked
import pytest

from sparkle_drv.amd import tables

MODULES = ("bits", "descriptors", "pm4", "regs", "sdma", "type3")
# what is wrong: file, mark of the line (`fault: MARK`), constant, its wrong form
PLANTED = {
    "opcode of RELEASE_MEM": ("pm4.py", "opcode", "0x49", "0x4A"),
    "event index": ("pm4.py", "event", "11", "10"),
    "count_sel of COPY_DATA": ("pm4.py", "count", "16", "17"),
    "dst_sel of DMA_DATA": ("pm4.py", "dst", "20, 21", "21, 22"),
    "VALID of INDIRECT_BUFFER": ("pm4.py", "valid", "23", "22"),
    "poll interval": ("pm4.py", "poll", "0xA", "0x4"),
    "mem_space": ("pm4.py", "space", "4, 5", "4, 6"),
    "CS_PARTIAL_FLUSH": ("values.py", "flush", "0x07", "0x08"),
    "GL2_INV": ("values.py", "gl2", "14", "19"),
    "GLM on gfx12": ("values.py", "glm", "(10, 11)", "(9, 10)"),
    "count of a header": ("type3.py", "count", "16", "17"),
    "one-dword NOP": ("type3.py", "nop", "0x3FFF", "0x3FFE"),
    "COMPUTE_PGM_LO": ("regs.py", "pgm", "0xB830", "0xB828"),
    "START_DELAY": ("regs.py", "delay", "0x301EC", "0x301E8"),
    "USER_SGPR": ("regs.py", "user", "5", "4"),
    "SE4 on gfx9": ("regs.py", "engines", "_n < 4", "_n < 5"),
    "SE8 on gfx11": ("regs.py", "engines", "G12", "G11UP"),
    "WAVESIZE of gfx11": ("regs.py", "wavesize", "26", "24"),
    "CS_W32_EN": ("regs.py", "w32", "15", "12"),
    "RELAUNCH for users": ("regs.py", "relaunch", "False", "True"),
    "bytes - 1": ("sdma.py", "bias", "G10UP, bias=1", "G10UP, bias=0"),
    "op of FENCE": ("sdma.py", "fence", "op=5", "op=7"),
    "fill on SDMA 5.2": ("sdma.py", "fill", "0, 21", "0, 22"),
    "flat scratch": ("descriptors.py", "scratch", "5", "7"),
}


def plant(folder, name, changes):
    """Copies the tables as package `name`, with (file, mark, old, new) put into them."""
    shutil.copytree(
        next(iter(tables.__path__)), folder / name, ignore=shutil.ignore_patterns("__pycache__")
    )
    for file, mark, old, new in changes:
        path = folder / name / file
        path.write_text(marked.replaced(path, mark, new, old))


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


@pytest.mark.parametrize(
    ("mark", "old", "error"),
    [
        ("nothing", "0x49", "1 line marked 'fault: nothing', got 0"),
        ("opcode", "0x4B", "'0x4B' once"),
    ],
)
def test_a_case_whose_mark_or_constant_is_gone_fails(room, mark, old, error):
    with pytest.raises(AssertionError, match=error):
        plant(room, "planted_nothing", [("pm4.py", mark, old, "0")])


@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_constant_is_found(room, name):
    package = "planted_" + "".join(filter(str.isalnum, name))
    plant(room, package, [PLANTED[name]])
    with pytest.raises((AssertionError, ValueError, KeyError)):
        check_all(package)
