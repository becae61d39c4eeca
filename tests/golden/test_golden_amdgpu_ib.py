"""The IB of one dispatch, dword for dword, against AMDGPU_FACTS 4.4: nothing of ours encodes what
is expected here. Packets 1 to 8 and 9 to 17 stand as they do there. Registers that 4.3 adds are
one group between them. The end is 18, or its replacement on firmware that gets 18 wrong.

When this fails, driver and emulator share a wrong packet, and a real card hangs.
"""

import pytest
from sparkle_drv._native import ffi, lib
from where import CODE_OBJECTS

import sparkle_drv as sp
import sparkle_drv.testing  # makes emu: known
from sparkle_drv import _hot
from sparkle_drv.amd.code import codeobject
from sparkle_drv.amd.tables import targets
from sparkle_drv.backends.amdgpu import template

ALL = 0xFFFFFFFF
# After an upload of code. 4.4 has GLK_WB, too, which no kernel of ours needs (6.2).
ACQUIRE = [0xC0065800, 0, ALL, 0x00FFFFFF, 0, 0, 0xA, 0xC3B1]
# PERFCOUNT_ENABLE; THREAD_TRACE_ENABLE; RESTART_X..Z: not in 4.4.
QUIET = [0xC0017600, 0x20B, 0, 0xC0017600, 0x21E, 0, 0xC0037600, 0x21B, 0, 0, 0]
ACCUM_TUNNEL = [0xC0047600, 0x224, 0, 0, 0, 0, 0xC0017600, 0x27D, 0]
BEGIN = {  # 1 to 8
    "emu:gfx1036": [
        *ACQUIRE, 0xC0017900, 0x7B, 0x20, 0xC0027600, 0x216, ALL, 0, 0xC0027600, 0x219, 0, 0,
        *ACCUM_TUNNEL,
    ],
    "emu:gfx1100": [
        *ACQUIRE, 0xC0027600, 0x216, ALL, ALL, 0xC0027600, 0x219, ALL, ALL,
        0xC0047600, 0x22B, ALL, ALL, 0, 0, 0xC0017600, 0x22F, 0x40, *ACCUM_TUNNEL,
    ],
}  # fmt: skip
CODE_LO, CODE_HI, ARGS_LO, ARGS_HI = "code", "code's high half", "arguments", "their high half"
# Kernel "simple" of FACTS 5.2: its RSRC words, and what it finds in user SGPRs (scratch descriptor
# of 5.5 with base 0; arguments).
RSRC_AND_USER = {
    "emu:gfx1036": (0x60AF0040, 0x8C, [0, 0x80000000, ALL, 0x21C14FAC, ARGS_LO, ARGS_HI]),
    "emu:gfx1100": (0x60AF0080, 0x9E, [ARGS_LO, ARGS_HI]),
}
FLUSH = [0xC0004600, 0x407]
NOP = 0xFFFF1000


# Firmware that may flush early: RELEASE_MEM writes a number (FACTS 3.5: the kernel's own word),
# WAIT_REG_MEM waits for it in memory.
PAGE_LO, PAGE_HI, NUMBER = "fence page", "its high half", "number"
SUBSTITUTE = [
    0xC0064900, 0x06603514, 0x23000000, PAGE_LO, PAGE_HI, NUMBER, 0, 0,
    0xC0053C00, 0x13, PAGE_LO, PAGE_HI, NUMBER, ALL, 4,
]  # fmt: skip


def image(uri):
    return CODE_OBJECTS / f"features.v5.{uri[4:]}.hsaco"


def simple(dev):
    return dev.kernel(image=image(dev.uri), entry="simple", args="f32* f32* i32")


def packets_9_to_17(uri):
    rsrc1, rsrc2, user = RSRC_AND_USER[uri]
    return [
        0xC0027600, 0x20C, CODE_LO, CODE_HI, 0xC0027600, 0x212, rsrc1, rsrc2, 0xC0017600, 0x228, 0,
        0xC0017600, 0x215, 0, 0xC0017600, 0x218, 0, 0xC0067600, 0x204, 0, 0, 0, 64, 1, 1,
        0xC0007600 | len(user) << 16, 0x240, *user, 0xC0031500, 7, 1, 1, 0x8005,
    ]  # fmt: skip


