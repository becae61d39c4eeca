"""Choosing devices: one for a call, a schedule for a task graph, and when to decide again.

Pure functions of the costs and the work: no clock, no input or output. The same costs give the
same plan, which lets the journal decide again. Called by run, graph and the journal.

    choose.py         the device of one call: least predicted time; exploration
    sampled.py        a kept plan: which calls are measured, when it is decided again
    opt_in.py         devices that take part only when they are named (software devices)
    place_graph.py    from costs and tasks to the placement of a graph
    dag.py            the scheduling problem, a schedule, and its length
    schedule.py       the best of HEFT and other list schedules, improved; exact for few tasks
    pipeline.py       a graph in micro-batches: how many, and a device for each layer
    exact.py          branch and bound over all schedules of at most EXACT_TASKS = 8 tasks
    improve.py        local search: moves single tasks while that shortens the schedule
"""
