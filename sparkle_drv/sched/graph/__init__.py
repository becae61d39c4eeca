"""Task graphs of a Context: recorded (record.py), looked at, and run (run.py, task.py).

What becomes one task is in fuse, where and in which order tasks run is in place. Single calls are
in run. Called by `Context.graph` alone.

    record.py        TaskGraph and Node: ctx.graph() writes operations down
    run.py           GraphRun: fuses, places, moves, launches; keeps the plan for the next run
    rows.py          rows of operands and outputs, for micro-batches
    lanes.py         the steps of a placed graph as a program for lanes
    task.py          launches one task on one device, with a clock beside it
    task_check.py    validates the result of one task, on the host
    inputs.py        what kind of thing an input or `out` is, and whether it may be
"""
