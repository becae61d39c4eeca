"""Every row of silicon_rdna3.txt: instructions and the results that an RDNA3 card gave.

When this fails, the emulator contradicts results that an RDNA3 card gave.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from wavekit import float_mode

from sparkle_drv.amd.isa.assembly import assemble
from sparkle_drv.testing.emulated_dispatch import launch

CODE, OUT = 4096, 65536  # bytes of each row's code and memory
SCRATCH = 65536  # bytes a lane
SCALARS = [f"s{n}" for n in range(16)] + ["vcc", "scc", "exec"]
KEPT = [f"s{n}" for n in range(16)] + ["s90", "s91", "s95"]  # where the last three are kept
PROLOGUE = (
    "s_mov_b64 s[80:81], s[0:1]\nv_mov_b32 v255, v0\ns_mov_b32 vcc_lo, 0\n"
    + "".join(f"v_mov_b32 v{n}, 0\ns_mov_b32 s{n}, 0\n" for n in range(16))
    + "s_cmp_lg_u32 s0, 0\n"
)  # scc: 0
EPILOGUE = (
    "s_mov_b32 s90, vcc_lo\ns_cselect_b32 s91, 1, 0\ns_mov_b32 s95, exec_lo\n"
    "s_mov_b32 exec_lo, {exec}\ns_load_b64 s[92:93], s[80:81], 0x8\ns_waitcnt lgkmcnt(0)\n"
    "v_lshlrev_b32 v240, 2, v255\n"
    + "".join(f"global_store_b32 v240, v{n}, s[92:93] offset:{128 * n}\n" for n in range(16))
    + "v_add_nc_u32 v240, 0x800, v240\n"
    + "".join(
        f"v_mov_b32 v243, {name}\nglobal_store_b32 v240, v243, s[92:93] offset:{128 * n}\n"
        for n, name in enumerate(KEPT)
    )
    + "s_endpgm\n"
)


class Row(NamedTuple):
    name: str
    lanes: int
    words: list[int]
    results: list[tuple[str, int | None, int]]  # register, lane (None: all), value


def read() -> dict[str, list[Row]]:
    """Rows by the file of their source."""
    found: dict[str, list[Row]] = {}
    for line in (Path(__file__).parent / "silicon_rdna3.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        name, lanes, words, results = line.split(" | ")
        stated = []
        for one in results.split():
            place, _, value = one.partition("=")
            register, _, lane = place.partition(":")
            stated.append((register, int(lane) if lane else None, int(value, 16)))
        row = Row(name, int(lanes), [int(word, 16) for word in words.split()], stated)
        found.setdefault(name.split()[0], []).append(row)
    return found


ROWS = read()


@functools.cache
def around(lanes: int) -> tuple[list[int], list[int]]:
    """The dwords before a row, and those after it."""
    epilogue = EPILOGUE.format(exec=hex((1 << lanes) - 1))
    return assemble(PROLOGUE, "gfx1100"), assemble(epilogue, "gfx1100")


def run(gpu, rows: list[Row]) -> list[np.ndarray]:
    """v0 to v15, then SCALARS, of every lane after each row: one job, a dispatch a row."""
    code = gpu.buffer(CODE * len(rows), rights="rx")
    memory = gpu.buffer((OUT + 8192) * len(rows), rights="rw")
    pointers = gpu.buffer(4096 * -(-16 * len(rows) // 4096), rights="r")
    scratch = gpu.buffer(6 * 32 * SCRATCH, rights="rw")  # a slot for each of six engines
    buffers = [code, memory, pointers, scratch]
    try:
        ib: list[int] = []
        text = np.zeros((len(rows), CODE // 4), np.uint32)
        given = np.frombuffer(pointers.map, np.uint64)
        for k, row in enumerate(rows):
            before, after = around(row.lanes)
            words = before + row.words + after
            text[k, : len(words)] = words
            given[2 * k] = memory.va + (OUT + 8192) * k
            given[2 * k + 1] = given[2 * k] + OUT
            at = pointers.va + 16 * k
            ib += launch(
                11,
                code=code.va + CODE * k,
                rsrc1=31 | float_mode(0xC0),
                rsrc2=1 | 2 << 1 | 128 << 15,  # scratch, two scalars, 64 KiB of LDS
                user=(at & 0xFFFFFFFF, at >> 32),
                size=(row.lanes, 1, 1),
                tmpring=1 | 32 * SCRATCH // 256 << 12,
                scratch=scratch.va,
            )
        code.write(text.ravel().tolist())
        gpu.wait(gpu.submit("compute", ib, bos=buffers), 20.0)
        out = np.frombuffer(memory.map, np.uint32)[: (OUT + 8192) // 4 * len(rows)]
        ends = out.reshape(len(rows), -1)[:, OUT // 4 :][:, : 35 * 32].reshape(-1, 35, 32)
        return list(ends.copy())
    finally:
        for buffer in buffers:
            buffer.close()


@pytest.mark.parametrize("source", ROWS)
def test_rows(gpu, source):
    rows = ROWS[source]
    wrong = []
    for row, got in zip(rows, run(gpu, rows), strict=True):
        for register, lane, want in row.results:
            place = 16 + SCALARS.index(register) if register in SCALARS else int(register[1:])
            lanes = range(row.lanes) if lane is None else [lane]
            wrong += [
                f"{row.name}: {register} of lane {n} is {got[place][n]:#x}, a card gave {want:#x}"
                for n in lanes
                if got[place][n] != want
            ]
    assert not wrong, "\n".join(wrong)


def test_there_are_hundreds_of_rows():
    assert sum(map(len, ROWS.values())) > 600
