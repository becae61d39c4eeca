"""Image instructions on descriptors made here: coordinates, levels, layers, atomics, faults.

When this fails, image instructions read or write other texels than hardware.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from formats import formats
from wavekit import GFX, run_lanes

XYZW = 4 | 5 << 3 | 6 << 6 | 7 << 9
KIND_1D, KIND_2D, KIND_3D, KIND_CUBE, KIND_1D_ARRAY, KIND_2D_ARRAY, KIND_MSAA = range(8, 15)
LANE = np.arange(64, dtype=np.uint32)
X, Y = LANE % 8, LANE // 8


@dataclass(frozen=True)
class Image:
    """An image descriptor's fields. The base is the sink of wavekit, s[2:3], or its source."""

    number: int
    kind: int = KIND_2D
    width: int = 8
    height: int = 8
    depth: int = 0  # the field: depth - 1, or the last layer
    mode: int = 0
    levels: int = 1
    base_level: int = 0
    last_level: int = 0
    base_array: int = 0
    dst_sel: int = XYZW
    word6: int = 0
    base: str = "s[2:3]"

    def words(self, gen: int) -> list[int]:
        """All but the address."""
        width, height, top = self.width - 1, self.height - 1, self.levels - 1
        one = self.number << 20 | (width & 3) << 30 | (0 if gen == 10 else top << 16)
        two = width >> 2 | height << 14 | (1 << 31 if gen == 10 else 0)
        three = (
            self.dst_sel
            | self.base_level << 12
            | self.last_level << 16
            | self.mode << 20
            | self.kind << 28
        )
        five = top << 4 if gen == 10 else 0
        return [0, one, two, three, self.depth | self.base_array << 16, five, self.word6, 0]

    def code(self, chip: str) -> str:
        """s[16:23] of it; the address may have any multiple of 256."""
        low = int(self.base[2:].partition(":")[0])
        lines = [f"s_mov_b32 s{16 + k}, {word:#x}" for k, word in enumerate(self.words(GFX[chip]))]
        return "\n".join(
            [
                *lines,
                f"s_lshr_b32 s16, s{low}, 8",
                f"s_lshl_b32 s24, s{low + 1}, 24",
                "s_or_b32 s16, s16, s24",
                f"s_bfe_u32 s24, s{low + 1}, 0x80008",
                "s_or_b32 s17, s17, s24",
            ]
        )


def number(chip, bits, kind):
    return next(n for n, f in formats(GFX[chip]).items() if f.bits == bits and f.kind == kind)


def r32(chip, **more):
    return Image(number(chip, [32], "UINT"), **more)


def run(gpu, chip, image, text, inputs, **options):
    """`text` on the descriptor; S is it. Ends the wave itself where it stores to the sink."""
    body = f"{image.code(chip)}\n{text}".replace("S,", "s[16:23],").replace("S ", "s[16:23] ")
    return run_lanes(gpu, chip, body, inputs, wave=64, **options)


def stored(gpu, chip, image, text, inputs, **options):
    """The sink's dwords after stores."""
    return np.concatenate(run(gpu, chip, image, text + "\ns_endpgm", inputs, **options))


def test_a_linear_image_has_rows_of_256_bytes(card):
    chip, gpu = card
    values = LANE * 3 + 1
    text = "image_store v1, v[2:3], S dmask:0x1 dim:SQ_RSRC_IMG_2D unorm"
    got = stored(gpu, chip, r32(chip, height=4), text, [values, X, Y])
    for x, y, value in zip(X, Y, values, strict=True):
        if y < 4:
            assert got[y * 64 + x] == value


def test_a_pitch_of_its_own(card):
    chip, gpu = card
    text = "image_store v1, v[2:3], S dmask:0x1 dim:SQ_RSRC_IMG_2D unorm"
    got = stored(gpu, chip, r32(chip, height=2, depth=127), text, [LANE, X, Y])
    np.testing.assert_array_equal(got[128:136], LANE[8:16])


