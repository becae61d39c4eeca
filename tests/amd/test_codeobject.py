"""Code objects: what the reader finds in good ones, and how it refuses bad ones.

When this fails, the driver launches a kernel with registers that its code object does not state.
"""

from __future__ import annotations

import struct

import pytest
from objectkit import (
    HIDDEN,
    add_args,
    blob,
    dynamic_at,
    load,
    patched,
)  # fmt: skip
from where import ROOT

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import codeobject, dispatch, elf, targets
from sparkle_drv.types import Resources

BUILDS = [
    (4, "gfx1036"),
    (5, "gfx1036"),
    (5, "gfx1100"),
    (6, "gfx10-3-generic"),
    (6, "gfx11-generic"),
]
GOOD = ("hidden", "lds", "local_pointer", "relocated", "scalars", "simple", "stack", "xyz")

# rsrc1, rsrc2, properties and user SGPRs as clang 19 was seen to emit them (AMDGPU_FACTS 5.2).
GOLDEN = {
    ("gfx1036", "simple"): (
        0x60AF0040,
        0x8C,
        {"private_segment_buffer": 0, "kernarg_segment_ptr": 4},
    ),
    ("gfx1036", "xyz"): (
        0x60AF0040,
        0x138C,
        {"private_segment_buffer": 0, "kernarg_segment_ptr": 4},
    ),
    ("gfx1100", "simple"): (0x60AF0080, 0x9E, {"kernarg_segment_ptr": 0}),
    ("gfx1100", "xyz"): (0x60AF0080, 0x139A, {"kernarg_segment_ptr": 0}),
}


@pytest.mark.parametrize(("target", "entry"), GOLDEN)
def test_register_words_are_the_compilers(target, entry):
    code = load(blob(5, target), entry, target)
    assert (code.rsrc1, code.rsrc2, dict(code.user_sgprs.first)) == GOLDEN[target, entry]
    assert (code.rsrc3, code.wave) == (0, 32)


@pytest.mark.parametrize(("version", "target"), BUILDS)
def test_all_versions_and_targets(version, target):
    data = blob(version, target)
    assert set(GOOD) < set(codeobject.kernels(data))
    for entry in GOOD:
        code = load(data, entry, target)
        assert (code.version, code.target, code.entry % 256) == (version, target, 0)
        assert code.entry_name == entry


def test_waves_of_64():
    path = ROOT / "tests/emu/wave/kernels/lanes64.gfx1100.hsaco"
    code = load(path.read_bytes(), "collatz")
    assert (code.wave, code.initiator) == (64, 0x5)
    assert load(blob(), "simple").initiator == 0x8005


def test_resources():
    assert load(blob(), "lds").resources == Resources(64, 3, 4000, 0, "gfx1100")
    assert load(blob(), "stack").resources.spill_nbytes == 260


def test_what_each_chip_runs():
    assert targets.accepted("gfx1036") == ("gfx1036", "gfx10-3-generic")
    assert targets.accepted("gfx1100") == ("gfx1100", "gfx11-generic")
    assert targets.accepted("gfx1150") == ("gfx1150", "gfx11-generic")
    assert targets.accepted("gfx1201") == ("gfx1201",)
    assert targets.accepted("gfx90a") == ("gfx90a",)
    assert [targets.gfx_level(t) for t in ("gfx1036", "gfx10-3-generic", "gfx1100", "gfx90a")] == [
        10, 10, 11, 9
    ]  # fmt: skip
    with pytest.raises(ValueError, match="gfx8"):
        targets.gfx_level("gfx803")


# 260 bytes a lane in waves of 32: AMDGPU_FACTS 5.5.
@pytest.mark.parametrize(
    ("target", "units", "nbytes"), [("gfx1036", 9, 9216), ("gfx1100", 33, 8448)]
)
def test_scratch_memory(target, units, nbytes):
    code = load(blob(5, target), "stack", target)
    assert (code.scratch_nbytes, code.scratch_wavesize, code.scratch_wave_nbytes) == (
        260,
        units,
        nbytes,
    )
    assert load(blob(5, target), "simple", target).scratch_wavesize == 0


def test_local_memory_goes_into_rsrc2():
    code = load(blob(), "lds")
    assert code.lds_nbytes == 4000
    assert code.rsrc2_for() == code.rsrc2 | 0x40000
    assert code.rsrc2_for(96) == code.rsrc2 | 0x40000
    assert code.rsrc2_for(97) == code.rsrc2 | 9 << 15
    assert code.rsrc2_for(65536 - 4000) == code.rsrc2 | 0x400000
    with pytest.raises(ValueError, match="65536"):
        code.check_launch((64, 1, 1), 65536 - 4000 + 1)
    with pytest.raises(ValueError, match="64, 1, 1"):
        code.check_launch((32, 1, 1))
    code.check_launch((64, 1, 1), 61536)