def encoded(dev, kernel, *args, groups):
    """The dwords of the IB."""
    record = _hot.pack(dev, kernel, args, groups, None, 0)
    out = ffi.new("uint32_t[]", 8192)
    with dev.queue() as queue:
        n = lib.sp_amdgpu_encode(queue._handle, record, len(record), out, len(out))
    assert n > 0
    return list(out[0:n])


def compared(ib, wanted):
    """`ib` begins with `wanted`; {place named there: what stands in it}. NOPs follow up to the next
    multiple of 8 dwords."""
    found = {}
    for at, (got, want) in enumerate(zip(ib, wanted, strict=False)):
        if isinstance(want, str):
            assert found.setdefault(want, got) == got, f"dword {at}: {want}"
        else:
            assert got == want, f"dword {at}: {got:#x}, {want:#x} is wanted"
    assert ib[len(wanted) :] == [NOP] * (-len(wanted) % 8)
    return found


def check_addresses(uri, found):
    """The code's entry at its place in a page, as the ELF has it; arguments aligned."""
    code = codeobject.load(image(uri).read_bytes(), "simple", mach=targets.accepted(uri[4:]))
    entry = found[CODE_HI] << 40 | found[CODE_LO] << 8
    assert entry % 4096 == code.entry % 4096
    assert found[ARGS_LO] % 16 == 0
    assert found[ARGS_HI] << 32 | found[ARGS_LO] > 0x10000


@pytest.mark.parametrize("uri", list(BEGIN))
def test_one_dispatch(uri):
    with sp.open(uri) as dev, simple(dev) as k, dev.buffer(4 * 64 * 7) as y:
        ib = encoded(dev, k, y, y, 100, groups=(7, 1, 1))
    check_addresses(uri, compared(ib, [*BEGIN[uri], *QUIET, *packets_9_to_17(uri), *FLUSH]))


@pytest.mark.parametrize("uri", list(BEGIN))
def test_one_dispatch_with_the_substitute_at_its_end(uri, monkeypatch):
    monkeypatch.setattr(template, "RELIABLE_FLUSH", {10: 1 << 31, 11: 1 << 31})
    with sp.open(uri) as dev, simple(dev) as k, dev.buffer(4 * 64 * 7) as y:
        ib = encoded(dev, k, y, y, 100, groups=(7, 1, 1))
        dev.default_queue.launch(k, y, y, 448, groups=7).wait()  # and it runs to its end
        assert set(y.read("f4", (448,))) == {1.0}
    found = compared(ib, [*BEGIN[uri], *QUIET, *packets_9_to_17(uri), *SUBSTITUTE])
    check_addresses(uri, found)
    assert found[PAGE_LO] % 4096 == 64  # clear of the eight bytes that the kernel writes there
    assert found[NUMBER] > 0


def test_what_compares_has_teeth():
    """A swapped pair, a place with two values, a packet more, no padding."""
    padding = [NOP] * 5
    assert compared([1, 2, 2, *padding], [1, "a", "a"]) == {"a": 2}
    for ib in ([2, 1, 2, *padding], [1, 2, 3, *padding], [1, 2, 2, 7, *padding[1:]], [1, 2, 2]):
        with pytest.raises(AssertionError):
            compared(ib, [1, "a", "a"])


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
        record = _hot.pack(dev, k, (), (1, 1, 1), None, 0)
        out = ffi.new("uint32_t[]", 8192)
        with dev.queue() as queue:
            n = lib.sp_amdgpu_encode(queue._handle, record * 2, 2 * len(record), out, len(out))
    ib = list(out[0:n])
    at = ib.index(0xC0031500) + 5
    assert ib[at : at + 10] == [*FLUSH, 0xC0065800, 0, ALL, 0x00FFFFFF, 0, 0, 0xA, 0x380]
