"""docs/registers.md explains every register in which our dispatch differs from RADV's, and none in
which it does not.

When this fails, docs/registers.md explains registers that no longer differ.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest
from pm4_ibs import CAPTURES
from sparkle_drv._native import ffi, lib
from where import ROOT

from sparkle_drv import _hot, lowlevel

DOC = ROOT / "docs" / "registers.md"
CHIPS = {"gfx1036": 10, "gfx1100": 11}
SAME = "-"


def tables():
    """Of each table: {name or pattern: {chip: cell}}."""
    found = []
    for section in DOC.read_text().split("\n## ")[1:]:
        rows = re.findall(r"^\| `(\S+)` \| (.+?) \| (.+?) \| (.+?) \|$", section, re.M)
        assert len({name for name, *_ in rows}) == len(rows), "a register has two rows"
        assert all(why.strip() for *_, why in rows)
        found.append({name: dict(zip(CHIPS, cells, strict=True)) for name, *cells, _ in rows})
    return found


def ours(device):
    """vecadd of 1000 floats as we submit it."""
    with device.kernel("vecadd_f32") as kernel, device.buffer(4096) as memory:
        record = _hot.pack(device, kernel, (memory, memory, memory, 1000), (4, 1, 1), None, 0)
        out = ffi.new("uint32_t[]", 8192)
        with device.queue() as queue:
            ndw = lib.sp_amdgpu_encode(queue._handle, record, len(record), out, len(out))
    assert ndw > 0
    return lowlevel.Ib(tuple(out[0:ndw]), CHIPS[device.uri[4:]], "compute")


def differences(device, queue):
    """{register, or field of DISPATCH_DIRECT: (RADV's, ours)}."""
    (capture,) = (p for p in CAPTURES if p.stem == f"radv_vecadd_{device.uri[4:]}_{queue}")
    found = {}
    for one in lowlevel.diff(lowlevel.read_ibs(capture.read_text()), [ours(device)]):
        if one.kind == "dispatch" or (one.kind, one.what) == ("packet", "DISPATCH_DIRECT"):
            prefix = "" if one.kind == "dispatch" else "DISPATCH_DIRECT."
            for change in one.changes:
                values = tuple(re.sub(r" [{(].*", "", text) for text in (change.old, change.new))
                found[prefix + change.name] = values
        elif one.kind == "end":  # nothing is written behind the dispatch
            assert {c.name for c in one.changes} <= found.keys()
    assert found
    return found


def says(cell, values):
    """Is this what a cell stands for?"""
    words = tuple(cell.split(" -> "))
    assert len(words) == 2, cell
    kinds = {"address": re.compile(r"0x[0-9a-f]+|\d+").fullmatch, "*": bool}
    return all(
        kinds.get(word, lambda text, word=word: text == word)(text)
        for word, text in zip(words, values, strict=True)
    )


def unexplained(found, rows, chip):
    """What is wrong between differences and rows, in words."""
    wrong = [f"{name} -> {values}: no row" for name, values in found.items()]
    for pattern, cells in rows.items():
        matched = [name for name in found if fnmatchcase(name, pattern)]
        if cells[chip] == SAME:
            wrong += [f"{name} differs, its row says it does not" for name in matched]
        elif not matched:
            wrong.append(f"{pattern}: a row for what does not differ")
        wrong += [
            f"{name}: {found[name]}, the row says {cells[chip]}"
            for name in matched
            if cells[chip] != SAME and not says(cells[chip], found[name])
        ]
        explained = tuple(f"{name} -> " for name in matched)
        wrong = [line for line in wrong if not (explained and line.startswith(explained))]
    return wrong


@pytest.fixture(params=[f"emu:{chip}" for chip in CHIPS])
def card(request, opened):
    return opened(request.param)


def test_every_register_that_differs_is_explained(card):
    dispatch, _ = tables()
    assert unexplained(differences(card, "compute"), dispatch, card.uri[4:]) == []


def test_on_a_graphics_queue_too(card):
    dispatch, graphics = tables()
    assert unexplained(differences(card, "gfx"), dispatch | graphics, card.uri[4:]) == []


def test_a_missing_a_stale_and_a_wrong_row_are_found(card):
    chip, found, (rows, _) = card.uri[4:], differences(card, "compute"), tables()
    less = {name: cells for name, cells in rows.items() if name != "COMPUTE_PGM_RSRC1"}
    assert [w.split()[0] for w in unexplained(found, less, chip)] == ["COMPUTE_PGM_RSRC1"]
    stale = rows | {"COMPUTE_START_X": {chip: "0 -> 1"}}
    assert unexplained(found, stale, chip) == ["COMPUTE_START_X: a row for what does not differ"]
    wrong = rows | {"COMPUTE_RESOURCE_LIMITS": {chip: "0x1 -> 0x0"}}
    assert [w.split(":")[0] for w in unexplained(found, wrong, chip)] == ["COMPUTE_RESOURCE_LIMITS"]
    same = rows | {"COMPUTE_PGM_LO": {chip: SAME}}
    assert unexplained(found, same, chip) == ["COMPUTE_PGM_LO differs, its row says it does not"]
