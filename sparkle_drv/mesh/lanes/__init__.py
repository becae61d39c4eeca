"""Runs steps on several devices at once, and moves bytes between them.

A program is data: it says which step waits for which. Others decide which steps there are. Called
by sched/graph and mesh.py.

    program.py     steps and what each waits for: copies and reductions as data
    legs.py        a route over several places as a program
    runner.py      runs a program, with a thread for each lane
    transports.py  how bytes get from one device to another: a table, and a way that tries it
    staged.py      a transfer in chunks through host memory that both devices reach
    carry.py       runs programs of copies and reductions on Arrays
"""
