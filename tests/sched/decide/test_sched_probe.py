"""How long probes may go on.

When this fails, measuring a device takes too long before the first call.
"""

import types

import pytest

from sparkle_drv.sched.model.work_class import Class
from sparkle_drv.sched.run import probe


def device(unified=False):
    return types.SimpleNamespace(info=types.SimpleNamespace(unified=unified))


class Time:
    """A clock that stands still unless told."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


def probed(monkeypatch, seconds, made=0.0, virtual=1.0):
    """(points, time gone by, runs) of a class whose n-th probe takes `seconds` * 8**n, and `made`
    once to prepare it; a device's own clock goes `virtual` times as fast.
    """
    ours, runs = Time(), []
    monkeypatch.setattr(probe, "time", ours)

    def one(dev, i):
        ours.now += made

        def run():
            ours.now += seconds * 8**i
            runs.append(i)
            return types.SimpleNamespace(fence=None)

        return run, 1e3 * 8**i

    clock = ours.perf_counter if virtual == 1 else lambda: virtual * ours.now
    points = probe.speeds(device(), Class("x", one), clock)
    return points, ours.now, runs


@pytest.mark.parametrize("seconds", [1e-7, 1e-5, 1e-3, 0.05, 0.5])
@pytest.mark.parametrize("made", [0.0, 0.01, 0.2])
def test_probes_end_in_time(monkeypatch, seconds, made):
    points, took, _ = probed(monkeypatch, seconds, made)
    sizes = {size for size, _ in points}
    # A second size that is dear is measured once, and none that takes longer than all may.
    assert len(points) == probe.EACH * len(sizes) or len(points) <= 2 * probe.EACH
    assert took <= 3.0 or len(sizes) == 1  # what the least size takes, it takes
    assert len(sizes) >= 2 or seconds > 0.1
    assert seconds > 1e-4 or made or len(sizes) >= 4
    assert all(t == pytest.approx(seconds * size / 1e3) for size, t in points)


def test_what_the_first_run_takes_to_load_code_costs_no_sizes(monkeypatch):
    def loads(monkeypatch, first, seconds):
        """Sizes, when the first run takes so much longer."""
        ours, once = Time(), [first]
        monkeypatch.setattr(probe, "time", ours)

        def one(dev, i):
            def run():
                ours.now += seconds * 8**i + (once.pop() if once else 0.0)

            return run, 8.0**i

        return {size for size, _ in probe.speeds(device(), Class("x", one), ours.perf_counter)}

    for first in (0.3, 0.6, 2.0):
        assert loads(monkeypatch, first, 1e-5) == {1.0, 8.0, 64.0, 512.0}
        assert len(loads(monkeypatch, first, 0.012)) == 2  # a dear second one is measured once


def test_where_operands_take_long_to_make_there_are_fewer_sizes(monkeypatch):
    """On a device that shares the host's memory; on others it may be that they compile."""
    ours = Time()
    monkeypatch.setattr(probe, "time", ours)

    def one(dev, i):
        ours.now += 0.01 * 4**i

        def run():
            ours.now += 1e-6 * 8**i

        return run, 8.0**i

    def sizes(unified):
        found = probe.speeds(device(unified), Class("x", one), ours.perf_counter)
        return {size for size, _ in found}

    assert len(sizes(unified=False)) > len(sizes(unified=True)) == 2


def test_what_is_probed_by_a_virtual_clock_does_not_depend_on_ours(monkeypatch):
    for seconds in (1e-9, 1e-7, 1e-5):
        points, _, runs = probed(monkeypatch, seconds, 1.0, virtual=1e-4)
        assert len({size for size, _ in points}) == probe.VIRTUAL_SIZES
        assert len(runs) == probe.VIRTUAL_SIZES * (1 + probe.EACH)  # no warming up: once dropped
        assert all(t == pytest.approx(1e-4 * seconds * s / 1e3, rel=1e-3) for s, t in points[6:])
