"""The IB of one dispatch, dword for dword, against AMDGPU_FACTS 4.4: nothing of ours encodes what
is expected here. Registers that 4.3 adds stand in one group before packet 9.
"""

import pytest
from sparkle_drv._native import ffi, lib

import sparkle_drv as sp
import sparkle_drv.testing  # makes emu: known
from sparkle_drv.backends.amdgpu import template

ALL = 0xFFFFFFFF
ACQUIRE = [0xC0065800, 0, ALL, 0x00FFFFFF, 0, 0, 0xA, 0xC3F1]
# PERFCOUNT_ENABLE; THREAD_TRACE_ENABLE; RESTART_X..Z: not in 4.4.
QUIET = [0xC0017600, 0x20B, 0, 0xC0017600, 0x21E, 0, 0xC0037600, 0x21B, 0, 0, 0]
ACCUM_TUNNEL = [0xC0047600, 0x224, 0, 0, 0, 0, 0xC0017600, 0x27D, 0]
BEGIN = {
    "emu:gfx1036": [
        *ACQUIRE, 0xC0017900, 0x7B, 0x20, 0xC0027600, 0x216, ALL, 0, 0xC0027600, 0x219, 0, 0,
        *ACCUM_TUNNEL, *QUIET,
    ],
    "emu:gfx1100": [
        *ACQUIRE, 0xC0027600, 0x216, ALL, ALL, 0xC0027600, 0x219, ALL, ALL,
        0xC0047600, 0x22B, ALL, ALL, 0, 0, 0xC0017600, 0x22F, 0x40, *ACCUM_TUNNEL, *QUIET,
    ],
}  # fmt: skip
# Kernel "simple" of FACTS 5.2 and what of it each chip finds in user SGPRs.
FLUSH = [0xC0004600, 0x407]
NOP = 0xFFFF1000


def encoded(dev, kernel, *args, groups, **more):
    """(dwords of the IB, address of the code, of the arguments' segment)."""
    record = kernel.record(dev, args, groups, None, 0)
    out = ffi.new("uint32_t[]", 8192)
    with dev.queue() as queue:
        n = lib.sp_amdgpu_encode(queue._handle, record, len(record), out, len(out))
    assert n > 0
    return list(out[0:n])


@pytest.mark.parametrize("uri", list(BEGIN))
def test_one_dispatch(uri):
    with sp.open(uri) as dev, dev.kernel("fill_f32") as k, dev.buffer(400) as y:
        ib = encoded(dev, k, y, 1.0, 100, groups=(7, 1, 1))
    begin = BEGIN[uri]
    assert ib[: len(begin)] == begin
    rest = ib[len(begin) :]
    assert rest[0:2] == [0xC0027600, 0x20C]  # 9: the code, 256-byte aligned
    assert rest[3] == 0
    assert rest[4:6] == [0xC0027600, 0x212]  # 10
    assert rest[7] & 0x1FF << 15 == 0  # no LDS
    assert rest[8:10] == [0xC0017600, 0x228]  # 11
    assert rest[11:14] == [0xC0017600, 0x215, 0]  # 12
    assert rest[14:17] == [0xC0017600, 0x218, 0]  # 13: no scratch
    assert rest[17:25] == [0xC0067600, 0x204, 0, 0, 0, 256, 1, 1]  # 15
    n = rest[25] >> 16 & 0x3FFF
    assert rest[25:27] == [0xC0007600 | n << 16, 0x240]  # 16
    assert rest[27 + n : 32 + n] == [0xC0031500, 7, 1, 1, rest[31 + n]]  # 17
    assert rest[31 + n] in (0x8005, 0x0005)  # wave32 or wave64, ORDER_MODE off
    end = rest[32 + n :]
    assert end[:2] == FLUSH  # 18
    assert set(end[2:]) <= {NOP}  # 19
    assert len(ib) % 8 == 0


def test_the_substitute_for_a_flush_that_old_firmware_gets_wrong():
    dwords, va_at, value_at = template.idle(10, 34)
    assert dwords == [
        0xC0064900, 0x06603514, 0x23000000, 0, 0, 0, 0, 0,
        0xC0053C00, 0x13, 0, 0, 0, ALL, 4,
    ]  # fmt: skip
    assert (va_at, value_at) == ([3, 10], [5, 12])
    assert template.idle(10, 35) == (FLUSH, [], [])
    assert template.idle(11, 0) == (FLUSH, [], [])


def test_between_two_dispatches_waves_are_waited_for_and_shader_caches_emptied():
    with sp.open("emu:gfx1036") as dev, dev.kernel("noop") as k:
        record = k.record(dev, (), (1, 1, 1), None, 0)
        out = ffi.new("uint32_t[]", 8192)
        with dev.queue() as queue:
            n = lib.sp_amdgpu_encode(queue._handle, record * 2, 2 * len(record), out, len(out))
    ib = list(out[0:n])
    at = ib.index(0xC0031500) + 5
    assert ib[at : at + 10] == [*FLUSH, 0xC0065800, 0, ALL, 0x00FFFFFF, 0, 0, 0xA, 0x380]
