"""Typed buffers: every data format loaded and stored, DST_SEL, D16, ranges, alignment.

When this fails, typed buffers load or store other values than hardware.
"""

from __future__ import annotations

import numpy as np
import pytest
from formats import formats
from wavekit import GFX, run_lanes

from sparkle_drv.amd.isa.assembly import assemble

XYZW = 4 | 5 << 3 | 6 << 6 | 7 << 9
STRUCTURED = 1 << 28  # an index at or above NUM_RECORDS is out of range
WAVE = 64


def descriptor(base: str, number: int, nbytes: int, *, dst_sel=XYZW, records=WAVE, more=0) -> str:
    """s[12:15]: a buffer of `records` elements at `base`, a pair of SGPRs."""
    low = int(base[2:].partition(":")[0])
    word3 = dst_sel | number << 12 | STRUCTURED | more
    return "\n".join(
        [
            f"s_mov_b32 s12, s{low}",
            f"s_and_b32 s13, s{low + 1}, 0xffff",
            f"s_or_b32 s13, s13, {nbytes << 16:#x}",
            f"s_mov_b32 s14, {records}",
            f"s_mov_b32 s15, {word3:#x}",
            "v_lshrrev_b32 v30, 2, v20",
        ]
    )


def longs(chip, text: str) -> str:
    """As dwords: the wave tests' own table of words need not know these lines."""
    return "\n".join(f".long {word:#x}" for word in assemble(text, chip))


def run(gpu, chip, text, inputs):
    return run_lanes(gpu, chip, longs(chip, text), inputs, wave=WAVE)


def memory(seed: int, count: int = 6) -> list[np.ndarray]:
    r = np.random.default_rng(seed)
    return [r.integers(0, 1 << 32, WAVE, dtype=np.uint32) for _ in range(count)]


def load(gpu, chip, element, arrays, components="xyzw", more="", **fields):
    """v10 and on, loaded from the source; `element` is format number and bytes."""
    last = 9 + len(components)
    return run(
        gpu,
        chip,
        f"""{descriptor("s[0:1]", *element, **fields)}
        {more}
        buffer_load_format_{components} v[10:{last}], v30, s[12:15], 0 idxen
        s_waitcnt vmcnt(0)""",
        arrays,
    )


def store(gpu, chip, element, arrays, components="xyzw", **fields):
    """The sink after a store of v1 and on."""
    return run(
        gpu,
        chip,
        f"""{descriptor("s[2:3]", *element, **fields)}
        buffer_store_format_{components} v[1:{len(components)}], v30, s[12:15], 0 idxen
        s_endpgm""",
        arrays,
    )


def number_of(chip, bits, kind):
    return next(n for n, f in formats(GFX[chip]).items() if f.bits == bits and f.kind == kind)


def check_load(gpu, chip, number, form, text):
    arrays = memory(number)
    body = f"{descriptor('s[0:1]', number, form.nbytes)}\n{text}\ns_waitcnt vmcnt(0)"
    out = run(gpu, chip, body, arrays)
    wanted = form.channels(np.concatenate(arrays).tobytes()[: WAVE * form.nbytes])
    for c, got in enumerate(out):
        if form.kind == "FLOAT":
            same = (got == wanted[:, c]) | (
                np.isnan(got.view("f4")) & np.isnan(wanted[:, c].view("f4"))
            )
            assert same.all(), (number, form.bits, c)
        else:
            np.testing.assert_array_equal(got, wanted[:, c], err_msg=f"{number} {form.bits} {c}")


def test_loads_of_every_format(card):
    chip, gpu = card
    for number, form in formats(GFX[chip]).items():
        text = "buffer_load_format_xyzw v[10:13], v30, s[12:15], 0 idxen"
        check_load(gpu, chip, number, form, text)


def test_loads_by_the_instructions_format(card):
    chip, gpu = card
    for number, form in formats(GFX[chip]).items():
        text = f"tbuffer_load_format_xyzw v[10:13], v30, s[12:15], 0 format:{number} idxen"
        body = f"s_nop 0\n{text}"
        check_load(gpu, chip, number, form, body)


def floats(form, seed):
    """Channels to store: around what the format holds, and beyond it."""
    r = np.random.default_rng(seed)
    if form.integer:
        return r.integers(0, 1 << 32, (4, WAVE), dtype=np.uint32) >> r.integers(
            0, 32, (4, WAVE), dtype=np.uint32
        )
    scale = {"USCALED": 300, "SSCALED": 300, "FLOAT": 40}.get(form.kind, 1.3)
    values = (r.standard_normal((4, WAVE)) * scale).astype(np.float32)
    values[:, :4] = [0, -0.0, 0.5, -0.5]
    values[:, 4] = np.nan if form.kind.endswith("NORM") else 1
    return values.view(np.uint32)


