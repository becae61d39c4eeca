"""Where texels lie in tiled and levelled images: what AMD's own address library computes.

When this fails, tiled images have another layout than on AMD hardware.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sparkle_drv._emu import ffi, lib

LINES = (Path(__file__).parent / "image_offsets.txt").read_text().splitlines()[2:]


def offset(*place):
    return lib.sp_emu_image_offset(ffi.new("uint32_t[13]", place))


def wrong(lines, change=lambda fields: fields):
    found = []
    for line in lines:
        *fields, wanted = (int(word, 0) for word in line.split())
        if (got := offset(*change(fields))) != wanted:
            found.append(f"{line}: {got}")
    return found


def test_every_texel_is_where_the_address_library_has_it():
    assert len(LINES) > 600
    assert wrong(LINES) == []


@pytest.mark.parametrize("field", [1, 2, 4, 5, 8, 9, 10, 11, 12])
def test_a_wrong_field_is_found(field):
    """The vectors tell configurations, modes, sizes, levels and coordinates apart."""

    def change(fields):
        other = {1: 0x141, 2: fields[2] ^ 16, 4: fields[4] ^ 1, 5: fields[5] * 2, 8: fields[8] + 1}
        return [*fields[:field], other.get(field, fields[field] ^ 1), *fields[field + 1 :]]

    levels = [line for line in LINES if int(line.split()[8]) > int(line.split()[9]) + 2]
    assert len(wrong(levels, change)) > len(levels) / 4


@pytest.mark.parametrize(
    ("gen", "mode", "dims"),
    [(10, 17, 2), (10, 24, 2), (10, 28, 2), (10, 31, 2), (11, 5, 2), (11, 26, 3)],
)
def test_modes_that_are_not_modelled_have_no_offset(gen, mode, dims):
    assert offset(gen, 0x42, mode, dims, 2, 64, 64, 4, 1, 0, 0, 0, 0) == -1