def test_loads_convert_and_select(card):
    chip, gpu = card
    image = Image(
        number(chip, [8] * 4, "UNORM"), base="s[0:1]", dst_sel=6 | 5 << 3 | 4 << 6 | 1 << 9
    )
    data = np.random.default_rng(1).integers(0, 1 << 32, 64, dtype=np.uint32)
    text = "image_load v[10:13], v[2:3], S dmask:0xf dim:SQ_RSRC_IMG_2D unorm\ns_waitcnt vmcnt(0)"
    out = run(gpu, chip, image, text, [data, X, Y * 0])
    texel = (data.view(np.uint8).reshape(-1, 4) / 255).astype(np.float32)[X]
    for got, channel in zip(out, (2, 1, 0), strict=False):
        np.testing.assert_array_equal(got.view(np.float32), texel[:, channel])
    assert (out[3].view(np.float32) == 1).all()


def test_dmask_chooses_components(card):
    chip, gpu = card
    image = Image(number(chip, [8] * 4, "UINT"), base="s[0:1]")
    data = np.random.default_rng(2).integers(0, 1 << 32, 64, dtype=np.uint32)
    text = "image_load v[10:11], v[2:3], S dmask:0xa dim:SQ_RSRC_IMG_2D unorm\ns_waitcnt vmcnt(0)"
    out = run(gpu, chip, image, text, [data, X, Y * 0])
    texel = data.view(np.uint8).reshape(-1, 4)[X]
    np.testing.assert_array_equal(out[0], texel[:, 1])
    np.testing.assert_array_equal(out[1], texel[:, 3])


def test_components_without_a_register_are_stored_as_zeros(card):
    chip, gpu = card
    image = Image(number(chip, [8] * 4, "UINT"))
    text = "image_store v1, v[2:3], S dmask:0x4 dim:SQ_RSRC_IMG_2D unorm"
    got = stored(gpu, chip, image, text, [X + 1, X, Y * 0])
    np.testing.assert_array_equal(got[:8], (np.arange(8) + 1) << 16)


def test_halves(card):
    chip, gpu = card
    image = Image(number(chip, [16] * 4, "FLOAT"))
    pairs = np.random.default_rng(3).standard_normal((8, 4)).astype(np.float16)[X]
    words = pairs.view(np.uint32).reshape(-1, 2)
    text = "image_store v[1:2], v[3:4], S dmask:0xf dim:SQ_RSRC_IMG_2D unorm d16"
    got = stored(gpu, chip, image, text, [words[:, 0], words[:, 1], X, Y * 0])
    np.testing.assert_array_equal(got[:16].reshape(-1, 2), words[:8])


def test_coordinates_in_registers_of_their_own_and_in_halves(card):
    chip, gpu = card
    values = LANE + 7
    plain = "image_store v1, v[2:3], S dmask:0x1 dim:SQ_RSRC_IMG_2D unorm"
    wanted = stored(gpu, chip, r32(chip, height=4), plain, [values, X, Y])
    for text, inputs in (
        ("image_store v1, [v4, v2], S dmask:0x1 dim:SQ_RSRC_IMG_2D unorm", [values, Y, Y, X]),
        ("image_store v1, v2, S dmask:0x1 dim:SQ_RSRC_IMG_2D unorm a16", [values, X | Y << 16]),
    ):
        got = stored(gpu, chip, r32(chip, height=4), text, inputs)
        np.testing.assert_array_equal(got, wanted)


def test_out_of_range(card):
    chip, gpu = card
    image = r32(chip, width=5, height=3, base="s[0:1]", dst_sel=4 | 0 << 3 | 0 << 6 | 1 << 9)
    text = "image_load v[10:13], v[2:3], S dmask:0xf dim:SQ_RSRC_IMG_2D unorm\ns_waitcnt vmcnt(0)"
    out = run(gpu, chip, image, text, [LANE + 1, X - 1, Y])
    inside = (X >= 1) & (X < 6) & (Y < 3)
    assert (out[0][~inside] == 0).all()
    assert out[0][inside].any()
    assert (out[3] == 1).all()  # the descriptor's ones are there all the same
    store = "image_store v1, v[2:3], S dmask:0x1 dim:SQ_RSRC_IMG_2D unorm"
    got = stored(gpu, chip, r32(chip, width=5, height=3), store, [LANE + 1, X - 1, Y])
    assert np.count_nonzero(got) == 15


