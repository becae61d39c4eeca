"""The generated packing functions, over stand-ins for buffers."""

import struct
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkle_drv.core.abi.elements import READONLY
from sparkle_drv.core.abi.packing import packer

DEVICE = object()


def pointer(address=0x1000, nbytes=64, device=DEVICE, readonly=False, elements=2):
    return SimpleNamespace(
        _storage=SimpleNamespace(device=device),
        _address=address,
        _elements=elements | READONLY * readonly,
        nbytes=nbytes,
    )


SAXPY = packer([2, 2, 0, 0], [True, False, False, False], [False] * 4, struct.Struct("=4sQQfI2Q"))


def test_saxpy():
    packed = SAXPY(DEVICE, b"head", (pointer(8, 40), pointer(16, 80), 2.5, 10))
    assert struct.unpack("=4sQQfI2Q", packed) == (b"head", 8, 16, 2.5, 10, 40, 80)


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ((pointer(device=None), pointer(), 1.0, 1), ValueError),
        ((pointer(), pointer(device=object()), 1.0, 1), ValueError),
        ((pointer(readonly=True), pointer(), 1.0, 1), ValueError),
        ((pointer(elements=1), pointer(), 1.0, 1), ValueError),
        ((pointer(), pointer(elements=16), 1.0, 1), ValueError),
        ((None, pointer(), 1.0, 1), AttributeError),
        ((pointer(), b"bytes", 1.0, 1), AttributeError),
        ((pointer(), pointer(), "x", 1), struct.error),
        ((pointer(), pointer(), 1.0, -1), struct.error),
        ((pointer(), pointer(), 1e300, 1), OverflowError),
        ((pointer(), pointer(), 1.0), ValueError),
        ((pointer(), pointer(), 1.0, 1, 1), ValueError),
    ],
)
def test_anything_out_of_the_ordinary_raises(args, error):
    with pytest.raises(error):
        SAXPY(DEVICE, b"head", args)


def test_a_read_only_input_and_an_absent_optional_are_fine():
    assert SAXPY(DEVICE, b"head", (pointer(), pointer(readonly=True), 1.0, 1))
    optional = packer([2], [True], [True], struct.Struct("=0sQQ"))
    assert optional(DEVICE, b"", (None,)) == bytes(16)
    assert optional(DEVICE, b"", (pointer(3, 4),)) == struct.pack("=QQ", 3, 4)
    with pytest.raises(ValueError, match=r"^$"):
        optional(DEVICE, b"", (pointer(readonly=True),))


def test_no_arguments_at_all():
    pack = packer([], [], [], struct.Struct("=4s"))
    assert pack(DEVICE, b"head", ()) == b"head"
    with pytest.raises(ValueError, match="unpack"):
        pack(DEVICE, b"head", (1,))


@given(st.lists(st.booleans(), max_size=48))
def test_every_position_ends_up_in_its_place(kinds):
    n = len(kinds)
    layout = struct.Struct("=4s" + "".join("Q" if k else "i" for k in kinds) + f"{sum(kinds)}Q")
    pack = packer([2 if k else 0 for k in kinds], [False] * n, [False] * n, layout)
    args = [pointer(100 + i, 1000 + i) if k else i for i, k in enumerate(kinds)]
    want = [100 + i if k else i for i, k in enumerate(kinds)]
    want += [1000 + i for i, k in enumerate(kinds) if k]
    assert list(layout.unpack(pack(DEVICE, b"head", args))) == [b"head", *want]
