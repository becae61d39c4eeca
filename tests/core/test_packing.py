"""_hot.pack over stand-ins for kernels and buffers: what it writes, and why it refuses.

When this fails, a launch passes a wrong argument to the kernel.
"""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sparkle_drv._native import ffi, lib

from sparkle_drv import _hot
from sparkle_drv.core.abi.elements import READONLY
from sparkle_drv.core.abi.signature import Arg, Signature

DEVICE = object()
MOST = 2**16


def pointer(address=0x1000, nbytes=64, device=DEVICE, readonly=False, elements=2):
    made, storage = _hot.PointerBase(), _hot.StorageBase()
    storage.device = device
    made._begin(storage, address, nbytes, elements | READONLY * readonly)
    return made


def kernel(*args, dims=3, routine=False, device=DEVICE):
    """Of these arguments; groups of 64."""
    signature = Signature(args)
    packing = ffi.new("struct sp_packing *")
    packing.head = (1, signature.record_nbytes, 7, (1, 1, 1), (64, 1, 1), 0, signature.args_nbytes)
    packing.dims, packing.is_routine = dims, routine
    packing.most_groups, packing.most_threads, packing.most_shared = (MOST,) * 3, 256, 1024
    packing.sig = signature.native[0]
    made = _hot.KernelBase()
    made._device, made._packing = device, bytes(ffi.buffer(packing))
    return made


SAXPY = kernel(
    Arg("y", "f32*", "w", extent="n"), Arg("x", "f32*", "r", extent="n"),
    Arg("a", "f32"), Arg("n", "u32"),
)  # fmt: skip


def pack(of, args, groups=1, group_size=None, shared=0):
    """A record that nothing is wrong with, or why there is none."""
    packed = _hot.pack(DEVICE, of, args, groups, group_size, shared)
    return packed if isinstance(packed, tuple) else _hot.judge(of, packed) or packed


def test_saxpy():
    packed = pack(SAXPY, (pointer(8, 40), pointer(16, 80), 2.5, 10), 3, 32, 5)
    head = (1, 88, 7, 3, 1, 1, 32, 1, 1, 5, 24)
    assert struct.unpack("=IIQ8IQQfI2Q", packed) == (*head, 8, 16, 2.5, 10, 40, 80)


@given(st.floats(allow_nan=False) | st.floats(-70000, 70000) | st.floats(-1e-4, 1e-4))
def test_a_half_is_rounded_as_numpy_rounds(value):
    """A kernel's f16 argument would differ from its reference's in the last bit."""
    with np.errstate(over="ignore"):
        want = np.float16(value)
    packed = pack(kernel(Arg("a", "f16")), (value,))
    if np.isinf(want) and not np.isinf(value):
        assert packed[0] == lib.SP_REFUSED_RANGE
    else:
        assert packed[-8:-6] == want.tobytes()


def test_a_half_that_is_not_a_number():
    assert np.isnan(np.frombuffer(pack(kernel(Arg("a", "f16")), (np.nan,))[-8:-6], np.float16))


