"""Makes a plan from the tasks of a graph: classes of work, devices, steps, and shared memory.

decide/place_graph.py chooses the devices. The package sched/run measures what is not known yet. No
module here launches a task. graph/run.py calls this package.

    plans.py      asks for probes, chooses devices, checks that memory suffices
    cut.py        the same for a graph in micro-batches
    micro_batches.py
                  a graph's tasks in micro-batches
    steps.py      the order of copies and tasks
    reuse.py      which intermediate results share memory, by lifetime
"""
