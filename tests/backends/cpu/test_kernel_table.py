"""shaders/manifest.json and the table of cpu kernels (native/cpu/isa/table.c) say the same.

When this fails, a cpu kernel reads its arguments in another order than the manifest states.
"""

import ctypes
import platform

import pytest
from sparkle_drv._native import ffi, lib

from sparkle_drv import assets
from sparkle_drv.ops.expression import grammar

KERNELS = {**assets.manifest()["kernels"], **assets.manifest()["packing"]}
ON_CPU = [name for name, kernel in KERNELS.items() if "cpu" in kernel["backends"]]
ISA_BITS = {
    "ref": lib.SP_ISA_REF,
    "neon": lib.SP_ISA_NEON,
    "avx2": lib.SP_ISA_AVX2,
    "avx512": lib.SP_ISA_AVX512,
}
# What a build for this machine can hold; the manifest lists the variants of every machine.
BUILT = {"x86_64": {"ref", "avx2", "avx512"}, "aarch64": {"ref", "neon"}}.get(
    platform.machine(), {"ref"}
)
SCALARS = {"u32": 4, "i32": 4, "f32": 4, "f64": 8, "i64": 8, "u64": 8}


def table():
    rows = {}
    entry = ffi.new("struct sp_cpu_entry *")
    while lib.sp_cpu_entry(len(rows), entry) == 0:
        name = ffi.string(entry.name).decode()
        assert name not in rows
        rows[name] = (entry.form, entry.args_nbytes, entry.isa_mask)
    return rows


ROWS = table()


def packed_nbytes(args):
    """Natural C alignment, padded to 8: what ctypes computes for the same members."""
    widths = [8 if arg["type"].endswith("*") else SCALARS[arg["type"]] for arg in args]
    members = [(f"m{i}", {4: ctypes.c_uint32, 8: ctypes.c_uint64}[w]) for i, w in enumerate(widths)]
    struct = type("Args", (ctypes.Structure,), {"_fields_": members})
    return -(-ctypes.sizeof(struct) // 8) * 8


def test_the_same_kernels_in_the_same_order():
    assert list(ROWS) == ON_CPU


def test_the_table_ends():
    assert lib.sp_cpu_entry(len(ROWS), ffi.new("struct sp_cpu_entry *")) != 0


@pytest.mark.parametrize("name", ON_CPU)
def test_forms_agree(name):
    dims1 = KERNELS[name].get("dims") == 1 and KERNELS[name]["group_size"] != [1, 1, 1]
    wanted = {
        "routine": lib.SP_FORM_ROUTINE,
        "grid": lib.SP_FORM_SPAN if dims1 else lib.SP_FORM_GRID,
    }[KERNELS[name]["backends"]["cpu"]["form"]]
    assert ROWS[name][0] == wanted


@pytest.mark.parametrize("name", ON_CPU)
def test_argument_structs_have_the_size_of_the_packed_arguments(name):
    assert ROWS[name][1] == packed_nbytes(KERNELS[name]["args"])


@pytest.mark.parametrize("name", ON_CPU)
def test_variants_agree(name):
    variants = KERNELS[name]["backends"]["cpu"]["variants"]
    assert set(variants) <= set(ISA_BITS)
    built = {isa for isa, bit in ISA_BITS.items() if ROWS[name][2] >> bit & 1}
    assert built == set(variants) & BUILT
    assert variants["ref"] == "reference"
    assert {tag for isa, tag in variants.items() if isa != "ref"} <= {"tuned"}


def test_map_ops_are_what_the_kernels_were_compiled_with():
    ops = {f"SP_MAP_{op.upper()}" for op in (*grammar.ARITY, "input", "const")}
    assert sorted(getattr(lib, name) for name in ops) == list(range(1, lib.SP_MAP_OPS))
    assert lib.SP_MAP_FMA == lib.SP_MAP_OPS  # the lowered language goes on from there