@pytest.mark.parametrize("kind", ["i8", "u8", "i16", "u16", "i32", "u32"])
def test_whole_numbers_at_their_ends(kind):
    """A value that wraps would reach the kernel as another one."""
    dtype = np.dtype(kind[0] + str(int(kind[1:]) // 8))
    ends = np.iinfo(dtype)
    of = kernel(Arg("n", kind))
    for value in (ends.min, ends.max, 1):
        assert pack(of, (value,))[-8:][: dtype.itemsize] == np.array(value, dtype).tobytes()
    for value in (ends.min - 1, ends.max + 1):
        assert pack(of, (value,))[0] == lib.SP_REFUSED_RANGE


@pytest.mark.parametrize(
    ("args", "why", "index"),
    [
        ((pointer(device=None), pointer(), 1.0, 1), "CLOSED", 0),
        ((pointer(), pointer(device=object()), 1.0, 1), "ELSEWHERE", 1),
        ((pointer(readonly=True), pointer(), 1.0, 1), "READONLY", 0),
        ((pointer(elements=1), pointer(), 1.0, 1), "ELEMENTS", 0),
        ((pointer(), pointer(elements=16), 1.0, 1), "ELEMENTS", 1),
        ((None, pointer(), 1.0, 1), "POINTER", 0),
        ((pointer(), b"bytes", 1.0, 1), "POINTER", 1),
        ((pointer(), pointer(), "x", 1), "NUMBER", 2),
        ((pointer(), pointer(), np.float32(1), 1), "NUMBER", 2),  # _hot.plain was not asked
        ((pointer(), pointer(), 1.0, 1.0), "NUMBER", 3),
        ((pointer(), pointer(), 1.0, -1), "RANGE", 3),
        ((pointer(), pointer(), 1e300, 1), "RANGE", 2),
        ((pointer(), pointer(), 10**400, 1), "RANGE", 2),
        ((pointer(), pointer(), 1.0), "COUNT", 0),
        ((pointer(), pointer(), 1.0, 1, 1), "COUNT", 0),
        ((1,) * 100, "COUNT", 0),
    ],
)
def test_arguments_that_are_refused(args, why, index):
    assert pack(SAXPY, args)[:2] == (getattr(lib, f"SP_REFUSED_{why}"), index)


FINE = (pointer(), pointer(), 1.0, 1)


@pytest.mark.parametrize(
    ("shape", "why", "index"),
    [
        ((None,), "NO_GROUPS", 0),
        (("1",), "WORD", 0),
        (((1, 1.0),), "WORD", 0),
        (([1],), "WORD", 0),
        ((1, "1"), "WORD", 1),
        ((1, None, 1.0), "WORD", 2),
        (((),), "AXES", 0),
        ((1, (1, 1, 1, 1)), "AXES", 1),
        (((1, -1),), "GROUPS", 1),
        (((1, 1, 2**40),), "GROUPS", 2),
        (((1, MOST + 1),), "GROUPS", 1),
        ((1, 2**40), "GROUP_SIZE", 0),
        ((1, 0), "GROUP_SIZE", 0),
        ((1, 257), "GROUP_SIZE", 0),
        ((1, (2**31, 2**31, 4)), "GROUP_SIZE", 0),
        (((MOST,) * 3, (256,)), None, 0),
        (((MOST, MOST, MOST), 256), None, 0),
        ((1, None, -1), "SHARED", 0),
        ((1, None, 1025), "SHARED", 0),
        ((1, None, 2**40), "SHARED", 0),
    ],
)
def test_shapes_that_are_refused(shape, why, index):
    packed = pack(SAXPY, FINE, *shape)
    if why is None:
        assert isinstance(packed, bytes)
    else:
        assert packed[:2] == (getattr(lib, f"SP_REFUSED_{why}"), index)


def test_kernels_that_are_refused():
    wide = kernel(dims=1)
    for groups, size in (((1, 2), None), (1, (8, 8))):
        assert pack(wide, (), groups, size) == (lib.SP_REFUSED_DIMS, 0, 0)
    assert pack(wide, (), (1, MOST + 1)) == (lib.SP_REFUSED_GROUPS, 1, MOST + 1)
    routine = kernel(routine=True)
    assert isinstance(pack(routine, (), None), bytes)
    assert pack(routine, (), 2) == (lib.SP_REFUSED_ROUTINE, 0, 0)
    assert pack("k", ())[0] == lib.SP_REFUSED_KERNEL
    assert pack(kernel(device=None), ())[0] == lib.SP_REFUSED_KERNEL_CLOSED
    assert pack(kernel(device=object()), ())[0] == lib.SP_REFUSED_KERNEL_ELSEWHERE


def test_extents_that_are_not_covered():
    args = (pointer(nbytes=80), pointer(nbytes=79), 1.0, 20)
    assert pack(SAXPY, args) == (lib.SP_REFUSED_SHORT, 1, 80)
    far = kernel(Arg("x", "f32*", "r", extent="n*n*n/n"), Arg("n", "u32"))
    assert pack(far, (pointer(), 2**32 - 1))[:2] == (lib.SP_REFUSED_OVERFLOW, 0)
    assert pack(far, (pointer(), 0))[:2] == (lib.SP_REFUSED_SENSELESS, 0)
    assert isinstance(pack(far, (pointer(), 1)), bytes)


def test_a_read_only_input_and_an_absent_optional_are_fine():
    assert isinstance(pack(SAXPY, (pointer(), pointer(readonly=True), 1.0, 1)), bytes)
    optional = kernel(Arg("x", "f32*", "w", optional=True, extent="1"))
    assert pack(optional, (None,))[48:] == bytes(16)
    assert pack(optional, (pointer(3, 4),))[48:] == struct.pack("=QQ", 3, 4)
    assert pack(optional, (pointer(readonly=True),))[0] == lib.SP_REFUSED_READONLY


def test_no_arguments_at_all():
    assert len(pack(kernel(), ())) == 48
    assert pack(kernel(), (1,))[0] == lib.SP_REFUSED_COUNT


@given(st.lists(st.booleans(), max_size=48))
def test_every_position_ends_up_in_its_place(kinds):
    n = len(kinds)
    of = kernel(*(Arg(f"a{i}", "f32*" if k else "i32") for i, k in enumerate(kinds)))
    args = tuple(pointer(100 + i, 1000 + i) if k else i - 9 for i, k in enumerate(kinds))
    want = [100 + i if k else i - 9 for i, k in enumerate(kinds)]
    want += [1000 + i for i, k in enumerate(kinds) if k]
    layout = "@" + "".join("P" if k else "i" for k in kinds) + "0P"
    pad = -struct.calcsize(layout) % 8
    packed = pack(of, args)[48:]
    assert len(packed) == struct.calcsize(layout) + pad + 8 * sum(kinds)
    values = struct.unpack_from(layout, packed)
    covered = struct.unpack_from(f"={sum(kinds)}Q", packed, len(packed) - 8 * sum(kinds))
    assert [*values, *covered] == want
    assert n == len(values)


def test_what_stands_for_numbers_is_made_plain():
    def plain(args, groups=1, group_size=None, shared=0):
        return _hot.plain(SAXPY, args, groups, group_size, shared)

    y = pointer()
    made = plain((y, None, np.float32(0.5), np.uint8(3)), [np.int8(2), True], range(3), np.int64(4))
    assert made == ((y, None, 0.5, 3), ((2, 1), (0, 1, 2), 4))
    assert [type(n) for n in (*made[0][2:], *made[1][0], made[1][2])] == [float, *[int] * 4]
    odd = (y, y, 1j, "1")
    assert plain(odd, "x", [1, 2.0], None) == (odd, ("x", [1, 2.0], None))
    assert plain((y, y, np.complex64(1), 2.0))[0] == (y, y, np.complex64(1), 2.0)
    assert plain((y, y, 10**400, 1), range(9)) == ((y, y, 10**400, 1), ((0, 1, 2, 3), None, 0))
    assert plain((np.float32(1),))[0] == (np.float32(1),)
    assert _hot.plain("no kernel", (np.float32(1),), None, None, 0)[0] == (np.float32(1),)