def test_a_group_of_any_size_up_to_the_most():
    code = load(blob(), "xyz")
    assert (code.required_group_size, code.max_group_size) == (None, 256)
    code.check_launch((16, 4, 4))
    for size in ((17, 4, 4), (0, 1, 1)):
        with pytest.raises(ValueError, match="1 to 256"):
            code.check_launch(size)


def test_user_data_with_scratch_on_gfx10():
    values = load(blob(5, "gfx1036"), "stack", "gfx1036").user_sgprs.values(
        kernarg=0xFFFF8000_12345678, scratch=0xFFFF8001_00000000, scratch_lane_nbytes=260, gfx=10
    )  # fmt: skip
    assert values == [
        0, 0x80008001, 0xFFFFFFFF, 0x21C14FAC, 0x12345678, 0xFFFF8000, 0, 0xFFFF8001
    ]  # fmt: skip


def test_wave64_has_another_stride():
    from sparkle_drv.amd.code.usersgprs import scratch_resource

    assert scratch_resource(0, 64, 10)[3] == 0x21E14FAC


def test_kernarg_is_what_the_signature_packs():
    kernarg = load(blob(), "simple", args=("f32*", "f32*", "i32")).kernarg
    assert (kernarg.nbytes, kernarg.align, kernarg.copies) == (20, 8, ((0, 0, 20),))
    packed = struct.pack("<QQi4x", 1, 2, 3)
    assert kernarg.pack(packed, (1, 1, 1), (64, 1, 1)) == packed[:20]
    with pytest.raises(ValueError, match="expected 20 bytes, got 19"):
        kernarg.pack(packed[:19], (1, 1, 1), (64, 1, 1))


def test_hidden_arguments_by_their_offsets():
    kernarg = load(blob(), "hidden").kernarg
    out = kernarg.pack(bytes(8), (5, 6, 7), (8, 2, 3))
    assert len(out) == kernarg.nbytes == 264
    # AMDGPU_FACTS 5.4, from byte 8 on
    assert struct.unpack_from("<3I6H", out, 8) == (5, 6, 7, 8, 2, 3, 0, 0, 0)
    assert struct.unpack_from("<H", out, 8 + 64) == (3,)
    assert sum(out) == 5 + 6 + 7 + 8 + 2 + 3 + 3


def test_hidden_size_of_dynamic_local_memory():
    wanted = {**HIDDEN, ".value_kind": "hidden_dynamic_lds_size"}
    out = load(add_args(wanted)(blob())).kernarg.pack(bytes(24), (1, 1, 1), (64, 1, 1), shared=77)
    assert out == bytes(24) + struct.pack("<I36x", 77)


@pytest.mark.parametrize(("groups", "size", "dims"), [
    ((1, 1, 1), (1, 1, 1), 1), ((9, 1, 1), (64, 1, 1), 1), ((9, 1, 1), (8, 8, 1), 2),
    ((1, 1, 2), (1, 1, 1), 3),
])  # fmt: skip
def test_dimensions_of_a_grid(groups, size, dims):
    out = load(blob(), "hidden").kernarg.pack(bytes(8), groups, size)
    assert struct.unpack_from("<H", out, 8 + 64) == (dims,)


def test_version_4_has_nothing_to_fill_in():
    kernarg = load(blob(4, "gfx1036"), "hidden", "gfx1036").kernarg
    assert kernarg.hidden == {}
    assert kernarg.pack(bytes(8), (5, 6, 7), (8, 2, 3)) == bytes(kernarg.nbytes)


def test_a_local_pointer_is_not_in_the_signature():
    code = load(blob(), "local_pointer", args=("i32*", "i32"))
    assert code.kernarg.copies == ((0, 0, 8), (8, 12, 4))
    out = code.kernarg.pack(
        struct.pack("<QI4x", 1, 2), (1, 1, 1), (64, 1, 1), shared=256, static_lds=code.lds_nbytes
    )
    assert struct.unpack("<QII", out[:16]) == (1, 12, 2)
    assert code.rsrc2_for(500) >> 15 == 1
    assert code.rsrc2_for(501) >> 15 == 2


def test_relocations_move_with_the_image():
    image = load(blob(), "relocated").image
    assert image.writable
    assert len(image.fixups) == 2
    one, two = image.place(0x7_0000_0000), image.place(0xFFFF8000_00000000)
    for fixup in image.fixups:
        at = slice(fixup.offset, fixup.offset + 8)
        assert int.from_bytes(one[at], "little") - 0x7_0000_0000 == fixup.value
        assert int.from_bytes(two[at], "little") - 0xFFFF8000_00000000 == fixup.value
        assert one[fixup.value] == 5  # what it points to: counter
        one[at] = two[at]
    assert one == two
    with pytest.raises(ValueError, match="0x1000"):
        image.place(0x800)


