"""Chooses a device for a call, or a schedule for a task graph, and says when to decide again.

All functions are pure functions of the costs and the work: they read no clock and do no I/O. The
same costs give the same plan, so the journal can repeat a decision. The packages sched/run
and sched/graph and the journal call this package.

    choose.py              the device of one call: least predicted time; trials of unused devices
    kept_plan.py           a kept plan: which of its calls are measured, when it is made anew
    opt_in.py              software devices, which take part only when they are named
    place_graph.py         from costs and tasks to the placement of a graph
    dag.py                 the scheduling problem, a schedule, and its length
    schedule.py            the best of HEFT and other list schedules, improved
    pipeline.py            a graph in micro-batches: how many, and a device for each layer
    local_search.py        local search: moves single tasks while that shortens the schedule
"""
