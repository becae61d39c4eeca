"""Links between places: what they take, how that is measured, and routes over them.

Nothing here moves a byte but the probes. Called by lanes, collective and sched.

    line.py       fits T = a + b * size, robust against outliers
    network.py    Network: places, links, ports, as data that planners read
    probe.py      measures the ways to and from the host
    routes.py     the fastest way for some bytes between two places, and why, in words
    transfer.py   what a transfer takes by the lines that are known, straight or over the host
"""
