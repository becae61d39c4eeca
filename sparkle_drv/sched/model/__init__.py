"""What the scheduler knows, as data: work, tasks, plans, and how long work takes on each device.

The package holds state and does arithmetic: it chooses no device and measures nothing.
work_class.py says how a class of work is probed; profile.py keeps measured points in a file. All
other packages of the scheduler read this one.

    work.py               Work, Cost, Candidate: one call, what it costs and took
    plan.py               Plan: the decision for one call
    task.py               Value and Task: arrays and operations, of a call or of a graph
    graph_plan.py         GraphPlan: the decision for a graph
    explain.py            what plans have in common as text
    work_class.py         Class: work with one speed on a device, and how it is probed
    costs.py              Costs: speeds, links, failures, exploration budget of all devices
    speed.py              the time of one operation on one device, corrected by each run
    load.py               predicted seconds of work that each device has queued
    profile.py            measured points on disk, SPARKLE_HOME/profile.json
"""
