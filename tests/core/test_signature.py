"""Signatures: argument types from text and manifest, packing as C lays structs out, extents as
programs that C runs.

When this fails, a kernel's arguments are packed with the wrong size or alignment.
"""

import re
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sparkle_drv._native import ffi, lib

from sparkle_drv import assets
from sparkle_drv.core.abi.signature import (
    ELEMENTS,
    SCALARS,
    Arg,
    Signature,
    parse_args,
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", []),
        ("f32* f32 u32", [("arg0", "f32*"), ("arg1", "f32"), ("arg2", "u32")]),
        ("f32* y, f32 *x, u32 n", [("y", "f32*"), ("x", "f32*"), ("n", "u32")]),
        ("f32 * y,u64 n", [("y", "f32*"), ("n", "u64")]),
        ("bf16* u8* i8* u16* i16* f16*", [(f"arg{i}", f"{t}*") for i, t in enumerate(
            ("bf16", "u8", "i8", "u16", "i16", "f16"))]),
        ("f64,i64,i32", [("arg0", "f64"), ("arg1", "i64"), ("arg2", "i32")]),
    ],
)  # fmt: skip
def test_types_from_text(text, want):
    assert [(a.name, a.type) for a in parse_args(text)] == want


@pytest.mark.parametrize(
    "text", ["f31", "f32**", "float", "*", "y f32", "f32 x y", "f32* 3x", "f32; drop"]
)
def test_types_that_are_none(text):
    with pytest.raises(ValueError, match=r"args: .* is not a type"):
        parse_args(text)


def test_bf16_only_behind_pointers():
    with pytest.raises(ValueError, match="bf16 in 'f16 x bf16' can only be behind a pointer"):
        parse_args("f16 x bf16")


def test_what_an_argument_tells():
    y, n = Arg("y", "f32*", "w", extent="n"), Arg("n", "u32")
    assert (y.is_pointer, y.is_written, y.nbytes, y.element_nbytes) == (True, True, 8, 4)
    assert (n.is_pointer, n.is_written, n.nbytes, n.element_nbytes) == (False, False, 4, 4)
    assert not Arg("x", "f32*", "r", extent="n").is_written
    assert not Arg("x", "f32*", "rw").is_written  # a user's pointer: nobody knows


ARGS = st.lists(st.sampled_from([*SCALARS, *(f"{e}*" for e in ELEMENTS)]), max_size=12)
CODES = {"f32": "f", "f64": "d", "i32": "i", "u32": "I", "i64": "q", "u64": "Q"}
CODES |= {"f16": "e", "i16": "h", "u16": "H", "i8": "b", "u8": "B"}


@given(ARGS)
def test_packing_is_natural_c_alignment(kinds):
    signature = Signature([Arg(f"a{i}", kind) for i, kind in enumerate(kinds)])
    native = struct.Struct(
        "@" + "".join("P" if k.endswith("*") else CODES[k] for k in kinds) + "0Q"
    )
    assert signature.args_nbytes == native.size + -native.size % 8
    values = [i + 1 for i in range(len(kinds))]
    packed = signature.args_struct.pack(*values)
    assert packed[: native.size] == native.pack(*values)
    for arg, offset, value in zip(signature.args, signature.offsets, values, strict=True):
        code = "Q" if arg.is_pointer else CODES[arg.type]
        assert struct.unpack_from("=" + code, packed, offset) == (value,)


def test_the_native_signature_says_the_same():
    signature = Signature(
        [Arg("y", "f32*", "w", extent="n"), Arg("x", "u8*", "r", True), Arg("n", "u32")]
    )
    native = signature.native
    assert (native.nargs, native.npointers, native.args_nbytes) == (3, 2, 24)
    assert (native.pointers[0].element_nbytes, native.pointers[0].nsteps) == (4, 1)
    assert (native.args[0].is_written, native.args[0].elements) == (1, 2)
    assert (native.args[1].is_optional, native.pointers[1].nsteps) == (1, 0)
    assert (native.pointers[1].arg, native.pointers[1].offset) == (1, 8)
    assert (native.args[2].offset, native.args[2].is_pointer, native.args[2].code) == (16, 0, 73)
    assert repr(signature) == "(f32* y, u8* x, u32 n)"


