"""`Commands.fill` on every device: each width, any offset, any size, and nothing beside them.

When this fails, a fill writes the wrong bytes, or beside its range.
"""

import numpy as np

import sparkle_drv as sp

SEED, NBYTES, FILLS = 17, 1 << 16, 60
OFFSETS = (0, 1, 2, 3, 5, 7, 8, 15, 31, 63)
COUNTS = (0, 1, 2, 3, 5, 8, 15, 16, 17, 31, 63, 64, 65, 127, 1000, 4099)
"""Elements of a fill: around the sizes of words, vectors and cache lines."""


def drawn(rng):
    """(offset, count, pattern, width) of fills that fit, those of patterns of equal bytes too."""
    for i in range(FILLS):
        width = (1, 2, 4)[i % 3]
        count = int(rng.choice(COUNTS))
        at = int(rng.integers(0, (NBYTES - count * width) // 64)) * 64 + int(rng.choice(OFFSETS))
        at = min(at, NBYTES - count * width)
        any_bytes = rng.integers(0, 256, 4, np.uint8)
        given = any_bytes if i % 5 else np.repeat(any_bytes[:1], 4)
        yield at, count, int.from_bytes(given[:width].tobytes(), "little"), width


def test_any_width_offset_and_size(device):
    rng = np.random.default_rng(SEED)
    wanted = rng.integers(0, 256, NBYTES, np.uint8)
    with device.buffer(NBYTES) as buffer:
        buffer.write(wanted)
        commands = sp.Commands()
        for at, count, pattern, width in drawn(rng):
            commands.fill(buffer.view(at, count * width), pattern, width)
            element = np.frombuffer(pattern.to_bytes(width, "little"), np.uint8)
            wanted[at : at + count * width] = np.tile(element, count)
        for _ in range(3):  # a list that comes again may be sent in another way (a CUDA graph)
            device.default_queue.submit(commands).wait()
        assert (buffer.read(np.uint8, NBYTES) == wanted).all()


def test_a_whole_large_buffer(cpu):
    nbytes = (1 << 20) + 12
    with cpu.buffer(nbytes + 8) as buffer:
        whole = buffer.view(5, nbytes)
        cpu.default_queue.submit(sp.Commands().fill(whole, 0xA1B2C3D4)).wait()
        got = buffer.read(np.uint8, nbytes + 8)
    assert (got[5 : 5 + nbytes].view("<u4") == 0xA1B2C3D4).all()
    assert not got[:5].any()
    assert not got[5 + nbytes :].any()