def test_an_empty_descriptor_is_no_image(card):
    chip, gpu = card
    image = replace(r32(chip), kind=0, dst_sel=0)
    text = """image_load v[10:11], v[2:3], S dmask:0x3 dim:SQ_RSRC_IMG_2D unorm
        image_store v1, v[2:3], S dmask:0x1 dim:SQ_RSRC_IMG_2D unorm
        s_waitcnt vmcnt(0)"""
    out = run(gpu, chip, image, text, [LANE + 1, X, Y])
    assert not out[0].any()
    assert not out[1].any()


def test_layers_begin_at_base_array(card):
    chip, gpu = card
    image = r32(chip, kind=KIND_2D_ARRAY, height=1, base_array=1, depth=2)
    text = "image_store v1, v[2:4], S dmask:0x1 dim:SQ_RSRC_IMG_2D_ARRAY unorm"
    got = stored(gpu, chip, image, text, [LANE + 1, X, Y * 0, Y])
    np.testing.assert_array_equal(got[64:72], LANE[:8] + 1)
    np.testing.assert_array_equal(got[128:136], LANE[8:16] + 1)
    assert np.count_nonzero(got) == 16


def test_an_array_of_1d_has_its_layer_second(card):
    chip, gpu = card
    image = r32(chip, kind=KIND_1D_ARRAY, height=1, depth=3)
    text = "image_store v1, v[2:3], S dmask:0x1 dim:SQ_RSRC_IMG_1D_ARRAY unorm"
    got = stored(gpu, chip, image, text, [LANE + 1, X, Y])
    for layer in range(3):
        np.testing.assert_array_equal(
            got[64 * layer : 64 * layer + 8], LANE[8 * layer : 8 * layer + 8] + 1
        )