def covered(text, integers, kind="u64"):
    """What sp_signature_check wants of a pointer with this extent: (rc, bytes)."""
    args = [Arg("p", "u8*", "r", extent=text), *(Arg(n, kind) for n in integers)]
    signature = Signature(args)
    block = signature.args_struct.pack(8, *integers.values()) + struct.pack("=Q", 0)
    held = ffi.new("char[]", block)
    need = ffi.new("uint64_t *")
    rc = lib.sp_signature_check(signature.native, held, ffi.NULL, need)
    return rc, need[0]


def expressions(depth=4):
    leaf = st.sampled_from(["a", "b", "c", "0", "1", "7", "1000"])
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from("+-*/"), inner).map(
                lambda t: f"({t[0]} {t[1]} {t[2]})"
            ),
            st.tuples(inner, st.sampled_from("+*"), inner, st.sampled_from("+-*"), leaf).map(
                "".join
            ),
            st.tuples(leaf, leaf, leaf, leaf).map(lambda t: f"span({', '.join(t)})"),
        ),
        max_leaves=8,
    )


class Natural:
    """Arithmetic on counts as sp_cmd.h defines it; the oracle of the extents."""

    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        return fits(self.value + other.value)

    def __sub__(self, other):
        return Natural(max(0, self.value - other.value))

    def __mul__(self, other):
        return fits(self.value * other.value)

    def __truediv__(self, other):
        if not other.value:
            raise ZeroDivisionError
        return Natural(-(-self.value // other.value))


def fits(value):
    if value >= 2**64:
        raise OverflowError
    return Natural(value)


def span(n1, s1, n2, s2):
    if not n1.value or not n2.value:
        return Natural(0)
    one = fits((n1.value - 1) * s1.value + 1)
    return one + fits((n2.value - 1) * s2.value)


COUNTS = st.one_of(st.integers(0, 9), st.integers(0, 2**64 - 1), st.just(2**32))


@given(expressions(), st.booleans(), COUNTS, COUNTS, COUNTS)
def test_extents_are_computed_as_written(text, narrow, a, b, c):
    if narrow:
        a, b, c = a % 2**32, b % 2**32, c % 2**32
    names = {"a": Natural(a), "b": Natural(b), "c": Natural(c), "span": span, "N": Natural}
    python = re.sub(r"\b\d+\b", lambda m: f"N({m[0]})", text)
    try:
        want = eval(python, names).value
    except ZeroDivisionError:
        want = -22
    except OverflowError:
        want = -75
    rc, need = covered(text, {"a": a, "b": b, "c": c}, "u32" if narrow else "u64")
    if want in (-22, -75):
        assert rc in (-22, -75), text  # whichever is met first
    elif want == 0:
        assert rc == 0, text
    else:
        assert (rc, need) == (-34, want), text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("n +", "invalid syntax"),
        ("(n", r"'\(' was never closed"),
        ("n n", "invalid syntax"),
        ("n)", r"unmatched '\)'"),
        ("-n", "'-n' is not an integer argument"),
        ("n // n", "'n // n' is not an integer argument"),
        ("n if n else n", "'n if n else n' is not an integer argument"),
        ("1.5", "'1.5' is not an integer argument"),
        ("m", "'m' is not an integer argument; known: n"),
        ("f", "not an integer argument"),
        ("n ; n", "invalid syntax"),
        ("span(n, n)", r"'span\(n, n\)' is not an integer argument"),
        ("span n", "invalid syntax"),
        ("span(n+1, 1, 1, 1)", r"'n \+ 1' is not an integer argument"),
        ("span(n, n, n, n, n)", "is not an integer argument"),
        ("+".join("n" * 5000), "recursion"),
    ],
)
def test_extents_that_cannot_be_read(text, says):
    with pytest.raises(ValueError, match=says):
        Signature([Arg("p", "f32*", "r", extent=text), Arg("n", "u32"), Arg("f", "f32")])


