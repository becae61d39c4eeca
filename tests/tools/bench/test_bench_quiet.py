"""bench.py times nothing while other threads of its own process run.

When this fails, the tool's own threads disturb what it times.
"""

import threading

import pytest
from _bench.machine import other_load


@pytest.fixture
def tasks(tmp_path):
    """put(thread, state, name)."""

    def put(thread, state, name="python"):
        (tmp_path / str(thread)).mkdir(exist_ok=True)
        (tmp_path / str(thread) / "stat").write_text(f"{thread} ({name}) {state} 1 2 3\n")

    put.folder = tmp_path
    return put


def test_threads_that_sleep_are_at_rest(tasks):
    tasks(threading.get_native_id(), "R")  # who asks runs
    tasks(1 << 30, "S")
    tasks((1 << 30) + 1, "D", "x) R (")
    (tasks.folder / str((1 << 30) + 2)).mkdir()  # one that has just ended
    assert other_load.rested(0.0, tasks.folder)
    assert other_load.rested(0.0, tasks.folder / "no /proc here")


def test_one_that_runs_is_waited_for_but_not_for_ever(tasks):
    tasks(1 << 30, "R", "x) S (")
    assert not other_load.rested(0.0, tasks.folder)
    timer = threading.Timer(0.05, tasks, (1 << 30, "S"))
    timer.start()
    assert other_load.rested(60.0, tasks.folder)
    timer.join()
