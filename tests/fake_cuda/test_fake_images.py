"""Images: what is refused, with which result and log; entry points by version.

When this fails, tests of CUDA images run on a driver that takes what NVIDIA's refuses.
"""

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

import pytest
from fakekit import INVALID_VALUE, NOT_FOUND, PTX, alone


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("nonsense", 218),
        (PTX.replace(".version 8.0", ".version 9.9"), 222),
        (PTX.replace("sm_80", "sm_100"), 218),
        (PTX.replace("sm_80", "sm_80a"), 209),
        (PTX[: PTX.rindex("}")], 218),
    ],
)
def test_refused_with_a_log(fake, text, result):
    log = ctypes.create_string_buffer(512)
    options, values = (c_int * 2)(5, 6), (c_void_p * 2)(ctypes.addressof(log), len(log))
    module = c_void_p()
    got = fake.call("cuModuleLoadDataEx", byref(module), text.encode(), 2, options, values)
    assert got == result
    assert log.value.startswith(b"ptxas")
    assert values[1] == len(log.value) + 1
    assert fake.control("live modules") == 0


def test_entries_and_variables(fake):
    module = fake.module()
    assert fake.call("cuModuleGetFunction", byref(c_void_p()), module, b"absent") == NOT_FOUND
    size = c_size_t()
    fake.ok("cuModuleGetGlobal_v2", byref(c_uint64()), byref(size), module, b"table")
    assert size.value == 64
    one = c_uint(1)
    assert fake.launch(fake.function("stranger", module), 1, one) == 801  # no reference of ours


def proc(fake, name: str, version: int) -> tuple[int, bool, int]:
    found, status = c_void_p(), c_int()
    args = (byref(found), version, c_uint64(0), byref(status))
    return fake.call("cuGetProcAddress_v2", name.encode(), *args), bool(found.value), status.value


def test_entry_points(fake):
    assert proc(fake, "cuMemAlloc", 13000) == (0, True, 0)
    assert proc(fake, "cuMemAlloc_v2", 13000) == (0, False, 1)
    assert proc(fake, "cuFuncGetParamInfo", 12030) == (0, False, 2)
    assert proc(fake, "cuInit", 13010)[0] == INVALID_VALUE
    old, new = c_void_p(), c_void_p()
    for at, version in ((old, 12000), (new, 13000)):
        fake.ok("cuGetProcAddress_v2", b"cuEventElapsedTime", byref(at), version, c_uint64(0), None)
    assert old.value != new.value


def test_missing_entry_points():
    code = """
found, status = c_void_p(), c_int()
fake.ok("cuGetProcAddress_v2", b"cuMemAllocAsync", byref(found), 13000, c_uint64(0), byref(status))
print(found.value, status.value)"""
    assert alone(code, FAKE_CUDA_MISSING="cuMemAllocAsync") == "None 1"