def test_limits():
    with pytest.raises(ValueError, match="at most 48"):
        Signature([Arg(f"a{i}", "u32") for i in range(49)])
    long = "+".join(["n"] * 512)
    Signature([Arg("p", "f32*", extent=long), Arg("n", "u32")])
    for more in ([Arg("p", "f32*", extent=f"{long}+n")], [Arg("q", "f32*", extent="n"),
                 Arg("p", "f32*", extent=long)]):  # fmt: skip
        with pytest.raises(ValueError, match="more than 512 steps"):
            Signature([*more, Arg("n", "u32")])
    deep = "(" * 20 + "n" + ")" * 20
    Signature([Arg("p", "f32*", extent=deep), Arg("n", "u32")])


def test_every_manifest_signature():
    for name, entry in assets.manifest()["kernels"].items():
        signature = Signature([Arg(**arg) for arg in entry["args"]])
        assert signature.npointers == sum(a["type"].endswith("*") for a in entry["args"]), name


USUAL = [
    "n", "7", "m*n", "m*n*rs*cs", "(m*n)*(rs*cs)", "m*(n/cs)*rs", "n/m", "7*(n/0)", "m*(0/n)",
    "span(m,rs,n,cs)", "span(m,rs,n,1)", "span(n,cs,3,5)", "n+1", "m-n", "span(n,m,n,rs)+cs*2",
]  # fmt: skip
SIZES = st.one_of(st.integers(0, 40), st.integers(0, 2**32 - 1), st.just(2**32 - 1))


def needed(arg, sizes):
    """Bytes that a pointer must cover; None: beyond 64 bits, or divided by 0."""
    signature = Signature([arg, *(Arg(n, "u32") for n in sizes)])
    block = signature.args_struct.pack(16, *sizes.values()) + bytes(8)
    need = ffi.new("uint64_t *")
    rc = lib.sp_signature_need(signature.native, 0, ffi.new("char[]", block), need)
    return None if rc else need[0]


@given(
    st.lists(
        st.tuples(
            st.builds(
                Arg,
                st.just(""),
                st.sampled_from(["u8*", "f32*", "f64*"]),
                st.just("r"),
                st.booleans(),
                st.sampled_from(["", *USUAL]),
            ),
            st.sampled_from([0, 16]),
            st.integers(-9, 9),
        ),
        min_size=1,
        max_size=4,
    ),
    st.fixed_dictionaries(dict.fromkeys(("m", "n", "rs", "cs"), SIZES)),
)
def test_the_first_pointer_that_is_not_covered_is_named(pointers, sizes):
    args = [replace(arg, name=f"p{i}") for i, (arg, _, _) in enumerate(pointers)]
    signature = Signature([*args, *(Arg(n, "u32") for n in sizes)])
    addresses = [address for _, address, _ in pointers]
    needs = [needed(arg, sizes) for arg in args]
    covered = [
        min(max(0, (need or 0) + slack), 2**64 - 1)
        for need, (_, _, slack) in zip(needs, pointers, strict=True)
    ]
    block = ffi.new(
        "char[]",
        signature.args_struct.pack(*addresses, *sizes.values())
        + struct.pack(f"={len(covered)}Q", *covered),
    )
    bad = ffi.new("uint32_t *")
    rc = lib.sp_signature_check(signature.native, block, bad, ffi.NULL)
    wrong = [
        i
        for i, arg in enumerate(args)
        if (addresses[i] or not arg.optional)
        and (
            (needs[i] is None or covered[i] < needs[i])
            or (not addresses[i] and (needs[i] or not arg.extent))
        )
    ]
    assert (rc == 0) == (not wrong)
    if wrong:
        assert bad[0] == wrong[0]


def test_null_pointers():
    def checked(**arg):
        signature = Signature([Arg("p", "f32*", **arg), Arg("n", "u32")])
        block = ffi.new("char[]", struct.pack("=QIIQ", 0, 0, 0, 0))
        return lib.sp_signature_check(signature.native, block, ffi.NULL, ffi.NULL)

    assert checked() == -14
    assert checked(optional=True) == 0
    assert checked(extent="n") == 0  # nothing behind it is wanted
    assert checked(extent="n+1") == -34
