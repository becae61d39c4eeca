"""Code objects that are refused, each by one thing that is wrong, and the words for it.

When this fails, the user of a bad .hsaco gets a wrong launch, or an error that names the wrong
cause.
"""

from __future__ import annotations

import struct

import pytest
from objectkit import (
    HIDDEN,
    add_args,
    blob,
    descriptor_at,
    dynamic_at,
    kernel_note,
    load,
    patched,
    segment_at,
    with_note,
    with_raw_note,
)

import sparkle_drv as sp
from sparkle_drv.lowlevel import codeobject, elf

D = descriptor_at(blob())


def note(**changes):
    return lambda data: with_note(
        data, lambda root: kernel_note(root).update({f".{k}": v for k, v in changes.items()})
    )


def arg(index, **changes):
    return lambda data: with_note(
        data,
        lambda root: kernel_note(root)[".args"][index].update(
            {f".{k}": v for k, v in changes.items()}
        ),
    )


def root(change):
    return lambda data: with_note(data, change)


def put(at, layout, *values):
    return lambda data: patched(data, at, layout, *values)


def segment(kind, at, layout, value, nth=0):
    return lambda data: patched(data, segment_at(data, kind, nth) + at, layout, value)


def moved(change):
    """Another symbol for the descriptor: change takes (data, where its entry is)."""

    def apply(data):
        e = elf.Elf(data)
        table = e._dynamic[elf.DT_SYMTAB]
        index = e.symbols().index(e.find("simple.kd"))
        return change(data, table + 24 * index)

    return apply


