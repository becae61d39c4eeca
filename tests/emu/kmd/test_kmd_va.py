"""GEM_VA: the rules of addresses, map, unmap, clear, replace, rights, PRT; what a job sees.

When this fails, address mappings that a real kernel refuses pass on the emulator.
"""

from __future__ import annotations

import errno

import pytest
from ioctls import PAGE, create, refused, store, va

from sparkle_drv.testing.emulator import NOP, BufferObject

LOW, LOW_END = 0x200000, 1 << 47
HIGH, HIGH_END = 0xFFFF800000000000, 0xFFFFFFFFFFE00000
BASE = 0x1000000


@pytest.fixture
def handle(node):
    """Four pages."""
    return create(node, 4 * PAGE)


@pytest.mark.parametrize(
    "at", [LOW, LOW_END - PAGE, HIGH, HIGH_END - PAGE], ids=["low", "low end", "high", "high end"]
)
def test_the_ends_of_the_address_space(node, handle, at):
    va(node, "MAP", handle, at=at)
    va(node, "UNMAP", handle, at=at)


@pytest.mark.parametrize(
    ("at", "nbytes", "offset"),
    [
        (0, PAGE, 0),
        (LOW - PAGE, PAGE, 0),
        (LOW_END, PAGE, 0),
        (LOW_END - PAGE, 2 * PAGE, 0),
        (HIGH - PAGE, PAGE, 0),
        (HIGH_END, PAGE, 0),
        (HIGH_END - PAGE, 2 * PAGE, 0),
        (2**64 - PAGE, PAGE, 0),
        (BASE + 1, PAGE, 0),
        (BASE, PAGE + 1, 0),
        (BASE, PAGE, 1),
        (BASE, 0, 0),
        (BASE, 5 * PAGE, 0),
        (BASE, PAGE, 4 * PAGE),
        (BASE, 2**64 - PAGE, 0),
        (BASE, PAGE, 2**64 - PAGE),
    ],
)
def test_bad_ranges(node, handle, at, nbytes, offset):
    with refused(errno.EINVAL):
        va(node, "MAP", handle, at=at, nbytes=nbytes, offset=offset)


@pytest.mark.parametrize("flags", [0x400, 0x10 | 2, 1 << 31])
def test_bad_flags(node, handle, flags):
    with refused(errno.EINVAL):
        va(node, "MAP", handle, flags=flags)


@pytest.mark.parametrize("flags", [0, 1, 2, 0xE, 0x20E, 0x8E, 0xAE])
def test_good_flags(node, handle, flags):
    va(node, "MAP", handle, flags=flags)


@pytest.mark.parametrize("op", [0, 5, 99])
def test_bad_operations(node, handle, op):
    with refused(errno.EINVAL):
        va(node, op, handle)


def test_an_unknown_handle(node):
    for op in ("MAP", "UNMAP", "REPLACE"):
        with refused(errno.ENOENT):
            va(node, op, 99)


def test_mappings_may_not_overlap(node, handle):
    va(node, "MAP", handle, at=BASE, nbytes=2 * PAGE)
    for at in (BASE - PAGE, BASE, BASE + PAGE):
        with refused(errno.EINVAL):
            va(node, "MAP", handle, at=at, nbytes=2 * PAGE)
    va(node, "MAP", handle, at=BASE + 2 * PAGE, nbytes=2 * PAGE)
    va(node, "MAP", handle, at=BASE - 2 * PAGE, nbytes=2 * PAGE)


def test_unmap_needs_the_start_of_a_mapping_of_that_bo(node, handle):
    other = create(node)
    va(node, "MAP", handle, at=BASE, nbytes=2 * PAGE)
    for which, at in ((handle, BASE + PAGE), (handle, BASE - PAGE), (other, BASE)):
        with refused(errno.ENOENT):
            va(node, "UNMAP", which, at=at)
    va(node, "UNMAP", handle, at=BASE, nbytes=0)  # the size is not looked at
    with refused(errno.ENOENT):
        va(node, "UNMAP", handle, at=BASE)


def mapped(machine):
    return machine.live_counts()["mappings"]


@pytest.mark.parametrize(
    ("first", "count", "left"),
    [(0, 4, 0), (-4, 12, 0), (0, 1, 1), (3, 1, 1), (1, 2, 2), (4, 1, 1), (-1, 1, 1), (-1, 2, 1)],
)
def test_clear_keeps_what_lies_outside(machine, node, handle, first, count, left):
    va(node, "MAP", handle, at=BASE, nbytes=4 * PAGE)
    va(node, "CLEAR", at=BASE + first * PAGE, nbytes=count * PAGE)
    assert mapped(machine) == left