@pytest.mark.parametrize("way", ["buffer", "tbuffer"])
def test_stores_of_every_format(card, way):
    chip, gpu = card
    for number, form in formats(GFX[chip]).items():
        channels = floats(form, number)
        # Out come the arrays at s[2:3], so the elements are stored there and nothing else is.
        named = f"format:{number}" if way == "tbuffer" else ""
        text = f"{way}_store_format_xyzw v[1:4], v30, s[12:15], 0 {named} idxen"
        body = f"{descriptor('s[2:3]', number, form.nbytes)}\n{text}\ns_endpgm"
        out = np.concatenate(run(gpu, chip, body, list(channels)))
        got = out.tobytes()[: WAVE * form.nbytes]
        assert form.raw(got).tolist() == form.raw(form.store(channels.T)).tolist(), (
            number,
            form.bits,
            form.kind,
        )


def test_dst_sel_is_applied_to_loads_and_undone_by_stores(card):
    chip, gpu = card
    number = number_of(chip, [8] * 4, "UINT")
    bgra = 6 | 5 << 3 | 4 << 6 | 7 << 9
    arrays = memory(1)
    out = load(gpu, chip, (number, 4), arrays, dst_sel=bgra)
    bytes_ = arrays[0].view(np.uint8).reshape(-1, 4)
    for got, at in zip(out, (2, 1, 0, 3), strict=True):
        np.testing.assert_array_equal(got, bytes_[:, at])
    small = [array & 0xFF for array in arrays[:4]]
    stored = store(gpu, chip, (number, 4), small, dst_sel=bgra)[0].view(np.uint8).reshape(-1, 4)
    for got, at in zip(small, (2, 1, 0, 3), strict=True):
        np.testing.assert_array_equal(stored[:, at], got)


def test_selected_constants_are_of_the_formats_kind(card):
    chip, gpu = card
    for kind, one in (("UINT", 1), ("FLOAT", 0x3F800000)):
        number = number_of(chip, [32], kind)
        dst_sel = 1 | 0 << 3 | 4 << 6 | 1 << 9
        arrays = memory(2)
        out = load(gpu, chip, (number, 4), arrays, dst_sel=dst_sel)
        assert (out[0] == one).all()
        assert (out[1] == 0).all()
        np.testing.assert_array_equal(out[2], arrays[0])
        assert (out[3] == one).all()


def test_halves(card):
    chip, gpu = card
    old = GFX[chip] == 10
    name = "format_d16" if old else "d16_format"
    high = "format_d16_hi" if old else "d16_hi_format"
    unorm = number_of(chip, [8] * 4, "UNORM")
    arrays = memory(3)
    halves = (arrays[0].view(np.uint8).reshape(-1, 4) / 255).astype(np.float32).astype(np.float16)
    body = f"""{descriptor("s[0:1]", unorm, 4)}
        v_mov_b32 v12, 0x1234
        v_mov_b32 v13, 0x12340000
        buffer_load_{name}_xyzw v[10:11], v30, s[12:15], 0 idxen
        buffer_load_{high}_x v12, v30, s[12:15], 0 idxen
        buffer_load_{name}_x v13, v30, s[12:15], 0 idxen
        s_waitcnt vmcnt(0)"""
    out = run(gpu, chip, body, arrays)
    pairs = halves.view(np.uint16).astype(np.uint32)
    np.testing.assert_array_equal(out[0], pairs[:, 0] | pairs[:, 1] << 16)
    np.testing.assert_array_equal(out[1], pairs[:, 2] | pairs[:, 3] << 16)
    np.testing.assert_array_equal(out[2], 0x1234 | pairs[:, 0] << 16)
    np.testing.assert_array_equal(out[3], 0x12340000 | pairs[:, 0])
    body = f"""{descriptor("s[2:3]", unorm, 4)}
        buffer_store_{name}_xyzw v[1:2], v30, s[12:15], 0 idxen
        s_endpgm"""
    two = [out[0], out[1]]
    np.testing.assert_array_equal(run(gpu, chip, body, two)[0], arrays[0])


def test_out_of_range_is_zeros_and_stores_nothing(card):
    chip, gpu = card
    number = number_of(chip, [32], "UINT")
    arrays = memory(4)
    out = load(gpu, chip, (number, 4), arrays, "x", records=40)
    np.testing.assert_array_equal(out[0], np.where(np.arange(WAVE) < 40, arrays[0], 0))
    stored = store(gpu, chip, (number, 4), arrays, "x", records=40)[0]
    np.testing.assert_array_equal(stored, np.where(np.arange(WAVE) < 40, arrays[0], 0))


