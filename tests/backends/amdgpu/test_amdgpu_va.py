"""The allocator of GPU addresses, against a model that marks pages.

When this fails, two buffers get the same GPU address and overwrite one another.
"""

import errno
import random

import pytest
from sparkle_drv._native import ffi, lib

PAGE = 4096


@pytest.fixture
def va():
    """64 pages from page 16 on."""
    out = ffi.new("struct sp_va **")
    assert lib.sp_va_open(16 * PAGE, 80 * PAGE, PAGE, out) == 0
    yield out[0]
    lib.sp_va_close(out[0])


def take(va, nbytes, align=PAGE):
    at = ffi.new("uint64_t *")
    rc = lib.sp_va_take(va, nbytes, align, at)
    return at[0] if rc == 0 else rc


def test_first_fit_aligned_and_given_back(va):
    a, b = take(va, 1), take(va, 3 * PAGE)
    assert (a, b) == (16 * PAGE, 17 * PAGE)
    assert take(va, PAGE, 32 * PAGE) == 32 * PAGE
    assert lib.sp_va_give(va, a, 1) == 0
    assert take(va, PAGE) == a


def test_all_of_it_and_not_more(va):
    assert take(va, 65 * PAGE) == -errno.ENOMEM
    assert take(va, 64 * PAGE) == 16 * PAGE
    assert take(va, 1) == -errno.ENOMEM
    assert lib.sp_va_give(va, 16 * PAGE, 64 * PAGE) == 0
    assert take(va, 64 * PAGE) == 16 * PAGE


@pytest.mark.parametrize(
    ("at", "nbytes"), [(15, 1), (16, 65), (17, 0), (16.5, 1), (79, 2), (20, 1)]
)
def test_what_was_not_taken_is_not_given_back(va, at, nbytes):
    assert lib.sp_va_give(va, int(at * PAGE), nbytes * PAGE) == -errno.EINVAL


@pytest.mark.parametrize(("nbytes", "align"), [(0, PAGE), (PAGE, 3), (PAGE, 0), (1 << 63, PAGE)])
def test_what_makes_no_sense_is_refused(va, nbytes, align):
    assert take(va, nbytes, align) == -errno.EINVAL


def test_address_0_is_nobodys():
    out = ffi.new("struct sp_va **")
    assert lib.sp_va_open(0, 16 * PAGE, PAGE, out) == 0
    assert take(out[0], PAGE) == PAGE
    lib.sp_va_close(out[0])


def test_random_use_never_overlaps_and_ends_whole(va):
    seed = random.randrange(1 << 32)
    rng, held = random.Random(seed), {}
    for _ in range(3000):
        if held and rng.random() < 0.5:
            at = rng.choice(list(held))
            assert lib.sp_va_give(va, at, held.pop(at)) == 0, seed
            continue
        nbytes, align = rng.randrange(1, 9 * PAGE), PAGE << rng.randrange(4)
        at = take(va, nbytes, align)
        if at == -errno.ENOMEM:
            continue
        end = at + -(-nbytes // PAGE) * PAGE
        assert at % align == 0, seed
        assert all(end <= a or a + -(-n // PAGE) * PAGE <= at for a, n in held.items()), seed
        held[at] = nbytes
    for at, nbytes in held.items():
        assert lib.sp_va_give(va, at, nbytes) == 0, seed
    assert take(va, 64 * PAGE) == 16 * PAGE, seed
