"""Runs steps on several devices at once, and moves bytes between them.

A program is data: it says which step waits for which. The callers, sched/graph and mesh.py, decide
which steps there are.

    program.py          steps and what each waits for: copies and reductions as data
    route_program.py    a route over several places as a program
    runner.py           runs a program, with a thread for each lane
    transports.py       how bytes get from device to device: a table, and Way, which tries its rows
    staged_transfer.py  a transfer in chunks through host memory that both devices reach
    array_runner.py     runs programs of copies and reductions on Arrays
"""
