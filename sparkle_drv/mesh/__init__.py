"""Links between places, and what moves over them: bytes, not work.

A *place* is memory: the host's, or that of one device, named by its URI. `sched` decides which
device works; this room says what a way costs. It imports ops and what is below, never sched.

    line.py        fits T = a + b * size, robust against outliers
    network.py     Network: places, links, ports, as data that planners read
    probe.py       measures the ways to and from the host, and between devices
    routes.py      the fastest way for some bytes between two places, and why, in words
    program.py     steps and what each waits for: copies and reductions as data
    runner.py      runs a program, a thread for each lane
    transports.py  how bytes get from one device to another: a table, and a way that tries it
    carry.py       carries programs of copies and reductions out on Arrays
    collective/    plans of collectives: what is copied and added up where, and how long it takes
"""
