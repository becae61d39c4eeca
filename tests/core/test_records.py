"""Command records: the struct formats of Python against the C structs, and records that were
tampered with against the checks in C.

When this fails, Python and C disagree about a command, and C reads outside it.
"""

import random
import struct

import pytest
from sparkle_drv._native import ffi, lib

import sparkle_drv as sp
from sparkle_drv import _hot
from sparkle_drv.core.abi import records

SIGNATURES = {
    "struct sp_cmd": records.HEAD,
    "struct sp_cmd_dispatch": records.DISPATCH_HEAD,
    "struct sp_cmd_copy": records.BODIES[records.COPY],
    "struct sp_cmd_fill": records.BODIES[records.FILL],
    "struct sp_cmd_wait": records.BODIES[records.WAIT],
    "struct sp_cmd_timestamp": records.BODIES[records.TIMESTAMP],
    "struct sp_cmd_barrier": records.HEAD,
}


def flattened(name):
    """(offset, size) of each scalar of a C struct, arrays taken apart."""
    for _, field in ffi.typeof(name).fields:
        kind = field.type
        if kind.kind == "array":
            size = ffi.sizeof(kind.item)
            for i in range(kind.length):
                yield field.offset + i * size, size
        else:
            yield field.offset, ffi.sizeof(kind)


@pytest.mark.parametrize("name", SIGNATURES)
def test_each_format_is_laid_out_as_the_struct(name):
    packer = SIGNATURES[name]
    want = list(flattened(name))
    codes = struct.Struct("=" + packer.format.lstrip("="))
    assert codes.size == ffi.sizeof(name)
    # One field at a time set to all ones shows where it lies.
    got = []
    for i in range(len(want)):
        values = [0] * len(want)
        values[i] = 2 ** (8 * want[i][1]) - 1
        ones = [at for at, byte in enumerate(packer.pack(*values)) if byte]
        got.append((ones[0], len(ones)))
    assert got == want


def test_records_read_back_in_c():
    raw = records.copy(1, 2, 3)
    copy = ffi.cast("struct sp_cmd_copy *", ffi.from_buffer(raw))
    assert (copy.kind, copy.nbytes) == (lib.SP_CMD_COPY, len(raw))
    assert (copy.dst, copy.src, copy.count) == (1, 2, 3)
    raw = records.fill(1, 8, 0xABCD, 2)
    fill = ffi.cast("struct sp_cmd_fill *", ffi.from_buffer(raw))
    assert (fill.dst, fill.count, fill.pattern, fill.pattern_nbytes) == (1, 8, 0xABCD, 2)
    raw = records.wait(7, 8)
    wait = ffi.cast("struct sp_cmd_wait *", ffi.from_buffer(raw))
    assert (wait.queue, wait.value) == (7, 8)
    raw = records.timestamp(9)
    stamp = ffi.cast("struct sp_cmd_timestamp *", ffi.from_buffer(raw))
    assert (stamp.kind, stamp.slot) == (lib.SP_CMD_TIMESTAMP, 9)
    assert lib.sp_cmd_validate(records.barrier(), 8, ffi.NULL) == 0


def test_split_and_decode():
    parts = [
        (records.COPY, records.copy(0x10, 0x20, 3), "copy 3 bytes from 0x20 to 0x10"),
        (records.FILL, records.fill(0x10, 4, 0xA, 2), "fill 4 bytes at 0x10 with 0xa of 2 bytes"),
        (records.BARRIER, records.barrier(), "barrier"),
        (records.WAIT, records.wait(0x30, 5), "wait for value 5 of the queue at 0x30"),
        (records.TIMESTAMP, records.timestamp(0x40), "timestamp to 0x40"),
    ]
    raw = b"".join(record for _, record, _ in parts)
    found = list(records.split(raw))
    assert [kind for _, kind, _ in found] == [kind for kind, _, _ in parts]
    assert [raw[at : at + len(r)] for at, _, r in found] == [r for _, r, _ in parts]
    assert [records.decode(kind, r) for _, kind, r in found] == [text for _, _, text in parts]
    assert records.decode(99, b"") == "record of kind 99"


@pytest.mark.parametrize(
    "raw",
    [b"", b"\0" * 7, records.HEAD.pack(4, 7), records.HEAD.pack(4, 16), records.copy(1, 2, 3)[:-1]],
)
def test_split_stops_at_what_is_cut_off(raw):
    assert list(records.split(raw)) == []
    assert len(list(records.split(records.barrier() + raw))) == 1