def test_segments_lie_where_their_addresses_say():
    data = blob()
    image = load(data).image
    placed = image.place(0)
    assert len(placed) == image.nbytes
    assert image.nbytes % 4096 == 0
    for s in elf.Elf(data).loads:
        fixed = {f.offset + i for f in image.fixups for i in range(8)}
        want = data[s.offset : s.offset + s.filesz]
        got = placed[image.offset(s.vaddr) :][: s.filesz]
        at = image.offset(s.vaddr)
        assert [i for i in range(s.filesz) if want[i] != got[i] and at + i not in fixed] == []


# --- dispatch -------------------------------------------------------------------------------------

# PERFCOUNT_ENABLE, THREAD_TRACE_ENABLE, RESTART_X..Z: not in 4.4.
QUIET = "C0017600 20B 0  C0017600 21E 0  C0037600 21B 0 0 0"
HEAD10 = """
C0065800 0 FFFFFFFF 00FFFFFF 0 0 A C3F1  C0017900 7B 20  C0027600 216 FFFFFFFF 0
C0027600 219 0 0  C0047600 224 0 0 0 0  C0017600 27D 0  {quiet}  C0027600 20C {code} 0
C0027600 212 60AF0040 8C  C0017600 228 0  C0017600 215 0  C0017600 218 0
C0067600 204 0 0 0 40 1 1  C0067600 240 0 80000000 FFFFFFFF 21C14FAC 5000 1
C0031500 2 3 4 8005  C0004600 407  """
HEAD11 = """
C0065800 0 FFFFFFFF 00FFFFFF 0 0 A C3F1  C0027600 216 FFFFFFFF FFFFFFFF
C0027600 219 FFFFFFFF FFFFFFFF  C0047600 22B FFFFFFFF FFFFFFFF 0 0  C0017600 22F 40
C0047600 224 0 0 0 0  C0017600 27D 0  {quiet}  C0027600 20C {code} 0
C0027600 212 60AF0080 9E  C0017600 228 0  C0017600 215 0  C0017600 218 0
C0067600 204 0 0 0 40 1 1  C0027600 240 5000 1  C0031500 2 3 4 8005  C0004600 407  """


@pytest.mark.parametrize(("target", "gfx", "engines", "text"), [
    ("gfx1036", 10.3, 1, HEAD10), ("gfx1100", 11, 6, HEAD11)
])  # fmt: skip
def test_dispatch_is_the_reference_stream(target, gfx, engines, text):
    """AMDGPU_FACTS 4.4, typed by hand."""
    code = load(blob(5, target), "simple", target)
    va = 0x1_0000_0000
    ib = dispatch.encode(
        code, gfx=gfx, code_va=va, kernarg_va=0x1_00005000, groups=(2, 3, 4), group_size=(64, 1, 1),
        engines=engines,
    )  # fmt: skip
    want = [
        int(w, 16) for w in text.format(code=f"{(va + code.entry) >> 8:X}", quiet=QUIET).split()
    ]
    assert ib == want + [0xFFFF1000] * (-len(want) % 8)


def test_dispatch_with_scratch():
    code = load(blob(), "stack")
    ib = dispatch.encode(
        code, gfx=11, code_va=0xFFFF8000_00000000, kernarg_va=0, groups=(1, 1, 1),
        group_size=(64, 1, 1), scratch=dispatch.Scratch(0xFFFF8001_00000000, 32), engines=6,
    )  # fmt: skip
    text = lowlevel.text([lowlevel.Ib(tuple(ib), 11)])
    assert "COMPUTE_TMPRING_SIZE={WAVES=0x20 WAVESIZE=0x21}" in text
    assert "COMPUTE_DISPATCH_SCRATCH_BASE_LO=0x1000000" in text
    assert "COMPUTE_DISPATCH_SCRATCH_BASE_HI={DATA=0x80}" in text
    with pytest.raises(ValueError, match="scratch"):
        dispatch.encode(
            code, gfx=11, code_va=0, kernarg_va=0, groups=(1, 1, 1), group_size=(64, 1, 1)
        )


@pytest.mark.parametrize(("kind", "want"), [
    (3, lambda base, s, p: s + 8 + base), (5, lambda base, s, p: s + 8 - p),
    (1, lambda base, s, p: (s + 8 + base) & 0xFFFFFFFF),
    (2, lambda base, s, p: (s + 8 + base) >> 32),
    (10, lambda base, s, p: (s + 8 - p) & 0xFFFFFFFF), (11, lambda base, s, p: (s + 8 - p) >> 32),
])  # fmt: skip
def test_relocations_with_symbols(kind, want):
    data, base = blob(), 0xFFFF8000_00001000
    e = elf.Elf(data)
    symbol, at = e.find("simple.kd"), e.relocations()[0].offset
    table = struct.unpack_from("<Q", data, dynamic_at(data, elf.DT_RELA))[0]
    data = patched(data, table, "QIIq", at, kind, e.symbols().index(symbol), 8)
    image = load(data).image
    width = 8 if kind in (3, 5) else 4
    got = int.from_bytes(image.place(base)[image.offset(at) :][:width], "little")
    assert got == want(base, symbol.value, at) & ((1 << 8 * width) - 1)