BAD = {
    "empty": (lambda data: b"", "got 0 bytes"),
    "text": (
        lambda data: b"#include <x>" * 10,
        "expected an ELF file, got one that begins with 23 69",
    ),
    "32 bits": (put(4, "B", 1), "64-bit"),
    "another machine": (put(18, "H", 62), "machine 62, expected 224"),
    "another OS": (put(7, "B", 0), "OSABI 0, expected 64"),
    "an object file": (put(16, "H", 1), "not linked"),
    "an old version": (put(8, "B", 1), "ABI version 1 is not supported"),
    "another chip": (put(48, "I", 0x3F), "made for gfx90a; this device runs gfx1100"),
    "a chip without a name": (put(48, "I", 0x99), "MACH 0x99"),
    "half of it": (lambda data: data[: len(data) // 2], "truncated: segment"),
    "only its header": (lambda data: data[:64], "truncated: the program headers"),
    "no program headers": (put(56, "H", 0), "got 0 program headers"),
    "headers beyond the end": (put(32, "Q", 1 << 63), "truncated"),
    "a segment beyond the end": (segment(1, 8, "Q", 1 << 40), "truncated"),
    "more file than memory": (segment(1, 40, "Q", 1), "at most 1 bytes in the file"),
    "overlapping segments": (segment(1, 16, "Q", 0, nth=1), "overlaps"),
    "a huge segment": (segment(1, 40, "Q", 1 << 40, nth=3), "expected at most"),
    "a strange alignment": (segment(1, 48, "Q", 3), "alignment of 0x3"),
    "a library needed": (
        lambda d: patched(d, dynamic_at(d, elf.DT_HASH) - 8, "Q", 1),
        "other libraries",
    ),
    "no hash table": (
        lambda d: patched(d, dynamic_at(d, elf.DT_HASH) - 8, "Q", 0x7777),
        "hash table",
    ),
    "symbols elsewhere": (
        lambda d: patched(d, dynamic_at(d, elf.DT_SYMTAB), "Q", 1 << 50),
        "in no loaded segment",
    ),
    "wide symbols": (
        lambda d: patched(d, dynamic_at(d, elf.DT_SYMENT), "Q", 32),
        "32 bytes, expected 24",
    ),
    "an odd relocation table": (
        lambda d: patched(d, dynamic_at(d, elf.DT_RELASZ), "Q", 47),
        "47 bytes",
    ),
    "no descriptor": (moved(lambda d, at: patched(d, at, "I", 0)), "no symbol 'simple.kd'"),
    "a descriptor of 63 bytes": (moved(lambda d, at: patched(d, at + 16, "Q", 63)), "63 bytes at"),
    "a descriptor in between": (
        moved(lambda d, at: patched(d, at + 8, "Q", 0x2004)),
        "64-byte aligned",
    ),
    "a descriptor nowhere": (
        moved(lambda d, at: patched(d, at + 8, "Q", 1 << 60)),
        "no loaded segment",
    ),
    "a note that is too long": (
        lambda d: patched(d, segment_at(d, 4) + 32, "Q", 64),
        "longer than its segment",
    ),
    "an empty note": (lambda d: with_raw_note(d, b""), "MessagePack"),
    "no note": (
        segment(4, 32, "Q", 0),
        r"expected one metadata note \(NT_AMDGPU_METADATA\), got 0",
    ),
    "a note that is no map": (
        lambda d: with_raw_note(d, b"\x93\1\2\3"),
        "expected a map, got list",
    ),
    "a note cut short": (lambda d: with_raw_note(d, b"\xdf\xff\xff\xff\xff"), "MessagePack"),
    "a note of deep nesting": (lambda d: with_raw_note(d, b"\x91" * 4096 + b"\xc0"), "MessagePack"),
    "another metadata version": (
        root(lambda r: r.update({"amdhsa.version": [1, 1]})),
        r"version \[1, 2\] in code object v5",
    ),
    "another target in the note": (
        root(lambda r: r.update({"amdhsa.target": "amdgcn-amd-amdhsa--gfx1101"})),
        "'gfx1101'",
    ),
    "no kernels": (
        root(lambda r: r.update({"amdhsa.kernels": []})),
        "no kernel 'simple'; there is: none",
    ),
    "a kernel that is a number": (
        root(lambda r: r.update({"amdhsa.kernels": [1]})),
        "expected a map, got int",
    ),
    "a kernel twice": (
        root(lambda r: r["amdhsa.kernels"].append(r["amdhsa.kernels"][0])),
        "two kernels are called",
    ),
    "another symbol": (note(symbol="nosuch.kd"), "no symbol 'nosuch.kd'"),
    "a size that is text": (note(kernarg_segment_size="20"), "expected int"),
    "a size that is true": (note(group_segment_fixed_size=True), "expected int"),
    "a size below zero": (note(private_segment_fixed_size=-1), "0 to"),
    "local memory that disagrees": (
        note(group_segment_fixed_size=4),
        "group_segment_fixed_size is 0, the metadata says 4",
    ),
    "scratch that disagrees": (put(D + 4, "I", 16), "private_segment_fixed_size is 16"),
    "kernarg that disagrees": (put(D + 8, "I", 24), "kernarg_size is 24, the metadata says 20"),
    "waves that disagree": (note(wavefront_size=64), "wavefront size is 32"),
    "waves of 16": (note(wavefront_size=16), "32 or 64"),
    "more registers than given": (note(vgpr_count=99), "VGPRs, the metadata says 99"),
    "a required group too large": (note(reqd_workgroup_size=[64, 5, 1]), "320 threads"),
    "a required group of four": (note(reqd_workgroup_size=[1, 1, 1, 1]), "reqd_workgroup_size is"),
    "groups of 2000": (note(max_flat_workgroup_size=2000), "0 to 1024"),
    "a group of none": (note(max_flat_workgroup_size=0), "is 0"),
    "an odd alignment": (note(kernarg_segment_align=3), "align is 3"),
    "a dynamic stack": (note(uses_dynamic_stack=True), "recursion"),
    "too much local memory": (
        lambda d: note(group_segment_fixed_size=65537)(patched(d, D, "I", 65537)),
        "expected at most 65536",
    ),
    "too much scratch": (
        lambda d: note(private_segment_fixed_size=1 << 30)(
            patched(patched(d, D + 4, "I", 1 << 30), D + 52, "I", 0x9F)
        ),
        "of scratch memory per lane",
    ),
    "scratch without its bit": (
        lambda d: note(private_segment_fixed_size=64)(patched(d, D + 4, "I", 64)),
        "SCRATCH_EN is 0",
    ),
    "PRIV": (put(D + 48, "I", 0x60AF0080 | 1 << 20), "RSRC1.PRIV: expected 0, got 1"),
    "a trap handler": (put(D + 52, "I", 0x9E | 1 << 6), "RSRC2.TRAP_PRESENT"),
    "LDS_SIZE set": (put(D + 52, "I", 0x9E | 1 << 15), "RSRC2.LDS_SIZE"),
    "a reserved bit": (put(D + 48, "I", 0x60AF0080 | 1 << 25), "RSRC1"),
    "four thread ids": (put(D + 52, "I", 0x9E | 3 << 11), "TIDIG_COMP_CNT"),
    "reserved bytes": (put(D + 12, "I", 1), "reserved12"),
    "a dispatch pointer": (put(D + 56, "H", 0x408 | 2), "ENABLE_SGPR_DISPATCH_PTR"),
    "a queue pointer": (put(D + 56, "H", 0x408 | 4), "ENABLE_SGPR_QUEUE_PTR"),
    "a dispatch id": (put(D + 56, "H", 0x408 | 16), "ENABLE_SGPR_DISPATCH_ID"),
    "kernarg preload": (put(D + 58, "H", 2), "preload"),
    "too few user SGPRs": (put(D + 52, "I", 0x80 | 1 << 1), "USER_SGPR is 1"),
    "too many user SGPRs": (put(D + 52, "I", 0x80 | 17 << 1), "expected at most 16"),
    "code that is not aligned": (put(D + 16, "q", 0x1104), "256-byte aligned"),
    "code that is data": (put(D + 16, "q", -0x2000), "segment of code"),
    "code far away": (put(D + 16, "q", -(1 << 63)), "segment of code"),
    "arguments that overlap": (arg(1, offset=4), "overlaps"),
    "an argument beyond the segment": (arg(2, offset=20), "kernarg segment of 20"),
    "an argument far away": (arg(2, offset=1 << 40), "0 to"),
    "an image argument": (arg(1, value_kind="image"), "only scalars and pointers"),
    "a pointer of 4 bytes": (arg(0, size=4), "pointers have 8"),
    "a private pointer": (arg(0, address_space="private"), "'private'"),
    "a hidden argument that is new": (
        add_args({**HIDDEN, ".value_kind": "hidden_moon_phase"}),
        "hidden_moon_phase",
    ),
    "a hidden argument of another size": (
        add_args({**HIDDEN, ".size": 8}),
        "8 bytes, expected 4",
    ),
    "a hidden argument twice": (add_args(HIDDEN, {**HIDDEN, ".offset": 28}), "twice"),
    "two local pointers": (
        add_args(
            *({".offset": o, ".size": 4, ".value_kind": "dynamic_shared_pointer"} for o in (20, 24))
        ),
        "one __local",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_refused_in_words(what):
    spoil, words = BAD[what]
    with pytest.raises(sp.ImageError, match=words) as caught:
        load(spoil(blob()))
    assert str(caught.value).startswith("x.hsaco: ")


@pytest.mark.parametrize("entry", ["dynamic_stack", "dispatch_packet", "nosuch"])
def test_kernels_that_are_refused(entry):
    words = {
        "dynamic_stack": "dynamic stack", "dispatch_packet": "DISPATCH_PTR",
        "nosuch": "there is: dispatch_packet, dynamic_stack",
    }  # fmt: skip
    with pytest.raises(sp.ImageError, match=words[entry]):
        load(blob(), entry)


def test_printing_is_refused():
    printf = {**HIDDEN, ".size": 8, ".value_kind": "hidden_printf_buffer"}
    quiet = add_args(printf)(blob())
    assert load(quiet).kernarg.nbytes == 64
    with pytest.raises(sp.ImageError, match="printf"):
        load(with_note(quiet, lambda r: r.update({"amdhsa.printf": ["1:1:4:%d"]})))


@pytest.mark.parametrize(("rela", "words"), [
    ((0, 99, 0), "type 99"), ((1 << 40, 13, 0), "in no loaded segment"),
    ((0, 3, 500), r"symbol index below \d+, got 500"),
    ((0, 3, 0), "defined elsewhere"),
])  # fmt: skip
def test_relocations_that_are_refused(rela, words):
    data = blob()
    where, kind, symbol = rela
    table = struct.unpack_from("<Q", data, dynamic_at(data, elf.DT_RELA))[0]
    target = where or elf.Elf(data).relocations()[0].offset
    with pytest.raises(sp.ImageError, match=words):
        load(patched(data, table, "QII", target, kind, symbol))


SIGNATURES = {
    ("f32*", "f32*"): "takes 3 arguments, the signature has 2",
    ("f32*", "f32*", "f64"): "4 bytes by value, the signature has f64",
    ("f32*", "f32*", "f32*"): "4 bytes by value, the signature has f32",
    ("f32*", "u32", "i32"): "a pointer, the signature has u32",
    ("f32*", "f32*", "f32"): "the kernel has int, the signature has f32",
    ("f32*", "i32*", "i32"): r"the kernel has float\*, the signature has i32",
    ("f32*", "f64*", "i32"): r"the kernel has float\*, the signature has f64",
}


@pytest.mark.parametrize("args", SIGNATURES)
def test_signatures_that_do_not_fit(args):
    with pytest.raises(sp.ImageError, match=SIGNATURES[args]):
        load(blob(), args=args)


def test_signed_or_not_is_the_same():
    load(blob(), args=("f32*", "f32*", "u32"))


def test_an_offset_that_is_not_c():
    data = patched(blob(), D + 8, "I", 28)
    spoiled = note(kernarg_segment_size=28)(arg(2, offset=24)(data))
    with pytest.raises(sp.ImageError, match="at offset 24, the signature has i32 at 16"):
        load(spoiled, args=("f32*", "f32*", "i32"))


def test_small_scalars_have_no_signature():
    assert [e.nbytes for e in load(blob(), "scalars").kernarg.explicit] == [8, 1, 8, 2, 8, 4]


def test_targets_are_a_collection():
    with pytest.raises(TypeError, match="mach"):
        codeobject.load(blob(), "simple", mach="gfx1100")
