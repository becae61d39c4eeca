"""Changes of layout before the work: their time is in what is compared, and the plan says so.

When this fails, a Context hides the time of a layout change in its choice.
"""

from sparkle_drv.sched.decide.choose import choose
from sparkle_drv.sched.journal import journal
from sparkle_drv.sched.model.costs import Costs, DeviceCosts
from sparkle_drv.sched.model.work import Operand, Work

OP, CHANGE = "conv2d_f32:3x3", "layout_f32:NHWC:NCHW"
NEAR, FAR = "cpu", "gpu:0"
SIZES = (1e4, 1e6, 1e8)


def costs(change_s):
    """The far one is faster at the work; seconds a byte of a change of layout there."""
    found = Costs({uri: DeviceCosts(1 << 30, unified=True) for uri in (NEAR, FAR)})
    for uri, each in ((NEAR, 1e-9), (FAR, 5e-10)):
        found.probed(OP, uri, [(n, n * each) for n in SIZES])
    found.probed(CHANGE, NEAR, [(n, n * 1e-10) for n in SIZES])
    if change_s is not None:
        found.probed(CHANGE, FAR, [(n, n * change_s) for n in SIZES])
    return found


def work(convert):
    nbytes = 1 << 20
    change = (CHANGE, nbytes) if convert else ()
    return Work(OP, 1e6, (Operand(nbytes, frozenset({NEAR, FAR}), *change), Operand(1 << 10)), 100)


def test_a_dear_change_of_layout_moves_the_work():
    known = costs(1e-9)
    assert choose(known, work(False), (NEAR, FAR)).device == FAR
    plan = choose(known, work(True), (NEAR, FAR))
    assert plan.device == NEAR
    near, far = (c.cost for c in plan.candidates)
    assert abs(near.convert_s - (1 << 20) * 1e-10) < 1e-9
    assert abs(far.convert_s - (1 << 20) * 1e-9) < 1e-9
    assert abs(near.total_s - (near.compute_s + near.convert_s)) < 1e-12
    assert "most of it layout" in plan.candidates[1].why
    words = plan.explain()
    assert f"before it {1 << 20} bytes go through {CHANGE}" in words
    assert "convert 105 us" in words


def test_who_cannot_change_it_cannot_do_the_work():
    plan = choose(costs(None), work(True), (NEAR, FAR))
    assert plan.device == NEAR
    assert plan.candidates[1].why == f"it has no {CHANGE}"


def test_what_is_changed_takes_memory_twice():
    known = costs(1e-12)
    known.nodes[FAR].memory_nbytes = (1 << 20) + 2000
    assert choose(known, work(False), (NEAR, FAR)).device == FAR
    plan = choose(known, work(True), (NEAR, FAR))
    assert plan.device == NEAR
    assert f"{(2 << 20) + 1124} bytes are needed" in plan.candidates[1].why


def test_it_stands_in_the_journal():
    known = costs(1e-9)
    notes = journal.Journal(known)
    notes.decided(work(True), (NEAR, FAR), choose(known, work(True), (NEAR, FAR)))
    ((stands, now),) = journal.replay(notes.lines)
    assert stands == now
    assert CHANGE in stands
