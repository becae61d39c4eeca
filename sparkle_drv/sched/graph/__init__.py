"""Task graphs of a Context: recorded (record.py) and run (run.py, task.py).

The package fuse decides what becomes one task. The package place decides where and in which order
tasks run. Single calls are in sched/run. Only `Context.graph` calls this package.

    record.py        TaskGraph and Node: ctx.graph() records operations
    run.py           GraphRun: fuses, places, moves, launches; keeps the plan for the next run
    rows.py          rows of operands and outputs, for micro-batches
    lanes.py         the steps of a placed graph as a program for lanes
    task.py          launches one task on one device, times and checks it
    inputs.py        the kind of an input or `out`, and whether the graph can take it
"""