def test_clear_over_several_mappings(machine, node, handle):
    for i in range(4):
        va(node, "MAP", handle, at=BASE + 2 * i * PAGE, offset=i * PAGE)
    va(node, "CLEAR", at=BASE + PAGE, nbytes=4 * PAGE)
    assert mapped(machine) == 2


def test_closing_the_handle_unmaps(machine, node, handle):
    va(node, "MAP", handle, at=BASE)
    va(node, "MAP", handle, at=BASE + PAGE)
    node.call("GEM_CLOSE", "struct drm_gem_close", handle=handle)
    assert mapped(machine) == 0
    assert machine.live_counts()["bos"] == 0


def values(gpu, buffer, view):
    """Stores 1, 2, .. at each page of `view` and gives what the BO's pages then hold."""
    words = [w for i in range(view.nbytes // PAGE) for w in store(view, i + 1, i * PAGE)]
    gpu.wait(gpu.submit("compute", words, bos=[buffer]))
    return [buffer.words(i * PAGE // 4)[0] for i in range(buffer.nbytes // PAGE)]


def test_a_hole_splits_a_mapping_and_offsets_stay_right(gpu):
    buffer = gpu.buffer(4 * PAGE)
    gpu.va("CLEAR", buffer, va=buffer.va + PAGE, nbytes=PAGE)
    gpu.va("MAP", buffer, va=buffer.va + PAGE, nbytes=PAGE, offset=0)
    assert values(gpu, buffer, buffer) == [2, 0, 3, 4]
    buffer.close()


def test_replace_takes_the_place(gpu):
    buffer = gpu.buffer(4 * PAGE)
    gpu.va("REPLACE", buffer, va=buffer.va + 2 * PAGE, nbytes=2 * PAGE, offset=0)
    assert values(gpu, buffer, buffer) == [3, 4, 0, 0]
    buffer.close()


def test_high_addresses_reach_memory(gpu):
    buffer = gpu.buffer(PAGE, va=HIGH + 0x10000)
    assert values(gpu, buffer, buffer) == [1]
    buffer.close()


@pytest.mark.parametrize("rights", ["r", "x", "rx", ""])
def test_a_page_that_may_not_be_written(machine, gpu, rights):
    buffer = gpu.buffer(PAGE, rights=rights)
    with pytest.raises(OSError, match=r"ETIME.*rights"):
        gpu.wait(gpu.submit("compute", store(buffer, 1), bos=[buffer]))
    assert (machine.fault().va, machine.fault().access) == (buffer.va, 2)
    buffer.close()


def test_an_unmapped_page_is_named(machine, gpu):
    buffer = gpu.buffer(PAGE)
    with pytest.raises(OSError, match="unmapped"):
        gpu.wait(gpu.submit("compute", store(buffer, 1, PAGE), bos=[buffer]))
    assert machine.fault().va == buffer.va + PAGE
    buffer.close()


def test_prt_reads_zeros_and_swallows_writes(gpu):
    """A range without memory; no BO, no listing."""
    va(gpu.node, "MAP", at=BASE, flags=0x10)
    nowhere = BufferObject(gpu.node, 0, PAGE, BASE)
    ib = store(nowhere, 5)
    ib += [0xC0053C00, 0x13, BASE, 0, 0, 0xFFFFFFFF, 4]  # waits until it reads 0
    gpu.wait(gpu.submit("compute", ib))
    va(gpu.node, "UNMAP", at=BASE, flags=0x10)


def test_always_valid_needs_no_listing(gpu):
    buffer = gpu.buffer(PAGE, flags=0x40)
    gpu.wait(gpu.submit("compute", store(buffer, 9)))
    assert buffer.words() == [9]
    buffer.close()


def test_a_job_sees_the_address_space_of_its_submission(machine, gpu):
    buffer, other = gpu.buffer(PAGE), gpu.buffer(PAGE)
    machine.hold_jobs()
    job = gpu.submit("compute", [*store(buffer, 1), NOP], bos=[buffer, other])
    gpu.va("REPLACE", other, va=buffer.va, nbytes=PAGE)
    machine.hold_jobs(hold=False)
    gpu.wait(job)
    gpu.wait(gpu.submit("compute", store(buffer, 2), bos=[buffer, other]))
    assert (buffer.words(), other.words()) == ([1], [2])
    buffer.close()
    other.close()


def test_each_open_has_an_address_space_of_its_own(machine, node, handle):
    va(node, "MAP", handle, at=BASE)
    with machine.open(0) as second:
        mine = create(second)
        va(second, "MAP", mine, at=BASE)
        assert mapped(machine) == 2
    assert mapped(machine) == 1
