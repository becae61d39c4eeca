"""Links between places: their times, how these are measured, and routes over them.

Only the probes move bytes here. lanes, collective and sched call this package.

    line.py       fits T = a + b * size, robust against outliers
    network.py    Network: places, links and ports as data for planners
    probe.py      measures the links to and from the host
    routes.py     the fastest route for some bytes between two places, with an explanation
    transfer.py   predicts a transfer by the direct link, or by way of the host
"""
