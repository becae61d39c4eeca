"""Memory of intermediate results: what is wanted at once never overlaps, and little is taken.

When this fails, two values of a graph overwrite one another.
"""

import random

import pytest

from sparkle_drv.sched.graph.place.reuse import ALIGN, Item, needed, pack


def overlapping(items, memory):
    """Pairs that are wanted in one step and share bytes, but for those written over on purpose."""
    found = []
    for i, x in enumerate(items):
        for j, y in enumerate(items[:i]):
            both = x.begin <= y.end and y.begin <= x.end
            meant = (x.over == j and y.end == x.begin) or (y.over == i and x.end == y.begin)
            a, b = memory.offsets[i], memory.offsets[j]
            if both and not meant and a < b + y.nbytes and b < a + x.nbytes:
                found.append((i, j))
    return found


def drawn(seed, count=40):
    chance = random.Random(seed)
    items = []
    for step in range(count):
        nbytes = chance.choice([1, 100, 256, 1000, 4096, 5000, 70000])
        end = step + chance.choice([0, 1, 1, 2, 5, 30])
        over = None
        dying = [
            j for j, x in enumerate(items)
            if x.end == step and x.nbytes == nbytes and all(y.over != j for y in items)
        ]  # fmt: skip
        if dying and chance.random() < 0.7:
            over = chance.choice(dying)
        items.append(Item(nbytes, step, end, over))
    return items


@pytest.mark.parametrize("seed", range(40))
def test_what_is_wanted_at_once_does_not_overlap(seed):
    items = drawn(seed)
    memory = pack(items)
    assert overlapping(items, memory) == []
    assert all(offset % ALIGN == 0 for offset in memory.offsets)
    assert (
        max(o + x.nbytes for o, x in zip(memory.offsets, items, strict=True)) <= memory.peak_nbytes
    )
    assert needed(items) <= memory.peak_nbytes <= memory.naive_nbytes


def test_on_average_hardly_more_than_what_is_wanted_at_once():
    shares = [pack(drawn(seed)).peak_nbytes / needed(drawn(seed)) for seed in range(100)]
    assert sum(shares) / len(shares) < 1.03


def test_a_chain_takes_two_places_and_in_place_one():
    chain = [Item(4096, i, i + 1) for i in range(50)]
    assert pack(chain).peak_nbytes == 2 * 4096
    assert pack(chain).naive_nbytes == 50 * 4096
    over = [Item(4096, i, i + 1, i - 1 if i else None) for i in range(50)]
    assert pack(over).peak_nbytes == 4096


def test_a_piece_at_the_end_grows():
    items = [Item(1000, 0, 1), Item(2000, 1, 2), Item(9000, 3, 3)]
    assert pack(items).peak_nbytes == -(-9000 // ALIGN) * ALIGN


def test_a_result_is_not_put_where_an_operand_of_its_own_step_is():
    items = [Item(512, 0, 1), Item(512, 1, 2)]
    first, second = pack(items).offsets
    assert first != second


def test_over_what_is_still_read_is_not_over_it():
    items = [Item(512, 0, 5), Item(512, 1, 2, over=0)]
    assert overlapping(items, pack(items)) == []


def test_over_another_size_is_refused():
    with pytest.raises(ValueError, match=r"item 1: expected \d+ bytes, the size of item 0"):
        pack([Item(5000, 0, 1), Item(512, 1, 2, over=0)])


def test_nothing_takes_nothing():
    assert (pack([]).peak_nbytes, pack([]).offsets, needed([])) == (0, (), 0)