def test_an_invalid_format_is_no_buffer(card):
    chip, gpu = card
    out = load(gpu, chip, (0, 4), memory(5), "xy")
    assert not out[0].any()
    assert not out[1].any()


def test_swizzled_elements_are_interleaved_by_dwords(card):
    chip, gpu = card
    number = number_of(chip, [32, 32], "UINT")
    arrays = memory(6)
    swizzle = "s_or_b32 s13, s13, " + ("0x80000000" if GFX[chip] == 10 else "0x40000000")
    out = load(gpu, chip, (number, 8), arrays, "xy", more=swizzle)
    words, lane = np.concatenate(arrays), np.arange(WAVE)
    first = lane // 8 * 16 + lane % 8  # eight indices to a block
    np.testing.assert_array_equal(out[0], words[first])
    np.testing.assert_array_equal(out[1], words[first + 8])


FAULTS = {
    "a format that is none": (0x4E, 4, "", "operand", "no buffer format"),
    "a misaligned element": (None, 6, "", "alignment", "not a multiple of 4"),
    "a reserved selection": (None, 4, "s_xor_b32 s15, s15, 6", "reserved", "DST_SEL"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_fault(card, what):
    chip, gpu = card
    number, stride, more, kind, text = FAULTS[what]
    if number is None:
        number = number_of(chip, [32], "UINT")
    if number == 0x4E and GFX[chip] == 11:  # each number of its field is a format
        assert load(gpu, chip, (number, stride), memory(7), "x", more=more)
        return
    with pytest.raises(OSError, match="last fault"):
        load(gpu, chip, (number, stride), memory(7), "x", more=more)
    fault = gpu.node.machine.fault()
    assert fault.kind == kind
    assert text in fault.text


LDS_TYPES = {
    "b32": np.uint32,
    "u8": np.uint8,
    "i8": np.int8,
    "u16": np.uint16,
    "i16": np.int16,
    "format_x": np.uint32,
}
RDNA2_NAMES = {"b32": "dword", "u8": "ubyte", "i8": "sbyte", "u16": "ushort", "i16": "sshort"}


def load_into_lds(chip, name: str) -> str:
    """gfx10 has a bit for it, gfx11 instructions of their own."""
    if GFX[chip] == 11:
        return f"buffer_load_lds_{name} v30, s[12:15], 0 idxen offset:8"
    return f"buffer_load_{RDNA2_NAMES.get(name, name)} v30, s[12:15], 0 idxen offset:8 lds"


@pytest.mark.parametrize("name", LDS_TYPES)
def test_loads_into_lds(card, name):
    """One dword a lane, at M0[15:0] + the instruction's offset + 4 * lane; out of range is 0."""
    chip, gpu = card
    arrays = memory(8)
    body = f"""{descriptor("s[0:1]", number_of(chip, [32], "UINT"), 4, records=40)}
        s_mov_b32 m0, 0x70010
        {load_into_lds(chip, name)}
        s_waitcnt vmcnt(0)
        ds_read_b32 v10, v20 offset:24
        s_waitcnt lgkmcnt(0)"""
    got = run_lanes(gpu, chip, longs(chip, body), arrays, wave=WAVE, lds=512)[0]
    words = np.concatenate(arrays)[2 : 2 + WAVE]  # the offset moves both addresses
    loaded = words.astype(LDS_TYPES[name]).astype(np.uint32)
    np.testing.assert_array_equal(got, np.where(np.arange(WAVE) < 40, loaded, 0))


@pytest.mark.parametrize("name", ["dwordx2", "format_xy"])
def test_wider_loads_do_not_reach_lds(card, name):
    chip, gpu = card
    if GFX[chip] == 11:  # its instructions for LDS have no wider form
        return
    body = f"""{descriptor("s[0:1]", number_of(chip, [32], "UINT"), 4)}
        buffer_load_{name} v30, s[12:15], 0 idxen lds"""
    with pytest.raises(OSError, match="last fault"):
        run_lanes(gpu, chip, longs(chip, body), memory(9), wave=WAVE, lds=512)
    assert "LDS" in gpu.node.machine.fault().text


def test_a_load_beyond_the_groups_lds(card):
    chip, gpu = card
    body = f"""{descriptor("s[0:1]", number_of(chip, [32], "UINT"), 4)}
        s_movk_i32 m0, 0x100
        {load_into_lds(chip, "b32")}"""
    with pytest.raises(OSError, match="last fault"):
        run_lanes(gpu, chip, longs(chip, body), memory(9), wave=WAVE, lds=512)
    fault = gpu.node.machine.fault()
    assert fault.kind == "lds"
    assert "the group has 512" in fault.text