@pytest.mark.parametrize(
    ("raw", "at"),
    [
        (records.HEAD.pack(0, 8), 0),
        (records.HEAD.pack(7, 8), 0),
        (records.barrier() + records.HEAD.pack(lib.SP_CMD_COPY, 24) + bytes(16), 8),
        (records.HEAD.pack(lib.SP_CMD_BARRIER, 12) + bytes(4), 0),
        (records.barrier() + b"\0\0\0\0", 8),
        (records.fill(0, 8, 0, 3), 0),
        (records.fill(0, 7, 0, 4), 0),
        (records.DISPATCH_HEAD.pack(1, 56, 0, 1, 1, 1, 1, 1, 1, 0, 0), 0),
        (records.DISPATCH_HEAD.pack(1, 56, 8, 1, 1, 1, 1, 1, 1, 0, 8), 0),
        (records.DISPATCH_HEAD.pack(1, 64, 8, 1, 1, 1, 1, 1, 1, 0, 4) + bytes(8), 0),
    ],
)
def test_validate_refuses_and_says_where(raw, at):
    where = ffi.new("size_t *", 12345)
    assert lib.sp_cmd_validate(raw, len(raw), where) == -22
    assert where[0] == at


def some_records(kernel, buffer, device):
    dispatch = _hot.pack(device, kernel, (buffer, 1.0, 16), 1, None, 0)
    return [
        dispatch,
        records.copy(buffer.address, buffer.address + 64, 32),
        records.fill(buffer.address, 64, 7, 4),
        records.barrier(),
        records.timestamp(buffer.address),
    ]


def mutated(rng, raw):
    """`raw` with a few bits, bytes or words changed, cut off or repeated."""
    raw = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        way = rng.randrange(5)
        at = rng.randrange(len(raw)) if raw else 0
        if way == 0 and raw:
            raw[at] ^= 1 << rng.randrange(8)
        elif way == 1 and raw:
            raw[at] = rng.choice((0, 1, 8, 127, 128, 255))
        elif way == 2 and len(raw) >= 4:
            word = rng.choice((0, 1, 7, 8, 2**31, 2**32 - 1, rng.getrandbits(32)))
            struct.pack_into("=I", raw, at // 4 * 4 % (len(raw) - 3), word)
        elif way == 3:
            del raw[at:]
        else:
            raw += raw[: at // 8 * 8]
    return bytes(raw)


def trusted(raw, kernel):
    """Kernel and queue handles set back: they come from our own objects, C follows them."""
    raw = bytearray(raw)
    for at, kind, record in list(records.split(bytes(raw))):
        if kind == records.DISPATCH and len(record) >= 16:
            struct.pack_into("=Q", raw, at + 8, kernel)
        if kind == records.WAIT and len(record) >= 16:
            struct.pack_into("=Q", raw, at + 8, 0)
    return bytes(raw)


def test_tampered_records_never_crash_the_checks():
    seed = random.SystemRandom().getrandbits(32)
    print("seed", seed)
    rng = random.Random(seed)
    with sp.open("cpu") as dev, dev.kernel("fill_f32") as k, dev.buffer(256) as buffer:
        parts = some_records(k, buffer, dev)
        whole = b"".join(parts)
        assert lib.sp_cpu_check(dev._backend._native.device, whole, len(whole)) == 0
        refused = 0
        for _ in range(4000):
            raw = mutated(rng, b"".join(rng.choices(parts, k=rng.randint(1, 4))))
            held = ffi.new("uint64_t[]", len(raw) // 8 + 1)  # as aligned as real records are
            ffi.memmove(held, raw, len(raw))
            where = ffi.new("size_t *")
            valid = lib.sp_cmd_validate(held, len(raw), where)
            assert valid in (0, -22)
            assert valid == 0 or where[0] < len(raw)
            if valid == 0:
                assert sum(len(r) for _, _, r in records.split(raw)) == len(raw)
            safe = trusted(raw, k._pointer)
            ffi.memmove(held, safe, len(safe))
            # Anew: a record whose kernel had become 0 has one again.
            valid = lib.sp_cmd_validate(held, len(safe), where)
            rc = lib.sp_cpu_check(dev._backend._native.device, held, len(safe))
            refused += rc != 0
            assert rc <= 0
            assert rc == 0 or valid == rc or valid == 0
        assert 1000 < refused < 4000


def test_handles_that_are_not_ours_are_refused():
    with sp.open("cpu") as dev, dev.kernel("noop") as k, dev.buffer(4096) as zeros:
        record = bytearray(_hot.pack(dev, k, (), 1, None, 0))
        for handle in (0, zeros.address):
            struct.pack_into("=Q", record, 8, handle)
            assert lib.sp_cpu_check(dev._backend._native.device, bytes(record), len(record)) == -22
        for queue in (0, zeros.address):
            wait = records.wait(queue, 0)
            assert lib.sp_cpu_check(dev._backend._native.device, wait, len(wait)) == -22
        misaligned = ffi.new("char[]", len(record) + 16)
        at = misaligned + 1
        assert lib.sp_cpu_check(dev._backend._native.device, at, len(record)) == -22
