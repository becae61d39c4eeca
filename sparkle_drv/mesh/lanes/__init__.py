"""What runs steps on several devices at once, and moves bytes between them.

A program says which step waits for which; it is data. Which steps there are is decided elsewhere.
Called by sched/graph and mesh.py.

    program.py     steps and what each waits for: copies and reductions as data
    legs.py        a route over several places as a program
    runner.py      runs a program, a thread for each lane
    transports.py  how bytes get from one device to another: a table, and a way that tries it
    staged.py      a transfer in chunks through memory of the host that both devices reach
    carry.py       carries programs of copies and reductions out on Arrays
"""