def test_small_levels_come_first(card):
    chip, gpu = card
    image = r32(chip, height=4, levels=3, base_level=1, last_level=2)
    text = "image_store_mip v1, v[2:4], S dmask:0x1 dim:SQ_RSRC_IMG_2D unorm"
    value = 1 + X % 4 + 4 * (Y % 4)  # the same for lanes that store to one texel
    got = stored(gpu, chip, image, text, [value, X % 4, Y % 2, Y // 2])
    # level 2: one row; level 1: two rows behind it; level 0 is outside the view
    np.testing.assert_array_equal(np.flatnonzero(got), [0, 1, *range(64, 68), *range(128, 132)])


def test_queries(card):
    chip, gpu = card
    image = r32(
        chip,
        kind=KIND_2D_ARRAY,
        width=21,
        height=9,
        depth=6,
        base_array=2,
        levels=4,
        base_level=1,
        last_level=3,
    )
    text = "image_get_resinfo v[10:13], v1, S dmask:0xf dim:SQ_RSRC_IMG_2D_ARRAY unorm"
    out = run(gpu, chip, image, text + "\ns_waitcnt vmcnt(0)", [LANE])
    found = np.array(out).T
    np.testing.assert_array_equal(
        found[:4], [[10, 4, 5, 3], [5, 2, 5, 3], [2, 1, 5, 3], [0, 0, 0, 3]]
    )


def test_atomics(card):
    chip, gpu = card
    values = np.random.default_rng(4).integers(0, 1 << 32, 64, dtype=np.uint32)
    inputs, both = [values, X, Y * 0, LANE * 4], {"sink_rights": "rw"}
    text = "image_atomic_{} v1, v[2:3], S dmask:0x1 dim:SQ_RSRC_IMG_2D unorm"
    add = stored(gpu, chip, r32(chip), text.format("add"), inputs, **both)
    np.testing.assert_array_equal(add[:8], [values[x::8].sum(dtype=np.uint32) for x in range(8)])
    most = stored(gpu, chip, r32(chip), text.format("umax"), inputs, **both)
    np.testing.assert_array_equal(most[:8], [values[x::8].max() for x in range(8)])
    # The second register is what the texel is compared with; with GLC the old value comes back.
    swap = """v_mov_b32 v8, v1
        v_mov_b32 v9, 0
        image_atomic_cmpswap v[8:9], v[2:3], S dmask:0x3 dim:SQ_RSRC_IMG_2D unorm glc
        s_waitcnt vmcnt(0)
        global_store_dword v4, v8, s[2:3] offset:512"""
    got = stored(gpu, chip, r32(chip), swap, inputs, **both)
    np.testing.assert_array_equal(got[:8], values[:8])
    np.testing.assert_array_equal(got[128:192], np.where(LANE < 8, 0, values[X]))


def test_an_atomic_takes_texels_of_its_own_width(card):
    chip, gpu = card
    text = "image_atomic_add v1, v[2:3], S dmask:0x1 dim:SQ_RSRC_IMG_2D unorm"
    image = Image(number(chip, [16], "UINT"))
    with pytest.raises(OSError, match="DMASK 0x1 for texels of 2 bytes"):
        stored(gpu, chip, image, text, [LANE, X, Y], sink_rights="rw")


FAULTS = {
    "compressed": ({"word6": 1 << 21}, "", "COMPRESSION_EN"),
    "several samples": ({"kind": KIND_MSAA}, "", "multisampled"),
    "a swizzle mode of tiles in order": ({"mode": 17}, "", "swizzle mode 17"),
    "a format that none is": ({"number": 120}, "", "image format 120"),
    "three components": ({"bits": [32] * 3}, "", "image format"),
    "a level beyond the last": ({"last_level": 2}, "", "levels 0 to 2 of an image with 1"),
    "TFE": ({}, " tfe", "TFE"),
    "a buffer": ({"kind": 1}, "", "a buffer's descriptor"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_fault(card, what):
    chip, gpu = card
    fields, more, said = FAULTS[what]
    bits = fields.get("bits")
    image = replace(r32(chip), **{k: v for k, v in fields.items() if k != "bits"})
    if bits:
        image = replace(image, number=number(chip, bits, "UINT"))
    data = "v[10:11]" if more else "v10"
    text = (
        f"image_load {data}, v[2:3], S dmask:0x1 dim:SQ_RSRC_IMG_2D unorm{more}\ns_waitcnt vmcnt(0)"
    )
    with pytest.raises(OSError, match="last fault"):
        run(gpu, chip, image, text, [LANE, X, Y])
    assert said in gpu.node.machine.fault().text


def test_several_samples_are_a_fault_whatever_the_descriptor_says(card):
    chip, gpu = card
    text = "image_load v10, v[2:5], S dmask:0x1 dim:SQ_RSRC_IMG_2D_MSAA_ARRAY unorm"
    with pytest.raises(OSError, match="DIM 7, several samples"):
        run(gpu, chip, r32(chip), text, [LANE, X, Y, Y, Y])


def test_a_descriptor_beyond_the_sgprs(card):
    chip, gpu = card
    text = "image_load v10, v[2:3], ttmp[8:15], dmask:0x1 dim:SQ_RSRC_IMG_2D unorm"
    with pytest.raises(OSError, match="cannot have operand 116"):
        run(gpu, chip, r32(chip), text.replace("], d", "] d"), [LANE, X, Y])


def test_coordinates_must_be_defined_but_data_need_not(card):
    chip, gpu = card
    text = "image_store v21, v[2:3], S dmask:0x1 dim:SQ_RSRC_IMG_2D unorm"
    stored(gpu, chip, r32(chip, height=4), text, [LANE, X, Y])
    text = "image_store v1, v[21:22], S dmask:0x1 dim:SQ_RSRC_IMG_2D unorm"
    with pytest.raises(OSError, match="never written"):
        stored(gpu, chip, r32(chip), text, [LANE, X, Y])


def test_a_load_must_be_waited_for(card):
    chip, gpu = card
    text = "image_load v10, v[2:3], S dmask:0x1 dim:SQ_RSRC_IMG_2D unorm\nv_mov_b32 v11, v10"
    with pytest.raises(OSError, match="s_waitcnt"):
        run(gpu, chip, r32(chip, base="s[0:1]"), text, [LANE, X, Y * 0])


def test_sampling_is_a_fault_that_names_it(card):
    chip, gpu = card
    text = "image_sample_lz v[10:13], v[2:3], s[16:23], s[24:27] dmask:0xf dim:SQ_RSRC_IMG_2D"
    with pytest.raises(OSError, match="image_sample_lz"):
        run(gpu, chip, r32(chip), text, [LANE, X, Y])
