"""What the scheduler knows, as data: work, tasks, plans, and how long work takes on each device.

The package holds state and does arithmetic: it chooses no device and measures nothing.
operations.py defines how a class of work is probed; profile.py keeps measured points in a file. All
other packages of the scheduler read this one.

    work.py               Work, Cost, Candidate, Plan: one call, and the decision for it
    task.py               Value and Task: arrays and operations of a task graph
    graph_plan.py         GraphPlan: the decision for a graph
    operations.py         classes of work: gemm, thin gemm, conv2d, reduce; the size of a call
    expressions.py        the class of an expression: its time is predicted from its operations
    costs.py              Costs: speeds, links, failures, exploration budget of all devices
    speed.py              the time of one operation on one device, corrected by each run
    load.py               predicted seconds of work that each device has queued
    profile.py            measured points on disk, SPARKLE_HOME/profile.json
    traffic.py            bytes that a task reads and writes: shows what fusing saves
    outline.py            the shape and dtype of a result, without running anything
    conversion.py         a change of layout as a step before the work
"""
