"""Calls while the devices have other work.

When this fails, calls wait behind busy devices while others are idle.
"""

import numpy as np
import pytest
from placing import placed

from sparkle_drv.sched.journal import journal
from sparkle_drv.sched.model.work import HOST
from sparkle_drv.sched.run import arrays
from sparkle_drv.sched.run.local import LocalExecutor, default_clock

F32 = np.float32
FAST, SLOW = BOTH = ("egl:0", "cpu")
"""As they are told to be: the cpu does its work while it is given, and is never found busy."""
SMALL, LARGE = 16, 1024
"""Sides of products: the large one keeps egl:0 busy for a tenth of a second."""


@pytest.fixture
def executor(opened):
    made = LocalExecutor([opened(uri) for uri in BOTH], default_clock())
    for uri, least in zip(BOTH, (1e-5, 1e-2), strict=True):
        points = [(n, least + n * 1e-11) for n in (1e3, 1e6, 1e9)]  # as if probed
        made.costs.probed("gemm_f32", uri, points)
        made.costs.linked(HOST, uri, points)
        made.costs.linked(uri, HOST, points)
        made.costs.nodes[uri].shares = ()
    made.journal = journal.Journal(made.costs)
    return made


def square(executor, side, seed):
    data = np.random.default_rng(seed).standard_normal((side, side)).astype(F32)
    made = arrays.empty(executor, executor.devices[FAST], data.shape, F32, None).fill(data)
    made.on(SLOW)
    return made


def test_while_a_device_is_busy_another_one_does_the_work(executor):
    a, b = square(executor, SMALL, 1), square(executor, SMALL, 2)
    large = square(executor, LARGE, 3)
    want = a.numpy() @ b.numpy()

    def product():
        got = placed(executor, BOTH, "gemm", a, b)
        plan = executor.last.plan
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)
        return plan

    assert product().device == FAST
    busy = placed(executor, (FAST,), "gemm", large, large)
    assert executor.load.queued_s(executor.devices[FAST]) > 0.02
    plan = product()
    assert plan.device == SLOW
    assert [c.device for c in plan.candidates] == [SLOW, FAST]
    assert "most of it queue (+" in plan.candidates[1].why
    assert plan.candidates[1].cost.wait_s > 0.02
    busy.numpy()
    assert executor.load.queued_s(executor.devices[FAST]) == 0.0
    assert product().device == FAST
    pairs = list(journal.replay(executor.journal.lines))
    assert len(pairs) == 3
    assert all(stands == now for stands, now in pairs)


def test_a_device_that_is_busy_for_less_than_another_one_is_slower_stays(executor):
    a, large = square(executor, SMALL, 1), square(executor, 512, 3)
    placed(executor, BOTH, "gemm", a, a)
    busy = placed(executor, (FAST,), "gemm", large, large)
    placed(executor, BOTH, "gemm", a, a)
    assert executor.last.plan.device == FAST
    assert executor.last.plan.candidates[0].cost.wait_s == 0.0
    busy.numpy()


def test_devices_that_share_their_cores_are_not_told_apart_by_what_they_do(executor):
    for node in executor.costs.nodes.values():
        node.shares = ("cores",)
    a, large = square(executor, SMALL, 1), square(executor, LARGE, 3)
    placed(executor, BOTH, "gemm", a, a)
    busy = placed(executor, (FAST,), "gemm", large, large)
    assert executor.load.queued_s(executor.devices[FAST]) > 0.02
    placed(executor, BOTH, "gemm", a, a)
    assert executor.last.plan.device == FAST
    assert not any('"queued"' in line for line in executor.journal.lines)
    busy.numpy()
